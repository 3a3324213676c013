//! Machines that the design gives another name: the old name has left it, the new one has no record, and both are of one
//! machine by the documents. What is torn down under the old name would be the machine that the design has now.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::design::{BackendKind, Documented, NodeDesign, NodeName, Section};
use crate::guard::Guarded;
use crate::identity::{Identity, Kind, Match, Shared};
use crate::record::{NodeRecord, Phase};

/// The nodes that have another name now.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    /// The new name of each old one.
    new: BTreeMap<NodeName, NodeName>,
    /// The old name of each new one.
    old: BTreeMap<NodeName, NodeName>,
}

/// A system behind a controller: the address of the controller, and which of its systems.
type Place = (Arc<str>, Option<Arc<str>>);

impl Renames {
    /// Finds them. Only a machine whose identity its record knows is found: nothing else could be proven to be the same.
    #[must_use]
    pub fn of(
        site: &Guarded,
        records: &BTreeMap<NodeName, NodeRecord>,
        designs: &BTreeMap<Arc<str>, Documented>,
    ) -> Self {
        let mut renames = Self::default();
        let left = records
            .iter()
            .filter(|(name, record)| {
                record.phase != Phase::NotStarted && !site.nodes.contains_key(*name)
            })
            .filter_map(|(name, record)| Some((name, record, known_identity(record)?)));
        let left: Vec<_> = left.collect();
        if left.is_empty() {
            return renames;
        }
        let mut by_place: FxHashMap<Place, Vec<&NodeName>> = FxHashMap::default();
        let mut by_value: FxHashMap<(Kind, Arc<str>), Vec<&NodeName>> = FxHashMap::default();
        let is_new = |name: &NodeName, node: &NodeDesign| {
            let kind = site.guards().backend_of(node).kind;
            !records.contains_key(name) && !matches!(kind, BackendKind::Sim | BackendKind::None)
        };
        for (name, node) in site.nodes.iter().filter(|(name, node)| is_new(name, node)) {
            if let Some(place) = place(node) {
                by_place.entry(place).or_default().push(name);
            }
            for (kind, value) in node.identity().values() {
                let key = (kind, Arc::from(value.to_ascii_lowercase()));
                by_value.entry(key).or_default().push(name);
            }
        }
        for (old, record, identity) in left {
            let design = record.revision.as_ref().and_then(|at| designs.get(at));
            let design = design.and_then(|design| design.nodes.get(old));
            let of_place = design.and_then(|node| by_place.get(&place(node)?));
            let values = identity.values();
            let of_values = values.filter_map(|(kind, value)| {
                by_value.get(&(kind, Arc::from(value.to_ascii_lowercase())))
            });
            let names = of_place.into_iter().chain(of_values).flatten();
            let names = names.filter(|new| {
                let named = site.nodes[**new].identity();
                !matches!(named.compare(identity, &Shared::new()), Match::Differs(_))
            });
            let mut names: Vec<&NodeName> = names.copied().collect();
            names.sort_unstable();
            names.dedup();
            // Two that could be it are told apart by the operator alone.
            if let [new] = names[..]
                && !renames.old.contains_key(new)
            {
                renames.new.insert(old.clone(), new.clone());
                renames.old.insert(new.clone(), old.clone());
            }
        }
        renames
    }

    /// The name that the design has for a node of the records.
    #[must_use]
    pub fn now_or_same<'n>(&'n self, name: &'n str) -> &'n str {
        self.new.get(name).map_or(name, NodeName::as_str)
    }

    /// The name that a node had before.
    #[must_use]
    pub fn before(&self, new: &NodeName) -> Option<&NodeName> {
        self.old.get(new)
    }

    /// The name that a node which left the design has now.
    #[must_use]
    pub fn now(&self, old: &NodeName) -> Option<&NodeName> {
        self.new.get(old)
    }
}

/// The identity that the record of a machine has, if it was proven.
fn known_identity(record: &NodeRecord) -> Option<&Identity> {
    let identity = record.identity.as_deref()?;
    (!identity.unverified && !identity.is_empty()).then_some(identity)
}

fn place(node: &NodeDesign) -> Option<Place> {
    let oob = node.sections.get(&Section::OutOfBand);
    let system = oob.and_then(|oob| oob.at(&["oob", "system"])?.scalar_text());
    let system = system.map(|system| Arc::from(&*system));
    Some((node.out_of_band.address.clone()?, system))
}
