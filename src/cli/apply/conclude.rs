//! Runs as the command line has them carried out: what it hands the workflow, what it prints of it, and its exit code.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use super::begun::begun;
use super::process::{ProcessClock, actor, listen};
use super::{ApplyCommand, ApplyFormat};
use crate::apply::{self, EventClock};
use crate::backend::{Backends, Notifier};
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind, interrupted, verbose};
use crate::design::RunId;
use crate::plan::{Action, Plan};
use crate::record::Outcome;
use crate::report;
use crate::report::airship::Heard;
use crate::report::run::Reporter;
use crate::repository::CommitId;
use crate::run::{Finished, LeaseHolder, Process, RunEvent, SiteRepository, StopHandle};
use crate::step::FailureReason;
use crate::workflow::{
    self, ApplyRequest, Caller, Carried, Clearance, Equipped, Execution, PlanFile, RunHost,
    RunLimits, Steps, drive_on, unpublished,
};

/// A plan that may be carried out.
pub(in crate::cli) struct Ready<'a> {
    /// The commit that is applied.
    pub(in crate::cli) commit: CommitId,
    /// The plan, and what it is carried out with.
    pub(in crate::cli) equipped: &'a Equipped,
    /// The approvals that it has.
    pub(in crate::cli) clearance: &'a Clearance,
}

/// Begins the run of a plan and carries it out.
pub(in crate::cli) fn start(
    context: &Context,
    command: &ApplyCommand,
    site: &SiteRepository<'_>,
    ready: &Ready<'_>,
) -> Result<u8, Failure> {
    let equipped = ready.equipped;
    let (actor, clock) = (actor(site.repository)?, ProcessClock::new(context.printer));
    let process = Process::new(site, &actor, &clock);
    let file = PlanFile::of(&equipped.plan)?;
    let backends = || equipped.hardware.clone();
    let request = ApplyRequest {
        execution: execution(command, equipped, &backends),
        file: &file,
        commit: ready.commit,
        clearance: ready.clearance,
    };
    if let Some(workers) = &command.workers {
        let run = workflow::begin_for_workers(process, &request, workers)?;
        return begun(context, command, &run, file.digest());
    }
    let mut listening = Listening::new(context, command, &equipped.plan);
    let host = CommandHost::new(command, &clock, equipped);
    let caller = Caller {
        host: &host,
        events: &mut |_, event| listening.on_event(event),
    };
    let carried = workflow::apply(process, &request, caller);
    listening.conclude(carried?)
}

/// A plan as the workflow carries it out.
pub(in crate::cli) fn execution<'a>(
    command: &ApplyCommand,
    equipped: &'a Equipped,
    backends: &'a dyn Fn() -> Arc<Backends>,
) -> Execution<'a> {
    Execution {
        plan: &equipped.plan,
        guarded: &equipped.guarded,
        applied: &equipped.applied,
        backends,
        refused: &equipped.refused,
        renewed: &equipped.renewed,
        limits: RunLimits {
            stop_grace: stop_grace(command),
            stop_after: command.stop_after.map(Duration::from_secs),
            // Whether it may leave the windows, a plan says.
            outside_windows: false,
        },
    }
}

/// This process, as a run lives in it.
pub(in crate::cli) struct CommandHost<'a> {
    command: &'a ApplyCommand,
    clock: &'a ProcessClock,
    equipped: &'a Equipped,
    stop: std::cell::OnceCell<StopHandle>,
}

impl<'a> CommandHost<'a> {
    pub(in crate::cli) fn new(
        command: &'a ApplyCommand,
        clock: &'a ProcessClock,
        equipped: &'a Equipped,
    ) -> Self {
        Self {
            command,
            clock,
            equipped,
            stop: std::cell::OnceCell::new(),
        }
    }
}

impl RunHost for CommandHost<'_> {
    fn clock(&self) -> &dyn EventClock {
        self.clock
    }

    fn notifier(&self) -> Option<&Notifier> {
        self.equipped.hardware.notifier()
    }

    fn begins(&self, stop: StopHandle) {
        self.command.hooks.begin(stop.clone());
        self.command.beginning.begins(&stop);
        let _ = self.stop.set(stop);
    }

    fn drive(&self, holder: &dyn LeaseHolder, steps: Steps<'_>) -> Result<Finished, apply::Error> {
        drive_on(
            &self.equipped.runtime,
            &self.equipped.hardware,
            holder,
            async {
                let signals = self
                    .stop
                    .get()
                    .map(|stop| tokio::spawn(listen(stop.clone())));
                let finished = steps.await;
                if let Some(signals) = signals {
                    signals.abort();
                }
                finished
            },
        )
    }
}

