//! Clean steps: which a machine offers, and the order in which they run (ironic-cleaning).
//!
//! Higher priority first, 0 is off. A tie between interfaces is broken by the interface, in the order of
//! the specification (power, management, deploy), those that came later behind them. A tie inside one
//! interface has no order, and is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The interface that offers a clean step, in the order that breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CleanInterface {
    /// Power.
    Power,
    /// The management controller.
    Management,
    /// The deploy interface.
    Deploy,
    /// BIOS.
    Bios,
    /// RAID.
    Raid,
    /// Firmware.
    Firmware,
    /// Interfaces of a single vendor.
    Vendor,
}

impl CleanInterface {
    /// All, in the order that breaks ties.
    pub const ALL: [Self; 7] = [
        Self::Power,
        Self::Management,
        Self::Deploy,
        Self::Bios,
        Self::Raid,
        Self::Firmware,
        Self::Vendor,
    ];

    /// Its name, as in `deploy.erase_devices`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Management => "management",
            Self::Deploy => "deploy",
            Self::Bios => "bios",
            Self::Raid => "raid",
            Self::Firmware => "firmware",
            Self::Vendor => "vendor",
        }
    }

    /// The interface of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.as_str() == name)
    }
}

impl fmt::Display for CleanInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A clean step that a machine offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferedStep {
    /// Its interface.
    pub interface: CleanInterface,
    /// Its name.
    pub step: Arc<str>,
    /// Its priority if no policy says otherwise; 0: only when it is asked for.
    pub priority: u32,
    /// Whether it can be broken off while it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abortable: bool,
    /// Whether it erases data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub erases: bool,
}

impl OfferedStep {
    /// `interface.step`, as policies and flags name it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.interface, self.step)
    }
}

/// A clean step that trueup's own backends can run.
#[derive(Clone, Copy, Debug)]
pub struct OwnStep {
    /// Its interface.
    pub interface: CleanInterface,
    /// Its name.
    pub step: &'static str,
    /// Its priority if no policy says otherwise.
    pub priority: u32,
    /// Whether it erases data.
    pub erases: bool,
}

/// The steps that trueup runs itself (ironic-cleaning, "potentially useful tasks"), if the machine
/// offers them. Checks go first, so that a machine that is not what it should be is not erased by mistake;
/// what changes settings is off until a policy gives it a priority. All are idempotent.
pub const OWN_STEPS: [OwnStep; 6] = {
    const fn own(
        interface: CleanInterface,
        step: &'static str,
        priority: u32,
        erases: bool,
    ) -> OwnStep {
        OwnStep {
            interface,
            step,
            priority,
            erases,
        }
    }
    [
        own(CleanInterface::Management, "verify_properties", 110, false),
        own(CleanInterface::Firmware, "verify_firmware", 100, false),
        own(CleanInterface::Deploy, "erase_devices_metadata", 99, true),
        own(CleanInterface::Deploy, "erase_devices", 10, true),
        own(CleanInterface::Bios, "reset_bios", 0, false),
        own(CleanInterface::Bios, "apply_bios_settings", 0, false),
    ]
};

impl From<OwnStep> for OfferedStep {
    fn from(own: OwnStep) -> Self {
        Self {
            interface: own.interface,
            step: Arc::from(own.step),
            priority: own.priority,
            abortable: false,
            erases: own.erases,
        }
    }
}

/// Two steps that have no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "clean steps `{first}` and `{second}` have the same priority {priority} inside one interface"
)]
pub struct Tie {
    /// The one.
    pub first: String,
    /// The other.
    pub second: String,
    /// Their priority.
    pub priority: u32,
}

