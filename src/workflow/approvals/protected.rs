//! The revision whose Policy and allowed signers count, where that is the one that was applied last.

use super::signers::{self, Signer};
use crate::design::Policy;
use crate::diagnostic::chain;
use crate::record::{SiteAction, SiteState};
use crate::repository::{CommitId, Repository};
use crate::site::{At, Detail, Loader, Settings};
use crate::workflow::{AS_APPLIED, Checkout, Failure};

/// A Policy, and the commit and the name of the revision that it counts at.
pub(super) struct Counting<'a> {
    pub(super) policy: &'a Policy,
    pub(super) commit: Option<CommitId>,
    pub(super) from: &'a str,
}

/// The signers for a purpose in a file of a commit.
pub(super) fn allowed_signers(
    repository: &Repository,
    commit: Option<CommitId>,
    path: &str,
    namespace: &'static str,
) -> Result<Vec<Signer>, String> {
    let commit = commit.ok_or("there is no commit to read them from")?;
    let bytes = repository.file_within(commit, path, signers::LARGEST);
    let bytes = bytes.map_err(|error| chain(&error))?;
    let bytes = bytes.ok_or_else(|| format!("commit {} has no such file", commit.short()))?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    signers::read(&text, namespace)
}

/// The action whose revision counts.
pub(super) fn last(state: &SiteState) -> Option<&SiteAction> {
    state.last_success.as_ref().or(state.last_action.as_ref())
}

/// The name of the revision that was applied last.
pub(super) fn applied_last(commit: Option<CommitId>) -> String {
    let commit = commit.map_or_else(|| "the revision".to_owned(), |commit| commit.short());
    format!("{commit}, which was applied last")
}

/// The Policy at the revision that was applied last.
pub(super) fn applied_policy(checkout: &Checkout<'_>, commit: CommitId) -> Result<Policy, Failure> {
    let at = At::Commit(commit);
    let location = checkout.location_at(at)?;
    let settings = Settings {
        detail: Detail::Documents,
        ..AS_APPLIED
    };
    let before = Loader::new(checkout.repository).load(&location, at, settings)?;
    if before.diagnostics.has_errors() {
        let from = applied_last(Some(commit));
        let text = format!("the documents of {from}, have errors: their Policy cannot be read");
        return Err(
            Failure::error(text).hint("name the revision to take it from with `--backends-from`")
        );
    }
    Ok(before.design.policy.clone())
}
