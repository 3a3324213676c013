//! Documents by collections, as Shipyard's callers put them in and get them out: a buffer beside what is committed.
//!
//! A collection is a file of the site. The buffer is a branch, `trueup/<site>/buffer`, whose one commit lies on what was
//! committed when it was written; committing it moves the branch that is checked out, here and at the remote. Documents
//! that guard a site ([`GUARDS`](crate::design::GUARDS)) and secrets never come in this way.

mod buffer;
mod commit;
mod content;
mod follow;
mod kept_text;
mod names;

use std::fmt;
use std::sync::Arc;

use super::{Checkout, Client, Failure, follow as follow_records, recorded};
use crate::repository::{self, CommitId};
use crate::run::Connection;
use crate::site;

pub use buffer::BufferMode;
pub use commit::{CommitRequest, Committed};
pub use content::Problem;

/// A version of the documents, the oldest kind first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// As the last site action that succeeded had them.
    SuccessfulSiteAction,
    /// As the last site action had them.
    LastSiteAction,
    /// As they are committed.
    Committed,
    /// As they are to be committed.
    Buffer,
}

impl Version {
    /// All versions.
    pub const ALL: [Self; 4] = [
        Self::SuccessfulSiteAction,
        Self::LastSiteAction,
        Self::Committed,
        Self::Buffer,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SuccessfulSiteAction => "successful_site_action",
            Self::LastSiteAction => "last_site_action",
            Self::Committed => "committed",
            Self::Buffer => "buffer",
        }
    }

    /// The version of a name, in which words are joined by `_` or `-`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        Self::ALL.into_iter().find(|each| each.as_str() == name)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why documents were not taken, committed or given out.
#[derive(Debug)]
pub enum CollectionError {
    /// There is no such version.
    NoVersion(Version),
    /// The version has no such collection.
    NoCollection(Version),
    /// The buffer has documents, and the mode leaves them.
    Occupied(BufferMode),
    /// There is nothing to be committed.
    EmptyBuffer,
    /// Documents of other collections came again; each as a text.
    Elsewhere(Vec<String>),
    /// Nothing would change.
    Unchanged,
    /// The documents cannot be read; each problem as a text.
    Unsuitable(Vec<String>),
    /// Something that never comes in by the buffer; why.
    Refused(String),
    /// Another request, or a push, was faster; what.
    Raced(String),
    /// The checkout cannot follow its branch at the remote; why.
    Behind(String),
    /// The remote does not take it; why.
    NotPublished(String),
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for CollectionError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<repository::Error> for CollectionError {
    fn from(error: repository::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<site::Error> for CollectionError {
    fn from(error: site::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// The state of a collection in the newer one of two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionChange {
    /// In both, the same.
    Unmodified,
    /// In both.
    Modified,
    /// In the newer one only.
    Created,
    /// In the older one only.
    Deleted,
}

impl CollectionChange {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unmodified => "unmodified",
            Self::Modified => "modified",
            Self::Created => "created",
            Self::Deleted => "deleted",
        }
    }
}

/// Two versions of the documents, compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The commit of the older one.
    pub base: CommitId,
    /// The commit of the newer one.
    pub new: CommitId,
    /// The collections, by name.
    pub collections: Vec<(String, CollectionChange)>,
}

/// The collections of a site.
#[derive(Clone, Copy)]
pub struct Collections<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The site.
    pub checkout: &'a Checkout<'a>,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
}

impl Collections<'_> {
    /// The commit of a version, as far as there is one.
    ///
    /// # Errors
    ///
    /// It cannot be found out.
    pub fn commit_of(&self, version: Version) -> Result<Option<CommitId>, CollectionError> {
        let action = match version {
            Version::Committed => return self.committed().map(Some),
            Version::Buffer => return Ok(self.buffer()?.map(|buffer| buffer.tip)),
            Version::SuccessfulSiteAction | Version::LastSiteAction => {
                let store = follow_records(self.client, self.checkout, self.connection)?;
                let state = store.read().map_err(Failure::from)?;
                match version {
                    Version::LastSiteAction => state.site.last_action,
                    _ => state.site.last_success,
                }
            }
        };
        let Some(action) = action else {
            return Ok(None);
        };
        let commit = recorded(self.checkout, self.connection, &action.revision)?;
        Ok(Some(commit))
    }

    /// Compares two versions, of which `base` is the older one. A buffer that is empty is what is committed.
    ///
    /// # Errors
    ///
    /// There was no such site action; a commit cannot be read.
    pub fn compare(&self, base: Version, new: Version) -> Result<Comparison, CollectionError> {
        let commit = |version: Version| match self.commit_of(version)? {
            Some(commit) => Ok(commit),
            None if version == Version::Buffer => self.committed(),
            None => Err(CollectionError::NoVersion(version)),
        };
        let (base, new) = (commit(base)?, commit(new)?);
        let (before, mut after) = (self.files(base)?, self.files(new)?);
        let mut collections = Vec::new();
        for (name, files) in before {
            let change = match after.remove(&name) {
                None => CollectionChange::Deleted,
                Some(other) if other == files => CollectionChange::Unmodified,
                Some(_) => CollectionChange::Modified,
            };
            collections.push((name, change));
        }
        let created = after.into_keys();
        collections.extend(created.map(|name| (name, CollectionChange::Created)));
        collections.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(Comparison {
            base,
            new,
            collections,
        })
    }

    /// The folder of the site's definition.
    fn folder(&self) -> &str {
        let definition = &self.checkout.location.definition;
        definition.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The branch of the buffer.
    fn buffer_ref(&self) -> Arc<str> {
        let site = &self.checkout.location.site;
        Arc::from(format!("refs/heads/trueup/{site}/buffer"))
    }
}
