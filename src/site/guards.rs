//! The documents that guard a site, as far as two revisions are compared by them.
//!
//! Backends, protection and quorum stand in documents of the same repository as the machines. An operator may name a
//! protected revision, which a pull request cannot change, from which the guards are taken instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Site;
use crate::design::GUARDS;
use crate::document::digest;

/// The digests of the documents that guard a site, by kind and name.
#[derive(Clone, Debug)]
pub struct GuardDocuments(BTreeMap<String, [u8; 32]>);

impl GuardDocuments {
    /// Returns those of a site.
    #[must_use]
    pub fn of(site: &Site) -> Self {
        let documents = site.rendering.documents.iter();
        let guards = documents.filter(|each| GUARDS.contains(&&*each.document.id.schema));
        let named = guards.map(|each| {
            let id = &each.document.id;
            (format!("{} `{}`", id.schema, id.name), digest(&each.data))
        });
        Self(named.collect())
    }

    /// The documents that are different in another revision.
    #[must_use]
    pub fn changed(&self, other: &Self) -> Vec<Arc<str>> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let changed = names
            .into_iter()
            .filter(|name| self.0.get(*name) != other.0.get(*name));
        changed.map(|name| Arc::from(name.as_str())).collect()
    }
}
