//! The report at the end of a run, by group and node, with what failed, why, and what to do next.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use rustc_hash::FxHashMap;

use super::{milliseconds, role};
use crate::design::NodeName;
use crate::plan::Standing;
use crate::record::{Counts, Outcome};
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, Visible, counted};
use crate::run::{Completion, GroupResult, NodeResult, RunReport, Undrained};

/// Groups that have a row each; of more, those that did not succeed do, and the others are counted.
const FEW_GROUPS: usize = 20;
/// Groups that failed which have a row each.
const MOST_FAILED_GROUPS: usize = 40;
/// Nodes that have a row each; of more, those with a reason in common are counted.
const FEW_NODES: usize = 40;
/// Nodes with a reason in common that have a row each.
const MOST_OF_A_REASON: usize = 5;
/// Reasons that have rows.
const MOST_REASONS: usize = 20;

/// Writes the report; nodes of which all was done are counted, the others are listed, and if there are many,
/// those with a reason in common are counted too, unless it is to be `full`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn report(
    out: &mut dyn Write,
    report: &RunReport,
    palette: Palette,
    full: bool,
) -> fmt::Result {
    if !report.groups.is_empty() {
        groups(&report.groups, full).write(out, palette)?;
        writeln!(out)?;
    }
    let unfinished: Vec<&NodeResult> = report.unfinished().collect();
    if !unfinished.is_empty() {
        nodes(&unfinished, full).write(out, palette)?;
        writeln!(out)?;
    }
    if !full && (unfinished.len() > FEW_NODES || report.groups.len() > FEW_GROUPS) {
        let run = Visible(report.run.as_str());
        writeln!(out, "`trueup show {run} --full` lists all\n")?;
    }
    let machines = |nodes: &[NodeName]| counted(nodes.len(), "machine", "machines");
    let (unverified, drifted) = (&report.unverified, &report.drifted);
    let left_out = &report.left_out;
    let told = [
        (
            "unverified:",
            unverified,
            format!(
                "nothing proves that {} changed by this run are the ones that are meant",
                machines(unverified)
            ),
        ),
        (
            "drift:",
            drifted,
            format!(
                "this run left {} other than designed or applied (`trueup plan` tells how)",
                machines(drifted)
            ),
        ),
        (
            "left out:",
            left_out,
            format!(
                "this run did nothing to {} that its plan would change (`trueup plan` tells why)",
                machines(left_out)
            ),
        ),
    ];
    for (word, nodes, text) in told.iter().filter(|(_, nodes, _)| !nodes.is_empty()) {
        let names = named(nodes, full);
        writeln!(
            out,
            "{} {text}: {names}",
            palette.paint(Role::Warning, word)
        )?;
    }
    if let Some(why) = &report.halted {
        let word = palette.paint(Role::Error, "halted:");
        writeln!(out, "{word} {}, and nothing more was begun", Visible(why))?;
    }
    for undrained in &report.undrained {
        writeln!(
            out,
            "{} {}",
            palette.paint(Role::Warning, "pods left:"),
            Visible(&undrained_words(undrained, full))
        )?;
    }
    for line in &report.undelivered {
        let word = palette.paint(Role::Warning, "not told:");
        writeln!(out, "{word} {}", Visible(line))?;
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
        let unproven: Vec<String> = report.unproven.words().collect();
        let unproven = match unproven.is_empty() {
            true => String::new(),
            false => format!(": {}", unproven.join(", ")),
        };
        writeln!(out, "Tagged {}{unproven}", Visible(tag))?;
    }
    let counts = &report.counts;
    let verdict = match report.outcome {
        Outcome::Failed if counts.failed > 0 && counts.succeeded == 0 => {
            "failed without a single success"
        }
        outcome => outcome.words(),
    };
    writeln!(
        out,
        "Run {} {}: {}, in {}",
        Visible(report.run.as_str()),
        palette.paint(role(report.outcome), verdict),
        self::counts(counts),
        milliseconds(report.duration_ms)
    )
}

