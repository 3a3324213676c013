//! Which nodes a command is about: words and the selectors of the design, all of which must agree.

use std::collections::BTreeMap;

use clap::Args;
use rustc_hash::FxHashSet;

use crate::design::NodeName;
use crate::guard::{Guarded, Machines, WordError, WordKind, split_words};
use crate::record::NodeRecord;
use crate::report::run::{NodeRow, node_rows};

use super::Failure;

/// Which nodes.
#[derive(Debug, Clone, Args)]
pub(super) struct SelectionArguments {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE; none: all
    #[arg(value_name = "NODE")]
    pub(super) names: Vec<String>,
    /// In one of these groups
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// With one of these tags
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// In one of these racks
    #[arg(long, value_name = "NAME")]
    rack: Vec<String>,
    /// With one of these labels
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Only those that are retired
    #[arg(long)]
    retired: bool,
    /// Only those that are in maintenance
    #[arg(long)]
    maintenance: bool,
}

/// The selected nodes.
pub(super) struct Selected<'a> {
    /// Those of the design.
    pub(super) rows: Vec<NodeRow<'a>>,
    /// Those that only records know.
    pub(super) left: Vec<&'a NodeName>,
}

impl SelectionArguments {
    /// Selects the nodes in which everything that was given agrees.
    pub(super) fn select<'a>(
        &self,
        site: &'a Guarded,
        records: &'a BTreeMap<NodeName, NodeRecord>,
        today: &str,
    ) -> Result<Selected<'a>, Failure> {
        let machines = Machines::new(site, &site.guards().groups, records);
        let lists = self
            .lists(machines)
            .map_err(|error| Failure::from(&error))?;
        let is_meant = |node: &NodeName| lists.iter().all(|nodes| nodes.contains(node));
        let is_flagged = |row: &NodeRow<'_>| {
            (!self.retired || row.retired.is_some())
                && (!self.maintenance || row.maintenance.is_some())
        };
        let rows = node_rows(site, records, today);
        let rows = rows.filter(|row| is_meant(&row.design.name) && is_flagged(row));
        let left = records.keys().filter(|node| {
            let is_left = !site.nodes.contains_key(*node);
            is_left && is_meant(node) && !self.retired && !self.maintenance
        });
        Ok(Selected {
            rows: rows.collect(),
            left: left.collect(),
        })
    }

    /// The nodes of each list that was given.
    fn lists<'a>(&self, machines: Machines<'a>) -> Result<Vec<FxHashSet<&'a NodeName>>, WordError> {
        let mut lists = Vec::new();
        if !self.names.is_empty() {
            lists.push(machines.select(split_words(&self.names))?);
        }
        let of_kinds = [
            (WordKind::Group, &self.group),
            (WordKind::Tag, &self.tag),
            (WordKind::Rack, &self.rack),
            (WordKind::Label, &self.label),
        ];
        for (kind, names) in of_kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            lists.push(machines.select(split_words(names).iter().map(|name| kind.word(name)))?);
        }
        Ok(lists)
    }
}
