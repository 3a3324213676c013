//! `trueup run status`: how far the parts of a run are.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use super::begin::parts_of;
use super::shared::{find, record, unknown};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::interrupted::ways_out;
use crate::cli::planning::RemoteArguments;
use crate::record::RunRecord;
use crate::report::{self, Visible};
use crate::run::{self, PartOverview, PartState};
use crate::workflow::{plan_of, signing_site};

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct StatusCommand {
    /// The run, by the name that it began with or its id
    #[arg(value_name = "RUN")]
    run: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = StatusFormat::Text)]
    format: StatusFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// A table.
    Text,
    /// One JSON object.
    Json,
}

pub(super) fn run(context: &mut Context, command: &StatusCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let site = signing_site(&checkout, command.remote.connection(&repository)?)?;
    let record = record(&site, &command.run)?.ok_or_else(|| unknown(&site, &command.run))?;
    let parts = match record.outcome.has_ended() {
        true => Vec::new(),
        false => {
            let found = find(&site, &command.run)?;
            let plan = plan_of(&found)?;
            match parts_of(&found.record, &plan) {
                Some(parts) => run::overview(&site, &found.record, &parts)?,
                None => Vec::new(),
            }
        }
    };
    let text = match command.format {
        StatusFormat::Json => {
            let name = record.workers.as_ref().map(|workers| &workers.name);
            let json = serde_json::json!({
                "run": record.run,
                "name": name,
                "outcome": record.outcome,
                "parts": parts,
            });
            format!("{json}\n")
        }
        StatusFormat::Text => {
            let mut out = text(&record, &parts)?;
            if !parts.is_empty() {
                report::ways_out_text(&mut out, &ways_out(&site, &record.run))?;
            }
            out
        }
    };
    context.printer.print(&text)?;
    Ok(0)
}

/// The table of parts.
fn text(record: &RunRecord, parts: &[PartOverview]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let name = record.workers.as_ref().map_or("", |workers| &*workers.name);
    writeln!(
        text,
        "Run {} ({}): {}",
        Visible(record.run.as_str()),
        Visible(name),
        record.outcome.words()
    )?;
    if parts.is_empty() {
        return Ok(text);
    }
    let in_state = |state| parts.iter().filter(|part| part.state == state).count();
    writeln!(
        text,
        "{} parts: {} ended, {} running, {} interrupted, {} not begun",
        parts.len(),
        in_state(Some(PartState::Ended)),
        in_state(Some(PartState::Running)),
        in_state(Some(PartState::Interrupted)) + in_state(Some(PartState::Fenced)),
        in_state(None)
    )?;
    let width = parts.iter().map(|part| part.part.len()).max().unwrap_or(0);
    for part in parts {
        let state = match part.state {
            None => "not begun",
            Some(PartState::Running) => "running",
            Some(PartState::Interrupted) => "interrupted",
            Some(PartState::Ended) => "ended",
            Some(PartState::Fenced) => "fenced",
        };
        write!(
            text,
            "  {:width$}  {state:<11}  {:>3}/{} steps",
            Visible(&part.part).to_string(),
            part.ended,
            part.steps
        )?;
        if part.failed > 0 {
            write!(text, ", {} failed", part.failed)?;
        }
        if part.skipped > 0 {
            write!(text, ", {} skipped", part.skipped)?;
        }
        if let (Some(host), Some(published)) = (&part.host, &part.published) {
            write!(text, "  on {}, {}", Visible(host), Visible(published))?;
        }
        writeln!(text)?;
    }
    Ok(text)
}
