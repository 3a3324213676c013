//! Maintenance windows: outside of them nothing is begun, and what runs stops when the last one closes.

use std::time::Duration;

use super::Error;
use crate::design::Guards;
use crate::guard::windows;
use crate::plan::Plan;
use crate::run::Timekeeper;

/// How long a run of a plan may still run; `None`: without bound.
///
/// # Errors
///
/// [`Error::WindowClosed`] if no window is open.
pub fn time_left(
    time: &dyn Timekeeper,
    guards: &Guards,
    plan: &Plan,
) -> Result<Option<Duration>, Error> {
    let all = &guards.policy.maintenance_windows;
    let action = plan.request.action;
    let waits = action.waits_for_window(&plan.steps) && !plan.options.outside_windows;
    if all.is_empty() || !waits {
        return Ok(None);
    }
    let now = jiff::Timestamp::from_second(time.seconds()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let open = windows::open_for(all, now);
    open.map(Some).ok_or_else(|| Error::WindowClosed {
        windows: windows::in_words(all),
        opens: windows::next_opening(all, now)
            .map(|opens| opens.strftime("%Y-%m-%d %H:%M UTC").to_string()),
        may_leave: !guards.policy.forbidden_flags.contains("outside-windows"),
        way_out: plan.guards.way_out(&["maintenance_windows"]),
    })
}
