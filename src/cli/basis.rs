//! The plan of what is committed, which a bundle and a sandbox are made of.

use super::context::Context;
use super::planning::PlanArguments;
use super::{Failure, action};
use crate::design::SiteName;
use crate::record::Store;
use crate::repository::{CommitId, Repository};
use crate::site::At;
use crate::workflow::{Planned, Planner, commit_of};

/// A plan of what is committed, and the commits that it was made of.
pub(super) struct Basis {
    pub(super) planned: Planned,
    pub(super) site: SiteName,
    pub(super) commit: CommitId,
    /// The commit that is checked out, whose guards count beside those of the other.
    pub(super) head: CommitId,
    /// The commit of the records; `None`: there are none.
    pub(super) records: Option<CommitId>,
}

/// Plans what is committed, by the words and flags of `trueup plan`.
pub(super) fn basis(
    context: &Context,
    repository: &Repository,
    words: &[String],
    arguments: &PlanArguments,
) -> Result<Basis, Failure> {
    let Some(request) = arguments.request(words)? else {
        return Err(action::unknown(&words[0]));
    };
    let checkout = context.checkout(repository)?;
    let connection = arguments.remote.connection(repository)?;
    let head = checkout.head()?;
    let own = At::Commit(head);
    let at = arguments.revision(context, &checkout, &connection, &request, own)?;
    let mut plan_request = arguments.plan_request(context);
    plan_request.only_looks = true;
    // No journal goes into it.
    plan_request.by_checkpoints = true;
    let planner = Planner {
        client: context,
        checkout: &checkout,
        at,
        connection: &connection,
        request: &request,
        plan_request: &plan_request,
    };
    let planned = planner.plan()?;
    let site = checkout.location.site.clone();
    let records = Store::open(repository, &site)?.read()?.tip;
    let commit = commit_of(at).ok_or_else(|| Failure::error("there is no commit to plan"))?;
    Ok(Basis {
        planned,
        site,
        commit,
        head,
        records,
    })
}
