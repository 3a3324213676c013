//! Maintenance windows, as the command line keeps to them.

use super::ApplyCommand;
use super::process::ProcessClock;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::design::Design;
use crate::plan::Plan;
use crate::workflow::time_left;

/// Whether a run of a plan may begin now.
///
/// # Errors
///
/// No window is open, and nobody said that it does not matter.
pub(super) fn is_open(
    context: &Context,
    command: &ApplyCommand,
    design: &Design,
    plan: &Plan,
) -> Result<(), Failure> {
    if command.outside_windows {
        return Ok(());
    }
    let clock = ProcessClock::new(context.printer);
    let left = time_left(&clock, design, plan);
    left.map_err(Failure::from).map(drop)
}
