//! The only loader: finds, parses, renders, types and checks a site at one revision.
//!
//! [`Loader`] lives as long as the program: it owns the sources that all marks point into, and
//! parses a file only once, so that two revisions that share a file share its parse.

mod consequence;
mod find;
mod gather;
mod guards;
mod kept;
mod load;
mod mask;
mod pieces;

use std::fmt;
use std::sync::Arc;

use crate::design::{Design, SiteName};
use crate::diagnostic::Diagnostics;
use crate::document::Document;
use crate::render::Rendering;
use crate::repository::{BlobId, CommitId, Entry, Mode, Selection, site_digest};

pub use find::locate;
pub use gather::Gathered;
pub use guards::Guards;
pub use kept::{Kept, Parts, settled_files};
pub use load::Loader;
pub use pieces::Pieces;

/// Which revision of the files is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The files as they are, committed or not.
    Worktree,
    /// A commit.
    Commit(CommitId),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worktree => f.write_str("the worktree"),
            Self::Commit(commit) => write!(f, "commit {commit}"),
        }
    }
}

/// Why a site could not be found or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Git failed.
    #[error(transparent)]
    Repository(#[from] crate::repository::Error),
    /// There is no site at all.
    #[error(
        "there is no site here: no `site-definition.yaml` from `{from}` upward, or below the top"
    )]
    NoSite {
        /// Where the search began, in the repository.
        from: String,
    },
    /// The site that was named is not there.
    #[error("there is no site `{wanted}`")]
    UnknownSite {
        /// What was asked for.
        wanted: String,
        /// The sites that are there.
        sites: Vec<String>,
    },
    /// Several sites, and none was named.
    #[error("there are several sites: {}", sites.join(", "))]
    SeveralSites {
        /// Their names.
        sites: Vec<String>,
    },
    /// A site's name cannot be used.
    #[error("the site's name `{name}` {problem}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Error {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Repository(error) => error.hint(),
            Self::NoSite { .. } => {
                Some("`trueup init DIR` writes a small site that works".to_owned())
            }
            Self::UnknownSite { wanted, sites } => {
                let near = crate::diagnostic::nearest(wanted, sites.iter().map(String::as_str));
                Some(match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the sites are: {}", sites.join(", ")),
                })
            }
            Self::SeveralSites { .. } => Some("pick one with `--site NAME`".to_owned()),
            Self::BadName { .. } => None,
        }
    }
}

/// Where the documents of a site are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its name.
    pub site: SiteName,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// Whether it is one folder; else it is in Pegleg's layout.
    pub is_flat: bool,
    /// Its files.
    pub selection: Selection,
}

/// One file of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteFile {
    /// Its path in the repository.
    pub path: Arc<str>,
    /// What git takes it for.
    pub mode: Mode,
    /// The id of its bytes.
    pub blob: BlobId,
}

/// The files of a site in the worktree, of which few were read.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<Entry>,
    /// The files, sorted by path.
    pub files: Vec<SiteFile>,
    /// SHA-256 over the sorted (path, mode, blob id) of its files.
    pub digest: Arc<str>,
}

impl Listing {
    fn new(entries: Vec<Entry>, files: Vec<SiteFile>) -> Self {
        let digest = digest_of(&files);
        Self {
            entries,
            files,
            digest,
        }
    }

    /// What was found with the id of its bytes.
    fn blobs(&self) -> impl Iterator<Item = (&Entry, BlobId)> {
        let files = self.entries.iter().zip(&self.files);
        files.map(|(entry, file)| (entry, file.blob))
    }
}

fn digest_of(files: &[SiteFile]) -> Arc<str> {
    site_digest(files.iter().map(|file| (&*file.path, file.mode, file.blob)))
}

/// A site at one revision, rendered, typed and (where asked for) checked.
#[derive(Debug)]
pub struct Site {
    /// Where it is.
    pub location: Location,
    /// At which revision.
    pub at: At,
    /// Its files, sorted by path.
    pub files: Vec<SiteFile>,
    /// SHA-256 over the sorted (path, mode, blob id) of its files.
    pub digest: Arc<str>,
    /// Its documents as they were written.
    pub documents: Vec<Arc<Document>>,
    /// The same, rendered.
    pub rendering: Rendering,
    /// What they say.
    pub design: Arc<Design>,
    /// What is wrong with them, sorted.
    pub diagnostics: Diagnostics,
}

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Parsed and rendered only; the design stays empty.
    Rendered,
    /// Typed, without schemas and rules: for a revision that was checked when it was applied.
    Typed,
    /// Everything.
    Checked,
}

/// How a site is read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much is checked.
    pub depth: Depth,
    /// A substitution whose source is not there is a warning.
    pub allow_missing_sources: bool,
}
