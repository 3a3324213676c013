//! The machines of a design beside their records: which differ, and what they were made of when they were applied.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::design::{DIGEST_VERSION, Design, MergeJoin, NodeDesign, NodeName};
use crate::plan::Renames;
use crate::record::NodeRecord;

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
