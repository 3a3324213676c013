//! The runs of a site: all of them as a table, and one of them in full.

use std::fmt::{self, Write};

use serde::Serialize;

use super::ending::{counts, report};
use super::event::short;
use super::{FORMAT_VERSION, role, words};
use crate::plan::UnfinishedRun;
use crate::record::RunRecord;
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, Visible, json};
use crate::run::RunReport;

/// Writes the runs as they are given: when, what, which revision, how it ended.
///
/// # Errors
///
/// Only where `out` fails.
pub fn log(out: &mut dyn Write, runs: &[RunRecord], palette: Palette) -> fmt::Result {
    if runs.is_empty() {
        return writeln!(out, "Nothing was applied yet");
    }
    let mut table = Table::new(&[
        "STARTED", "RUN", "BY", "ACTION", "REVISION", "OUTCOME", "NODES", "TAG",
    ]);
    for run in runs {
        let mut outcome = words(run.outcome).to_owned();
        if run.partial {
            outcome.push_str(" (partial)");
        }
        table.row(vec![
            Cell::new(minutes(&run.started)),
            Cell::new(run.run.as_str()),
            Cell::or_none(run.actor.as_deref()),
            Cell::new(&run.action),
            Cell::new(short(&run.revision)),
            Cell::in_role(role(run.outcome), outcome),
            Cell::new(counts(&run.counts)),
            Cell::or_none(run.tag.as_deref()),
        ]);
    }
    table.write(out, palette)
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
    runs: &'a [RunRecord],
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_run: Option<&'a UnfinishedRun>,
}

/// Writes the runs as one JSON object: `format_version`, `runs` and, where a run has not ended, `unfinished_run`.
///
/// # Errors
///
/// Only where `out` fails.
pub fn log_json(
    out: &mut dyn Write,
    runs: &[RunRecord],
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

/// Writes one run in full: its record, then its report where it has one, every group and node of it where it is to be `full`.
///
/// # Errors
///
/// Only where `out` fails.
pub fn show(
    out: &mut dyn Write,
    run: &RunRecord,
    ending: Option<&RunReport>,
    palette: Palette,
    full: bool,
) -> fmt::Result {
    let outcome = palette.paint(role(run.outcome), words(run.outcome));
    let title = palette.paint(Role::Strong, Visible(run.run.as_str()));
    writeln!(out, "Run {title}: {outcome}")?;
    let rows = [
        ("site", Some(run.site.as_str())),
        ("action", Some(&*run.action)),
        ("revision", Some(&*run.revision)),
        ("documents", Some(&*run.site_digest)),
        ("plan", Some(&*run.plan_digest)),
        ("by", run.actor.as_deref()),
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
    for approval in &run.approvals {
        let name = palette.paint(Role::Faint, format!("{:<9}", "approved"));
        writeln!(out, "  {name} {}", Visible(&approval.by))?;
    }
    if run.partial {
        writeln!(out, "  a part of the plan only, so no success of the site")?;
    }
    match ending {
        Some(ending) => {
            writeln!(out)?;
            report(out, ending, palette, full)
        }
        None => writeln!(out, "  {}", counts(&run.counts)),
    }
}

#[derive(Serialize)]
struct Run<'a> {
    format_version: u32,
    run: &'a RunRecord,
    report: Option<&'a RunReport>,
}

/// Writes one run as one JSON object: `format_version`, `run` and `report`.
///
/// # Errors
///
/// Only where `out` fails.
pub fn show_json(out: &mut dyn Write, run: &RunRecord, report: Option<&RunReport>) -> fmt::Result {
    json::pretty(
        out,
        &Run {
            format_version: FORMAT_VERSION,
            run,
            report,
        },
    )
}
