//! From a request to a plan that may be carried out at once, without a review of a saved file in between.

use super::{
    Approving, Clearance, Failure, Planned, Planner, admitted, commit_of, not_before_its_day,
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
    /// Makes the plan, shows it, and checks that it may be applied today.
    ///
    /// # Errors
    ///
    /// As [`Planner::plan`]; what would be applied is not committed; the plan is blocked, not approved or of a later day.
    pub fn ready(
        &self,
        site: &SiteRepository<'_>,
        today: &str,
        show: impl FnOnce(&Plan) -> Result<(), Failure>,
    ) -> Result<ReadyPlan, Failure> {
        let Self { checkout, at, .. } = *self;
        let commit = match commit_of(at) {
            Some(commit) => commit,
            None => checkout.head()?,
        };
        if !self.request.action.is_targeted() {
            run::clean(site, &checkout.location_at(at)?.selection, commit)?;
        }
        let planned = self.plan()?;
        let plan = &planned.plan;
        show(plan)?;
        admitted(site, &planned, plan, commit)?;
        not_before_its_day(plan, today)?;
        let approving = Approving::of(self.client, site);
        let clearance = planned.gate.clear(approving, plan, plan, None)?;
        Ok(ReadyPlan {
            planned,
            commit,
            clearance,
        })
    }
}
