//! The table of exit codes.

use crate::workflow::{Failure, FailureKind};

/// Wrong usage.
pub(super) const USAGE: u8 = 64;

/// The exit code of a failure.
pub(super) fn code(failure: &Failure) -> u8 {
    match failure.kind {
        FailureKind::Error | FailureKind::NotFound => 1,
        FailureKind::Guard => 4,
        FailureKind::Stale => 5,
        FailureKind::Locked => 6,
        FailureKind::Failed => 7,
        FailureKind::Interrupted => 8,
        FailureKind::Unpublished => 9,
        FailureKind::Usage => USAGE,
    }
}