/// The names of machines; of many, the first.
pub(super) fn named(nodes: &[NodeName], full: bool) -> String {
    let shown = match full || nodes.len() <= FEW_NODES {
        true => nodes.len(),
        false => MOST_OF_A_REASON,
    };
    let names = nodes[..shown].iter();
    let names: Vec<String> = names
        .map(|node| Visible(node.as_str()).to_string())
        .collect();
    let names = names.join(", ");
    match nodes.len() - shown {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// That a drain has left pods on its node, with the names of all or the first.
pub(in crate::report) fn undrained_words(undrained: &Undrained, full: bool) -> String {
    let Undrained { node, left } = undrained;
    let names = match full {
        true => &left.names[..],
        false => &left.names[..left.names.len().min(MOST_OF_A_REASON)],
    };
    let more = match left.count - names.len().min(left.count) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the drain of {node} ended with {} on it, as `--on-drain-timeout continue` allows: {}{more}",
        counted(left.count, "pod", "pods"),
        names.join(", ")
    )
}

/// `40 succeeded, 2 failed, 1 not started`.
pub(super) fn counts(counts: &Counts) -> String {
    if *counts == Counts::default() {
        return "no machine to change".to_owned();
    }
    let mut text = format!("{} succeeded, {} failed", counts.succeeded, counts.failed);
    for (number, words) in [
        (counts.half_done, "half-done"),
        (counts.not_started, "not started"),
        (counts.may_be_begun, "not known to have begun"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {number} {words}");
        }
    }
    text
}

fn groups(groups: &[GroupResult], full: bool) -> Table {
    let mut table = Table::new(&["GROUP", "RESULT", "NODES", "REASON"]);
    let folds = !full && groups.len() > FEW_GROUPS;
    let mut failed_rows = 0;
    let mut rest: [Vec<&GroupResult>; 3] = Default::default();
    for group in groups {
        if folds && (group.succeeded || failed_rows == MOST_FAILED_GROUPS) {
            let kind = usize::from(group.succeeded) * 2 + usize::from(group.stopped);
            rest[kind].push(group);
            continue;
        }
        failed_rows += usize::from(!group.succeeded);
        table.row(group_row(group));
    }
    for rest in rest.iter().filter(|rest| !rest.is_empty()) {
        let mut all = BTreeMap::new();
        for (standing, number) in rest.iter().flat_map(|group| &group.standings) {
            *all.entry(*standing).or_default() += number;
        }
        let more = match failed_rows {
            0 => counted(rest.len(), "group", "groups"),
            _ => counted(rest.len(), "more group", "more groups"),
        };
        table.row(vec![
            Cell::new(more),
            result(rest[0]),
            Cell::or_none(Some(standings(&all))),
            Cell::none(),
        ]);
    }
    table
}

fn nodes(unfinished: &[&NodeResult], full: bool) -> Table {
    let mut table = Table::new(&["NODE", "STANDING", "STEP", "TIME", "REASON"]);
    if full || unfinished.len() <= FEW_NODES {
        for node in unfinished {
            table.row(node_row(node));
        }
        return table;
    }
    let mut positions: FxHashMap<_, usize> = FxHashMap::default();
    let mut reasons: Vec<Vec<&NodeResult>> = Vec::new();
    for node in unfinished {
        let reason = (node.standing, node.reason());
        let position = *positions.entry(reason).or_insert_with(|| {
            reasons.push(Vec::new());
            reasons.len() - 1
        });
        reasons[position].push(node);
    }
    // What most nodes have in common comes first.
    reasons.sort_by_key(|nodes| Reverse(nodes.len()));
    for nodes in reasons.iter().take(MOST_REASONS) {
        // One more row is no longer than the row that counts it.
        let shown = match nodes.len() <= MOST_OF_A_REASON + 1 {
            true => nodes.len(),
            false => MOST_OF_A_REASON,
        };
        for node in &nodes[..shown] {
            table.row(node_row(node));
        }
        if shown < nodes.len() {
            let mut row = node_row(nodes[shown]);
            row[0] = Cell::new(format!("… and {} more", nodes.len() - shown));
            row[2] = Cell::none();
            row[3] = Cell::none();
            table.row(row);
        }
    }
    let rest: usize = reasons.iter().skip(MOST_REASONS).map(Vec::len).sum();
    if rest > 0 {
        let mut row = vec![Cell::new(format!("… and {rest} more"))];
        row.extend((0..3).map(|_| Cell::none()));
        row.push(Cell::new("for other reasons"));
        table.row(row);
    }
    table
}

fn result(group: &GroupResult) -> Cell {
    match group {
        _ if group.succeeded => Cell::in_role(Role::Success, "succeeded"),
        _ if group.stopped => Cell::in_role(Role::Warning, "not ended"),
        _ if group.critical => Cell::in_role(Role::Error, "FAILED (critical)"),
        _ => Cell::in_role(Role::Error, "FAILED"),
    }
}

fn standings(standings: &BTreeMap<Standing, usize>) -> String {
    let nodes: Vec<String> = standings
        .iter()
        .map(|(standing, number)| format!("{number} {}", standing_words(*standing)))
        .collect();
    nodes.join(", ")
}

fn group_row(group: &GroupResult) -> Vec<Cell> {
    vec![
        Cell::new(group.group.as_str()),
        result(group),
        Cell::or_none(Some(standings(&group.standings))),
        Cell::or_none(group.reason.as_deref()),
    ]
}

fn node_row(node: &NodeResult) -> Vec<Cell> {
    vec![
        Cell::new(node.node.as_str()),
        standing(node),
        Cell::or_none(node.step()),
        Cell::or_none(node.begun.then(|| milliseconds(node.duration_ms))),
        Cell::or_none(node.reason()),
    ]
}

/// How a node stands.
pub(super) fn standing(node: &NodeResult) -> Cell {
    let role = match node.standing {
        Standing::Failed | Standing::Unknown => Role::Error,
        Standing::NotStarted | Standing::Prepared | Standing::Deployed if !node.complete => {
            Role::Warning
        }
        Standing::NotStarted | Standing::Prepared | Standing::Deployed => Role::Success,
    };
    let words = match (node.standing, node.completion()) {
        (Standing::Deployed, Completion::NotStarted) => "deployed before",
        (Standing::Deployed, Completion::HalfDone) => "deployed, half-done",
        (Standing::NotStarted, Completion::Complete) => "not deployed",
        (standing, _) => standing_words(standing),
    };
    Cell::in_role(role, words)
}

fn standing_words(standing: Standing) -> &'static str {
    match standing {
        Standing::NotStarted => "not started",
        Standing::Prepared => "prepared",
        Standing::Deployed => "deployed",
        Standing::Failed => "failed",
        Standing::Unknown => "unknown",
    }
}
