//! The time of day: the real one, or in a sandbox as far ahead of it as its clock was set.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// How far the clock is ahead, in seconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Sets the clock of this process ahead.
pub(super) fn set_ahead(seconds: i64) {
    AHEAD.store(seconds, Ordering::Relaxed);
}

/// Returns the time.
pub(super) fn now() -> Timestamp {
    let ahead = SignedDuration::from_secs(AHEAD.load(Ordering::Relaxed));
    let now = Timestamp::now();
    now.checked_add(ahead).unwrap_or(now)
}
