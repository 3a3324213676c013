//! From a request to a plan that may be carried out at once, without a review of a saved file in between.

use super::notices::not_approved;
use super::{
    Approving, Clearance, Failure, Origin, Planned, Planner, commit_of, ensure_admitted,
    not_of_a_day,
};
use crate::plan::Plan;
use crate::repository::CommitId;
use crate::run::{self, SiteRepository};

/// A plan that was made now and passed every guard that stands before a run.
pub struct ReadyPlan {
    /// The plan, and what it was made from.
    pub planned: Planned,
    /// The commit that is applied.
    pub commit: CommitId,
    /// The approvals that it has.
    pub clearance: Clearance,
}

impl Planner<'_> {
    /// Makes the plan, shows it, and checks that it may be applied today. `show` tells whether the operator has consented
    /// to what it makes weaker.
    ///
    /// # Errors
    ///
    /// As [`Planner::plan`]; what would be applied is not committed; the plan is blocked or not approved; it is judged by
    /// another day.
    pub fn ready(
        &self,
        site: &SiteRepository<'_>,
        show: impl FnOnce(&Plan) -> Result<bool, Failure>,
    ) -> Result<ReadyPlan, Failure> {
        let Self { checkout, at, .. } = *self;
        not_of_a_day(&self.plan_request.options)?;
        let commit = match commit_of(at) {
            Some(commit) => commit,
            None => checkout.head()?,
        };
        if !self.request.action.is_targeted() {
            run::clean(site, &checkout.location_at(at)?.selection, commit)?;
        }
        let mut planned = self.plan()?;
        planned.plan.options.allow_loosening |= show(&planned.plan)?;
        let plan = &planned.plan;
        ensure_admitted(site, &planned, plan, commit, Origin::Request)?;
        let approving = Approving::of(self.client, site);
        let clearance = planned.gate.clear(approving, plan, plan, None);
        let clearance = clearance.inspect_err(|failure| {
            not_approved(&planned, approving, plan, commit, failure);
        })?;
        Ok(ReadyPlan {
            planned,
            commit,
            clearance,
        })
    }
}
