//! Warnings before a plan: of a branch of records that is not followed, and of nodes that are built of an older revision
//! than the one that is checked out.

use std::collections::BTreeMap;

use super::{Checkout, Failure};
use crate::backend::BackendContext;
use crate::design::{BackendKind, Guards, NodeName};
use crate::diagnostic::counted;
use crate::guard::Guarded;
use crate::plan::Action;
use crate::record::{NodeRecord, Phase, State};
use crate::repository::CommitId;
use crate::run::{Connection, since_success};

/// The warnings before a plan for nodes that are built of a commit.
///
/// # Errors
///
/// The history, or the configuration of the repository, cannot be read.
pub(super) fn warnings(
    (checkout, connection): (&Checkout<'_>, &Connection<'_>),
    state: &State,
    guarded: &Guarded,
    (action, commit): (Action, Option<CommitId>),
) -> Result<Vec<String>, Failure> {
    let built_of = commit.filter(|_| action == Action::Redeploy);
    let older = match built_of {
        Some(commit) => older_design(checkout, state, commit)?,
        None => None,
    };
    let unfollowed = match connection {
        Connection::Alone => None,
        Connection::Shared { .. } | Connection::Offline => unfollowed_branch(checkout, guarded)?,
    };
    Ok(older.into_iter().chain(unfollowed).collect())
}

/// The warning that the branch of records that the Policy names is not followed.
fn unfollowed_branch(
    checkout: &Checkout<'_>,
    guarded: &Guarded,
) -> Result<Option<String>, Failure> {
    let Some(branch) = &guarded.guards().policy.state_branch else {
        return Ok(None);
    };
    Ok(checkout.names_no_branch()?.then(|| format!(
        "warning: `state_branch: {branch}` of the Policy counts at the revision of `--backends-from`, which is not named: the \
         records are not in that branch (`git config trueup.stateBranch {branch}` names it for this clone)"
    )))
}

/// The warning that the simulated machines of this clone were never touched, while the records have some as deployed: those
/// are in another clone.
pub(super) fn new_simulation(
    backends: &BackendContext,
    guards: &Guards,
    records: &BTreeMap<NodeName, NodeRecord>,
) -> Option<String> {
    let is_simulated = guards.backends.hardware.kind == BackendKind::Sim;
    if !is_simulated || backends.simulated_state.exists() {
        return None;
    }
    let mut records = records.values();
    let is_deployed = records.any(|record| record.phase == Phase::Deployed);
    is_deployed.then(|| {
        "warning: the records have machines as deployed, and the simulated ones of this clone are new: clones share theirs \
         where `git config trueup.simulatedSites FOLDER` names one folder in each, to which the first moves its own (docs/simulator.md)"
            .to_owned()
    })
}

/// The warning that nodes are built of the last success, where commits since have changed the site.
fn older_design(
    checkout: &Checkout<'_>,
    state: &State,
    commit: CommitId,
) -> Result<Option<String>, Failure> {
    let success = state.site.last_success.as_ref();
    let head = checkout.head()?;
    if head == commit || success.is_none_or(|success| *success.revision != *commit.to_string()) {
        return Ok(None);
    }
    let (repository, location) = (checkout.repository, &checkout.location);
    let newer = since_success(
        repository,
        &location.site,
        &location.selection,
        &state.site,
        head,
    )?;
    Ok((!newer.is_empty()).then(|| {
        format!(
            "warning: this builds of {}, the last success, without the {} of the site since; \
             `--target-revision committed` builds of {}",
            commit.short(),
            counted(newer.len(), "commit", "commits"),
            head.short(),
        )
    }))
}