/// The enabled steps in the order in which automated cleaning runs them, each with its effective
/// priority: the policy's (`interface.step` → priority), else its own.
///
/// # Errors
///
/// Two enabled steps of one interface have the same priority.
pub fn in_order(
    offered: &[OfferedStep],
    priorities: &BTreeMap<Arc<str>, u32>,
) -> Result<Vec<OfferedStep>, Tie> {
    let mut enabled: Vec<OfferedStep> = offered
        .iter()
        .map(|step| OfferedStep {
            priority: *priorities
                .get(step.name().as_str())
                .unwrap_or(&step.priority),
            ..step.clone()
        })
        .filter(|step| step.priority > 0)
        .collect();
    enabled.sort_by(|one, other| {
        let by_priority = other.priority.cmp(&one.priority);
        by_priority
            .then(one.interface.cmp(&other.interface))
            .then_with(|| one.step.cmp(&other.step))
    });
    let tied = enabled.windows(2).find(|pair| {
        pair[0].priority == pair[1].priority && pair[0].interface == pair[1].interface
    });
    match tied {
        Some(pair) => Err(Tie {
            first: pair[0].name(),
            second: pair[1].name(),
            priority: pair[0].priority,
        }),
        None => Ok(enabled),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_oneof, proptest};

    use super::*;

    fn step(interface: CleanInterface, name: &str, priority: u32) -> OfferedStep {
        OfferedStep {
            interface,
            step: Arc::from(name),
            priority,
            abortable: false,
            erases: false,
        }
    }

    fn names(steps: &[OfferedStep]) -> Vec<String> {
        steps.iter().map(OfferedStep::name).collect()
    }

    #[test]
    fn higher_priority_goes_first_then_the_interface_and_zero_is_off() {
        let offered = [
            step(CleanInterface::Deploy, "c", 10),
            step(CleanInterface::Management, "b", 10),
            step(CleanInterface::Power, "a", 10),
            step(CleanInterface::Bios, "first", 90),
            step(CleanInterface::Deploy, "off", 0),
        ];
        let order = in_order(&offered, &BTreeMap::new()).unwrap();
        assert_eq!(
            names(&order),
            ["bios.first", "power.a", "management.b", "deploy.c"]
        );
        let policy = BTreeMap::from([
            (Arc::from("deploy.off"), 100),
            (Arc::from("bios.first"), 0),
            (Arc::from("deploy.unknown"), 7),
        ]);
        let order = in_order(&offered, &policy).unwrap();
        assert_eq!(
            names(&order),
            ["deploy.off", "power.a", "management.b", "deploy.c"]
        );
        assert_eq!(order[0].priority, 100);
    }

    #[test]
    fn a_tie_inside_one_interface_is_refused_and_names_both() {
        let offered = OWN_STEPS.map(OfferedStep::from);
        let tie = BTreeMap::from([(Arc::from("deploy.erase_devices"), 99)]);
        assert_eq!(
            in_order(&offered, &tie).unwrap_err().to_string(),
            "clean steps `deploy.erase_devices` and `deploy.erase_devices_metadata` have the same priority 99 inside one interface"
        );
    }

    #[test]
    fn own_steps_have_an_order_and_those_that_change_settings_are_off() {
        let offered = OWN_STEPS.map(OfferedStep::from);
        assert_eq!(
            names(&in_order(&offered, &BTreeMap::new()).unwrap()),
            [
                "management.verify_properties",
                "firmware.verify_firmware",
                "deploy.erase_devices_metadata",
                "deploy.erase_devices",
            ]
        );
        for interface in CleanInterface::ALL {
            assert_eq!(CleanInterface::of(interface.as_str()), Some(interface));
        }
        assert_eq!(CleanInterface::of("console"), None);
    }

    fn any_steps() -> impl Strategy<Value = Vec<OfferedStep>> {
        let interface = prop_oneof![
            Just(CleanInterface::Power),
            Just(CleanInterface::Management),
            Just(CleanInterface::Deploy),
            Just(CleanInterface::Bios),
        ];
        let one = (interface, 0u32..6, any::<bool>());
        prop::collection::vec(one, 0..12).prop_map(|steps| {
            let numbered = steps.into_iter().enumerate();
            numbered
                .map(|(number, (interface, priority, erases))| OfferedStep {
                    erases,
                    ..step(interface, &format!("s{number}"), priority)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_the_order_in_which_steps_are_offered(steps in any_steps()) {
            let forward = in_order(&steps, &BTreeMap::new());
            let backward: Vec<_> = steps.iter().rev().cloned().collect();
            prop_assert!(forward == in_order(&backward, &BTreeMap::new()));
            if let Ok(order) = forward {
                prop_assert!(order.len() == steps.iter().filter(|step| step.priority > 0).count());
                prop_assert!(order.windows(2).all(|pair| pair[0].priority >= pair[1].priority));
            }
        }
    }
}