/// The output of a command about a run.
pub(in crate::cli) struct Listening<'a> {
    context: &'a Context,
    command: &'a ApplyCommand,
    plan: &'a Plan,
    reporter: Box<dyn Reporter>,
    /// The action on nodes that it is, if it is one.
    action: Option<Action>,
    heard: Heard,
}

impl<'a> Listening<'a> {
    pub(in crate::cli) fn new(
        context: &'a Context,
        command: &'a ApplyCommand,
        plan: &'a Plan,
    ) -> Self {
        Self {
            context,
            command,
            plan,
            reporter: reporter(context, command.format),
            action: Some(plan.request.action).filter(|action| action.is_targeted()),
            heard: Heard::default(),
        }
    }

    /// Prints an event.
    pub(in crate::cli) fn on_event(&mut self, event: &RunEvent) {
        if self.action.is_some() {
            self.heard.on_event(event);
        }
        self.command.hooks.on_event(event);
        // The reader of the events may be gone; the run continues all the same.
        let _ = self.reporter.event(event);
    }

    /// Prints how a run ended; its exit code.
    pub(in crate::cli) fn conclude(self, carried: Carried<'_>) -> Result<u8, Failure> {
        let Carried {
            session,
            report,
            finished,
        } = carried;
        let (context, command) = (self.context, self.command);
        if command.format == ApplyFormat::Text {
            let mut out = String::new();
            report::run::report(&mut out, &report, context.printer.out, false)?;
            if report.outcome == Outcome::Interrupted {
                // How the run ended is told in any case.
                let ways = ways_out(context, &report.run).unwrap_or_default();
                report::ways_out_text(&mut out, &ways)?;
            }
            context.printer.print(&out)?;
        }
        for file in &command.report {
            // The run has ended whatever becomes of the file: its own exit code says more.
            if let Err(failure) = file.write(context, self.plan, &report) {
                context.printer.fail(&failure);
            }
        }
        let outcome = report.outcome;
        let reason = self.action.map(|action| self.heard.reason(action, outcome));
        if let (ApplyFormat::Json, Some(action)) = (command.format, self.action) {
            let status = self.heard.into_status(action, &report);
            context.printer.print(&status.to_line())?;
        }
        let (publication, owed) = (session.publication(), session.tag_owed());
        let run = report.run.clone();
        if !command.watching.watch {
            std::mem::forget((session, report, finished));
        }
        if let Some(failure) = unpublished(publication, owed.as_ref(), &run, outcome) {
            // It follows the report, which has said all about the run itself.
            context.printer.fail(&failure);
            return Err(Failure::reported(failure.kind));
        }
        match reason {
            // What a step found out is what a plan would have found, and exits like it.
            Some(FailureReason::NotFound) => Err(Failure::reported(FailureKind::NotFound)),
            Some(FailureReason::Conflict) => Err(Failure::reported(FailureKind::Guard)),
            Some(FailureReason::BadRequest) => Err(Failure::reported(FailureKind::Error)),
            _ => exit_code(outcome),
        }
    }
}

/// The ways out of the run that this process has interrupted.
fn ways_out(context: &Context, run: &RunId) -> Result<Vec<String>, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?.of_run();
    let site = checkout.site_here()?;
    Ok(interrupted::ways_out_of_interrupted(&site, run))
}

/// How long what runs is waited for after the first stop; `None`: without limit.
fn stop_grace(command: &ApplyCommand) -> Option<Duration> {
    match command.stop_grace {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None if std::io::stderr().is_terminal() => None,
        None => Some(Duration::from_secs(5)),
    }
}

/// The exit code of a run by its outcome.
pub(in crate::cli) fn exit_code(outcome: Outcome) -> Result<u8, Failure> {
    let kind = match outcome {
        Outcome::Succeeded => return Ok(0),
        Outcome::Interrupted | Outcome::Running => FailureKind::Interrupted,
        Outcome::Failed | Outcome::SucceededWithFailures | Outcome::Abandoned => {
            FailureKind::Failed
        }
    };
    Err(Failure::reported(kind))
}

fn reporter(context: &Context, format: ApplyFormat) -> Box<dyn Reporter> {
    match format {
        ApplyFormat::Json => Box::new(report::run::JsonLines::new(Plain(std::io::stdout()))),
        // Bars and lines of others do not go together.
        ApplyFormat::Text if std::io::stderr().is_terminal() && !verbose::is_on() => {
            Box::new(report::run::Progress::new(
                indicatif::ProgressDrawTarget::stderr(),
                context.printer.err,
            ))
        }
        ApplyFormat::Text => Box::new(report::run::Lines::new(
            Plain(std::io::stderr()),
            context.printer.err,
        )),
    }
}

/// Text into a stream, line by line.
struct Plain<W>(W);

impl<W: Write> std::fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0
            .write_all(text.as_bytes())
            .map_err(|_| std::fmt::Error)
    }
}
