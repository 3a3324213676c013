//! Firmware and settings of a machine as its provisioner shows them, and the way in which the provisioner changes a value.
//!
//! Ironic and Metal3 show the same of a machine: attributes of its BIOS, with the terms of their registry, and versions of
//! components. Both take attributes and images of components.

use serde_json::{Map, Value};
use std::sync::Arc;

use super::terms::{Terms, value_of};
use crate::design::{NodeDesign, Section};
use crate::observed::{FixedValue, HardwareSeen, LearnedHardware, shows};

/// Names by which all values are read.
pub(super) const EVERYTHING: [&str; 8] = [
    "bios.*",
    "bmc.*",
    "boot.order",
    "boot.secure_boot",
    "expect.*",
    "firmware.*",
    "firmware.bios",
    "firmware.bmc",
];

/// The values of a machine that its provisioner shows.
#[derive(Debug, Default)]
pub(super) struct Provided {
    pub(super) seen: HardwareSeen,
    /// Why not all of them could be read.
    pub(super) unread: Option<Arc<str>>,
    bios: Option<Map<String, Value>>,
    terms: Terms,
}

/// The changes of a machine in the form in which provisioners take them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    /// Attributes of the BIOS.
    pub(super) attributes: Vec<(String, Value)>,
    /// Components, each with the address of its image.
    pub(super) updates: Vec<(String, Arc<str>)>,
}

impl Provided {
    /// Takes in the attributes of the BIOS.
    pub(super) fn has_bios(&mut self, attributes: Map<String, Value>, terms: Terms) {
        for (name, value) in &attributes {
            if let Some(shown) = terms.display_value(name, value) {
                let name = Arc::from(format!("bios.{name}"));
                self.seen.insert(name, Arc::from(shown));
            }
        }
        (self.bios, self.terms) = (Some(attributes), terms);
    }

    /// The values that other machines can have, too.
    pub(super) fn learned(self) -> LearnedHardware {
        LearnedHardware {
            seen: self.terms.learned(self.seen),
            unread: self.unread.into_iter().collect(),
        }
    }

    /// Takes in the version of a component.
    pub(super) fn has_component(&mut self, name: &str, version: &str) {
        let name = Arc::from(format!("firmware.{name}"));
        self.seen.insert(name, Arc::from(version));
    }

    /// Takes in a part that is only reported.
    pub(super) fn has_part(&mut self, name: &'static str, value: impl ToString) {
        self.seen
            .insert(Arc::from(name), Arc::from(value.to_string()));
    }

    /// Adds the change of a value, or tells why the provisioner cannot make it.
    ///
    /// # Errors
    ///
    /// The provisioner does not show what the value belongs to, or its registry refuses the value.
    pub(super) fn add(
        &self,
        changes: &mut Changes,
        node: &NodeDesign,
        (name, wanted): (&str, &str),
        provisioner: &str,
    ) -> Result<(), String> {
        if let Some(attribute) = name.strip_prefix("bios.") {
            let bios = self.bios.as_ref().filter(|bios| !bios.is_empty());
            let bios = bios.ok_or_else(|| format!("{provisioner} does not show its BIOS"))?;
            let value = value_of(Some(bios), Some(&self.terms), attribute, wanted)?;
            changes.attributes.push((attribute.to_owned(), value));
            return Ok(());
        }
        let Some(component) = name.strip_prefix("firmware.") else {
            return Err(format!("trueup does not set it over {provisioner}"));
        };
        if !self.seen.contains_key(name) {
            return Err(format!("{provisioner} does not show that component"));
        }
        let Some(image) = node.firmware_terms(name).and_then(|terms| terms.image) else {
            return Err("its Hardware document names no `image`".to_owned());
        };
        changes.updates.push((component.to_owned(), image.url));
        Ok(())
    }

    fn why_unread(&self) -> Option<Arc<str>> {
        let why = self.unread.as_ref()?;
        Some(Arc::from(format!("it could not be read: {why}")))
    }

    /// The values that are enforced and that the provisioner does not show, so that no second reading can confirm them.
    pub(super) fn unseen(&self, node: &NodeDesign, provisioner: &str) -> Vec<FixedValue> {
        let designed = node.hardware(Section::Firmware).into_iter();
        let unseen = designed.filter(|each| !self.seen.contains_key(&each.name));
        let unseen = unseen.map(|each| FixedValue {
            name: each.name,
            reason: self
                .why_unread()
                .unwrap_or_else(|| Arc::from(format!("{provisioner} does not show it"))),
        });
        unseen.collect()
    }

    /// The values that are enforced and not as designed, and that the provisioner cannot change; `refusal`: why it can change none.
    pub(super) fn fixed(
        &self,
        node: &NodeDesign,
        provisioner: &str,
        refusal: Option<&str>,
    ) -> Vec<FixedValue> {
        let designed = node.hardware(Section::Firmware).into_iter();
        let differs = designed.filter(|each| !shows(&self.seen, &each.name, &each.value));
        let fixed = differs.filter_map(|each| {
            let wanted = (&*each.name, &*each.value);
            let unread = self.why_unread();
            let unread = unread.filter(|_| !self.seen.contains_key(&each.name));
            let reason = match (refusal, unread) {
                (Some(refusal), _) => Arc::from(refusal),
                (None, Some(unread)) => unread,
                (None, None) => {
                    let added = self.add(&mut Changes::default(), node, wanted, provisioner);
                    Arc::from(added.err()?)
                }
            };
            Some(FixedValue {
                name: each.name,
                reason,
            })
        });
        fixed.collect()
    }
}
