//! The time zone of a site.
//!
//! The rules of all zones are part of the program, so that the same site has the same windows and days on every machine.

use std::sync::Arc;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};

static ALL: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The time zone by which a site counts its days, and in which its maintenance windows are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTimeZone(TimeZone);

impl Default for SiteTimeZone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl SiteTimeZone {
    /// The zone of an IANA name, such as `Europe/Berlin`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.get(name).ok().map(Self)
    }

    /// The names of all zones.
    #[must_use]
    pub fn names() -> Vec<String> {
        ALL.available().map(|name| name.to_string()).collect()
    }

    /// Its IANA name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The date and the time of the clock at an instant.
    #[must_use]
    pub fn clock(&self, instant: Timestamp) -> DateTime {
        self.0.to_datetime(instant)
    }

    /// The day (`YYYY-MM-DD`) at an instant, in seconds since 1970.
    #[must_use]
    pub fn day(&self, seconds: i64) -> Arc<str> {
        let instant = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
        Arc::from(self.clock(instant).date().to_string())
    }

    /// The instant at which the clock shows so many minutes of a day. A time that the clock skips is as much later, and of
    /// one that it shows twice the first counts.
    #[must_use]
    pub fn instant(&self, day: Date, minutes: i64) -> Option<Timestamp> {
        let midnight = day.to_datetime(jiff::civil::Time::midnight());
        let time = midnight.checked_add(jiff::SignedDuration::from_mins(minutes));
        self.0.to_timestamp(time.ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_that_of_the_clock_in_the_zone() {
        let seconds = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
        for (zone, instant, day) in [
            ("UTC", "2026-11-25T23:30:00Z", "2026-11-25"),
            ("Europe/Berlin", "2026-11-25T22:59:59Z", "2026-11-25"),
            ("Europe/Berlin", "2026-11-25T23:00:00Z", "2026-11-26"),
            ("America/Los_Angeles", "2026-11-25T07:59:59Z", "2026-11-24"),
            ("Pacific/Kiritimati", "2026-11-25T10:00:00Z", "2026-11-26"),
        ] {
            let zone = SiteTimeZone::named(zone).unwrap();
            assert_eq!(
                &*zone.day(seconds(instant)),
                day,
                "{instant} {}",
                zone.name()
            );
        }
        assert_eq!(SiteTimeZone::named("Europe/Bonn"), None);
        assert_eq!(SiteTimeZone::named(""), None);
        assert_eq!(SiteTimeZone::default().name(), "UTC");
        assert!(
            SiteTimeZone::names()
                .iter()
                .any(|name| name == "Europe/Berlin")
        );
    }
}
