//! Holds plans to the independent checker: each that is made or read, and each that is begun, resumed or carried out in part.

use super::Failure;
use crate::check::{self, Finding, Inputs, World};
use crate::guard::Guarded;
use crate::plan::Plan;

/// Holds a plan that was read from a file to the checker, and notes its verdict.
///
/// # Errors
///
/// It breaks a rule.
pub fn checked_as_read(plan: &mut Plan) -> Result<(), Failure> {
    checked(plan, &Inputs::default())
}

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
    world: World<'_>,
) -> Result<(), Failure> {
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
