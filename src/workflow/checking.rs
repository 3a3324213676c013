//! Holds plans to the independent checker: each that is made or read, and each that is begun, resumed or carried out in part.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Failure;
use crate::check::{self, Finding, Inputs, World};
use crate::design::{Documented, NodeName};
use crate::guard::Guarded;
use crate::observed::Observations;
use crate::plan::Plan;
use crate::record::NodeRecord;

/// Holds a plan that was read from a file to the checker, and notes its verdict.
///
/// # Errors
///
/// It breaks a rule.
pub fn checked_as_read(plan: &mut Plan) -> Result<(), Failure> {
    checked(plan, &Inputs::default())
}

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
fn checked(plan: &mut Plan, inputs: &Inputs<'_>) -> Result<(), Failure> {
    let findings = check::plan(plan, inputs);
    plan.checked = Some(check::summary(inputs, &findings));
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::unsound(&findings)),
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
    checked(plan, &inputs)
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
