//! `trueup run part`: carries out one part of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;

use super::begin::parts_of;
use super::shared::{find, record};
use crate::cli::action::ActionArguments;
use crate::cli::apply::conclude::{CommandHost, Listening, execution};
use crate::cli::apply::resume::decisions;
use crate::cli::apply::{ApplyCommand, ApplyFormat, ProcessClock, actor};
use crate::cli::context::Context;
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::value::{digest, duration};
use crate::cli::{Failure, FailureKind};
use crate::design::Digest;
use crate::record::Outcome;
use crate::report::Visible;
use crate::run::Process;
use crate::workflow::{
    self, Caller, PartEnd, PartOrder, PartSummary, Purpose, equip, plan_of, signing_site, vouched,
    with_commit,
};

/// The exit code of a part in which nothing was touched.
const SKIPPED: u8 = 99;

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct PartCommand {
    /// The run, by the name that it began with or its id
    #[arg(value_name = "RUN")]
    run: String,
    /// The part, as `trueup run parts` names it
    #[arg(value_name = "PART")]
    part: String,
    /// The digest of the plan, as `trueup run begin` printed it; needed in another clone than that one
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    plan_digest: Option<String>,
    /// Decide a step whose state could not be observed
    #[arg(long, value_name = "STEP=done|not-begun")]
    decide: Vec<String>,
    /// Time to wait for running steps after the first Ctrl-C, in seconds or such as `5m` [default: without limit on a terminal, else 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    stop_grace: Option<u64>,
    /// Stop as at the first Ctrl-C after this time, such as `55m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    stop_after: Option<u64>,
    /// Output format of events
    #[arg(long, value_enum, default_value_t)]
    format: ApplyFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl PartCommand {
    /// The settings that an apply has, too.
    fn as_apply(&self) -> ApplyCommand {
        let arguments = PlanArguments::of_action(ActionArguments::default(), self.remote.clone());
        let mut apply = ApplyCommand::of(Vec::new(), true, arguments);
        apply.format = self.format;
        apply.stop_grace = self.stop_grace;
        apply.stop_after = self.stop_after;
        apply
    }
}

pub(super) fn run(context: &mut Context, command: &PartCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let site = signing_site(&checkout, command.remote.lasting_connection(&repository)?)?;
    let tell = |text: String| context.printer.tell(&text);
    match record(&site, &command.run)? {
        None => {
            tell(format!("Skipped: no run `{}` has begun.", command.run));
            return Ok(SKIPPED);
        }
        Some(record) if record.outcome.has_ended() => {
            tell(format!(
                "Run {} has ended: {}.",
                record.run,
                record.outcome.words()
            ));
            let is_aborted = record.outcome == Outcome::Abandoned;
            return Ok(if is_aborted { SKIPPED } else { 0 });
        }
        Some(_) => {}
    }
    let interrupted = find(&site, &command.run)?;
    let plan = plan_of(&interrupted)?;
    let digest = command.plan_digest.as_deref().map(Digest::from);
    vouched(&site, &interrupted, &plan, digest.as_ref())?;
    with_commit(&checkout, &site, &interrupted)?;
    let (parts, part) = parts_of(&interrupted.record, &plan)
        .and_then(|parts| parts.find(&command.part).map(|part| (parts, part)))
        .ok_or_else(|| unknown(command))?;
    let equipped = equip(
        context,
        &checkout,
        &site,
        &interrupted,
        plan,
        Purpose::Act(BTreeMap::new()),
    )?;
    let backends = || equipped.hardware.clone();
    let apply = command.as_apply();
    let order = PartOrder {
        interrupted: &interrupted,
        execution: execution(&apply, &equipped, &backends),
        parts: &parts,
        part,
        decisions: decisions(&command.decide)?,
    };
    let (actor, clock) = (actor(&repository)?, ProcessClock::new(context.printer));
    let mut listening = Listening::new(context, &apply, &equipped.plan);
    let host = CommandHost::new(&apply, &clock, &equipped);
    let caller = Caller {
        host: &host,
        events: &mut |_, event| listening.on_event(event),
    };
    let end = workflow::carry_out_part(Process::new(&site, &actor, &clock), &order, caller)?;
    drop(listening);
    conclude(context, command, &end)
}

/// The failure for a name that no part has.
fn unknown(command: &PartCommand) -> Failure {
    let text = format!("run `{}` has no part `{}`", command.run, command.part);
    Failure::new(FailureKind::NotFound, text)
        .hint(format!("`trueup run status {}` lists them", command.run))
}

/// Prints how a part ended; its exit code.
fn conclude(context: &Context, command: &PartCommand, end: &PartEnd) -> Result<u8, Failure> {
    let part = &command.part;
    let tell = |text: String| context.printer.tell(&Visible(&text).to_string());
    let summary = match end {
        PartEnd::EndedBefore => {
            tell(format!("Part {part} had ended before."));
            return Ok(0);
        }
        PartEnd::NotReady(parts) => {
            let have = if parts.len() == 1 { "has" } else { "have" };
            let parts = parts.join(", ");
            tell(format!(
                "Skipped: part {part} waits for {parts}, which {have} not ended."
            ));
            return Ok(SKIPPED);
        }
        PartEnd::CarriedOut(summary) => summary,
    };
    let mut text = String::new();
    write_summary(&mut text, command, summary)?;
    context.printer.tell(&text);
    if summary.unfinished > 0 {
        return Err(Failure::reported(FailureKind::Interrupted));
    }
    if !summary.failed.is_empty() {
        return Err(Failure::reported(FailureKind::Failed));
    }
    Ok(if summary.succeeded == 0 && summary.skipped > 0 {
        SKIPPED
    } else {
        0
    })
}

fn write_summary(
    text: &mut String,
    command: &PartCommand,
    summary: &PartSummary,
) -> std::fmt::Result {
    let PartCommand { run, part, .. } = command;
    let state = match summary.unfinished {
        0 => "has ended".to_owned(),
        left => format!("is unfinished, {left} steps are left"),
    };
    write!(text, "Part {part} {state}: {} succeeded", summary.succeeded)?;
    if !summary.failed.is_empty() {
        write!(text, ", {} failed", summary.failed.len())?;
    }
    if summary.skipped > 0 {
        write!(text, ", {} skipped", summary.skipped)?;
    }
    writeln!(text, ".")?;
    for (step, why) in &summary.failed {
        writeln!(text, "  {}: {}", Visible(&step.to_string()), Visible(why))?;
    }
    if let Some(why) = &summary.skipped_because {
        writeln!(text, "  skipped: {}", Visible(why))?;
    }
    for line in &summary.undelivered {
        writeln!(text, "  {}", Visible(line))?;
    }
    let digest = command.plan_digest.as_deref();
    let digest = digest.map_or_else(String::new, |digest| format!(" --plan-digest {digest}"));
    for (step, evidence) in &summary.undecided {
        let step = step.to_string();
        writeln!(
            text,
            "  {}: {}; then `trueup run part {run} {part}{digest} --decide {}=done`, or `=not-begun`",
            Visible(&step),
            Visible(evidence),
            Visible(&step)
        )?;
    }
    Ok(())
}
