//! The service of a machine, whatever API changes its values: which of them are not as they should be, how often they are
//! tried, and the failure if a second reading does not show them.

use std::sync::Arc;

use crate::backend::http::plain;
use crate::backend::{ActError, Order, Probe};
use crate::design::HardwareSetting;
use crate::observed::{HardwareSeen, shows};
use crate::step::StepKind;

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
    let differs = |each: &&HardwareSetting| !shows(seen, &each.name, &each.value);
    settings.iter().filter(differs).collect()
}

/// The values that are not as they should be at the end of a service: what it was to set, and the parts that the machine had and
/// shows no more.
pub(super) fn unmet<'o>(order: &'o Order, seen: &HardwareSeen) -> Vec<&'o HardwareSetting> {
    let mut unmet = missing(settings(order), seen);
    let kept = order.step.given().kept_parts().iter();
    let lost = |each: &&HardwareSetting| {
        seen.contains_key(&each.name) && !shows(seen, &each.name, &each.value)
    };
    unmet.extend(kept.filter(lost));
    unmet
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

/// The next rung for values that were not changed while their machine runs; empty: there is none.
pub(super) fn next_rung<'n>(order: &Order, mut names: impl Iterator<Item = &'n str>) -> String {
    let is_live = order.step.id.kind == StepKind::ServiceLive;
    match is_live && names.any(|name| name.starts_with("firmware.")) {
        true => "; without `apply: live` in its Hardware document the next plan changes it with a restart".to_owned(),
        false => String::new(),
    }
}

/// The failure of a service whose values are not as they should be after so many tries, each with what it shows; `reports`: what
/// was reported of the last one.
pub(super) fn unchanged(
    tries: u32,
    left: &[(&HardwareSetting, Option<Arc<str>>)],
    reports: &[String],
) -> String {
    let is_part = |name: &str| name.starts_with("expect.");
    let all = left.iter().map(|(setting, shown)| {
        let HardwareSetting { name, value, .. } = setting;
        let shown = shown.as_deref();
        let shown = shown.map_or_else(|| "nothing".to_owned(), |shown| plain(shown, 80));
        let is_to_be = match is_part(name) {
            true => "before its restart",
            false => "designed",
        };
        format!("`{name}` shows {shown}, {is_to_be} {value}")
    });
    let all: Vec<String> = all.collect();
    if left.iter().all(|(setting, _)| is_part(&setting.name)) {
        return format!(
            "firmware and settings are as designed, and parts are missing: {}",
            all.join("; ")
        );
    }
    let told = match reports.is_empty() {
        true => String::new(),
        false => format!(" ({})", reports.join("; ")),
    };
    let tried = match tries {
        1 => "tried once".to_owned(),
        tries => format!("tried {tries} times"),
    };
    format!("{tried}, and not changed: {}{told}", all.join("; "))
}
