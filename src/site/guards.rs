//! The guards of a site, taken from a revision that a pull request cannot change.
//!
//! Backends, protection and quorum stand in documents of the same repository
//! as the machines. An operator may name a protected revision from which these documents are taken
//! instead, whatever the revision at hand says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::design::{Design, GUARDS, GuardSource};
use crate::document::digest;
use crate::render::Rendering;

use super::Site;

/// The documents that guard a site, at a protected revision.
#[derive(Clone, Debug)]
pub struct Guards {
    revision: Arc<str>,
    design: Arc<Design>,
    documents: BTreeMap<String, [u8; 32]>,
}

impl Guards {
    /// Returns the guards of a site that was loaded at a revision, which is called so by the operator.
    #[must_use]
    pub fn of(revision: &str, site: &Site) -> Self {
        Self {
            revision: Arc::from(revision),
            design: site.design.clone(),
            documents: documents(&site.rendering),
        }
    }

    /// The design at the protected revision.
    #[must_use]
    pub fn design(&self) -> &Arc<Design> {
        &self.design
    }

    /// The revision as the operator named it.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Puts the guards into a design in the place of its own, and names those that differ.
    pub(super) fn put_into(&self, design: &mut Design, rendering: &Rendering) {
        let own = documents(rendering);
        let names: BTreeSet<&String> = own.keys().chain(self.documents.keys()).collect();
        let changed = names
            .into_iter()
            .filter(|name| own.get(*name) != self.documents.get(*name));
        design.guards_from = Some(GuardSource {
            revision: self.revision.clone(),
            changed: changed.map(|name| Arc::from(name.as_str())).collect(),
        });
        let guards = &self.design;
        design.backends = guards.backends.clone();
        design.policy = guards.policy.clone();
        design.etcd_clusters.clone_from(&guards.etcd_clusters);
        design.retirements.clone_from(&guards.retirements);
        design.cleaning.clone_from(&guards.cleaning);
    }
}

/// The guarding documents of a rendering, by kind and name.
fn documents(rendering: &Rendering) -> BTreeMap<String, [u8; 32]> {
    let guards = rendering
        .documents
        .iter()
        .filter(|each| GUARDS.contains(&&*each.document.id.schema));
    let named = guards.map(|each| {
        let id = &each.document.id;
        (format!("{} `{}`", id.schema, id.name), digest(&each.data))
    });
    named.collect()
}
