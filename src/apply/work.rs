//! What the dispatcher is given, and what it gives back.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::{Event, GroupResult, Log, NodeOutcome, NodeResult, Replay};
use crate::backend::{Fence, Hardware, Order, Pending};
use crate::design::{NodeDesign, NodeName, RunId};
use crate::journal;
use crate::plan::{Plan, Standing};
use crate::record::{Counts, Outcome};
use crate::step::{StepId, StepIndex};

/// One run of one plan.
pub struct Work<'a> {
    /// Which run; part of every marker that a backend leaves, and of the jitter of retries.
    pub run: RunId,
    /// The plan, whose options count.
    pub plan: &'a Plan,
    /// The designs to be reached.
    pub nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The designs that were applied last, for what is torn down; where a node is not in it, its
    /// design in `nodes` counts.
    pub applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// Who moves machines.
    pub hardware: Arc<dyn Hardware>,
    /// Where intents and outcomes become durable.
    pub log: &'a mut dyn Log,
    /// What an interrupted run did before.
    pub replay: Replay,
    /// Tells the time of events.
    pub clock: &'a dyn Clock,
    /// How the run is asked to stop.
    pub stop: Stop,
    /// How long what runs is waited for after the first request; `None`: without limit.
    pub stop_grace: Option<Duration>,
    /// Ask for a stop after so long.
    pub stop_after: Option<Duration>,
    /// Checks the facts that a step relies on as it starts.
    pub preconditions: Arc<dyn Preconditions>,
    /// Whether the lock is fresh enough that another step may start. Asked before each batch of
    /// steps; while it says no, nothing starts, and it is asked again every second.
    pub may_start: &'a dyn Fn() -> bool,
    /// The lease of the lock, which each step asks before each request that changes something.
    pub fence: Fence,
}

/// Tells the time.
pub trait Clock {
    /// Now, RFC 3339 in UTC with milliseconds.
    fn now(&self) -> Arc<str>;
}

/// Checks the facts that a step relies on, again, at the instant of the act.
pub trait Preconditions: Send + Sync {
    /// Ok, or why the step may not start: `precondition-changed: …` where a fact of the plan does not hold
    /// any more, else the refusal of a guard. `step` is where the ordered step stands in the plan.
    ///
    /// # Errors
    ///
    /// The step then fails with this message and is not attempted.
    fn check<'a>(&'a self, step: StepIndex, order: &'a Order) -> Pending<'a, Result<(), Arc<str>>>;
}

/// Relies on nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoPreconditions;

impl Preconditions for NoPreconditions {
    fn check<'a>(&'a self, _: StepIndex, _: &'a Order) -> Pending<'a, Result<(), Arc<str>>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Who hears what happens. Both are called when what they tell of is durable in the journal, and
/// before anything that follows from it is done.
pub trait Listener {
    /// Something happens.
    fn event(&mut self, event: Event);

    /// A step noted something for itself, and goes on when `go_on` is sent. What others have to find before
    /// that is published first, by somebody else: this does not wait for it.
    fn noted(&mut self, _step: &StepId, _text: &Arc<str>, go_on: oneshot::Sender<()>) {
        // Nobody waits any more where the step's time was up.
        let _ = go_on.send(());
    }

    /// A step is about to start, whose start was told: what it waits for.
    fn starting(&mut self, _step: &StepId) -> Option<oneshot::Receiver<()>> {
        None
    }

    /// The record of a node changes.
    fn node_changed(&mut self, outcome: NodeOutcome);
}

/// How urgently a run should stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    #[default]
    None,
    /// Nothing new starts, what runs is waited for.
    Graceful,
    /// At once.
    Immediate,
}

/// Asks a run to stop: once, nothing new starts; twice, at once.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<watch::Sender<Urgency>>);

/// The run's side of a [`StopHandle`].
#[derive(Clone, Debug)]
pub struct Stop {
    receiver: watch::Receiver<Urgency>,
    /// Keeps the channel open where no handle is kept.
    handle: StopHandle,
}

impl StopHandle {
    /// Asks once more.
    pub fn stop(&self) {
        self.0.send_modify(|urgency| {
            *urgency = match *urgency {
                Urgency::None => Urgency::Graceful,
                _ => Urgency::Immediate,
            };
        });
    }
}

impl StopHandle {
    /// Asks as if somebody had asked twice.
    pub fn stop_at_once(&self) {
        self.0.send_replace(Urgency::Immediate);
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A run that nobody asked to stop yet.
    #[must_use]
    pub fn new() -> Self {
        let (sender, receiver) = watch::channel(Urgency::None);
        Self {
            receiver,
            handle: StopHandle(Arc::new(sender)),
        }
    }

    /// What asks it to stop.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// Whether it was asked at least once.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.receiver.borrow() >= Urgency::Graceful
    }

    /// Whether it was asked at least twice.
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        *self.receiver.borrow() >= Urgency::Immediate
    }

    /// Waits until it was asked once.
    pub async fn asked(&mut self) {
        self.at_least(Urgency::Graceful).await;
    }

    /// Waits until it was asked twice.
    pub async fn immediately(&mut self) {
        self.at_least(Urgency::Immediate).await;
    }

    async fn at_least(&mut self, wanted: Urgency) {
        if self
            .receiver
            .wait_for(|urgency| *urgency >= wanted)
            .await
            .is_err()
        {
            // The channel cannot close while `handle` lives.
            std::future::pending::<()>().await;
        }
    }
}

/// How a run stands when the dispatcher returns.
///
/// The tag step is not carried out here: it is the only one that waits for everything else, and what
/// is tagged depends on `outcome`. Whoever called does it next, when `interrupted` is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended: `Interrupted` where steps are left that may still run.
    pub outcome: Outcome,
    /// The groups, in the order in which they ran.
    pub groups: Vec<GroupResult>,
    /// The nodes that the plan changes, sorted.
    pub nodes: Vec<NodeResult>,
    /// Counts of those nodes.
    pub counts: Counts,
    /// How every node stands that is in a group or changes.
    pub standings: BTreeMap<NodeName, Standing>,
    /// Whether steps are left that may still run.
    pub interrupted: bool,
    /// Whether a critical group failed.
    pub critical_failed: bool,
    /// Whether it was halted because too many nodes failed.
    pub halted: bool,
    /// Steps that had begun and whose end is not known.
    pub under_way: Vec<StepId>,
    /// Steps that nobody can tell about from outside, with the evidence to look at. They and what
    /// depends on them wait for a [`Decision`](super::Decision).
    pub undecided: Vec<(StepId, Arc<str>)>,
    /// Nodes that were drained and whose steps after that did not all succeed, though their machines
    /// are what they were; sorted.
    pub left_cordoned: Vec<NodeName>,
    /// How long it took, in milliseconds; the part before an interruption is not in it.
    pub duration_ms: u64,
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was done could not be written down; nothing more was begun.
    #[error("failed to keep the journal of the run")]
    Journal(#[from] journal::Error),
    /// The journal tells of a step that the plan does not have.
    #[error("the journal is of another plan: it tells of `{0}`")]
    OtherPlan(Arc<str>),
    /// A decision is about a step that the plan does not have, or that does not need one.
    #[error("there is nothing to decide about `{0}`")]
    NothingToDecide(Arc<str>),
    /// The plan's steps are no graph that can be run.
    #[error("the plan cannot be carried out: {0}")]
    Plan(Arc<str>),
}

/// How many nodes a group works on at the same time.
pub(super) fn parallelism(plan: &Plan) -> usize {
    NonZeroUsize::new(plan.options.parallelism).map_or(1, NonZeroUsize::get)
}
