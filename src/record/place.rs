//! Where the records of a site are at a remote: below trueup's own refs, or in a branch, which a forge can protect.
//!
//! A clone keeps them at `<prefix>/<site>/state` in any case. At a remote they are at the same ref, or at
//! `refs/heads/<branches>/<site>/state`, where git's configuration or the Policy at a protected revision names the
//! branches. The ref if they are not holds a *marker*, which names the other one, as soon as there are records in
//! a branch: a clone that looks there refuses to take it for a site without records.
//!
//! A marker is a commit whose `site.json` has a later format than records have, so that an older trueup refuses it,
//! too. Every account with the right to push can write one, so it never decides if a clone reads or writes: it only
//! keeps it from that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::{Error, failed};
use super::format::{FORMAT_VERSION, SITE};
use super::message::message_in;
use crate::design::{RunId, SiteName};
use crate::repository::{
    self, BRANCHES, CommitId, NewCommit, Repository, Signature, is_plain_name, is_ref_name,
};

/// The refs that may hold the records of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    own: String,
    branch: Option<String>,
}

impl Place {
    /// The place of a site's records: in a branch where git's configuration (`trueup.stateBranch`) names it, else where
    /// `policy` does, which is the Policy at a protected revision, and no other's.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read, or what it or the Policy names cannot be a branch.
    pub fn of(
        repository: &Repository,
        site: &SiteName,
        policy: Option<&str>,
    ) -> Result<Self, Error> {
        let finding = || failed("find the records");
        let prefix = repository.ref_prefix().map_err(finding())?;
        let configured = repository.state_branch().map_err(finding())?;
        let (by, branches) = match (&configured, policy) {
            (Some(branches), _) => ("`trueup.stateBranch`", Some(branches.as_str())),
            (None, policy) => ("`state_branch` of the Policy", policy),
        };
        let own = format!("{prefix}/{site}/state");
        let branch = match branches {
            Some(branches) => Some(branch(by, branches, site).map_err(finding())?),
            None => None,
        };
        Ok(Self {
            branch: branch.filter(|branch| *branch != own),
            own,
        })
    }

    /// The same refs, with the records below trueup's own.
    #[must_use]
    pub fn without_branch(&self) -> Self {
        Self {
            own: self.own.clone(),
            branch: None,
        }
    }

    /// The ref that holds the records in a clone, and those of a remote that are in no branch.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// The branch that holds them at a remote, as a full ref.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// The ref that holds them at a remote.
    #[must_use]
    pub fn at_remote(&self) -> &str {
        self.branch.as_deref().unwrap_or(&self.own)
    }

    /// The folder of the refs at a remote by which the workers of a run tell how far they are, with a slash at its end: beside
    /// the records, and protected as these are.
    #[must_use]
    pub fn parts_at_remote(&self, run: &RunId) -> String {
        parts_beside(self.at_remote(), run)
    }

    /// A ref at a remote by which a trial tells whether it takes records: beside them, with the same last name.
    #[must_use]
    pub fn trial_at_remote(&self) -> String {
        let state = self.at_remote();
        match state.strip_suffix("/state") {
            Some(folder) => format!("{folder}/doctor/state"),
            None => format!("{state}-doctor"),
        }
    }

    /// The folder of these refs in a clone.
    #[must_use]
    pub fn own_parts(&self, run: &RunId) -> String {
        parts_beside(&self.own, run)
    }

    /// The message of a commit of the records.
    pub(super) fn message(&self, text: &str) -> String {
        message_in(self.at_remote(), text)
    }
}

fn parts_beside(state: &str, run: &RunId) -> String {
    let folder = state.strip_suffix("state").unwrap_or(state);
    format!("{folder}run/{run}/")
}

/// The branch of a site.
fn branch(by: &str, branches: &str, site: &SiteName) -> Result<String, repository::Error> {
    let branches = branches.trim_end_matches('/');
    let name = format!("{BRANCHES}{branches}/{site}/state");
    let is_full = branches.starts_with("refs/");
    match is_plain_name(branches) && !is_full && is_ref_name(&name) {
        true => Ok(name),
        false => Err(repository::Error::BadRef {
            name,
            reason: format!(
                "{by} is the beginning of a branch without `refs/heads/`, such as `trueup`, of letters, digits and `._/-`"
            ),
        }),
    }
}

/// The content of `site.json` in a marker.
#[derive(Serialize, Deserialize)]
struct Marker {
    format_version: u32,
    /// Older programs ask for these before they compare the version.
    last_run: Option<String>,
    last_action: Option<String>,
    last_success: Option<String>,
    /// The ref that holds the records.
    moved_to: String,
}

/// The ref that a marker names, by its `site.json`; `None` if these are records.
pub(super) fn marked(bytes: &[u8]) -> Result<Option<String>, Error> {
    #[derive(Deserialize)]
    struct Found {
        moved_to: Option<String>,
    }
    let broken = |reason: String| Error::Broken {
        path: SITE.to_owned(),
        reason,
    };
    let found: Found = serde_json::from_slice(bytes).map_err(|error| broken(error.to_string()))?;
    match found.moved_to {
        Some(name) if !is_ref_name(&name) => Err(broken(format!("`{name}` is no ref"))),
        moved => Ok(moved),
    }
}

/// Writes a marker at a ref: the records are at another one now.
pub(super) fn write_marker(
    repository: &Repository,
    (at, to): (&str, &str),
    parent: Option<CommitId>,
    author: Signature,
) -> Result<CommitId, Error> {
    let marker = Marker {
        format_version: FORMAT_VERSION + 1,
        last_run: None,
        last_action: None,
        last_success: None,
        moved_to: to.to_owned(),
    };
    let bytes = serde_json::to_vec_pretty(&marker).map_err(|error| Error::Broken {
        path: SITE.to_owned(),
        reason: error.to_string(),
    })?;
    repository
        .write_commit(&NewCommit {
            base: None,
            parents: parent.into_iter().collect(),
            changes: BTreeMap::from([(SITE.to_owned(), Some(bytes))]),
            deflated: BTreeMap::new(),
            author,
            message: message_in(at, &format!("records are at {to}")),
        })
        .map_err(failed("mark where the records are"))
}

/// The author of what follows from commits of others, so that it is the same wherever it is written.
pub(super) fn program() -> Signature {
    Signature {
        name: "trueup".to_owned(),
        email: String::new(),
        seconds: 0,
    }
}
