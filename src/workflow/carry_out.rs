//! Carries a plan out whose run has begun: dispatches its steps, and ends the run.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::notices::Notices;
use super::run_spans::RunSpans;
use super::{Error, time_left};
use crate::apply::{
    self, DispatchRequest, EventClock, ExpectedDurations, PreconditionChecker, Preconditions,
};
use crate::backend::{self, Backends, Hardware, Notifier};
use crate::design::{Digests, NodeDesign, NodeName, RunId};
use crate::guard::Guarded;
use crate::journal::{Journal, Log, Replay};
use crate::plan::Plan;
use crate::repository::CommitId;
use crate::run::{
    Begun, Durations, EventKind, Finished, GitWork, LeaseHolder, Process, Recorder, RunEvent,
    RunListener, RunReport, Session, Stop, StopHandle, Timekeeper, with_heartbeat,
};
use crate::telemetry::{Phase, in_phase};

/// The interval at which a run checks its lock and its records.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// A plan that is carried out, and with what.
pub struct Execution<'a> {
    /// The plan.
    pub plan: &'a Arc<Plan>,
    /// The design to be reached, and the guards that hold.
    pub guarded: &'a Guarded,
    /// The designs that were applied last, for what is torn down.
    pub applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// Gives the backends, on the thread that drives the steps.
    pub backends: &'a dyn Fn() -> Arc<Backends>,
    /// Steps that are found out about and never begun, by their positions, and why.
    pub refused: &'a BTreeMap<usize, Arc<str>>,
    /// The digests by the rules of now of records of earlier ones.
    pub renewed: &'a BTreeMap<NodeName, Digests>,
    /// How long it may take.
    pub limits: RunLimits,
}

impl Execution<'_> {
    /// How long the run may still run; `None`: without bound.
    ///
    /// # Errors
    ///
    /// [`Error::WindowClosed`] if it has to be in a maintenance window and none is open.
    pub(super) fn time_left(&self, time: &dyn Timekeeper) -> Result<Option<Duration>, Error> {
        match self.limits.outside_windows {
            true => Ok(None),
            false => time_left(time, self.guarded.guards(), self.plan),
        }
    }
}

/// How long a run may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunLimits {
    /// How long what runs is waited for after the first request to stop; `None`: without limit.
    pub stop_grace: Option<Duration>,
    /// Ask for a stop after so long.
    pub stop_after: Option<Duration>,
    /// Leave the maintenance windows of the policy, though the plan does not: one that is resumed, or has no step left.
    pub outside_windows: bool,
}

/// The steps of a run, to be driven to their end.
pub type Steps<'a> = Pin<Box<dyn Future<Output = Result<Finished, apply::Error>> + 'a>>;

/// The process that a run lives in. What has a default is replaced by tests that inject faults.
pub trait RunHost {
    /// The time of events.
    fn clock(&self) -> &dyn EventClock;

    /// Drives the steps of a run to their end, as [`drive_on`] does on a runtime.
    ///
    /// # Errors
    ///
    /// Those of the steps.
    fn drive(&self, holder: &dyn LeaseHolder, steps: Steps<'_>) -> Result<Finished, apply::Error>;

    /// The destinations that are told of the run.
    fn notifier(&self) -> Option<&Notifier> {
        None
    }

    /// A run begins, which `stop` asks to stop.
    fn begins(&self, _stop: StopHandle) {}

    /// Whether another step may start.
    fn may_start(&self, holder: &dyn LeaseHolder) -> bool {
        holder.lease().fence().holds()
    }

    /// The log that the entries of a run are written to.
    fn log(&self, _run: &RunId, journal: Journal) -> Box<dyn Log> {
        Box::new(journal)
    }

    /// The hardware that the steps of a run act on.
    fn hardware(&self, backends: Arc<Backends>) -> Arc<dyn Hardware> {
        backends
    }

    /// The preconditions that the steps of a run are held to.
    fn preconditions(&self, preconditions: PreconditionChecker) -> Arc<dyn Preconditions> {
        Arc::new(preconditions)
    }
}

/// The caller of a workflow.
pub struct Caller<'a> {
    /// The process that the run lives in.
    pub host: &'a dyn RunHost,
    /// Hears the events of the run.
    pub events: &'a mut dyn FnMut(&dyn LeaseHolder, &RunEvent),
}

/// A run that was carried out.
pub struct Carried<'a> {
    /// The session of the run, which has ended.
    pub session: Session<'a>,
    /// Its report.
    pub report: RunReport,
    /// How it stood when the dispatcher returned.
    pub finished: Finished,
}

/// Drives steps on a runtime, while a thread of its own renews the lock and writes the records of their run.
///
/// # Errors
///
/// Those of the steps.
pub fn drive_on(
    runtime: &tokio::runtime::Runtime,
    backends: &Backends,
    holder: &dyn LeaseHolder,
    steps: impl Future<Output = Result<Finished, apply::Error>>,
) -> Result<Finished, apply::Error> {
    let git = match backends.clock() {
        backend::Clock::Virtual => GitWork::Inline,
        backend::Clock::Real => GitWork::Background,
    };
    with_heartbeat(holder, HEARTBEAT, git, || {
        runtime.block_on(backends.in_time(steps))
    })
}

/// Carries a plan out whose run has begun.
pub(super) fn carry_out<'a>(
    process: Process<'_>,
    begun: Begun<'a>,
    execution: &Execution<'_>,
    caller: Caller<'_>,
    resumed: bool,
) -> Result<Carried<'a>, Error> {
    in_phase(Phase::Apply, || {
        dispatch(process, begun, execution, caller, resumed)
    })
}

