//! How a system says that it is powered.

use super::resource::Resource;
use crate::lifecycle::PowerState;

/// How a machine is powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    Off,
    /// On its way to on; some controllers never call it on.
    TurningOn,
    /// On its way to off.
    TurningOff,
    /// Not reported, or in a word that says neither.
    Unclear,
}

/// How a system says it is powered.
pub(super) fn power_of(system: &Resource) -> Option<Power> {
    match &*system.text("/PowerState")?.to_ascii_lowercase() {
        "on" | "paused" => Some(Power::On),
        "off" => Some(Power::Off),
        "poweringon" => Some(Power::TurningOn),
        "poweringoff" => Some(Power::TurningOff),
        _ => None,
    }
}

impl From<Power> for PowerState {
    /// An operation on its way may still be running.
    fn from(power: Power) -> Self {
        match power {
            Power::Off => Self::Off,
            Power::On | Power::TurningOn | Power::TurningOff | Power::Unclear => Self::On,
        }
    }
}
