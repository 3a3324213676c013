//! When changes may be made: the maintenance windows of a site's policy, weekly and by the clock of its time zone.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use crate::design::{MaintenanceWindow, WindowList};

/// Minutes of a day.
const DAY: i64 = 24 * 60;

/// How far windows are looked ahead: what is open for a week is always open, as far as a run is concerned.
const HORIZON: SignedDuration = SignedDuration::from_hours(7 * 24);

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

/// How long changes may still be made. `None` if they may not, since no window of one of the lists is open; without
/// any list they always may, and the answer is a week.
#[must_use]
pub fn open_for(lists: &[WindowList], now: Timestamp) -> Option<Duration> {
    let open = lists
        .iter()
        .try_fold(HORIZON, |open, list| Some(open.min(open_of(list, now)?)));
    open.map(SignedDuration::unsigned_abs)
}

/// When changes may be made next, if they may not now; `None`: not within a week.
#[must_use]
pub fn next_opening(lists: &[WindowList], now: Timestamp) -> Option<Timestamp> {
    let begins = lists.iter().flat_map(|list| spans(list, now));
    let begins: BTreeSet<Timestamp> = begins.map(|span| span.0).filter(|at| *at > now).collect();
    begins.into_iter().find(|at| open_for(lists, *at).is_some())
}

/// Whether changes may be made by some lists only when they may by others, too. Of lists by several clocks that is known
/// only if they are the same.
#[must_use]
pub fn all_within(inner: &[WindowList], outer: &[WindowList]) -> bool {
    if outer.is_empty() || inner == outer {
        return true;
    }
    let mut zones = inner.iter().chain(outer).map(|list| list.time_zone.name());
    let first = zones.next();
    if inner.is_empty() || zones.any(|zone| Some(zone) != first) {
        return false;
    }
    // Whether they are open changes only when a window begins or ends.
    let windows = inner.iter().chain(outer).flat_map(|list| &list.windows);
    let minutes: BTreeSet<i64> = windows
        .flat_map(|window| [minutes(&window.from), minutes(&window.to)])
        .flatten()
        .map(|minute| minute % DAY)
        .collect();
    let zone = &inner[0].time_zone;
    let monday = Date::constant(2026, 1, 5);
    let days = (0..7i64).filter_map(|day| monday.checked_add(day.days()).ok());
    let mut instants = days.flat_map(|day| {
        let at = minutes.iter();
        at.filter_map(move |minute| zone.instant(day, *minute))
    });
    instants.all(|now| open_for(inner, now).is_none() || open_for(outer, now).is_some())
}

/// How long a window of one list is still open: windows that follow each other without a gap are one.
fn open_of(list: &WindowList, now: Timestamp) -> Option<SignedDuration> {
    let spans: Vec<(Timestamp, Timestamp)> = spans(list, now).collect();
    let horizon = now.saturating_add(HORIZON).ok()?;
    let mut open_until = now;
    while open_until < horizon {
        let around = spans
            .iter()
            .filter(|(begins, ends)| *begins <= open_until && open_until < *ends);
        match around.map(|(_, ends)| *ends).max() {
            Some(ends) => open_until = ends,
            None => break,
        }
    }
    let open = open_until.min(horizon).duration_since(now);
    open.is_positive().then_some(open)
}

/// The windows around a day and in the week after it, from their begin to their end. A window whose times cannot be read,
/// which validation finds before, is never open.
fn spans(list: &WindowList, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let zone = &list.time_zone;
    let today = zone.clock(now).date();
    // One that began yesterday may still be open.
    let days = (-1..=8i64).filter_map(move |day| today.checked_add(day.days()).ok());
    days.flat_map(move |day| {
        let windows = list
            .windows
            .iter()
            .filter(move |window| begins_on(window, day));
        windows.filter_map(move |window| {
            let (from, to) = (minutes(&window.from)?, minutes(&window.to)?);
            let ends = if to > from { to } else { to + DAY };
            Some((zone.instant(day, from)?, zone.instant(day, ends)?))
        })
    })
}

