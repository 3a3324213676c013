//! A run as one file: its record, plan, events, report and journal; and what `trueup replay` shows of it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::Context;
use super::run_id::by_word;
use super::{Failure, FailureKind};
use crate::design::RunId;
use crate::journal::Entry;
use crate::record::{RunRecord, Store};
use crate::report::run::RunRow;
use crate::report::{self, Visible, counted};
use crate::repository::Repository;
use crate::run::{Connection, KeptJournal, RunEvent, RunReport, journals, unfinished_run};
use crate::workflow::{Checkout, plan_of_run, report_now};

/// The version of the form of a bundle of a run.
const FORMAT_VERSION: u32 = 1;
/// Steps without an end that are named.
const NAMED: usize = 20;

/// The bundle of a run, as a file holds it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunBundle {
    format_version: u32,
    /// The version of the program that wrote it.
    trueup: String,
    /// Whether names are replaced.
    anonymised: bool,
    pub(super) run: RunRecord,
    /// The report at its end; absent if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<RunReport>,
    /// Its plan, as a saved file has it.
    plan: Value,
    events: Vec<RunEvent>,
    /// The lines of checkpoints among the events that are none, such as which journal they are of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    checkpoints: Vec<Value>,
    /// Its journals in this clone, which are removed once the run has ended and is published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    journals: Vec<KeptJournal>,
}

/// The run that a word means.
pub(super) fn found(checkout: &Checkout<'_>, word: &str) -> Result<Option<RunId>, Failure> {
    let site = &checkout.location.site;
    let store = Store::open(checkout.repository, site)?;
    by_word(&store, &store.read()?, word)
}

/// Writes a run into a file.
pub(super) fn write(
    context: &Context,
    checkout: &Checkout<'_>,
    run: &RunId,
    out: &Path,
    is_anonymous: bool,
) -> Result<(), Failure> {
    let mut bundle = collected(checkout, run)?;
    if is_anonymous {
        bundle.anonymised = true;
        bundle = anonymised(&bundle)?;
    }
    let path = context.directory().join(out);
    let shown = out.display();
    let written = checkout.repository.write_output(&path, |out| {
        serde_json::to_writer(&mut *out, &bundle)?;
        out.write_all(b"\n")
    });
    written
        .map_err(|error| Failure::error(format!("cannot write the bundle `{shown}`: {error}")))?;
    context.printer.tell(&format!(
        "Wrote the bundle `{shown}`: run {run}, {}{}; `trueup replay {shown}` shows it.",
        counted(bundle.events.len(), "event", "events"),
        match is_anonymous {
            true => ", with its names replaced",
            false => "",
        },
    ));
    Ok(())
}

fn collected(checkout: &Checkout<'_>, run: &RunId) -> Result<RunBundle, Failure> {
    let repository: &Repository = checkout.repository;
    let site = &checkout.location.site;
    let store = Store::open(repository, site)?;
    let state = store.read()?;
    let record = store.run(&state, run)?;
    let mut record = record.ok_or_else(|| Failure::error(format!("run {run} has no record")))?;
    let here = checkout.site(Connection::Offline)?;
    let unfinished = unfinished_run(&here)?;
    let report = report_now(&here, (&store, &state), &mut record, unfinished.as_ref())?;
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        Failure::error(format!("the {what} of run {run} cannot be read: {error}"))
    };
    let plan = crate::plan::saved::write(&plan_of_run(&store, &state, run)?);
    let plan = serde_json::from_slice(&plan).map_err(|error| broken("plan", &error))?;
    let (mut events, mut checkpoints) = (Vec::new(), Vec::new());
    for line in store.events(&state, run)?.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<RunEvent>(line) {
            Ok(event) => events.push(event),
            Err(_) => {
                let line = serde_json::from_slice::<Value>(line);
                checkpoints.push(line.map_err(|error| broken("events", &error))?);
            }
        }
    }
    Ok(RunBundle {
        format_version: FORMAT_VERSION,
        trueup: env!("CARGO_PKG_VERSION").to_owned(),
        anonymised: false,
        run: record,
        report,
        plan,
        events,
        checkpoints,
        journals: journals(repository, site, run)?,
    })
}

