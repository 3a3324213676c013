//! Firmware, settings and parts of a machine as its controller shows them, compared with its design.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ObservedNode, PartDrift};
use crate::design::{HardwareValue, NodeDesign, Section};

/// The values that a controller shows, by the names that Hardware documents have for them (`firmware.bios`).
pub type HardwareSeen = BTreeMap<Arc<str>, Arc<str>>;

/// The values of a machine that others can have, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedHardware {
    /// Those that were read.
    pub seen: HardwareSeen,
    /// Why others could not be read.
    pub unread: Vec<Arc<str>>,
}

/// Whether a machine shows a value as it is designed. Of network services that are to be off, others may be off, too.
#[must_use]
pub fn shows(seen: &HardwareSeen, name: &str, designed: &str) -> bool {
    let Some(shown) = seen.get(name) else {
        return false;
    };
    match name {
        "bmc.services_off" => {
            let shown: Vec<&str> = shown.split(", ").collect();
            designed.split(", ").all(|each| shown.contains(&each))
        }
        _ => **shown == *designed,
    }
}

/// The values of a machine that are otherwise than its Hardware documents say, and the sections of which all that they enforce
/// was shown.
///
/// A value that the controller does not show differs from nothing.
fn hardware_drift(node: &NodeDesign, seen: &HardwareSeen) -> (Vec<PartDrift>, Vec<Section>) {
    let (mut drift, mut whole) = (Vec::new(), Vec::new());
    for section in node.hardware_sections() {
        let mut is_whole = section != Section::Expected;
        for designed in node.hardware(section) {
            match seen.get(&designed.name) {
                Some(_) if shows(seen, &designed.name, &designed.value) => {}
                Some(observed) => drift.push(PartDrift {
                    section,
                    field: designed.name,
                    observed: observed.clone(),
                    designed: designed.value,
                }),
                None => is_whole = false,
            }
        }
        whole.extend(is_whole.then_some(section));
    }
    (drift, whole)
}

impl ObservedNode {
    /// The parts that it has otherwise than Hardware documents expect.
    pub fn unexpected_parts(&self) -> impl Iterator<Item = &PartDrift> {
        self.drift
            .iter()
            .filter(|part| part.section == Section::Expected && part.field.starts_with("expect."))
    }

    /// Adds how the values that its controller shows stand to its Hardware documents, if it has any; `unread`: why not all
    /// could be read.
    pub fn compare_hardware(
        &mut self,
        node: &NodeDesign,
        seen: &HardwareSeen,
        unread: Option<Arc<str>>,
    ) {
        let is_unseen = |value: &HardwareValue| {
            value.name.starts_with("expect.") && !seen.contains_key(&value.name)
        };
        let expected = node.hardware(Section::Expected);
        self.unread_parts = unread.filter(|_| expected.iter().any(is_unseen));
        let (drift, whole) = hardware_drift(node, seen);
        if !drift.is_empty() {
            self.drift = self.drift.iter().cloned().chain(drift).collect();
        }
        if !whole.is_empty() {
            let compared = self.compared.iter().copied();
            self.compared = compared.chain(whole).collect();
        }
    }
}
