//! How a system says that it is powered.

use super::resource::Resource;
use crate::lifecycle::PowerState;

/// How a machine is powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    Off,
    /// On its way from one to the other.
    Between,
    /// Not reported, or in a word that says neither.
    Unclear,
}

/// How a system says it is powered.
pub(super) fn power_of(system: &Resource) -> Option<Power> {
    match &*system.text("/PowerState")?.to_ascii_lowercase() {
        "on" | "paused" => Some(Power::On),
        "off" => Some(Power::Off),
        "poweringon" | "poweringoff" => Some(Power::Between),
        _ => None,
    }
}

impl From<Power> for PowerState {
    /// An operation on its way may still be running.
    fn from(power: Power) -> Self {
        match power {
            Power::Off => Self::Off,
            Power::On | Power::Between | Power::Unclear => Self::On,
        }
    }
}
