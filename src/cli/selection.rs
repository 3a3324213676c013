//! Which nodes a command is about: names, globs and the selectors of the design, all of which must agree.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::design::{Design, NodeName};
use crate::diagnostic::nearest;
use crate::record::NodeRecord;
use crate::report::run::{NodeRow, node_rows};

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

fn usage(message: String) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// That a name is none of those that are known, with the one that is nearest.
fn unknown<'n>(message: String, name: &str, known: impl Iterator<Item = &'n str>) -> Failure {
    let failure = usage(message);
    match nearest(name, known) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure,
    }
}

/// The patterns of names, each of which names a node.
fn names(patterns: &[String], design: &Design) -> Result<GlobSet, Failure> {
    let mut globs = GlobSetBuilder::new();
    for name in patterns {
        let glob = Glob::new(name)
            .map_err(|error| usage(format!("`{name}` is not a pattern: {}", error.kind())))?;
        let matcher = glob.compile_matcher();
        let mut nodes = design.nodes.keys().map(NodeName::as_str);
        if !nodes.any(|node| matcher.is_match(node)) {
            let known = design.nodes.keys().map(NodeName::as_str);
            return Err(unknown(format!("`{name}` names no node"), name, known));
        }
        globs.add(glob);
    }
    globs.build().map_err(|error| usage(error.to_string()))
}

/// The criteria that were given, read.
struct Criteria<'c> {
    command: &'c SelectionArguments,
    names: GlobSet,
    labels: Vec<(&'c str, &'c str)>,
}

impl<'c> Criteria<'c> {
    fn read(command: &'c SelectionArguments, design: &Design) -> Result<Self, Failure> {
        let names = names(&command.names, design)?;
        let mut labels = Vec::new();
        for label in &command.label {
            let pair = label.split_once('=').ok_or_else(|| {
                usage(format!("`--label {label}` is not of the form `KEY=VALUE`"))
            })?;
            labels.push(pair);
        }
        let groups: BTreeSet<&str> = design
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .collect();
        let stranger = command
            .group
            .iter()
            .find(|name| !groups.contains(name.as_str()));
        if let Some(name) = stranger {
            let message = format!("there is no group `{name}`");
            return Err(unknown(message, name, groups.into_iter()));
        }
        Ok(Self {
            command,
            names,
            labels,
        })
    }

    /// Whether a node agrees with all of them.
    fn hold(&self, row: &NodeRow<'_>) -> bool {
        let (command, node) = (self.command, row.design);
        let any = |wanted: &[String], has: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|each| has(each))
        };
        let has_label = |(key, value): &(&str, &str)| {
            let is = node.labels.get(*key);
            is.is_some_and(|is| **is == **value)
        };
        (command.names.is_empty() || self.names.is_match(node.name.as_str()))
            && any(&command.group, &|name| {
                row.groups.iter().any(|group| group.as_str() == name)
            })
            && any(&command.tag, &|tag| node.tags.contains(tag))
            && any(&command.rack, &|rack| node.rack.as_deref() == Some(rack))
            && (self.labels.is_empty() || self.labels.iter().any(has_label))
            && (!command.retired || row.retired.is_some())
            && (!command.maintenance || row.maintenance.is_some())
    }
}

/// The nodes in which all criteria that were given agree.
pub(super) fn select<'a>(
    command: &SelectionArguments,
    design: &'a Design,
    records: &'a BTreeMap<NodeName, NodeRecord>,
    today: &str,
) -> Result<Vec<NodeRow<'a>>, Failure> {
    let criteria = Criteria::read(command, design)?;
    let rows = node_rows(design, records, today);
    Ok(rows.filter(|row| criteria.hold(row)).collect())
}
