//! Each node as the design, the records and the machines see it.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use super::FORMAT_VERSION;
use crate::design::{NodeName, Section};
use crate::lifecycle::PowerState;
use crate::observed::{Fact, ObservedNode};
use crate::plan::{Approvals, Change, ChangeKind, UnfinishedRun};
use crate::record::{Join, NodeRecord, Phase, Unproven};
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, counted, json, natural};
use crate::reservation::Reservation;

/// A node from all sides.
#[derive(Clone, Debug, Serialize)]
pub struct StatusRow<'a> {
    /// Which.
    pub node: &'a NodeName,
    /// Whether the design has it.
    pub designed: bool,
    /// Its record, if there is one.
    pub record: Option<&'a NodeRecord>,
    /// The observed state of its machine, if it was observed.
    pub observed: Option<&'a ObservedNode>,
    /// The differences, one phrase each; empty if it is as designed.
    pub differs: Vec<Arc<str>>,
    /// Its reservation, if a person works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<&'a Reservation>,
    /// Whether the next update has the soak first that its last wave owes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owes_soak: bool,
}

/// The differences of a node, one phrase each: drift in words, edits by their field.
#[must_use]
pub fn differences(change: &Change) -> Vec<Arc<str>> {
    // What a service is to set is told with the values that the machine shows; the rest of its document is as designed.
    let is_told = |section| {
        let sets_hardware = change.kind == ChangeKind::Service && !change.reasons.is_empty();
        sets_hardware && section == Section::Firmware
    };
    let fields = change.fields.iter().filter(|field| !is_told(field.section));
    let fields = fields.map(|field| match field.accepted {
        Some(_) => Arc::from(format!("{} differs, as accepted", field.path)),
        None => Arc::from(format!("{} differs", field.path)),
    });
    let words: Vec<Arc<str>> = change.reasons.iter().cloned().chain(fields).collect();
    if words.is_empty() {
        return vec![Arc::from("differs from the applied design")];
    }
    words
}

