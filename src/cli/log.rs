//! `trueup log` and `trueup show`: the site actions, and one of them or a saved plan.

use clap::{Args, ValueEnum};

use crate::apply::RunReport;
use crate::design::RunId;
use crate::plan::saved;
use crate::record::{RunFile, RunRecord, Store};
use crate::report;

use super::Failure;
use super::context::Context;
use super::plan::{ViewArguments, print};
use super::planning::{RemoteArguments, follow};
use super::revision::Checkout;

#[derive(Debug, Args)]
pub(super) struct LogCommand {
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only the newest so many
    #[arg(short = 'n', long, value_name = "N")]
    number: Option<usize>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn log(context: &mut Context, command: &LogCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = Checkout::find(context, &repository)?;
    let store = Store::open(&repository, &checkout.location.site)?;
    follow(context, &store, &command.remote.connection(&repository)?)?;
    let state = store.read()?;
    let mut ids = store.runs(&state)?;
    ids.sort_unstable();
    ids.reverse();
    let mut runs: Vec<RunRecord> = Vec::new();
    for id in ids.into_iter().take(command.number.unwrap_or(usize::MAX)) {
        runs.extend(store.run(&state, &id)?);
    }
    let mut out = String::new();
    match command.format {
        Format::Text => report::run::log(&mut out, &runs, context.printer.out)?,
        Format::Json => report::run::log_json(&mut out, &runs)?,
    }
    context.printer.print(&out)?;
    Ok(0)
}

#[derive(Debug, Args)]
pub(super) struct ShowCommand {
    /// A saved plan, or the id of a run
    #[arg(value_name = "FILE|RUN")]
    what: String,
    /// Show the plan of the run instead of its report
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    view: ViewArguments,
}

pub(super) fn show(context: &mut Context, command: &ShowCommand) -> Result<u8, Failure> {
    let path = context.directory().join(&command.what);
    if path.is_file() {
        let bytes = std::fs::read(&path)?;
        let plan = saved::read(&bytes)
            .map_err(|error| Failure::error(format!("`{}`: {error}", command.what)))?;
        print(context, &plan, &command.view)?;
        return Ok(0);
    }
    let repository = context.repository()?;
    let checkout = Checkout::find(context, &repository)?;
    let store = Store::open(&repository, &checkout.location.site)?;
    let state = store.read()?;
    let run = RunId::from(command.what.as_str());
    let Some(record) = store.run(&state, &run)? else {
        return Err(Failure::error(format!(
            "`{}` is neither a file nor a run of site `{}`",
            command.what, checkout.location.site
        ))
        .hint("`trueup log` lists the runs"));
    };
    if command.plan {
        let Some(bytes) = store.run_file(&state, &run, RunFile::Plan)? else {
            return Err(Failure::error(format!("run {run} has no plan")));
        };
        let plan = saved::read(&bytes)
            .map_err(|error| Failure::error(format!("the plan of run {run} is broken: {error}")))?;
        print(context, &plan, &command.view)?;
        return Ok(0);
    }
    let ending: Option<RunReport> = match store.run_file(&state, &run, RunFile::Report)? {
        Some(bytes) => serde_json::from_slice(&bytes).ok(),
        None => None,
    };
    let mut out = String::new();
    if command.view.is_json() {
        report::run::show_json(&mut out, &record, ending.as_ref())?;
    } else {
        report::run::show(&mut out, &record, ending.as_ref(), context.printer.out)?;
    }
    context.printer.print(&out)?;
    Ok(0)
}
