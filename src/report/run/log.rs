//! The runs of a site: all of them as a table, and one of them in full.

use std::fmt::{self, Write};

use serde::Serialize;

use super::ending::{counts, named, report, standing};
use super::{FORMAT_VERSION, role};
use crate::design::{NodeName, RunId, Rung, Section};
use crate::diff::FieldChange;
use crate::plan::{Change, ChangeKind, RunState, UnfinishedRun};
use crate::record::{Outcome, Requested, RunRecord, RunSignature, SignatureVerdict};
use crate::report::plan::words;
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, Visible, counted, json, short_id};
use crate::run::{NodeResult, RunReport};

/// A run, and how its signature was found.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// Its record.
    #[serde(flatten)]
    pub record: RunRecord,
    /// The signature of its newest record; `None`: it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<RunSignature>,
}

/// Writes the runs as they are given: when, what, which revision, how it ended; who approved them and who has signed them,
/// if any run has approvals or a signature.
///
/// # Errors
///
/// Only if `out` fails.
pub fn log(
    out: &mut dyn Write,
    runs: &[RunRow],
    unfinished: Option<&UnfinishedRun>,
    palette: Palette,
) -> fmt::Result {
    if runs.is_empty() {
        return writeln!(out, "Nothing was applied yet");
    }
    let has_approvals = runs.iter().any(|run| !run.record.approvals.is_empty());
    let has_signatures = runs.iter().filter_map(|run| run.signature.as_ref());
    let has_signatures = has_signatures
        .map(|signature| signature.verdict)
        .any(|verdict| verdict != SignatureVerdict::Unsigned);
    let mut titles = vec![
        "STARTED", "RUN", "BY", "ACTION", "REVISION", "OUTCOME", "NODES", "TAG",
    ];
    titles.extend(has_approvals.then_some("APPROVED BY"));
    titles.extend(has_signatures.then_some("SIGNED BY"));
    let mut table = Table::new(&titles);
    for RunRow {
        record: run,
        signature,
    } in runs
    {
        let mut outcome = outcome_now(run, unfinished).to_owned();
        if run.partial {
            outcome.push_str(" (partial)");
        }
        if run.halted.is_some() {
            outcome.push_str(" (halted)");
        }
        let mut row = vec![
            Cell::new(minutes(&run.started)),
            Cell::new(run.run.as_str()),
            Cell::or_none(operator(run)),
            Cell::new(&run.action),
            Cell::new(short_id(&run.revision)),
            Cell::in_role(role(run.outcome), outcome),
            Cell::new(counts(&run.counts)),
            Cell::or_none(run.tag.as_deref()),
        ];
        row.extend(has_approvals.then(|| approvers(run)));
        row.extend(has_signatures.then(|| signed(signature.as_ref())));
        table.row(row);
    }
    table.write(out, palette)
}

/// The operator of a run: of one over the service the caller, whom its process only serves.
fn operator(run: &RunRecord) -> Option<&str> {
    match &run.requested {
        Some(requested) => Some(&*requested.subject),
        None => run.actor.as_deref(),
    }
}

/// How a run ended, or why it has not.
fn outcome_now(run: &RunRecord, unfinished: Option<&UnfinishedRun>) -> &'static str {
    let unfinished = unfinished.filter(|other| other.run == run.run && !run.outcome.has_ended());
    match unfinished.map(|unfinished| unfinished.state) {
        Some(RunState::Interrupted) => "interrupted",
        Some(RunState::EndedElsewhere) => "ended elsewhere",
        Some(RunState::Running) | None => run.outcome.words(),
    }
}

/// How a run left a node.
#[derive(Debug)]
pub struct NodeRun {
    /// The run.
    pub record: RunRecord,
    /// The node in its report.
    pub result: NodeResult,
    /// Its change in the plan of the run; `None`: none, or the plan cannot be read.
    pub change: Option<Change>,
}

/// Writes how each run left a node, as the runs are given.
///
/// # Errors
///
/// Only if `out` fails.
pub fn node_history(out: &mut dyn Write, runs: &[NodeRun], palette: Palette) -> fmt::Result {
    if runs.is_empty() {
        return writeln!(out, "No run that has ended was about it");
    }
    let mut table = Table::new(&[
        "STARTED", "RUN", "BY", "ACTION", "REVISION", "CHANGE", "STANDING", "STEP", "REASON",
    ]);
    for NodeRun {
        record,
        result,
        change,
    } in runs
    {
        table.row(vec![
            Cell::new(minutes(&record.started)),
            Cell::new(record.run.as_str()),
            Cell::or_none(operator(record)),
            Cell::new(&record.action),
            Cell::new(short_id(&record.revision)),
            Cell::or_none(change.as_ref().map(changed)),
            standing(result),
            Cell::or_none(result.step()),
            Cell::or_none(result.reason()),
        ]);
    }
    table.write(out, palette)
}

