//! The report at the end of a run, by group and node, with what failed, why, and what to do next.

use std::fmt::{self, Write};

use super::{milliseconds, role, words};
use crate::apply::{GroupResult, NodeResult, RunReport};
use crate::plan::Standing;
use crate::record::Counts;
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, Visible};

/// Writes the report; nodes of which all was done are counted, the others are listed.
///
/// # Errors
///
/// Only where `out` fails.
pub fn report(out: &mut dyn Write, report: &RunReport, palette: Palette) -> fmt::Result {
    if !report.groups.is_empty() {
        let mut table = Table::new(&["GROUP", "RESULT", "NODES", "REASON"]);
        for group in &report.groups {
            table.row(group_row(group));
        }
        table.write(out, palette)?;
        writeln!(out)?;
    }
    let unfinished: Vec<&NodeResult> = report
        .nodes
        .iter()
        .filter(|node| !node.complete || node.message.is_some())
        .collect();
    if !unfinished.is_empty() {
        let mut table = Table::new(&["NODE", "STANDING", "STEP", "TIME", "REASON"]);
        for node in unfinished {
            table.row(node_row(node));
        }
        table.write(out, palette)?;
        writeln!(out)?;
    }
    for next in &report.next {
        writeln!(
            out,
            "{} {}",
            palette.paint(Role::Hint, "next:"),
            Visible(next)
        )?;
    }
    if let Some(tag) = &report.tag {
        writeln!(out, "Tagged {}", Visible(tag))?;
    }
    let verdict = words(report.outcome);
    writeln!(
        out,
        "Run {} {}: {}, in {}",
        Visible(report.run.as_str()),
        palette.paint(role(report.outcome), verdict),
        counts(&report.counts),
        milliseconds(report.duration_ms)
    )
}

/// `40 succeeded, 2 failed, 1 not started`.
pub(super) fn counts(counts: &Counts) -> String {
    let mut text = format!("{} succeeded, {} failed", counts.succeeded, counts.failed);
    if counts.not_started > 0 {
        let _ = write!(text, ", {} not started", counts.not_started);
    }
    text
}

fn group_row(group: &GroupResult) -> Vec<Cell> {
    let result = match (group.succeeded, group.critical) {
        (true, _) => Cell::in_role(Role::Success, "succeeded"),
        (false, true) => Cell::in_role(Role::Error, "FAILED (critical)"),
        (false, false) => Cell::in_role(Role::Error, "FAILED"),
    };
    let nodes: Vec<String> = group
        .standings
        .iter()
        .map(|(standing, number)| format!("{number} {}", standing_words(*standing)))
        .collect();
    vec![
        Cell::new(group.group.as_str()),
        result,
        Cell::or_none(Some(nodes.join(", "))),
        Cell::or_none(group.reason.as_deref()),
    ]
}

fn node_row(node: &NodeResult) -> Vec<Cell> {
    let standing = standing_words(node.standing);
    vec![
        Cell::new(node.node.as_str()),
        match node.standing {
            Standing::Failed => Cell::in_role(Role::Error, standing),
            _ => Cell::in_role(Role::Warning, standing),
        },
        Cell::or_none(node.failed_step.as_deref()),
        Cell::new(milliseconds(node.duration_ms)),
        Cell::or_none(node.message.as_deref()),
    ]
}

fn standing_words(standing: Standing) -> &'static str {
    match standing {
        Standing::NotStarted => "not started",
        Standing::Prepared => "prepared",
        Standing::Deployed => "deployed",
        Standing::Failed => "failed",
    }
}
