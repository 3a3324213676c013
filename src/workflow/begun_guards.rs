//! The guards of now over a run that has begun: it is resumed, or a part of it is carried out, under the guards that hold then.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checking::checked_at_begin;
use super::guarded::ResolvedGuards;
use super::{Approving, Failure, FailureKind};
use crate::design::{NodeDesign, NodeName};
use crate::guard::Guarded;
use crate::plan::{GuardsNow, Plan, PlanGuards, Tightened};
use crate::record::RunRecord;

/// The guards that bind the approvals of a run.
const OF_APPROVALS: [&str; 2] = ["allowed_signers", "approvals"];

/// A run that has begun, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct BegunRun<'a> {
    pub(super) record: &'a RunRecord,
    /// The design under the guards of now.
    pub(super) design: &'a Guarded,
    /// The designs that were applied last.
    pub(super) applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
}

impl ResolvedGuards {
    /// Judges the plan of a run by the guards of now: the steps that are not begun any more, by their positions, and why.
    ///
    /// # Errors
    ///
    /// The run is not carried out under these guards at all, or they cannot be asked.
    pub(super) fn judge_begun(
        &self,
        plan: &mut Plan,
        run: BegunRun<'_>,
        approving: Approving<'_>,
    ) -> Result<BTreeMap<usize, Arc<str>>, Failure> {
        let (action, options) = (plan.request.action, &plan.options);
        let guards = PlanGuards::of(action, options, run.design, &self.basis, &plan.steps);
        let seconds = approving.client.clock().seconds();
        let now = GuardsNow {
            design: run.design,
            applied: run.applied,
            guards: &guards,
            today: &run.design.guards().policy.time_zone.day(seconds),
        };
        let mut tightened = Tightened::of(plan, &now);
        for rules in &self.rules {
            let denied = rules.judged(plan)?.denied.into_iter();
            let denied = denied.map(|verdict| format!("{}: {}", verdict.rule, verdict.message));
            tightened.refusals.extend(denied);
        }
        if let Err(findings) = checked_at_begin(plan, run.design) {
            tightened
                .refusals
                .extend(findings.iter().map(ToString::to_string));
        }
        if !tightened.refusals.is_empty() {
            let run = &run.record.run;
            let text = format!("the guards that hold now refuse run {run}:");
            return Err(Failure::new(FailureKind::Guard, text)
                .details(tightened.refusals)
                .hint(format!(
                    "`trueup abort {run}` aborts it, and a new plan does the rest"
                ))
                .hint_if(guards.way_out(&[
                    "rego",
                    "forbidden_flags",
                    "max_unavailable",
                    "blast_radius",
                ])));
        }
        // A run keeps the approvals that it began with, until more are asked for.
        if OF_APPROVALS
            .iter()
            .any(|guard| tightened.guards.contains(guard))
        {
            self.gate.keeps(approving, plan, run.record)?;
        }
        if tightened.guards.contains("signed_runs") {
            self.gate.can_sign(approving, plan)?;
        }
        plan.options = tightened.options;
        Ok(tightened.steps)
    }
}