/// The fields of a change that one line of a table has.
const SHOWN_FIELDS: usize = 2;

/// A change in one line: `redeploy: platform.image ubuntu-24.04 → ubuntu-26.04`.
fn changed(change: &Change) -> String {
    let verb = words::verb(change);
    if change.fields.is_empty() {
        return verb;
    }
    let mut fields: Vec<String> = change
        .fields
        .iter()
        .take(SHOWN_FIELDS)
        .map(|field| {
            let [before, after] =
                [&field.before, &field.after].map(|value| words::value(value.as_deref()));
            format!("{} {before} → {after}", field.path)
        })
        .collect();
    let more = change.fields.len() - fields.len();
    if more > 0 {
        fields.push(format!(
            "and {}",
            counted(more, "more field", "more fields")
        ));
    }
    format!("{verb}: {}", fields.join(", "))
}

/// The same as one JSON object: `format_version`, `node` and `runs`, each with the node's part of its report as `result`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn node_history_json(out: &mut dyn Write, node: &NodeName, runs: &[NodeRun]) -> fmt::Result {
    #[derive(Serialize)]
    struct One<'a> {
        run: &'a RunId,
        started: &'a str,
        action: &'a str,
        revision: &'a str,
        outcome: Outcome,
        result: &'a NodeResult,
        #[serde(skip_serializing_if = "Option::is_none")]
        change: Option<NodeChange<'a>>,
    }
    #[derive(Serialize)]
    struct NodeChange<'a> {
        kind: ChangeKind,
        #[serde(skip_serializing_if = "Option::is_none")]
        does: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rung: Option<Rung>,
        fields: Vec<NodeField<'a>>,
    }
    #[derive(Serialize)]
    struct NodeField<'a> {
        section: Section,
        path: &'a str,
        before: Option<&'a str>,
        after: Option<&'a str>,
    }
    fn node_field(field: &FieldChange) -> NodeField<'_> {
        NodeField {
            section: field.section,
            path: &field.path,
            before: field.before.as_deref(),
            after: field.after.as_deref(),
        }
    }
    #[derive(Serialize)]
    struct All<'a> {
        format_version: u32,
        node: &'a NodeName,
        runs: Vec<One<'a>>,
    }
    let each = runs.iter().map(
        |NodeRun {
             record,
             result,
             change,
         }| One {
            run: &record.run,
            started: &record.started,
            action: &record.action,
            revision: &record.revision,
            outcome: record.outcome,
            result,
            change: change.as_ref().map(|change| NodeChange {
                kind: change.kind,
                does: change.does.as_deref(),
                rung: change.rung,
                fields: change.fields.iter().map(node_field).collect(),
            }),
        },
    );
    json::pretty(
        out,
        &All {
            format_version: FORMAT_VERSION,
            node,
            runs: each.collect(),
        },
    )
}

/// The people who have approved a run.
fn approvers(run: &RunRecord) -> Cell {
    let names: Vec<&str> = run.approvals.iter().map(|each| &*each.by).collect();
    Cell::or_none((!names.is_empty()).then(|| names.join(", ")))
}

/// The signer of a run.
fn signed(signature: Option<&RunSignature>) -> Cell {
    match signature.map(|signature| (signature.verdict, &signature.by)) {
        Some((SignatureVerdict::Good, Some(by))) => Cell::in_role(Role::Success, &**by),
        Some((SignatureVerdict::Bad, _)) => Cell::in_role(Role::Error, "BAD"),
        Some((SignatureVerdict::Unchecked, _)) => Cell::new("not verified"),
        _ => Cell::none(),
    }
}

/// A signature in words, with the part of the palette for it; `None` if there is nothing to say.
pub(in crate::report) fn signature_words(signature: &RunSignature) -> Option<(Role, String)> {
    let by = signature.by.as_deref().unwrap_or("an allowed signer");
    let why = signature.reason.as_deref().unwrap_or("it does not count");
    match signature.verdict {
        SignatureVerdict::Good => Some((Role::Success, format!("{by}, verified"))),
        SignatureVerdict::Bad => Some((Role::Error, format!("BAD: {why}"))),
        SignatureVerdict::Unchecked => {
            let why = signature.reason.as_deref();
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            Some((Role::Warning, format!("not verified{why}")))
        }
        SignatureVerdict::Unsigned => None,
    }
}

