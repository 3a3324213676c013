//! The identity of a machine in its document.

use super::{NodeDesign, Section};
use crate::identity::Identity;

impl NodeDesign {
    /// The identity of the machine in the document: `oob.uuid`, `oob.serial` and `metadata.boot_mac`;
    /// placeholders left out.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let text = |section: Section, path: &[&str]| {
            let found = self.sections.get(&section)?.at(path)?;
            found.scalar_text().map(|text| text.into_owned())
        };
        let own = |name: &str| text(Section::OutOfBand, &["oob", name]);
        let mac = text(Section::Inventory, &["metadata", "boot_mac"]);
        let identity = Identity::of(own("uuid").as_deref(), own("serial").as_deref());
        identity.with_macs(mac.as_deref())
    }
}
