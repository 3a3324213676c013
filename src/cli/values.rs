//! Values of flags.

use crate::design::Share;
use crate::document::{NotDuration, Seconds};

/// A number of which none makes no sense.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("the least is 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("this is not a whole number".to_owned()),
    }
}

/// A duration in whole seconds.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let seconds: Seconds = text
        .parse()
        .map_err(|error: NotDuration| error.to_string())?;
    let part = || "a part of a second is too short here".to_owned();
    seconds.whole().ok_or_else(part)
}

/// A number of machines or a share of them, of which none makes no sense.
pub(super) fn at_least_one_machine(text: &str) -> Result<Share, String> {
    match text.parse() {
        Ok(Share::Machines(0) | Share::Percent(0)) => Err("the least is 1".to_owned()),
        Ok(share) => Ok(share),
        Err(_) => Err("this is neither a whole number nor a share such as `25%`".to_owned()),
    }
}
