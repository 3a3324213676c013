//! Which nodes a command is about: names, globs and the selectors of the design, all of which must agree.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use globset::{Glob, GlobSetBuilder};

use crate::design::{Design, GroupName, NodeName};
use crate::diagnostic::nearest;
use crate::record::NodeRecord;
use crate::report::run::NodeRow;

use super::{Failure, FailureKind};

/// Which nodes.
#[derive(Debug, Clone, Args)]
pub(super) struct SelectionArguments {
    /// Names or globs; none: all
    #[arg(value_name = "NODE|GLOB")]
    pub(super) names: Vec<String>,
    /// In one of these groups
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    group: Vec<String>,
    /// With one of these tags
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    tag: Vec<String>,
    /// In one of these racks
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    rack: Vec<String>,
    /// With one of these labels
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<String>,
    /// Only those that are retired
    #[arg(long)]
    retired: bool,
    /// Only those that are in maintenance
    #[arg(long)]
    maintenance: bool,
}

impl SelectionArguments {
    /// Whether nothing narrows it.
    pub(super) fn is_all(&self) -> bool {
        let lists = [&self.names, &self.group, &self.tag, &self.rack, &self.label];
        lists.iter().all(|list| list.is_empty()) && !self.retired && !self.maintenance
    }
}

/// The nodes in which all criteria that were given agree.
pub(super) fn select<'a>(
    command: &SelectionArguments,
    design: &'a Design,
    records: &'a BTreeMap<NodeName, NodeRecord>,
    today: &str,
) -> Result<Vec<NodeRow<'a>>, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let mut globs = GlobSetBuilder::new();
    for name in &command.names {
        let glob = Glob::new(name)
            .map_err(|error| usage(format!("`{name}` is not a pattern: {error}")))?;
        if !design
            .nodes
            .keys()
            .any(|node| glob.compile_matcher().is_match(node.as_str()))
        {
            let failure = usage(format!("`{name}` names no node"));
            let near = nearest(name, design.nodes.keys().map(NodeName::as_str));
            return Err(match near {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure,
            });
        }
        globs.add(glob);
    }
    let globs = globs.build().map_err(|error| usage(error.to_string()))?;
    let mut labels = Vec::new();
    for label in &command.label {
        let Some(pair) = label.split_once('=') else {
            return Err(usage(format!(
                "`--label {label}` is not of the form `KEY=VALUE`"
            )));
        };
        labels.push(pair);
    }
    let mut groups: BTreeMap<&NodeName, Vec<&GroupName>> = BTreeMap::new();
    for group in &design.groups {
        for node in group.nodes(design) {
            groups.entry(node).or_default().push(&group.name);
        }
    }
    let known: BTreeSet<&str> = design
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    for name in &command.group {
        if !known.contains(name.as_str()) {
            let failure = usage(format!("there is no group `{name}`"));
            return Err(match nearest(name, known.iter().copied()) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure,
            });
        }
    }
    let retired = design.retired(today);
    let any = |wanted: &[String], has: &dyn Fn(&str) -> bool| {
        wanted.is_empty() || wanted.iter().any(|each| has(each))
    };
    let rows = design.nodes.values().filter_map(|node| {
        let groups = groups.get(&node.name).cloned().unwrap_or_default();
        let record = records.get(&node.name);
        let row = NodeRow {
            design: node,
            retired: match retired.get(&node.name) {
                Some(retirement) => Some(&*retirement.reason),
                None => record.and_then(|record| record.retired.as_deref()),
            },
            maintenance: record.and_then(|record| record.maintenance.as_deref()),
            groups,
        };
        let is_wanted = (command.names.is_empty() || globs.is_match(node.name.as_str()))
            && any(&command.group, &|name| {
                row.groups.iter().any(|group| group.as_str() == name)
            })
            && any(&command.tag, &|tag| node.tags.contains(tag))
            && any(&command.rack, &|rack| node.rack.as_deref() == Some(rack))
            && (labels.is_empty()
                || labels
                    .iter()
                    .any(|(key, value)| node.labels.get(*key).map(|is| &**is) == Some(*value)))
            && (!command.retired || row.retired.is_some())
            && (!command.maintenance || row.maintenance.is_some());
        is_wanted.then_some(row)
    });
    Ok(rows.collect())
}
