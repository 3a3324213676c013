//! Durations as the settings of the simulator have them.

use std::time::Duration;

use crate::backend::hardware::written::seconds;
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Seconds};

/// The code of problems with the settings.
pub(super) const CODE: &str = "schema-sim";

/// The longest duration, in seconds: somewhat more than thirty years.
const LONGEST: f64 = 1e9;

/// Reads a duration in seconds.
pub(super) fn duration(
    written: Option<Marked<Seconds>>,
) -> Result<Option<Duration>, Box<Diagnostic>> {
    let read = |written| seconds(Some(written), Duration::ZERO, ("a duration", LONGEST), CODE);
    written.map(read).transpose()
}
