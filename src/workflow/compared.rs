//! The machines of a design beside their records: which differ, and what they were made of when they were applied.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use super::{AS_APPLIED, Checkout, Failure, if_recorded};
use crate::design::{DIGEST_VERSION, Design, Documented, MergeJoin, NodeDesign, NodeName};
use crate::plan::Renames;
use crate::record::NodeRecord;
use crate::run::Connection;
use crate::site::{At, Loader, Site};

/// The designs at which nodes were applied that a plan compares with them.
#[derive(Default)]
pub(super) struct Designs {
    /// The sites at these revisions.
    pub(super) old: BTreeMap<Arc<str>, Site>,
    /// Their designs.
    pub(super) before: BTreeMap<Arc<str>, Documented>,
    /// The design that was applied last, of each node that has one in these.
    pub(super) applied: BTreeMap<NodeName, Arc<NodeDesign>>,
}

impl Designs {
    /// Loads those of the machines that the design of a site has otherwise than their records, which are explained in it.
    pub(super) fn load(
        (checkout, connection): (&Checkout<'_>, &Connection<'_>),
        loader: &mut Loader<'_>,
        site: &mut Site,
        records: &BTreeMap<NodeName, NodeRecord>,
    ) -> Result<Self, Failure> {
        let design = site.design.clone();
        let differing: Vec<&NodeRecord> = differing(records, &design).collect();
        let names = differing.iter().map(|record| &record.node).collect();
        loader.explain(site, &names)?;
        let revisions: BTreeSet<&Arc<str>> = differing
            .iter()
            .flat_map(|record| record.revision.iter().chain(record.installed()))
            .collect();
        let mut designs = Self::default();
        for revision in revisions {
            let Some(commit) = if_recorded(checkout, connection, revision)? else {
                continue;
            };
            let location = checkout.location_at(At::Commit(commit))?;
            let old = loader.load_beside(site, &location, commit, AS_APPLIED)?;
            let before = checkout.documented(&old)?;
            designs.before.insert(revision.clone(), before);
            designs.old.insert(revision.clone(), old);
        }
        designs.applied = applied(records, &designs.before);
        Ok(designs)
    }

    /// Adds recorded machines that the site has as they were applied, and that a newer revision has deleted: limits count them while
    /// they are down.
    pub(super) fn add_left(
        &mut self,
        checkout: &Checkout<'_>,
        (site, design): (&Site, &Design),
        records: &BTreeMap<NodeName, NodeRecord>,
    ) -> Result<(), Failure> {
        for record in records.values() {
            let name = &record.node;
            let (Some(node), Some(revision)) = (site.design.nodes.get(name), &record.revision)
            else {
                continue;
            };
            if design.nodes.contains_key(name) || differs(record, Some(node)) {
                continue;
            }
            let before = match self.before.entry(revision.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(checkout.documented(site)?),
            };
            if !before.nodes.contains_key(name) {
                let design = Arc::make_mut(&mut before.design);
                design.nodes.insert(name.clone(), node.clone());
            }
            self.applied.insert(name.clone(), node.clone());
        }
        Ok(())
    }
}

/// The records that the design differs from.
pub(super) fn differing<'a>(
    records: &'a BTreeMap<NodeName, NodeRecord>,
    design: &'a Design,
) -> impl Iterator<Item = &'a NodeRecord> {
    let mut nodes = MergeJoin::of(&design.nodes);
    records
        .iter()
        .filter(move |(name, record)| differs(record, nodes.get(name.as_str()).map(|node| &**node)))
        .map(|(_, record)| record)
}

/// Lets records have the digests in common with the designs that they are those of, which are nearly all.
pub(super) fn share_digests(records: &mut BTreeMap<NodeName, NodeRecord>, design: &Design) {
    let mut nodes = MergeJoin::of(&design.nodes);
    for (name, record) in records {
        if let Some(node) = nodes.get(name.as_str())
            && node.digests == record.digests
        {
            record.digests = node.digests.clone();
        }
    }
}

/// Whether the design of a node, if it has one, is not what its record says.
pub(super) fn differs(record: &NodeRecord, node: Option<&NodeDesign>) -> bool {
    node.is_none_or(|node| {
        record.digest_version != DIGEST_VERSION || record.digests != node.digests
    })
}

/// The designs that were applied last, of the nodes whose old design was loaded.
#[must_use]
pub fn applied<D: Deref<Target = Design>>(
    records: &BTreeMap<NodeName, NodeRecord>,
    designs: &BTreeMap<Arc<str>, D>,
) -> BTreeMap<NodeName, Arc<NodeDesign>> {
    records
        .values()
        .filter_map(|record| {
            let design = designs.get(record.revision.as_ref()?)?;
            let node = design.nodes.get(&record.node)?;
            Some((record.node.clone(), node.clone()))
        })
        .collect()
}

/// Every node of the design, and those that have left it, but for old names of machines that have another one now.
pub(super) fn subjects(
    design: &Design,
    applied: &BTreeMap<NodeName, Arc<NodeDesign>>,
    renames: &Renames,
) -> Vec<Arc<NodeDesign>> {
    let left = applied
        .iter()
        .filter(|(name, _)| !design.nodes.contains_key(*name) && renames.now(name).is_none());
    design
        .nodes
        .values()
        .cloned()
        .chain(left.map(|(_, node)| node.clone()))
        .collect()
}
