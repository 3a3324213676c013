//! The parts of a plan, each with its steps and the parts that it waits for.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::Serialize;

use super::super::table::{Cell, Table};
use super::super::{Palette, Role, Visible, counted, json};
use crate::plan::{Part, Parts, Plan, digest};
use crate::step::StepId;

/// The version of the format.
const FORMAT_VERSION: u32 = 1;

/// The parts, as JSON.
#[derive(Serialize)]
struct WrittenParts<'p> {
    format_version: u32,
    site: &'p str,
    /// The digest of the plan.
    plan: String,
    nodes_per_part: usize,
    /// With the begin and the end of the run.
    tasks: usize,
    parts: Vec<WrittenPart<'p>>,
}

#[derive(Serialize)]
struct WrittenPart<'p> {
    id: &'p str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<u32>,
    nodes: Vec<&'p str>,
    steps: Vec<&'p StepId>,
    after: Vec<&'p str>,
}

/// The nodes of a part, sorted.
pub(in crate::report) fn nodes<'p>(plan: &'p Plan, part: &Part) -> Vec<&'p str> {
    let steps = part.steps.iter();
    let steps = steps.filter_map(|step| plan.steps.get(step.0 as usize));
    let nodes = steps.filter_map(|step| Some(step.id.node.as_ref()?.as_str()));
    nodes.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Writes the parts as JSON.
///
/// # Errors
///
/// Those of `out`.
pub fn parts_json(out: &mut dyn Write, plan: &Plan, parts: &Parts) -> fmt::Result {
    let written = parts.parts.iter().map(|part| WrittenPart {
        id: &part.id,
        kind: part.kind.as_str(),
        group: part.group.as_ref().map(|group| group.as_str()),
        wave: part.wave,
        nodes: nodes(plan, part),
        steps: part
            .steps
            .iter()
            .filter_map(|step| Some(&plan.steps.get(step.0 as usize)?.id))
            .collect(),
        after: part.after.iter().map(|at| &*parts.parts[*at].id).collect(),
    });
    let written = WrittenParts {
        format_version: FORMAT_VERSION,
        site: plan.site.as_str(),
        plan: digest(plan).to_string(),
        nodes_per_part: parts.nodes_per_part,
        tasks: parts.tasks(),
        parts: written.collect(),
    };
    json::pretty(out, &written)
}

/// Writes the parts as a table.
///
/// # Errors
///
/// Those of `out`.
pub fn parts(out: &mut dyn Write, plan: &Plan, parts: &Parts, palette: Palette) -> fmt::Result {
    let site = Visible(plan.site.as_str()).to_string();
    writeln!(
        out,
        "{}: {}, of at most {} each; {} with the begin and the end of the run",
        palette.paint(Role::Strong, &format!("Plan of site {site}")),
        counted(parts.parts.len(), "part", "parts"),
        counted(parts.nodes_per_part, "node", "nodes"),
        counted(parts.tasks(), "task", "tasks"),
    )?;
    writeln!(out)?;
    let mut table = Table::new(&["PART", "KIND", "STEPS", "NODES", "AFTER"]);
    for part in &parts.parts {
        let after = part.after.iter().map(|at| &*parts.parts[*at].id);
        table.row(vec![
            Cell::in_role(Role::Strong, &part.id),
            Cell::new(part.kind.as_str()),
            Cell::new(part.steps.len().to_string()),
            Cell::or_none(Some(few(&nodes(plan, part)))),
            Cell::or_none(Some(few(&after.collect::<Vec<_>>()))),
        ]);
    }
    table.write(out, palette)
}

/// A few of some names, and how many more there are.
pub(in crate::report) fn few(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    match names {
        [first, second, third, _, _, ..] => {
            let more = names.len() - SHOWN;
            format!("{first}, {second}, {third} and {more} more")
        }
        names => names.join(", "),
    }
}
