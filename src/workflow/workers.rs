//! A run that is divided among workers: its parts carried out, its end, its abort.
//!
//! Each worker has a process and a clone of its own. A part is carried out by the same dispatcher as a whole plan: it knows all
//! steps, takes in what other workers have published, and decides about its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::carry_out::{Caller, Carried, Dispatch, Execution, carry_out, run_started};
use super::notices::Notices;
use super::run_spans::RunSpans;
use super::{Error, Failure, FailureKind};
use crate::apply::{PartScope, steps_to_act};
use crate::backend::{self, notify::StopReason};
use crate::design::Digest;
use crate::journal::{Decision, Entry, StepOutcome};
use crate::plan::{Parts, Plan, saved};
use crate::record::Store;
use crate::repository::CommitId;
use crate::run::{
    self, Durations, Ending, Finished, Interrupted, LeaseHolder as _, Opened, OpenedPart, PartLog,
    Process, Recorder, RunEvent, SiteRepository, Stop,
};
use crate::step::StepId;
use crate::telemetry::{Phase, in_phase};

/// A part that is to be carried out.
pub struct PartOrder<'a> {
    /// The run, which has begun.
    pub interrupted: &'a Interrupted,
    /// Its plan, read, and what it is carried out with.
    pub execution: Execution<'a>,
    /// The parts of its plan.
    pub parts: &'a Arc<Parts>,
    /// Which of them, by its position.
    pub part: usize,
    /// By step id, what an operator found out about steps that cannot be told from outside.
    pub decisions: BTreeMap<Arc<str>, Decision>,
}

/// How a part ended, or why it was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartEnd {
    /// It had ended before.
    EndedBefore,
    /// Parts that it waits for have not ended; their names. Nothing was touched.
    NotReady(Vec<Arc<str>>),
    /// It was carried out as far as it could be.
    CarriedOut(PartSummary),
}

/// How the steps of a part ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartSummary {
    /// Steps that succeeded, or were not needed.
    pub succeeded: usize,
    /// Steps that were not attempted, because something that they need failed; and why the first was not.
    pub skipped: usize,
    /// Why the first of them was not.
    pub skipped_because: Option<Arc<str>>,
    /// Steps that failed, or whose end is unknown, and why.
    pub failed: Vec<(StepId, Arc<str>)>,
    /// Steps that have not ended.
    pub unfinished: usize,
    /// Steps whose state cannot be observed, and the evidence.
    pub undecided: Vec<(StepId, Arc<str>)>,
    /// Notifications that could not be delivered, a line for each destination.
    pub undelivered: Vec<Arc<str>>,
}

impl PartSummary {
    /// Why a person has to act; `None`: it needs no person.
    fn stop_reason(&self) -> Option<StopReason> {
        match () {
            () if !self.undecided.is_empty() => Some(StopReason::Undecided),
            () if !self.failed.is_empty() => Some(StopReason::Failed),
            () if self.unfinished > 0 => Some(StopReason::Interrupted),
            () => None,
        }
    }
}

/// Carries out a part of a run.
///
/// # Errors
///
/// [`Error::WindowClosed`]; those of [`run::open_part`]; [`Error::Steps`]; those of the end of the part.
pub fn carry_out_part(
    process: Process<'_>,
    order: &PartOrder<'_>,
    caller: Caller<'_>,
) -> Result<PartEnd, Error> {
    let execution = &order.execution;
    execution.time_left(process.time)?;
    let plan = execution.plan;
    let mut own = vec![false; plan.steps.len()];
    for step in &order.parts.parts[order.part].steps {
        own[step.0 as usize] = true;
    }
    let request = run::PartRequest {
        interrupted: order.interrupted,
        parts: order.parts,
        part: order.part,
        longest_request: backend::longest_request(execution.guarded.guards()),
        decisions: order.decisions.clone(),
        acts: &|entries| Ok(!acting(order.interrupted, plan, &own, entries)?.is_empty()),
    };
    let opened = match run::open_part(process, &request)? {
        Opened::Ended => return Ok(PartEnd::EndedBefore),
        Opened::NotReady(parts) => return Ok(PartEnd::NotReady(parts)),
        Opened::Begun(opened) => *opened,
    };
    let driven = in_phase(Phase::Apply, || {
        drive_part(process, order, opened, &own, caller)
    });
    driven.map(PartEnd::CarriedOut)
}

