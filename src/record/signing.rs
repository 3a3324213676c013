//! Signatures of the commits of records: by whom they are made, and how one was found.
//!
//! A signature is over the commit, and so over all records in it and before it. Its message binds it to one site of one
//! repository, so that a signed commit counts nowhere else.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::message::text_of;
use crate::design::SiteName;
use crate::repository::{CommitId, SignedCommit};

/// Signs the commits of records.
pub trait Signing: fmt::Debug + Send + Sync {
    /// Whether there is a key to sign with.
    fn has_key(&self) -> bool;

    /// Finds out, before a run begins or is resumed on top of these records, whether it can be signed, and may be.
    ///
    /// # Errors
    ///
    /// It cannot, or the site demands signed runs and these records are not signed, or the key is not allowed.
    fn ready(&self, base: Option<CommitId>) -> Result<(), NotReady>;

    /// Signs a commit or a tag; an error says why not.
    ///
    /// # Errors
    ///
    /// There is no signature.
    fn sign(&self, text: &str) -> Result<String, String>;

    /// The repository that signatures are bound to.
    fn repository(&self) -> &str;

    /// Whether a person touches the key for each signature.
    fn is_touched(&self) -> bool;

    /// Why a commit is not to be taken, by the rules that the records at `base` are held to, which may be that commit; `None`: it
    /// is. What is built on it with a signature vouches for it.
    fn refusal(&self, commit: CommitId, base: CommitId) -> Option<String>;

    /// Whether the site demands signed runs, and these records are signed as it does: then they are what a signer wrote.
    fn vouches_for(&self, base: CommitId) -> bool;

    /// Lets records be built on that this process has written or verified.
    fn trust(&self, tip: CommitId);
}

/// Why a run is not begun or resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// The key cannot sign.
    NoSignature(String),
    /// The site demands signed runs, and refuses this one.
    Refused(String),
}

/// The end of the message of a signed commit.
pub(super) fn binding(site: &SiteName, repository: &str) -> String {
    format!("\n\nsite: {site}\nrepository: {repository}\n")
}

/// Whether a signed commit is one of the records of a site of a repository.
#[must_use]
pub fn is_bound_to(commit: &SignedCommit, site: &SiteName, repository: &str) -> bool {
    let rest = commit.message().strip_suffix(&*binding(site, repository));
    rest.is_some_and(|rest| !text_of(rest).contains('\n'))
}

/// The repository that the message of a signed commit names.
#[must_use]
pub fn bound_repository(commit: &SignedCommit) -> Option<&str> {
    let last = commit.message().trim_end().lines().last()?;
    last.strip_prefix("repository: ")
}

/// How the signature of a run was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignatureVerdict {
    /// It is that of an allowed signer.
    Good,
    /// There is none.
    Unsigned,
    /// There is one that does not count.
    Bad,
    /// It was not verified.
    Unchecked,
}

/// The signature of the newest record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSignature {
    /// Whether it counts.
    pub verdict: SignatureVerdict,
    /// The allowed signer whose key it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Why it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The commit that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<Arc<str>>,
}

impl RunSignature {
    /// One that was found so, at a commit.
    #[must_use]
    pub fn of(verdict: SignatureVerdict, commit: Option<CommitId>) -> Self {
        Self {
            verdict,
            by: None,
            reason: None,
            commit: commit.map(|commit| Arc::from(commit.to_string())),
        }
    }

    /// One that does not count, and why.
    #[must_use]
    pub fn bad(commit: CommitId, reason: &str) -> Self {
        Self {
            reason: Some(Arc::from(reason)),
            ..Self::of(SignatureVerdict::Bad, Some(commit))
        }
    }

    /// Whether it is that of an allowed signer.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict == SignatureVerdict::Good
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::message_in;
    use super::*;

    #[test]
    fn a_commit_is_bound_to_one_site_of_one_repository() {
        let commit = |message: &str| SignedCommit {
            signature: String::new(),
            text: format!("tree 1\n\n{message}"),
        };
        let site = SiteName::from("edge");
        let own = format!("update R: running{}", binding(&site, "h/team/site"));
        assert!(is_bound_to(&commit(&own), &site, "h/team/site"));
        assert!(!is_bound_to(
            &commit(&own),
            &SiteName::from("core"),
            "h/team/site"
        ));
        assert!(!is_bound_to(&commit(&own), &site, "h/team/other"));
        assert!(!is_bound_to(
            &commit("update R: running\n"),
            &site,
            "h/team/site"
        ));
        let in_branch = message_in("refs/heads/trueup/edge/state", "update R: running");
        let in_branch = in_branch + &binding(&site, "h/team/site");
        assert!(is_bound_to(&commit(&in_branch), &site, "h/team/site"));
        let twice = format!("Merge{}", binding(&site, "h/team/site")) + "\nmore\n";
        assert!(!is_bound_to(&commit(&twice), &site, "h/team/site"));
        let behind = format!("Merge\n\nwords{}", binding(&site, "h/team/site"));
        assert!(!is_bound_to(&commit(&behind), &site, "h/team/site"));
    }
}
