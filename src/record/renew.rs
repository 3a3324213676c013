//! Digests of earlier rules, made anew by those of now.
//!
//! Digests of version 1 were made of the values of secrets, too. They are replaced as soon as a run succeeds, whatever it was about.

use super::NodeRecord;
use crate::design::{Class, DIGEST_VERSION, Digests, NodeDesign, Section};

impl NodeRecord {
    /// Whether its digests are of earlier rules.
    #[must_use]
    pub fn is_of_earlier_rules(&self) -> bool {
        self.digest_version != DIGEST_VERSION
    }

    /// The digests of the same sections by the rules of now: of the design that was applied last, and for what a machine is
    /// made of, of the one that is on it.
    #[must_use]
    pub fn renewed(&self, applied: &NodeDesign, installed: &NodeDesign) -> Digests {
        let sections = Section::ALL.into_iter();
        let digests = sections.filter_map(|section| {
            self.digests.get(&section)?;
            let design = match section.class() {
                Class::Redeploy => installed,
                Class::Service | Class::Relabel | Class::Record => applied,
            };
            Some((section, *design.digests.get(&section)?))
        });
        digests.collect()
    }

    /// Takes digests by the rules of now in the place of those of earlier ones.
    pub fn take_renewed(&mut self, digests: Digests) {
        self.digests = digests;
        self.digest_version = DIGEST_VERSION;
    }
}