/// Writes a line a node, in the order of names for people, and how many are as designed.
///
/// # Errors
///
/// Only if `out` fails.
pub fn status(
    out: &mut dyn Write,
    rows: &[StatusRow<'_>],
    unfinished: Option<&UnfinishedRun>,
    palette: Palette,
) -> fmt::Result {
    let mut table = Table::new(&["NODE", "RECORD", "MACHINE", "POWER", "CLUSTER", "DIFFERS"]);
    let mut sorted: Vec<&StatusRow<'_>> = rows.iter().collect();
    sorted.sort_by(|one, other| natural(one.node.as_str(), other.node.as_str()));
    for row in sorted {
        let observed = row.observed;
        table.row(vec![
            Cell::in_role(Role::Strong, row.node.as_str()),
            phase(row.record),
            observed.map_or_else(Cell::none, |node| {
                fact(&node.provision, |state| Cell::new(state.as_str()))
            }),
            observed.map_or_else(Cell::none, |node| {
                fact(&node.power, |power| {
                    Cell::new(match power {
                        PowerState::On => "on",
                        PowerState::Off => "off",
                    })
                })
            }),
            observed.map_or_else(Cell::none, |node| {
                fact(&node.cluster, |cluster| match cluster {
                    None => Cell::none(),
                    Some(node) if !node.ready => Cell::in_role(Role::Error, "not ready"),
                    Some(node) if node.unschedulable => Cell::in_role(Role::Warning, "cordoned"),
                    Some(_) => Cell::in_role(Role::Success, "ready"),
                })
            }),
            notes(row),
        ]);
    }
    if !rows.is_empty() {
        table.write(out, palette)?;
    }
    let unseen = rows.iter().filter(|row| unseen(row).is_some()).count();
    let differing = rows
        .iter()
        .filter(|row| !row.designed || !row.differs.is_empty())
        .count();
    let unproven = Unproven::of(rows.iter().filter_map(|row| row.record));
    let unproven: Vec<String> = unproven.words().collect();
    let (left_out, count) = left_out(rows);
    let as_designed = match differing {
        // The records have what it changes once it has ended.
        0 if unfinished.is_some() => Some("none known to differ".to_owned()),
        0 if unseen > 0 => Some("no difference observed".to_owned()),
        0 if !unproven.is_empty() => Some("none known to differ".to_owned()),
        0 if count == 0 => Some("all as designed".to_owned()),
        0 if count < rows.len() => Some("the others as designed".to_owned()),
        0 => None,
        _ => Some(counted(differing, "differs", "differ")),
    };
    let owing = rows.iter().filter(|row| row.owes_soak).count();
    let owing = (owing > 0).then(|| counted(owing, "owes a soak", "owe a soak"));
    let unseen = (unseen > 0).then(|| format!("{unseen} could not be observed"));
    let parts = [counted(rows.len(), "node", "nodes")].into_iter();
    let parts = parts.chain(left_out).chain(as_designed).chain(unproven);
    let open = unfinished.map(|open| format!("run {} has not ended", open.run));
    let parts: Vec<String> = parts.chain(owing).chain(unseen).chain(open).collect();
    writeln!(out, "{}", parts.join(", "))
}

/// How many machines are left as they are, in words and as a number, since they are retired, in maintenance, reserved or cordoned, and differ in nothing
/// else that is known.
fn left_out(rows: &[StatusRow<'_>]) -> (Vec<String>, usize) {
    let rows = rows.iter();
    let rows = rows.filter(|row| row.designed && row.differs.is_empty());
    let (retired, others): (Vec<_>, Vec<_>) = rows.partition(|row| retired(row).is_some());
    let (kept, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|row| maintenance(row).is_some());
    let (reserved, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|row| row.reservation.is_some());
    let cordoned = others.iter().filter(|row| is_cordoned(row));
    let counts = [
        (retired.len(), "retired"),
        (kept.len(), "in maintenance"),
        (reserved.len(), "reserved"),
        (cordoned.count(), "cordoned"),
    ];
    let words = counts.iter().filter(|(count, _)| *count > 0);
    let words = words.map(|(count, word)| format!("{count} {word}"));
    (words.collect(), counts.iter().map(|(count, _)| count).sum())
}

/// Whether no pod is scheduled on the node of a machine.
fn is_cordoned(row: &StatusRow<'_>) -> bool {
    let cluster = row.observed.map(|node| &node.cluster);
    matches!(cluster, Some(Fact::Known(Some(node))) if node.unschedulable)
}

/// Why a machine is retired, as observed or recorded.
fn retired<'a>(row: &'a StatusRow<'_>) -> Option<&'a str> {
    let observed = row.observed.and_then(|node| node.retired.as_deref());
    observed.or_else(|| row.record.and_then(|record| record.retired.as_deref()))
}

/// Why a machine is in maintenance, as observed or recorded.
fn maintenance<'a>(row: &'a StatusRow<'_>) -> Option<&'a str> {
    let observed = row.observed.and_then(|node| node.maintenance.as_deref());
    observed.or_else(|| row.record.and_then(|record| record.maintenance.as_deref()))
}

/// Why a machine, or its node, could not be observed.
fn unseen<'a>(row: &'a StatusRow<'_>) -> Option<&'a str> {
    let node = row.observed?;
    let has_joined = row
        .record
        .is_some_and(|record| record.join == Some(Join::Joined));
    match (node.unobserved(), &node.cluster) {
        (Some(why), _) => Some(why),
        (None, Fact::Unknown(why)) if has_joined => Some(why),
        (None, Fact::Unknown(_) | Fact::Known(_)) => None,
    }
}

fn notes(row: &StatusRow<'_>) -> Cell {
    let mut notes: Vec<String> = row.differs.iter().map(ToString::to_string).collect();
    if !row.designed {
        notes.insert(0, "not in the design".to_owned());
    }
    let (observed, record) = (row.observed, row.record);
    if record.is_some_and(|record| record.awaited_since().is_some())
        && !notes.iter().any(|note| note.contains("joined"))
    {
        notes.push("has not joined its clusters yet".to_owned());
    }
    if row.owes_soak
        && let Some(run) = record.and_then(|record| record.soaking.as_ref())
    {
        notes.push(format!("owes the soak of run {run}"));
    }
    if let Some(record) = record.filter(|record| !record.assumed().is_empty()) {
        let sections: Vec<&str> = record.assumed().iter().map(|each| each.as_str()).collect();
        let by = record.assumed_by();
        notes.push(format!("{by}, assumed: {}", sections.join(", ")));
    }
    if let Some(source) = observed.and_then(|node| node.boots_from.as_deref()) {
        notes.push(format!("will boot from {source}"));
    }
    let error = record.and_then(|record| record.last_error.as_deref());
    // What has become of others since is not known from there.
    let in_run = record.map_or_else(String::new, |record| format!("in run {}: ", record.run));
    let reserved = row.reservation.map(ToString::to_string);
    for (word, before, reason) in [
        ("", "not observed: ", unseen(row)),
        ("retired", "retired: ", retired(row)),
        ("maintenance", "maintenance: ", maintenance(row)),
        ("", "", reserved.as_deref()),
        ("", &*in_run, error),
    ] {
        // The plan may have said it, and one may be the reason of another.
        let is_said = |reason| {
            notes
                .iter()
                .any(|note| note.contains(word) && note.contains(reason))
        };
        if let Some(reason) = reason.filter(|reason| !is_said(*reason)) {
            notes.push(format!("{before}{reason}"));
        }
    }
    if notes.is_empty() {
        Cell::none()
    } else {
        Cell::in_role(Role::Warning, notes.join("; "))
    }
}

fn phase(record: Option<&NodeRecord>) -> Cell {
    let is_torn_down = record.is_some_and(|record| record.torn_down.is_some());
    match record.map(|record| record.phase) {
        None => Cell::none(),
        Some(Phase::NotStarted) if is_torn_down => Cell::new("torn down"),
        Some(Phase::NotStarted) => Cell::new("not started"),
        Some(Phase::Prepared) => Cell::new("prepared"),
        Some(Phase::Deployed) => Cell::in_role(Role::Success, "deployed"),
        Some(Phase::Failed) => Cell::in_role(Role::Error, "failed"),
        Some(Phase::Unknown) => Cell::in_role(Role::Warning, "unknown"),
    }
}

fn fact<T>(fact: &Fact<T>, known: impl FnOnce(&T) -> Cell) -> Cell {
    match fact {
        Fact::Known(value) => known(value),
        Fact::Unknown(_) => Cell::in_role(Role::Warning, "unknown"),
    }
}

#[derive(Serialize)]
struct All<'a> {
    format_version: u32,
    nodes: &'a [StatusRow<'a>],
    #[serde(skip_serializing_if = "Approvals::is_empty")]
    approvals: &'a Approvals,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_run: Option<&'a UnfinishedRun>,
}

/// Writes the nodes as one JSON object: `format_version`, `nodes`, the `approvals` of the pending plan if it needs any, and,
/// where a run has not ended, `unfinished_run`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn status_json(
    out: &mut dyn Write,
    rows: &[StatusRow<'_>],
    approvals: &Approvals,
    unfinished_run: Option<&UnfinishedRun>,
) -> fmt::Result {
    json::pretty(
        out,
        &All {
            format_version: FORMAT_VERSION,
            nodes: rows,
            approvals,
            unfinished_run,
        },
    )
}
