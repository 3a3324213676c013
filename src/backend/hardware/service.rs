//! The service of a machine, whatever API changes its values: which of them are not as they should be, how often they are
//! tried, and the failure if a second reading does not show them.

use std::sync::Arc;

use crate::backend::http::plain;
use crate::backend::{ActError, Order, Probe};
use crate::design::HardwareSetting;
use crate::observed::HardwareSeen;

/// How often all is tried: some updates need two.
pub(super) const TRIES: u32 = 2;

/// The settings of a service.
pub(super) fn settings(order: &Order) -> &[HardwareSetting] {
    order.step.given().settings()
}

/// The settings whose values are not as they should be.
pub(super) fn missing<'s>(
    settings: &'s [HardwareSetting],
    seen: &HardwareSeen,
) -> Vec<&'s HardwareSetting> {
    let differs = |each: &&HardwareSetting| seen.get(&each.name) != Some(&each.value);
    settings.iter().filter(differs).collect()
}

/// How far a service is that was ended: done, or as if it had not begun.
///
/// # Errors
///
/// That cannot be read.
pub(super) fn ended(probe: Probe) -> Result<Probe, ActError> {
    match probe {
        Probe::Done => Ok(Probe::Done),
        Probe::NotBegun | Probe::UnderWay => Ok(Probe::NotBegun),
        Probe::Ambiguous(why) => Err(ActError::Ambiguous(why)),
    }
}

/// The failure of a service whose values are not as they should be after so many tries, each with what it shows; `reports`: what
/// was reported of the last one.
pub(super) fn unchanged(
    tries: u32,
    left: &[(&HardwareSetting, Option<Arc<str>>)],
    reports: &[String],
) -> String {
    let left = left.iter().map(|(setting, shown)| {
        let shown = shown.as_deref();
        let shown = shown.map_or_else(|| "nothing".to_owned(), |shown| plain(shown, 80));
        format!(
            "`{}` shows {shown}, designed {}",
            setting.name, setting.value
        )
    });
    let left: Vec<String> = left.collect();
    let told = match reports.is_empty() {
        true => String::new(),
        false => format!(" ({})", reports.join("; ")),
    };
    let tried = match tries {
        1 => "tried once".to_owned(),
        tries => format!("tried {tries} times"),
    };
    format!("{tried}, and not changed: {}{told}", left.join("; "))
}
