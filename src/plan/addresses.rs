//! Addresses that a machine would be built with while another one still has them: both would cut each other off.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::input::Input;
use super::item::Item;
use crate::design::{NodeDesign, NodeName};
use crate::record::NodeRecord;

/// Addresses of a machine, in one form for each.
pub(super) fn of_machine(node: &NodeDesign) -> impl Iterator<Item = IpAddr> {
    let all = node.addresses.values();
    all.filter_map(|address| address.split('/').next()?.parse().ok())
}

/// Blocks each machine that would be built with an address of another one that keeps it, since it stays as it is, or is built
/// again in the same plan and has to come first. One that leaves the design is torn down before.
pub(super) fn judge<'a>(input: &Input<'_>, mut items: Vec<Item<'a>>) -> Vec<Item<'a>> {
    let mut wanted: FxHashMap<IpAddr, usize> = FxHashMap::default();
    for (position, item) in items.iter().enumerate() {
        if item.work.deploy && item.is_carried() {
            let after = item.subject.after.into_iter().flat_map(of_machine);
            wanted.extend(after.map(|address| (address, position)));
        }
    }
    if wanted.is_empty() || input.records.is_empty() {
        return items;
    }
    let by_name: FxHashMap<&NodeName, usize> = items
        .iter()
        .enumerate()
        .map(|(position, item)| (item.subject.name, position))
        .collect();
    let mut kept: BTreeMap<usize, (IpAddr, &NodeName)> = BTreeMap::new();
    for (holder, record) in input.records {
        let Some(design) = built(input, holder, record) else {
            continue;
        };
        let own = by_name.get(holder).map(|position| &items[*position]);
        if own.is_some_and(leaves_first) {
            continue;
        }
        for address in of_machine(design) {
            let Some(position) = wanted.get(&address) else {
                continue;
            };
            let heir = items[*position].subject.name;
            if heir != holder && input.renames.before(heir) != Some(holder) {
                kept.entry(*position).or_insert((address, holder));
            }
        }
    }
    let is_built = |holder: &NodeName| {
        let position = by_name
            .get(holder)
            .filter(|position| !kept.contains_key(*position));
        let item = position.map(|position| &items[*position]);
        item.is_some_and(|item| item.work.deploy && item.is_carried())
    };
    let reason = |(address, holder): (IpAddr, &NodeName)| match is_built(holder) {
        true => format!(
            "its address {address} is one of `{holder}` until that is built again, which has to come first: `--target {holder}`"
        ),
        false => format!(
            "its address {address} is one of `{holder}`, which keeps it: tear that down first, or give this one another"
        ),
    };
    let reasons: Vec<_> = kept
        .iter()
        .map(|(position, why)| (*position, reason(*why)))
        .collect();
    for (position, why) in reasons {
        items[position].block(&why, None);
    }
    items
}

/// The design by which a machine was built that its record has as carrying a system.
fn built<'i>(input: &Input<'i>, name: &NodeName, record: &NodeRecord) -> Option<&'i NodeDesign> {
    let revision = record.revision.as_ref().filter(|_| record.has_system())?;
    let design = input.designs.get(revision)?;
    design.nodes.get(name).map(|node| &**node)
}

/// Whether a machine is torn down before those that have its addresses then, or was already.
fn leaves_first(item: &Item<'_>) -> bool {
    let has_left = item.subject.after.is_none() && item.work.tears_down() && item.is_carried();
    has_left || item.subject.is_torn_down()
}
