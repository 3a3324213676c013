//! Maintenance windows: outside of them nothing is begun, and what runs stops when the last one closes.

use std::time::Duration;

use super::ApplyCommand;
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::design::Design;
use crate::guard::windows;
use crate::plan::Plan;

/// How long a run may still go on; `None`: without bound.
///
/// # Errors
///
/// No window is open, and nobody said that it does not matter.
pub(super) fn left(
    context: &Context,
    command: &ApplyCommand,
    design: &Design,
    plan: &Plan,
) -> Result<Option<Duration>, Failure> {
    let all = &design.policy.maintenance_windows;
    let waits = plan.request.action.waits_for_window();
    if all.is_empty() || command.outside_windows || !waits {
        return Ok(None);
    }
    let now = context.now().to_zoned(jiff::tz::TimeZone::UTC);
    let day = u32::try_from(now.weekday().to_monday_zero_offset()).unwrap_or(0);
    let (hour, minute) = (now.hour().unsigned_abs(), now.minute().unsigned_abs());
    let minute = (day * 24 + u32::from(hour)) * 60 + u32::from(minute);
    match windows::open_for(all, minute) {
        Some(minutes) => {
            let begun = u64::from(now.second().unsigned_abs());
            let seconds = (u64::from(minutes) * 60).saturating_sub(begun);
            Ok(Some(Duration::from_secs(seconds)))
        }
        None => {
            let windows = windows::in_words(all);
            let message = format!("no maintenance window is open now: {windows}");
            Err(Failure::new(FailureKind::Guard, message)
                .hint("wait for one, or give `--outside-windows`"))
        }
    }
}