fn begins_on(window: &MaintenanceWindow, day: Date) -> bool {
    let number = day.weekday().to_monday_zero_offset();
    let name = usize::try_from(number)
        .ok()
        .and_then(|number| DAYS.get(number));
    window.days.is_empty() || window.days.iter().any(|each| Some(&&**each) == name)
}

/// `HH:MM` as minutes of the day.
fn minutes(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=24).contains(&hours) && (0..60).contains(&minutes)).then(|| hours * 60 + minutes)
}

/// The windows in words: `monday, friday 22:00 to 04:00; 12:00 to 13:00 (UTC)`; behind `and within` those of another list; without any, `any time`.
#[must_use]
pub fn in_words(lists: &[WindowList]) -> String {
    let words = |window: &MaintenanceWindow| {
        let days = window.days.join(", ");
        let space = if days.is_empty() { "" } else { " " };
        format!("{days}{space}{} to {}", window.from, window.to)
    };
    let list = |list: &WindowList| {
        let each: Vec<String> = list.windows.iter().map(words).collect();
        format!("{} ({})", each.join("; "), list.time_zone.name())
    };
    if lists.is_empty() {
        return "any time".to_owned();
    }
    let lists: Vec<String> = lists.iter().map(list).collect();
    lists.join(", and within ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::design::SiteTimeZone;

    fn window(days: &[&str], from: &str, to: &str) -> MaintenanceWindow {
        MaintenanceWindow {
            days: days.iter().map(|day| Arc::from(*day)).collect(),
            from: Arc::from(from),
            to: Arc::from(to),
        }
    }

    fn list(zone: &str, windows: &[MaintenanceWindow]) -> WindowList {
        WindowList {
            time_zone: SiteTimeZone::named(zone).unwrap(),
            windows: windows.to_vec(),
        }
    }

    /// Minutes for which windows are open at an instant in UTC, such as `2026-11-23 21:59`; the 23rd is a Monday.
    fn open(lists: &[WindowList], instant: &str) -> Option<u64> {
        let now = format!("{}:00Z", instant.replace(' ', "T"))
            .parse()
            .unwrap();
        open_for(lists, now).map(|open| open.as_secs() / 60)
    }

    #[track_caller]
    fn check(lists: &[WindowList], table: &[(&str, Option<u64>)]) {
        for (instant, expected) in table {
            assert_eq!(open(lists, instant), *expected, "{instant}");
        }
    }

    const WEEK: Option<u64> = Some(7 * 24 * 60);

    #[test]
    fn a_window_is_open_from_its_first_minute_to_before_its_last_also_over_midnight() {
        let nights = [list(
            "UTC",
            &[window(&["monday", "sunday"], "22:00", "04:00")],
        )];
        check(
            &nights,
            &[
                ("2026-11-23 21:59", None),
                ("2026-11-23 22:00", Some(360)),
                ("2026-11-24 03:59", Some(1)),
                ("2026-11-24 04:00", None),
                ("2026-11-24 22:00", None),
                // The week begins in the window of Sunday.
                ("2026-11-23 00:30", Some(210)),
                ("2026-11-29 23:00", Some(300)),
            ],
        );
        assert_eq!(in_words(&nights), "monday, sunday 22:00 to 04:00 (UTC)");
    }

    #[test]
    fn the_next_window_opens_where_all_lists_have_one() {
        let nights = list("UTC", &[window(&["monday", "thursday"], "22:00", "04:00")]);
        let late = list("UTC", &[window(&[], "23:00", "23:30")]);
        let not_monday = list("UTC", &[window(&["thursday"], "00:00", "23:00")]);
        let never = list("UTC", &[window(&["sunday"], "10:00", "11:00")]);
        let next = |lists: &[WindowList]| {
            let now: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
            next_opening(lists, now).map(|at| at.to_string())
        };
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(
            next(std::slice::from_ref(&nights)),
            at("2026-11-23T22:00:00Z")
        );
        assert_eq!(next(&[nights.clone(), late]), at("2026-11-23T23:00:00Z"));
        assert_eq!(
            next(&[nights.clone(), not_monday]),
            at("2026-11-26T22:00:00Z")
        );
        assert_eq!(next(&[nights, never]), None);
    }

    #[test]
    fn windows_without_a_gap_are_one_and_none_at_all_are_always_open() {
        let both = [window(&[], "10:00", "12:00"), window(&[], "12:00", "13:00")];
        check(&[list("UTC", &both)], &[("2026-11-26 11:00", Some(120))]);
        let always = [window(&[], "00:00", "12:00"), window(&[], "12:00", "00:00")];
        for zone in ["UTC", "Europe/Berlin", "Asia/Kathmandu"] {
            check(
                &[list(zone, &always)],
                &[
                    ("2026-11-25 01:00", WEEK),
                    ("2026-10-24 22:00", WEEK),
                    ("2026-03-28 22:00", WEEK),
                ],
            );
        }
        check(&[], &[("2026-11-23 00:00", WEEK)]);
        let unreadable = [window(&[], "x", "12:00")];
        check(&[list("UTC", &unreadable)], &[("2026-11-23 11:00", None)]);
    }

    #[test]
    fn a_window_is_by_the_clock_of_its_zone() {
        let nights = [list(
            "Europe/Berlin",
            &[window(&["saturday"], "22:00", "04:00")],
        )];
        check(
            &nights,
            &[
                // In winter an hour before UTC, in summer two.
                ("2026-11-28 20:59", None),
                ("2026-11-28 21:00", Some(360)),
                ("2026-11-29 02:59", Some(1)),
                ("2026-11-29 03:00", None),
                ("2026-07-04 20:00", Some(360)),
                ("2026-07-05 01:59", Some(1)),
                // The nights in which the clock goes back, and forward.
                ("2026-10-24 20:00", Some(420)),
                ("2026-10-25 02:59", Some(1)),
                ("2026-03-28 21:00", Some(300)),
                ("2026-03-29 01:59", Some(1)),
            ],
        );
        // A day of the week is that of the zone.
        let early = [list(
            "Pacific/Auckland",
            &[window(&["monday"], "01:00", "02:00")],
        )];
        check(
            &early,
            &[("2026-11-22 12:30", Some(30)), ("2026-11-23 01:30", None)],
        );
        // Times that the clock skips: 02:30 is 03:30 then.
        let skipped = [list("Europe/Berlin", &[window(&[], "02:30", "05:00")])];
        check(
            &skipped,
            &[("2026-03-29 01:29", None), ("2026-03-29 01:30", Some(90))],
        );
        let none = [list("Europe/Berlin", &[window(&[], "02:15", "02:45")])];
        check(
            &none,
            &[("2026-03-29 01:14", None), ("2026-03-29 01:15", Some(30))],
        );
        // Of an hour that the clock shows twice the first counts.
        check(
            &none,
            &[("2026-10-25 00:15", Some(30)), ("2026-10-25 01:15", None)],
        );
    }

    #[test]
    fn a_window_of_each_list_has_to_be_open_each_in_its_zone() {
        let lists = [
            list("UTC", &[window(&["saturday"], "08:00", "20:00")]),
            list("Europe/Berlin", &[window(&[], "19:00", "23:00")]),
        ];
        check(
            &lists,
            &[
                ("2026-11-28 17:59", None),
                ("2026-11-28 18:30", Some(90)),
                ("2026-11-28 20:00", None),
                ("2026-11-27 18:30", None),
                // In summer Berlin's begins an hour before.
                ("2026-07-04 17:30", Some(150)),
            ],
        );
        assert_eq!(
            in_words(&lists),
            "saturday 08:00 to 20:00 (UTC), and within 19:00 to 23:00 (Europe/Berlin)"
        );
        let sunday = list("UTC", &[window(&["sunday"], "08:00", "20:00")]);
        let never = [lists[0].clone(), sunday];
        for day in 23..30 {
            for hour in 0..24 {
                assert_eq!(open(&never, &format!("2026-11-{day} {hour:02}:30")), None);
            }
        }
    }
}
