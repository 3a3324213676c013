//! When changes may be made: the maintenance windows of a site's policy, weekly and in UTC.

use crate::design::MaintenanceWindow;

/// Minutes of a day, and days of a week.
const DAY: u32 = 24 * 60;
const WEEK: u32 = 7 * DAY;

/// The days as windows name them, the first being the first of the week.
const DAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// How long changes may still be made, in minutes, at a minute of the week (Monday 00:00 is 0): windows
/// that follow each other without a gap are one. `None` where they may not; without windows they always
/// may, and the answer is a week.
#[must_use]
pub fn open_for(windows: &[MaintenanceWindow], minute: u32) -> Option<u32> {
    if windows.is_empty() {
        return Some(WEEK);
    }
    let spans: Vec<(u32, u32)> = windows.iter().flat_map(spans).collect();
    let mut open = 0;
    while open < WEEK {
        let now = (minute + open) % WEEK;
        let longest = spans.iter().filter_map(|span| left_of(*span, now)).max();
        match longest {
            Some(more) => open += more,
            None => break,
        }
    }
    (open > 0).then_some(open.min(WEEK))
}

/// The rest of a span at a minute of the week that lies in it.
fn left_of((begins, lasts): (u32, u32), minute: u32) -> Option<u32> {
    let since = (minute + WEEK - begins) % WEEK;
    lasts.checked_sub(since).filter(|left| *left > 0)
}

/// The minutes of the week in which a window begins, each with how long it lasts. A window whose times
/// cannot be read, which validation finds before, is never open.
fn spans(window: &MaintenanceWindow) -> Vec<(u32, u32)> {
    let (Some(from), Some(to)) = (minutes(&window.from), minutes(&window.to)) else {
        return Vec::new();
    };
    let lasts = if to > from {
        to - from
    } else {
        to + DAY - from
    };
    let is_meant =
        |day: &str| window.days.is_empty() || window.days.iter().any(|each| **each == *day);
    let days = (0u32..).zip(DAYS).filter(|(_, day)| is_meant(day));
    days.map(|(number, _)| (number * DAY + from, lasts))
        .collect()
}

/// `HH:MM` as minutes of the day.
fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 24 && minutes < 60).then(|| hours * 60 + minutes)
}

/// The windows in words: `monday, friday 22:00 to 04:00; 12:00 to 13:00 (UTC)`.
#[must_use]
pub fn in_words(windows: &[MaintenanceWindow]) -> String {
    let each = windows.iter().map(|window| {
        let days = window.days.join(", ");
        let space = if days.is_empty() { "" } else { " " };
        format!("{days}{space}{} to {}", window.from, window.to)
    });
    format!("{} (UTC)", each.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn window(days: &[&str], from: &str, to: &str) -> MaintenanceWindow {
        MaintenanceWindow {
            days: days.iter().map(|day| Arc::from(*day)).collect(),
            from: Arc::from(from),
            to: Arc::from(to),
        }
    }

    fn at(day: usize, time: &str) -> u32 {
        u32::try_from(day).unwrap() * DAY + minutes(time).unwrap()
    }

    #[test]
    fn a_window_is_open_from_its_first_minute_to_before_its_last_also_over_midnight() {
        let nights = [window(&["monday", "sunday"], "22:00", "04:00")];
        for (minute, expected) in [
            (at(0, "21:59"), None),
            (at(0, "22:00"), Some(360)),
            (at(1, "03:59"), Some(1)),
            (at(1, "04:00"), None),
            (at(1, "22:00"), None),
            // The week begins in the window of Sunday.
            (at(0, "00:30"), Some(210)),
            (at(6, "23:00"), Some(300)),
        ] {
            assert_eq!(open_for(&nights, minute), expected, "{minute}");
        }
        assert_eq!(in_words(&nights), "monday, sunday 22:00 to 04:00 (UTC)");
    }

    #[test]
    fn windows_without_a_gap_are_one_and_none_at_all_are_always_open() {
        let both = [window(&[], "10:00", "12:00"), window(&[], "12:00", "13:00")];
        assert_eq!(open_for(&both, at(3, "11:00")), Some(120));
        let always = [window(&[], "00:00", "12:00"), window(&[], "12:00", "00:00")];
        assert_eq!(open_for(&always, at(2, "01:00")), Some(WEEK));
        assert_eq!(open_for(&[], 0), Some(WEEK));
        assert_eq!(open_for(&[window(&[], "x", "12:00")], at(0, "11:00")), None);
    }
}