/// `2026-11-21T06:41:03.120Z` as `2026-11-21 06:41`.
fn minutes(time: &str) -> String {
    match (time.get(..10), time.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day} {minute}"),
        _ => time.to_owned(),
    }
}

#[derive(Serialize)]
struct Runs<'a> {
    format_version: u32,
    runs: &'a [RunRow],
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_run: Option<&'a UnfinishedRun>,
}

/// Writes the runs as one JSON object: `format_version`, `runs` and, where a run has not ended, `unfinished_run`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn log_json(
    out: &mut dyn Write,
    runs: &[RunRow],
    unfinished_run: Option<&UnfinishedRun>,
) -> fmt::Result {
    json::pretty(
        out,
        &Runs {
            format_version: FORMAT_VERSION,
            runs,
            unfinished_run,
        },
    )
}

/// The request to a service that a run was made for.
#[must_use]
pub fn requested(request: &Requested) -> String {
    let Requested {
        subject,
        by,
        id,
        marker,
        named: _,
    } = request;
    let marker = marker.as_deref().map(|marker| format!(", marker {marker}"));
    format!(
        "{subject} ({by}), request {id}{}",
        marker.unwrap_or_default()
    )
}

/// Writes one run in full: its record, then its report if it has one, every group and node of it if it is to be `full`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn show(
    out: &mut dyn Write,
    row: &RunRow,
    ending: Option<&RunReport>,
    palette: Palette,
    full: bool,
) -> fmt::Result {
    let RunRow {
        record: run,
        signature,
    } = row;
    let outcome = palette.paint(role(run.outcome), run.outcome.words());
    let title = palette.paint(Role::Strong, Visible(run.run.as_str()));
    writeln!(out, "Run {title}: {outcome}")?;
    let requested = run.requested.as_deref().map(requested);
    let rows = [
        ("site", Some(run.site.as_str())),
        ("action", Some(&*run.action)),
        ("revision", Some(&*run.revision)),
        ("documents", Some(&*run.site_digest)),
        ("plan", Some(&*run.plan_digest)),
        ("by", run.actor.as_deref()),
        ("for", requested.as_deref()),
        ("started", Some(&*run.started)),
        ("ended", run.ended.as_deref()),
        ("tag", run.tag.as_deref()),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            writeln!(
                out,
                "  {} {}",
                palette.paint(Role::Faint, format!("{name:<9}")),
                Visible(value)
            )?;
        }
    }
    if let Some(ticket) = &run.ticket {
        let name = palette.paint(Role::Faint, format!("{:<9}", "ticket"));
        writeln!(out, "  {name} {ticket}")?;
    }
    for approval in &run.approvals {
        let name = palette.paint(Role::Faint, format!("{:<9}", "approved"));
        writeln!(out, "  {name} {}", Visible(&approval.by))?;
    }
    if let Some(broken) = &run.break_glass {
        let line = format!("break-glass by {}: {}", broken.by, broken.reason);
        writeln!(
            out,
            "  {}",
            palette.paint(Role::Destructive, Visible(&line))
        )?;
    }
    if let Some((role, words)) = signature.as_ref().and_then(signature_words) {
        let name = palette.paint(Role::Faint, format!("{:<9}", "signed"));
        writeln!(out, "  {name} {}", palette.paint(role, Visible(&words)))?;
    }
    if run.partial {
        writeln!(out, "  a part of the plan only, so no success of the site")?;
    }
    match ending {
        Some(ending) => {
            let done = ending.nodes.iter().filter(|node| node.complete);
            let done: Vec<NodeName> = done.map(|node| node.node.clone()).collect();
            if !done.is_empty() {
                let name = palette.paint(Role::Faint, "succeeded");
                writeln!(out, "  {name} {}", named(&done, full))?;
            }
            writeln!(out)?;
            report(out, ending, palette, full)
        }
        None => writeln!(out, "  {}", counts(&run.counts)),
    }
}

#[derive(Serialize)]
struct Run<'a> {
    format_version: u32,
    run: &'a RunRow,
    report: Option<&'a RunReport>,
}

/// Writes one run as one JSON object: `format_version`, `run` and `report`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn show_json(out: &mut dyn Write, run: &RunRow, report: Option<&RunReport>) -> fmt::Result {
    json::pretty(
        out,
        &Run {
            format_version: FORMAT_VERSION,
            run,
            report,
        },
    )
}
