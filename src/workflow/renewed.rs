//! Records with digests of earlier rules, by those of now.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::design::{Design, Digests, NodeName};
use crate::record::NodeRecord;

/// The digests by the rules of now of the records of earlier ones, as far as the designs that they are of are at hand.
pub(super) fn renewed<'d>(
    records: &BTreeMap<NodeName, NodeRecord>,
    design_at: impl Fn(&str) -> Option<&'d Design>,
) -> BTreeMap<NodeName, Digests> {
    let old = records
        .iter()
        .filter(|(_, record)| record.is_of_earlier_rules());
    let renewed = old.filter_map(|(name, record)| {
        let design = |revision: &Arc<str>| design_at(revision)?.nodes.get(name);
        let applied = design(record.revision.as_ref()?)?;
        let installed = design(record.installed()?)?;
        Some((name.clone(), record.renewed(applied, installed)))
    });
    renewed.collect()
}
