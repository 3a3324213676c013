//! Firmware, settings and parts of a machine as its controller shows them, compared with its design.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PartDrift;
use crate::design::{NodeDesign, Section};

/// The values that a controller shows, by the names that Hardware documents have for them (`firmware.bios`).
pub type HardwareSeen = BTreeMap<Arc<str>, Arc<str>>;

/// The values of a machine that are otherwise than its Hardware documents say, and whether all that they enforce was shown.
///
/// A value that the controller does not show differs from nothing.
#[must_use]
pub fn hardware_drift(node: &NodeDesign, seen: &HardwareSeen) -> (Vec<PartDrift>, bool) {
    let (mut drift, mut is_whole) = (Vec::new(), true);
    for section in [Section::Firmware, Section::Expected] {
        for designed in node.hardware(section) {
            match seen.get(&designed.name) {
                Some(observed) if *observed == designed.value => {}
                Some(observed) => drift.push(PartDrift {
                    section,
                    field: designed.name,
                    observed: observed.clone(),
                    designed: designed.value,
                }),
                None => is_whole &= section != Section::Firmware,
            }
        }
    }
    (drift, is_whole)
}
