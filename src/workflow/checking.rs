//! Holds plans to the independent checker: each that is made or read, and each that is begun, resumed or carried out in part.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Failure, FailureKind};
use crate::check::{self, Finding, Inputs, World};
use crate::design::{Documented, NodeName};
use crate::guard::Guarded;
use crate::observed::Observations;
use crate::plan::Plan;
use crate::record::NodeRecord;
use crate::telemetry::{Phase, in_phase};

/// The documents that were applied, by revision, the records and the observed state that a plan was made from.
type MadeFrom<'a> = (
    &'a BTreeMap<Arc<str>, Documented>,
    &'a BTreeMap<NodeName, NodeRecord>,
    Option<&'a Observations>,
);

/// Holds a plan to the checker, and notes its verdict.
///
/// # Errors
///
/// It breaks a rule.
pub(super) fn checked(plan: &mut Plan, inputs: &Inputs<'_>) -> Result<(), Failure> {
    let findings = check::plan(plan, inputs);
    plan.checked = Some(check::summary(inputs, &findings));
    match findings.is_empty() {
        true => Ok(()),
        false => Err(refusal(&findings)),
    }
}

/// Holds a plan that was just made to the checker, and notes its verdict.
///
/// # Errors
///
/// It breaks a rule.
pub(super) fn checked_as_made(
    plan: &mut Plan,
    site: &Guarded,
    (applied, records, observations): MadeFrom<'_>,
) -> Result<(), Failure> {
    let world = World {
        applied,
        records,
        observations,
    };
    let inputs = Inputs {
        site: Some(site),
        world: Some(world),
        has_begun: false,
    };
    in_phase(Phase::Plan, || checked(plan, &inputs))
}

/// Holds the plan of a run that begins, or has begun, to the checker: by itself, and under the guards of now.
///
/// # Errors
///
/// What it finds.
pub(super) fn checked_at_begin(plan: &Plan, guarded: &Guarded) -> Result<(), Vec<Finding>> {
    let inputs = Inputs {
        site: Some(guarded),
        world: None,
        has_begun: true,
    };
    let findings = check::plan(plan, &inputs);
    match findings.is_empty() {
        true => Ok(()),
        false => Err(findings),
    }
}

/// The refusal of a plan in which something was found.
pub(super) fn refusal(findings: &[Finding]) -> Failure {
    let details = findings.iter().map(ToString::to_string);
    let text = "the plan breaks rules that every plan keeps, so nothing was done:";
    Failure::new(FailureKind::Guard, text)
        .details(details.collect::<Vec<_>>())
        .hint(
            "an altered plan is made again by `trueup plan`; otherwise this is a bug of trueup: report it with the rule's \
             code, which docs/checker.md explains",
        )
}