fn anonymised(bundle: &RunBundle) -> Result<RunBundle, Failure> {
    let failed = |error: serde_json::Error| {
        Failure::error(format!("the names of the run cannot be replaced: {error}"))
    };
    let value = serde_json::to_value(bundle).map_err(failed)?;
    let mut replaced = report::anonymous(&value);
    // The version of the program is told, and is no name.
    replaced["trueup"] = value["trueup"].clone();
    serde_json::from_value(replaced).map_err(failed)
}

/// Reads the bundle of a run; `None`: the file is none.
pub(super) fn read(bytes: &[u8]) -> Option<Result<RunBundle, String>> {
    #[derive(Deserialize)]
    struct Head {
        run: Option<serde::de::IgnoredAny>,
    }
    let head: Head = serde_json::from_slice(bytes).ok()?;
    head.run?;
    let bundle = serde_json::from_slice::<RunBundle>(bytes);
    Some(match bundle {
        Ok(bundle) if bundle.format_version != FORMAT_VERSION => Err(format!(
            "its form has version {}, and this trueup reads {FORMAT_VERSION}",
            bundle.format_version
        )),
        Ok(bundle) => Ok(bundle),
        Err(error) => Err(error.to_string()),
    })
}

/// Prints a run: its record and report, then each event, then how far its journals are.
pub(super) fn show(context: &Context, bundle: RunBundle) -> Result<(), Failure> {
    let RunBundle {
        trueup,
        anonymised,
        run,
        report,
        events,
        journals,
        ..
    } = bundle;
    let row = RunRow {
        record: run,
        signature: None,
    };
    let printer = &context.printer;
    printer.stream_text(|out| {
        report::run::show(out, &row, report.as_ref(), printer.out, true)?;
        writeln!(out, "\n{}", counted(events.len(), "event", "events"))?;
        for event in &events {
            report::run::line(out, event, printer.out)?;
        }
        for journal in &journals {
            journal_of(out, journal)?;
        }
        let names = match anonymised {
            true => ", with its names replaced",
            false => "",
        };
        writeln!(out, "\nWritten by trueup {}{names}.", Visible(&trueup))
    })
}

/// Writes how far a journal is.
fn journal_of(out: &mut dyn std::fmt::Write, journal: &KeptJournal) -> std::fmt::Result {
    let mut begun = BTreeMap::new();
    for entry in &journal.entries {
        match entry {
            Entry::Intent { step } => begun.insert(step.to_string(), true),
            Entry::Ended { step, .. } => begun.insert(step.to_string(), false),
            Entry::Opened { .. } | Entry::Note { .. } => None,
        };
    }
    let open = begun.iter().filter(|(_, is_open)| **is_open);
    let open: Vec<&String> = open.map(|(step, _)| step).collect();
    let entries = counted(journal.entries.len(), "entry", "entries");
    match &journal.part {
        Some(part) => write!(out, "\nJournal of part {}: {entries}", Visible(part))?,
        None => write!(out, "\nJournal: {entries}")?,
    }
    if let Some(damage) = &journal.damage {
        write!(out, ", damaged: {}", Visible(damage))?;
    }
    writeln!(out)?;
    for step in open.iter().take(NAMED) {
        writeln!(out, "  {} was begun, and has no end", Visible(step))?;
    }
    match open.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// Refuses what only a bundle of a plan can do.
pub(super) fn no_sandbox() -> Failure {
    Failure::new(
        FailureKind::Usage,
        "this is the bundle of a run, and a sandbox is made of the bundle of a plan",
    )
    .hint("`trueup try new DIR` makes a sandbox of the site as it is now")
}
