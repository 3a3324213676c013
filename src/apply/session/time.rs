//! The clock of a run, handed in: this room reads none of its own.

use std::time::Duration;

/// Tells the time and lets it pass.
pub trait Timekeeper: Sync {
    /// Seconds since 1970, UTC.
    fn seconds(&self) -> i64;

    /// Time that only goes forward, whatever is done to the wall clock; from any beginning.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn pause(&self, time: Duration);

    /// Tells people what is waited for, before pauses that they would wonder at.
    fn explain(&self, _waits_for: &str) {}
}

/// A time as RFC 3339 in UTC.
pub(super) fn rfc3339(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string()
}