/// The steps that have to act, given the known entries.
fn acting(
    interrupted: &Interrupted,
    plan: &Plan,
    own: &[bool],
    entries: &[Entry],
) -> Result<Vec<usize>, run::Error> {
    steps_to_act(plan, own, entries).map_err(|error| run::Error::Broken {
        what: format!("the progress of run {}", interrupted.record.run),
        reason: error.to_string(),
    })
}

/// Drives the steps of a part that is this worker's, and publishes its end.
fn drive_part(
    process: Process<'_>,
    order: &PartOrder<'_>,
    opened: OpenedPart<'_>,
    own: &[bool],
    caller: Caller<'_>,
) -> Result<PartSummary, Error> {
    let OpenedPart {
        session,
        journal,
        replay,
        is_resumed,
    } = opened;
    let Caller { host, events } = caller;
    let (plan, commit) = (order.execution.plan, order.interrupted.commit);
    let stop = Stop::new();
    session.lease().stop_when_lost(stop.handle());
    host.begins(stop.handle());
    let steps = own.iter().filter(|own| **own).count();
    let mut ends = Ends::of(plan, own, &replay.entries);
    let mut spans = RunSpans::begin();
    let part = &order.parts.parts[order.part].id;
    if let Some(spans) = &spans {
        spans.set("trueup.part", part);
    }
    let mut sink = |event: &RunEvent| {
        ends.on_event(event);
        if let Some(spans) = &mut spans {
            spans.on_event(event);
        }
        events(&session, event);
    };
    sink(&run_started(
        session.run(),
        (plan, commit, steps),
        host,
        (is_resumed, 0),
    ));
    let mut recorder = Recorder::new(&session, &mut sink);
    let dispatch = Dispatch {
        run: session.run(),
        holder: &session,
        stop,
        log: Box::new(PartLog::new(host.log(session.run(), journal), &session)),
        replay,
        scope: Some(PartScope {
            own,
            learned: &|| session.learned(),
        }),
        durations: durations(process.site)?,
    };
    let run = session.run().as_str();
    let notices = Notices::of(host.notifier(), plan, commit, run).of_part(part);
    let finished = dispatch
        .drive(process, &order.execution, host, &mut recorder)
        .inspect_err(|error| notices.broken(host.clock(), error))?;
    let ended = session.finish(!finished.interrupted).map_err(Error::from);
    ended.inspect_err(|error| notices.broken(host.clock(), error))?;
    let mut summary = ends.summary(steps, finished);
    if let Some(reason) = summary.stop_reason() {
        let steps = summary.failed.iter().chain(&summary.undecided);
        summary.undelivered = notices.part_stopped(&host.clock().now(), reason, steps);
    }
    Ok(summary)
}

/// The durations of steps in past runs; none if they cannot be read.
fn durations(site: &SiteRepository<'_>) -> Result<Durations, Error> {
    let store = Store::open(site.repository, &site.name)?;
    let state = store.read()?;
    Ok(Durations::read(&store, &state).unwrap_or_default())
}

/// The ends of the steps of a part, those of earlier workers among them.
struct Ends(BTreeMap<StepId, StepOutcome>);

impl Ends {
    fn of(plan: &Plan, own: &[bool], entries: &[Entry]) -> Self {
        let positions = plan.positions();
        let is_own = |step: &StepId| positions.get(step).is_some_and(|index| own[*index]);
        let ended = entries.iter().filter_map(|entry| match entry {
            Entry::Ended { step, outcome, .. } if is_own(step) => {
                Some((step.clone(), outcome.clone()))
            }
            _ => None,
        });
        Self(ended.collect())
    }

