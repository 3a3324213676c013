//! Machines that the design gives another name: the old name has left it, the new one has no record, and both are of one
//! machine by the documents. What is torn down under the old name would be the machine that the design has now.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::item::Item;
use super::rules::Rules;
use super::subject::{Observation, Subject};
use super::{ChangeKind, Standing};
use crate::design::{BackendKind, Documented, NodeDesign, NodeName, Section};
use crate::guard::Guarded;
use crate::identity::{Identity, Kind, Match, Proof, Shared};
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
            let mut names = of_place.into_iter().chain(of_values).flatten();
            let names = names.by_ref().filter(|new| {
                let named = site.nodes[**new].identity();
                !matches!(named.compare(identity, &Shared::new()), Match::Differs(_))
            });
            let mut names: Vec<&NodeName> = names.copied().collect();
            names.sort_unstable();
            names.dedup();
            // Two that could be it are told apart by nobody but the operator.
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

/// What the record of a machine knows it by, where that was proven.
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

impl<'a> Rules<'a> {
    /// The change of a node that had another name before: its record gets the new one, where its identity proves that it is
    /// the same machine. Nothing else is done to it in the same plan.
    pub(super) fn renamed(
        &self,
        subject: Subject<'a>,
        after: &NodeDesign,
        old: &'a NodeName,
    ) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Rename);
        item.because(format!(
            "was `{old}`, which has left the design: by the documents both are one machine"
        ));
        if let Some(record) = self.records.get(old) {
            item.change.counts_as = Standing::of(Some(record));
            let differing = Section::ALL
                .into_iter()
                .filter(|section| record.digests.get(section) != after.digests.get(section));
            let differing: Vec<&str> = differing.map(Section::as_str).collect();
            if !record.digests.is_empty() && !differing.is_empty() {
                item.because(format!(
                    "differs in {}, which is planned once it has its name",
                    differing.join(", ")
                ));
            }
        }
        match why_not(&subject) {
            None => {
                item.because(format!(
                    "its record moves to this name; its system was installed as `{old}`"
                ));
                item.work.renamed_from = Some(old.clone());
            }
            Some(why) => {
                let reason = format!(
                    "nothing proves that it is the machine of `{old}`: {why}; where it is another one, \
                     `trueup apply forget {old}` drops the old record"
                );
                item.block(&reason, None);
            }
        }
        item
    }
}

/// Why a machine is not proven to be the one that its old name's record knows.
fn why_not(subject: &Subject<'_>) -> Option<Arc<str>> {
    let Some(machine) = subject.machine else {
        return Some(Arc::from("it was not observed"));
    };
    match (&machine.proof, subject.seen) {
        (Proof::Refused(why) | Proof::Unverified(why), _) => Some(why.clone()),
        (Proof::Proven, Observation::Unknown(why)) => Some(Arc::from(why)),
        (Proof::Proven, _) if machine.identity.is_none() => {
            Some(Arc::from("it shows nothing that it could be known by"))
        }
        (Proof::Proven, _) => None,
    }
}
