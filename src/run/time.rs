//! The clock of a run, handed in: this module reads none of its own.

use std::time::Duration;

use crate::backend::LeaseClock;

/// Tells the time and lets it pass.
pub trait Timekeeper: Sync {
    /// Seconds since 1970, UTC.
    fn seconds(&self) -> i64;

    /// Time that only goes forward, in spite of changes of the wall clock, and runs while the system is
    /// suspended; from any beginning.
    fn monotonic(&self) -> Duration;

    /// The same time, for steps that run on their own.
    fn lease_clock(&self) -> LeaseClock;

    /// Waits, or until a stop is requested.
    fn pause(&self, time: Duration);

    /// Whether a stop was requested.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Tells people what is waited for, before pauses that they would wonder at.
    fn explain(&self, _waits_for: &str) {}
}

/// The time at which an id was made, which is a ULID.
#[must_use]
pub fn time_of_id(id: &str) -> Option<jiff::Timestamp> {
    let milliseconds = ulid::Ulid::from_string(id).ok()?.timestamp_ms();
    jiff::Timestamp::from_millisecond(i64::try_from(milliseconds).ok()?).ok()
}

/// A time as RFC 3339 in UTC.
pub(super) fn rfc3339(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string()
}
