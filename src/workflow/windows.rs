//! Maintenance windows: outside of them nothing is begun, and what runs stops when the last one closes.

use std::time::Duration;

use super::Error;
use crate::design::Design;
use crate::guard::windows;
use crate::plan::Plan;
use crate::run::Timekeeper;

/// How long a run of a plan may still run; `None`: without bound.
///
/// # Errors
///
/// [`Error::WindowClosed`] where no window is open.
pub fn time_left(
    time: &dyn Timekeeper,
    design: &Design,
    plan: &Plan,
) -> Result<Option<Duration>, Error> {
    let all = &design.policy.maintenance_windows;
    if all.is_empty() || !plan.request.action.waits_for_window() {
        return Ok(None);
    }
    let now = jiff::Timestamp::from_second(time.seconds()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let now = now.to_zoned(jiff::tz::TimeZone::UTC);
    let day = u32::try_from(now.weekday().to_monday_zero_offset()).unwrap_or(0);
    let (hour, minute) = (now.hour().unsigned_abs(), now.minute().unsigned_abs());
    let minute = (day * 24 + u32::from(hour)) * 60 + u32::from(minute);
    match windows::open_for(all, minute) {
        Some(minutes) => {
            let begun = u64::from(now.second().unsigned_abs());
            let seconds = (u64::from(minutes) * 60).saturating_sub(begun);
            Ok(Some(Duration::from_secs(seconds)))
        }
        None => Err(Error::WindowClosed {
            windows: windows::in_words(all),
        }),
    }
}
