//! Maintenance windows: outside of them nothing is begun, and what runs stops when the last one closes.

use std::time::Duration;

use super::Error;
use crate::design::{Guards, WindowList};
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
    match plan.request.action.waits_for_window(&plan.steps) {
        true => left_of_window(time, guards, plan),
        false => Ok(None),
    }
}

/// Why nothing of a plan that is about machines begins now: no maintenance window is open. What is blocked has no steps, and
/// waits for one all the same once it is allowed.
pub fn closed_now(time: &dyn Timekeeper, guards: &Guards, plan: &Plan) -> Option<Error> {
    let has_blocked = plan.changes.iter().any(|change| change.blocked.is_some());
    match has_blocked || plan.request.action.waits_for_window(&plan.steps) {
        true => left_of_window(time, guards, plan).err(),
        false => None,
    }
}

/// Why nothing of a saved plan begins now, by the windows that held when it was made.
pub fn closed_for_saved(time: &dyn Timekeeper, plan: &Plan) -> Option<Error> {
    let windows = plan.guards.maintenance_windows();
    let may_leave = !plan.guards.forbid("outside-windows");
    left_of(time, (&windows, may_leave), plan).err()
}

fn left_of_window(
    time: &dyn Timekeeper,
    guards: &Guards,
    plan: &Plan,
) -> Result<Option<Duration>, Error> {
    let policy = &guards.policy;
    let may_leave = !policy.forbidden_flags.contains("outside-windows");
    left_of(time, (&policy.maintenance_windows, may_leave), plan)
}

fn left_of(
    time: &dyn Timekeeper,
    (all, may_leave): (&[WindowList], bool),
    plan: &Plan,
) -> Result<Option<Duration>, Error> {
    if all.is_empty() || plan.options.outside_windows {
        return Ok(None);
    }
    let now = jiff::Timestamp::from_second(time.seconds()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let open = windows::open_for(all, now);
    open.map(Some).ok_or_else(|| Error::WindowClosed {
        windows: windows::in_words(all),
        opens: windows::next_opening(all, now)
            .map(|opens| opens.strftime("%Y-%m-%d %H:%M UTC").to_string()),
        may_leave,
        way_out: plan.guards.way_out(&["maintenance_windows"]),
    })
}
