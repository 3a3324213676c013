//! `trueup abort` and `trueup unlock`: what is done about a run that did not end.

use std::fmt::Write;
use std::io::IsTerminal as _;

use clap::Args;

use crate::design::{NodeName, RunId};
use crate::plan::UnfinishedRun;
use crate::report::{self, Visible};
use crate::run::{self, Connection, HalfDone, Process, Trace, Unlock, unlock};
use crate::workflow::{self, AbortRequest, signing_site};

use super::apply::process::{ProcessClock, actor};
use super::context::Context;
use super::planning::RemoteArguments;
use super::run_id::{begins, meant};
use super::{Failure, FailureKind};
use crate::workflow::Checkout;

#[derive(Debug, Args)]
pub(super) struct AbortCommand {
    /// The run, by its id or the beginning of it
    #[arg(value_name = "RUN")]
    run: String,
    /// Take its lock if it is of another machine and has not moved for ten minutes
    #[arg(long)]
    take_over_dead: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Args)]
pub(super) struct UnlockCommand {
    /// The run that holds the lock, by its id or the beginning of it
    #[arg(value_name = "RUN")]
    run: String,
    /// Also release a lock of another machine that has not moved for ten minutes, which is waited for
    #[arg(long, conflicts_with = "force")]
    take_over_dead: bool,
    /// Release it even if its process may be running; asks for the id of the run on a terminal
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// The run of the site that has not ended, for commands that only look; the records have been followed.
pub(super) fn unfinished(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
) -> Result<Option<UnfinishedRun>, Failure> {
    Ok(run::unfinished_run(&checkout.site(connection.clone())?)?)
}

/// Reports on standard error a run that has not ended, and the ways out if it was interrupted.
pub(super) fn tell_unfinished(
    context: &Context,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    run: Option<&UnfinishedRun>,
) -> Result<(), Failure> {
    let Some(run) = run else { return Ok(()) };
    let text = format!("warning: {}", report::unfinished(run));
    context.printer.tell(&text);
    let site = checkout.site(connection.clone())?;
    for line in ways_out(&site, &run.run) {
        context.printer.tell(&format!("  {line}"));
    }
    Ok(())
}

/// The ways out that a run has now, a line each; none for one that has ended or whose process is at work.
pub(super) fn ways_out(site: &run::SiteRepository<'_>, run: &RunId) -> Vec<String> {
    report::ways_out(run, run::WaysOut::now(site, run))
}

/// The ways out of the run that this process has interrupted, or found interrupted: its lock may be there still.
pub(super) fn ways_out_of_interrupted(site: &run::SiteRepository<'_>, run: &RunId) -> Vec<String> {
    report::ways_out(run, run::WaysOut::find(site, run))
}

pub(super) fn run_abort(context: &mut Context, command: &AbortCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let connection = command.remote.connection(&repository)?;
    let run = meant(context, &checkout, &connection, &command.run)?;
    let site = signing_site(&checkout, connection)?;
    let text = abort(context, &checkout, &site, &run, command.take_over_dead)?;
    context.printer.print(&text)?;
    Ok(0)
}

/// Aborts a run; the text lists what it leaves.
pub(super) fn abort(
    context: &Context,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    run: &RunId,
    take_over_dead: bool,
) -> Result<String, Failure> {
    let request = AbortRequest {
        client: context,
        checkout,
        run,
        take_over_dead,
    };
    let (actor, clock) = (actor(site.repository)?, ProcessClock::new(context.printer));
    let aborted = workflow::abort(Process::new(site, &actor, &clock), request)?;
    aborted_text(context, &aborted)
}

/// The text about a run that was aborted: what it leaves.
pub(super) fn aborted_text(context: &Context, aborted: &run::Aborted) -> Result<String, Failure> {
    let mut text = String::new();
    writeln!(text, "Run {} is aborted.", Visible(aborted.run.as_str()))?;
    if let Some(tag) = &aborted.tag {
        writeln!(text, "Tagged: {}", Visible(tag))?;
    }
    if let Some(why) = &aborted.unsigned {
        let why = Visible(why);
        context
            .printer
            .tell(&format!("warning: its end is not signed: {why}"));
    }
    if !aborted.found_deployed.is_empty() {
        writeln!(text, "Found deployed, and recorded so:")?;
    }
    for node in &aborted.found_deployed {
        writeln!(text, "  {}", Visible(node.as_str()))?;
    }
    if !aborted.found_serviced.is_empty() {
        writeln!(text, "Found serviced, and recorded so:")?;
    }
    for node in &aborted.found_serviced {
        writeln!(text, "  {}", Visible(node.as_str()))?;
    }
    if !aborted.half_done.is_empty() {
        writeln!(text, "Left half-done:")?;
    }
    for left in &aborted.half_done {
        match left {
            HalfDone::Node {
                node,
                phase,
                message,
            } => {
                write!(text, "  {}: {}", Visible(node.as_str()), phase.as_str())?;
                if let Some(message) = message {
                    write!(text, ": {}", Visible(message))?;
                }
                writeln!(text)?;
            }
            HalfDone::Step { step, trace } => {
                let step = step.to_string();
                let step = Visible(&step);
                let known = match trace {
                    Trace::Begun => "had begun; its end is unknown",
                    Trace::MayHaveBegun => "may have begun; its end is unknown",
                    Trace::TakenBack => {
                        "is not done; what it had asked for is taken back, and values that were applied by then stay"
                    }
                };
                writeln!(text, "  {step} {known}")?;
            }
        }
    }
    for (node, left) in &aborted.left {
        writeln!(text, "next: {}", Visible(&left.next(node)))?;
    }
    if !aborted.owes_soak.is_empty() {
        let names = report::named(aborted.owes_soak.iter().map(NodeName::as_str));
        let owe = if aborted.owes_soak.len() == 1 {
            "owes"
        } else {
            "owe"
        };
        let names = Visible(&names);
        writeln!(
            text,
            "next: {names} {owe} a soak, which the next update or redeploy has first."
        )?;
    }
    Ok(text)
}

pub(super) fn run_unlock(context: &mut Context, command: &UnlockCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let connection = command.remote.connection(&repository)?;
    let site = checkout.site(connection.clone())?;
    // The lock is found also if the records are not, such as after a move that was interrupted.
    let of_lock = run::holder(&site)?.map(|holder| RunId::from(holder.run.as_str()));
    let run = match of_lock.filter(|run| begins(run, &command.run)) {
        Some(run) => run,
        None => meant(context, &checkout, &connection, &command.run)?,
    };
    let how = match (command.force, command.take_over_dead) {
        (true, _) => Unlock::Forced,
        (false, true) => Unlock::Unmoved,
        (false, false) => Unlock::Dead,
    };
    if how == Unlock::Forced {
        confirm_force(context, &run)?;
    }
    let (actor, clock) = (actor(&repository)?, ProcessClock::new(context.printer));
    let unlocked = unlock(Process::new(&site, &actor, &clock), &run, how);
    unlocked.map_err(|error| held(error, &run, how))?;
    context
        .printer
        .tell(&format!("The lock of run {run} is released."));
    Ok(0)
}

/// The failure of an unlock; if its run has the lock, with what releases it, and not this command once more.
fn held(error: run::Error, run: &RunId, how: Unlock) -> Failure {
    match &error {
        run::Error::LockHeld { holder, .. }
            if how == Unlock::Dead && holder.run == run.as_str() && !holder.of_workers =>
        {
            let hint = format!(
                "wait for it to end; if it is dead: `trueup apply --resume --take-over-dead`, or `trueup unlock {run} --take-over-dead`, which waits until its lock has not moved for ten minutes"
            );
            let kind = FailureKind::Locked;
            Failure::new(kind, error.to_string()).hint(hint)
        }
        _ => Failure::from(error),
    }
}

/// Asks for the id of the run whose lock is released though its process may be running.
fn confirm_force(context: &Context, run: &RunId) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            FailureKind::Usage,
            "stdin is not a terminal, so `--force` cannot be confirmed",
        )
        .hint(format!(
            "without `--force` the lock is released where its process is certainly gone; `trueup unlock {run} --take-over-dead` also releases one that has not moved for ten minutes"
        )));
    }
    let question = format!(
        "The process of run {run} may still be at work, and act beside the next run for up to five minutes. Type the id of the run to release its lock all the same:"
    );
    match context.printer.confirms(&question, run.as_str())? {
        true => Ok(()),
        false => Err(Failure::error("not confirmed; the lock is as it was")),
    }
}