    fn on_event(&mut self, event: &RunEvent) {
        if let run::EventKind::StepFinished { step, outcome, .. } = &event.kind {
            self.0.insert(step.clone(), outcome.clone());
        }
    }

    fn summary(self, steps: usize, finished: Finished) -> PartSummary {
        let mut summary = PartSummary {
            unfinished: steps.saturating_sub(self.0.len()),
            undecided: finished.undecided,
            ..PartSummary::default()
        };
        for (step, outcome) in self.0 {
            match outcome {
                StepOutcome::Succeeded | StepOutcome::NotNeeded => summary.succeeded += 1,
                StepOutcome::Skipped { reason } => {
                    summary.skipped += 1;
                    summary.skipped_because.get_or_insert(reason);
                }
                StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
                    summary.failed.push((step, message));
                }
            }
        }
        summary
    }
}

/// How a run was ended.
pub enum RunEnd<'a> {
    /// Parts are unfinished, those that a worker has, or had: the lock stays the workers', and nothing is tagged.
    Unfinished(Vec<Arc<str>>),
    /// It has ended.
    Ended(Box<Carried<'a>>),
}

/// Ends a run whose parts have ended: decides what is left, writes the records and the tag, and releases the lock.
///
/// # Errors
///
/// Those of [`run::end_run`]; [`Error::Steps`]; those of the end of the run.
pub fn end_run<'a>(
    process: Process<'a>,
    interrupted: &'a Interrupted,
    execution: &Execution<'a>,
    caller: Caller<'_>,
) -> Result<RunEnd<'a>, Error> {
    let plan = execution.plan;
    let all = vec![true; plan.steps.len()];
    let is_complete = |entries: &[Entry]| Ok(acting(interrupted, plan, &all, entries)?.is_empty());
    let nodes = &execution.guarded.nodes;
    match run::end_run(process, interrupted, plan, nodes, &is_complete)? {
        Ending::Unfinished(parts) => Ok(RunEnd::Unfinished(parts)),
        Ending::Complete(begun) => {
            let carried = carry_out(process, *begun, execution, caller, true)?;
            Ok(RunEnd::Ended(Box::new(carried)))
        }
    }
}

/// Checks that the plan of a run in the records is the one that the run began with: by its digest, which this clone noted or the
/// caller knows. Every account with push rights can write the records; if the site takes signed runs only, the
/// signature vouches for them.
///
/// # Errors
///
/// It is another plan, or nothing vouches for it.
pub fn vouched(
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
    plan: &Plan,
    known: Option<&Digest>,
) -> Result<(), Failure> {
    let run = &interrupted.record.run;
    let digest = saved::digest(plan);
    let known = known.or(interrupted.noted_plan.as_ref());
    match known {
        Some(known) if *known == digest => Ok(()),
        Some(_) => {
            let text =
                format!("the plan of run {run} in the records is not the one that it began with");
            Err(Failure::new(FailureKind::Guard, text)
                .hint(format!(
                    "`trueup run begin` with the plan and name of the run prints its digest again; if that is the one that was passed, the \
                     records were changed: `trueup run abort {run}` aborts the run"
                )))
        }
        None if !run::needs_plan_digest(site, None)? => Ok(()),
        None => {
            let text =
                format!("nothing vouches for the plan of run {run}, which began in another clone");
            Err(Failure::new(FailureKind::Guard, text).hint(
                "pass `--plan-digest DIGEST` as `trueup run begin` printed it (there, the same command prints it again), or let the site demand signed runs",
            ))
        }
    }
}

/// The commit of a run, fetched if this clone is older.
///
/// # Errors
///
/// It is nowhere.
pub fn with_commit(
    checkout: &super::Checkout<'_>,
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
) -> Result<CommitId, Failure> {
    super::recorded(checkout, &site.connection, &interrupted.record.revision)
}
