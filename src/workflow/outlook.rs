//! The last parts of a plan: how long its run takes, and what the rules of the site say of it.

use super::Failure;
use super::rules::RuleSet;
use crate::apply::{self, Estimate, ExpectedDurations};
use crate::backend;
use crate::guard::Guarded;
use crate::plan::{self, Plan};
use crate::run::Durations;

/// All that a plan's estimate of time and its verdicts are made of.
pub struct Outlook {
    pub(super) guarded: Guarded,
    pub(super) durations: Durations,
    pub(super) rules: Vec<RuleSet>,
}

impl Outlook {
    /// Adds to a plan how long its run takes, and what the rules of the site say of it; the same plan, durations and rules
    /// give the same.
    ///
    /// # Errors
    ///
    /// The rules cannot be evaluated.
    pub fn add_to(&self, plan: &mut Plan) -> Result<(), Failure> {
        if let Some(Estimate { time, schedule }) = estimate(plan, &self.guarded, &self.durations) {
            plan.forecast.time = Some(time);
            plan.forecast.schedule = schedule;
        }
        for rules in &self.rules {
            let verdicts = rules.judged(plan)?;
            plan.policies.extend(verdicts);
        }
        Ok(())
    }
}

/// How long the steps of a plan may take.
pub(super) fn expected_of(plan: &Plan, site: &Guarded, durations: &Durations) -> ExpectedDurations {
    let declared = |kind| backend::declared_duration(site.guards(), kind);
    ExpectedDurations::of(plan, &site.nodes, durations, &declared)
}

/// How long a run of a plan takes; the same plan and durations give the same.
fn estimate(plan: &Plan, site: &Guarded, durations: &Durations) -> Option<Estimate> {
    if plan.is_empty() {
        return None;
    }
    let expected = expected_of(plan, site, durations);
    // Steps that are no graph are an error if they are carried out.
    apply::estimate(plan, &expected, &plan::digest(plan)).unwrap_or_default()
}