fn dispatch<'a>(
    process: Process<'_>,
    begun: Begun<'a>,
    execution: &Execution<'_>,
    caller: Caller<'_>,
    resumed: bool,
) -> Result<Carried<'a>, Error> {
    let Begun {
        session,
        journal,
        replay,
    } = begun;
    let Caller { host, events } = caller;
    let stop = Stop::new();
    session.lease().stop_when_lost(stop.handle());
    session.renew_records(execution.renewed.clone());
    host.begins(stop.handle());
    let mut spans = RunSpans::begin();
    let mut sink = |event: &RunEvent| {
        if let Some(spans) = &mut spans {
            spans.on_event(event);
        }
        events(&session, event);
    };
    let steps = execution.plan.steps.len();
    let plan = execution.plan;
    sink(&run_started(
        session.run(),
        (plan, session.commit(), steps),
        host,
        (resumed, session.earlier_ms()),
    ));
    let notices = Notices::of(
        host.notifier(),
        plan,
        session.commit(),
        session.run().as_str(),
    );
    // Of one that is divided that was told before its workers began.
    if !session.is_divided() {
        notices.begins(&host.clock().now(), resumed);
    }
    let mut recorder = Recorder::new(&session, &mut sink);
    let dispatch = Dispatch {
        run: session.run(),
        holder: &session,
        stop,
        log: host.log(session.run(), journal),
        replay,
        scope: None,
        durations: session.durations(),
    };
    let closes_after = closes_after(process, execution);
    let finished = dispatch
        .drive(process, execution, host, &mut recorder)
        .inspect_err(|error| notices.broken(host.clock(), error))?;
    let ended = host.clock().now();
    let report = session.finish_heard(
        recorder,
        &finished,
        &ended,
        finished.duration_ms,
        |report| {
            let took = Duration::from_millis(finished.duration_ms);
            let has_closed = closes_after.is_some_and(|after| took >= after);
            report.undelivered = notices.ended(&ended, report, has_closed);
        },
    );
    let report = report
        .map_err(Error::from)
        .inspect_err(|error| notices.broken(host.clock(), error))?;
    Ok(Carried {
        session,
        report,
        finished,
    })
}

/// Steps that are about to be dispatched, of a run or of a part of one.
pub(super) struct Dispatch<'a> {
    pub(super) run: &'a RunId,
    pub(super) holder: &'a dyn LeaseHolder,
    pub(super) stop: Stop,
    pub(super) log: Box<dyn Log + 'a>,
    pub(super) replay: Replay,
    pub(super) scope: Option<apply::PartScope<'a>>,
    pub(super) durations: Durations,
}

impl Dispatch<'_> {
    /// Drives the steps to their end.
    pub(super) fn drive(
        self,
        process: Process<'_>,
        execution: &Execution<'_>,
        host: &dyn RunHost,
        listener: &mut dyn RunListener,
    ) -> Result<Finished, Error> {
        let Self {
            run, holder, stop, ..
        } = self;
        let expected = ExpectedDurations::of(
            execution.plan,
            &execution.guarded.nodes,
            &self.durations,
            &|kind| backend::declared_duration(execution.guarded.guards(), kind),
        );
        let mut log = self.log;
        let steps = async {
            let backends = (execution.backends)();
            let unverified = execution.plan.unverified().map(NodeName::as_str);
            backends.identities().allow_unverified(unverified);
            let holds = PreconditionChecker::new(
                execution.plan.clone(),
                execution.guarded,
                execution.applied,
                backends.clone(),
            );
            let work = DispatchRequest {
                run: run.clone(),
                plan: execution.plan,
                nodes: &execution.guarded.nodes,
                applied: execution.applied,
                hardware: host.hardware(backends),
                log: &mut *log,
                replay: self.replay,
                clock: host.clock(),
                stop: stop.clone(),
                stop_grace: execution.limits.stop_grace,
                stop_after: execution.limits.stop_after,
                closes_after: closes_after(process, execution),
                preconditions: host.preconditions(holds.refusing(execution.refused.clone())),
                may_start: &|| host.may_start(holder),
                fence: holder.lease().fence(),
                expected: Some(&expected),
                scope: self.scope,
            };
            apply::execute(work, listener).await
        };
        let finished = host.drive(holder, Box::pin(steps));
        finished.map_err(|source| Error::Steps {
            run: Box::new(run.clone()),
            source,
        })
    }
}

/// After how long no window is open any more. One was open before the run began; it may have closed since.
fn closes_after(process: Process<'_>, execution: &Execution<'_>) -> Option<Duration> {
    let left = execution.time_left(process.time);
    left.unwrap_or(Some(Duration::ZERO))
}

/// The first event of a run, or of a part of one.
pub(super) fn run_started(
    run: &RunId,
    (plan, commit, steps): (&Plan, CommitId, usize),
    host: &dyn RunHost,
    (resumed, elapsed_ms): (bool, u64),
) -> RunEvent {
    RunEvent {
        time: host.clock().now(),
        elapsed_ms,
        remaining_ms: None,
        kind: EventKind::RunStarted {
            run: run.clone(),
            site: plan.site.clone(),
            action: Arc::from(plan.request.action.as_str()),
            revision: Arc::from(commit.to_string()),
            steps,
            resumed,
        },
    }
}
