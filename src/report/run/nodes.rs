//! The requested nodes, as a table and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::FORMAT_VERSION;
use crate::design::{Addresses, GroupName, MergeJoin, NodeDesign, NodeName};
use crate::guard::Guarded;
use crate::record::NodeRecord;
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, counted, json, natural};
use crate::reservation::Reservation;

/// A node of the design, and what is known of it beside.
#[derive(Clone, Debug)]
pub struct NodeRow<'a> {
    /// Its design.
    pub design: &'a NodeDesign,
    /// The groups that hold it.
    pub groups: Vec<&'a GroupName>,
    /// The reason, if it is retired.
    pub retired: Option<&'a str>,
    /// The reason, if it is in maintenance.
    pub maintenance: Option<&'a str>,
    /// Its reservation, if a person works on it.
    pub reservation: Option<&'a Reservation>,
}

/// All nodes of a site.
pub fn node_rows<'a>(
    site: &'a Guarded,
    records: &'a BTreeMap<NodeName, NodeRecord>,
    today: &str,
) -> impl Iterator<Item = NodeRow<'a>> {
    let mut groups: FxHashMap<&NodeName, Vec<&GroupName>> = FxHashMap::default();
    for group in &site.guards().groups {
        for node in group.nodes(site) {
            groups.entry(node).or_default().push(&group.name);
        }
    }
    let retired = site.retired(today);
    let mut records = MergeJoin::of(records);
    site.nodes.values().map(move |node| {
        let record = records.get(node.name.as_str());
        NodeRow {
            design: node,
            retired: match retired.get(&node.name) {
                Some(retirement) => Some(&*retirement.reason),
                None => record.and_then(|record| record.retired.as_deref()),
            },
            maintenance: record.and_then(|record| record.maintenance.as_deref()),
            reservation: None,
            groups: groups.remove(&node.name).unwrap_or_default(),
        }
    })
}

impl NodeRow<'_> {
    fn groups(&self) -> String {
        let names: Vec<&str> = self.groups.iter().map(|group| group.as_str()).collect();
        names.join(", ")
    }
}

/// Writes a line a node, in the order of names for people, and their number.
///
/// # Errors
///
/// Only if `out` fails.
pub fn nodes(out: &mut dyn Write, rows: &[NodeRow<'_>], palette: Palette) -> fmt::Result {
    let mut table = Table::new(&[
        "NODE", "RACK", "GROUPS", "PROFILE", "HARDWARE", "TAGS", "NOTE",
    ]);
    let mut sorted: Vec<&NodeRow<'_>> = rows.iter().collect();
    sorted.sort_by(|one, other| natural(one.design.name.as_str(), other.design.name.as_str()));
    for row in sorted {
        let design = row.design;
        let tags: Vec<&str> = design.tags.iter().map(|tag| &**tag).collect();
        let reserved = row.reservation.map(ToString::to_string);
        let kept = match (row.retired, row.maintenance) {
            (Some(reason), _) => Some(format!("retired: {reason}")),
            (None, Some(reason)) => Some(format!("maintenance: {reason}")),
            (None, None) => None,
        };
        let notes: Vec<String> = kept.into_iter().chain(reserved).collect();
        let note = match notes.is_empty() {
            true => Cell::none(),
            false => Cell::in_role(Role::Warning, notes.join("; ")),
        };
        table.row(vec![
            Cell::in_role(Role::Strong, design.name.as_str()),
            Cell::or_none(design.rack.as_deref()),
            Cell::or_none(Some(row.groups())),
            Cell::or_none(design.host_profiles.first()),
            Cell::or_none(design.hardware_profile.as_deref()),
            Cell::or_none(Some(tags.join(", "))),
            note,
        ]);
    }
    if !rows.is_empty() {
        table.write(out, palette)?;
    }
    writeln!(out, "{}", counted(rows.len(), "node", "nodes"))
}

#[derive(Serialize)]
struct All<'a> {
    format_version: u32,
    nodes: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    name: &'a NodeName,
    rack: Option<&'a str>,
    groups: &'a [&'a GroupName],
    host_profiles: &'a [Arc<str>],
    hardware_profile: Option<&'a str>,
    tags: &'a BTreeSet<Arc<str>>,
    labels: &'a BTreeMap<Arc<str>, Arc<str>>,
    addresses: &'a Addresses,
    retired: Option<&'a str>,
    maintenance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<&'a Reservation>,
}

/// Writes the nodes as one JSON object: `format_version` and `nodes`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn nodes_json(out: &mut dyn Write, rows: &[NodeRow<'_>]) -> fmt::Result {
    let nodes = rows
        .iter()
        .map(|row| One {
            name: &row.design.name,
            rack: row.design.rack.as_deref(),
            groups: &row.groups,
            host_profiles: &row.design.host_profiles,
            hardware_profile: row.design.hardware_profile.as_deref(),
            tags: &row.design.tags,
            labels: &row.design.labels,
            addresses: &row.design.addresses,
            retired: row.retired,
            maintenance: row.maintenance,
            reservation: row.reservation,
        })
        .collect();
    json::pretty(
        out,
        &All {
            format_version: FORMAT_VERSION,
            nodes,
        },
    )
}
