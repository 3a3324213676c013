//! `trueup run end` and `trueup run abort`.

use clap::Args;

use super::begin::parts_of;
use super::shared::{find, record, unknown};
use crate::cli::action::ActionArguments;
use crate::cli::apply::conclude::{CommandHost, Listening, execution, exit_code};
use crate::cli::apply::report::{ReportFile, report_file};
use crate::cli::apply::{ApplyCommand, ApplyFormat, ProcessClock, actor};
use crate::cli::context::Context;
use crate::cli::interrupted::{aborted_text, ways_out};
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::{Failure, FailureKind};
use crate::report::Visible;
use crate::run::{self, Interrupted, PartState, Process, SiteRepository};
use crate::workflow::{
    AbortRequest, Caller, Purpose, RunEnd, abort_run, end_run, equip, plan_of, signing_site,
    with_commit,
};

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct EndCommand {
    /// The run, by the name that it began with or its id
    #[arg(value_name = "RUN")]
    run: String,
    /// Write the report of the run to a file, too: .html, .md, .json or .xml (JUnit); may be repeated
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    report: Vec<ReportFile>,
    /// Output format of events
    #[arg(long, value_enum, default_value_t)]
    format: ApplyFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct AbortCommand {
    /// The run, by the name that it began with or its id
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub(super) fn run(context: &mut Context, command: &EndCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let site = signing_site(&checkout, command.remote.lasting_connection(&repository)?)?;
    let (actor, clock) = (actor(&repository)?, ProcessClock::new(context.printer));
    let process = Process::new(&site, &actor, &clock);
    // An end that was killed may have ended the run here alone.
    run::catch_up(process)?;
    match record(&site, &command.run)? {
        None => return Err(unknown(&site, &command.run)),
        Some(record) if record.outcome.has_ended() => {
            let text = format!("Run {} has ended: {}.", record.run, record.outcome.words());
            context.printer.tell(&text);
            return exit_code(record.outcome);
        }
        Some(_) => {}
    }
    let interrupted = find(&site, &command.run)?;
    let plan = plan_of(&interrupted)?;
    with_commit(&checkout, &site, &interrupted)?;
    let equipped = equip(context, &checkout, &site, &interrupted, plan, Purpose::End)?;
    let arguments = PlanArguments::of_action(ActionArguments::default(), command.remote.clone());
    let mut apply = ApplyCommand::of(Vec::new(), true, arguments);
    apply.format = command.format;
    apply.report.clone_from(&command.report);
    let backends = || equipped.hardware.clone();
    let mut execution = execution(&apply, &equipped, &backends);
    // Nothing is left that acts, so that no window has to be open.
    execution.limits.outside_windows = true;
    let mut listening = Listening::new(context, &apply, &equipped.plan);
    let host = CommandHost::new(&apply, &clock, &equipped);
    let caller = Caller {
        host: &host,
        events: &mut |_, event| listening.on_event(event),
    };
    match end_run(process, &interrupted, &execution, caller)? {
        RunEnd::Ended(carried) => listening.conclude(*carried),
        RunEnd::Unfinished(_) => {
            drop(listening);
            unfinished(&site, &interrupted, &equipped.plan)
        }
    }
}

/// The failure of an end that came before all parts had ended.
fn unfinished(
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
    plan: &crate::plan::Plan,
) -> Result<u8, Failure> {
    const NAMED: usize = 5;
    let run = &interrupted.record.run;
    let parts = parts_of(&interrupted.record, plan);
    let parts = match &parts {
        Some(parts) => run::overview(site, &interrupted.record, parts)?,
        None => Vec::new(),
    };
    let open: Vec<String> = parts
        .iter()
        .filter(|part| part.state != Some(PartState::Ended))
        .map(|part| Visible(&part.part).to_string())
        .collect();
    let more = match open.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = open[..open.len().min(NAMED)].join(", ");
    let text = format!("run {run} is unfinished: {named}{more} have not ended; nothing is tagged");
    Err(Failure::new(FailureKind::Interrupted, text).details(ways_out(site, run)))
}

pub(super) fn run_abort(context: &mut Context, command: &AbortCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let site = signing_site(&checkout, command.remote.lasting_connection(&repository)?)?;
    let interrupted = find(&site, &command.run)?;
    with_commit(&checkout, &site, &interrupted)?;
    let (actor, clock) = (actor(&repository)?, ProcessClock::new(context.printer));
    let process = Process::new(&site, &actor, &clock);
    let request = AbortRequest {
        client: context,
        checkout: &checkout,
        run: &interrupted.record.run,
        take_over_dead: false,
    };
    let aborted = abort_run(process, &interrupted, request)?;
    context.printer.print(&aborted_text(context, &aborted)?)?;
    Ok(0)
}
