//! Durations as the settings of the simulator have them.

use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::document::Marked;

/// The code of problems with the settings.
pub(super) const CODE: &str = "schema-sim";

/// The longest duration, in seconds: somewhat more than thirty years.
const LONGEST: f64 = 1e9;

/// Reads a duration in seconds.
pub(super) fn duration(written: Option<Marked<f64>>) -> Result<Option<Duration>, Box<Diagnostic>> {
    let Some(Marked { mark, value }) = written else {
        return Ok(None);
    };
    if !(0.0..=LONGEST).contains(&value) {
        let message = format!("a duration is from 0 to {LONGEST} seconds");
        return Err(Box::new(Diagnostic::error(CODE, mark, message)));
    }
    Ok(Some(Duration::from_secs_f64(value)))
}
