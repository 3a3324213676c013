//! The inputs of the dispatcher.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::ExpectedDurations;
use crate::backend::{Fence, Hardware, Order, Pending};
use crate::design::{NodeDesign, NodeName, RunId};
use crate::journal::{self, Entry, Log, Replay};
use crate::plan::Plan;
use crate::run::Stop;
use crate::step::{StepId, StepIndex};

/// One run of one plan.
pub struct DispatchRequest<'a> {
    /// Which run; part of every marker that a backend leaves, and of the jitter of retries.
    pub run: RunId,
    /// The plan, whose options count.
    pub plan: &'a Plan,
    /// The designs to be reached.
    pub nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The designs that were applied last, for what is torn down; if a node is not in it, its
    /// design in `nodes` counts.
    pub applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The driver of machines.
    pub hardware: Arc<dyn Hardware>,
    /// Where intents and outcomes become durable.
    pub log: &'a mut dyn Log,
    /// The outcomes of an interrupted run before.
    pub replay: Replay,
    /// Tells the time of events.
    pub clock: &'a dyn EventClock,
    /// How the run is asked to stop.
    pub stop: Stop,
    /// How long what runs is waited for after the first request; `None`: without limit.
    pub stop_grace: Option<Duration>,
    /// Ask for a stop after so long.
    pub stop_after: Option<Duration>,
    /// Ask for a stop after so long, and wait for all that runs: no maintenance window is open then.
    pub closes_after: Option<Duration>,
    /// Checks the facts that a step relies on as it starts.
    pub preconditions: Arc<dyn Preconditions>,
    /// Whether the lock is fresh enough that another step may start. Asked before each batch of
    /// steps; while it refuses, nothing starts, and it is asked again every second.
    pub may_start: &'a dyn Fn() -> bool,
    /// The lease of the lock, which each step asks before each request that changes something.
    pub fence: Fence,
    /// How long the steps may take, for estimates of the time that is left; `None`: there are no estimates.
    pub expected: Option<&'a ExpectedDurations>,
    /// The part of the plan that is carried out; `None`: all of it.
    pub scope: Option<PartScope<'a>>,
}

/// The part of a plan that this process carries out. Other processes carry out the rest at the same time.
#[derive(Clone, Copy)]
pub struct PartScope<'a> {
    /// For each step of the plan, whether it is of this part.
    pub own: &'a [bool],
    /// The published entries of other parts since the last call. Asked before each batch of steps, so that limits which
    /// are of the whole run hold.
    pub learned: &'a dyn Fn() -> Vec<Entry>,
}

/// Tells the time.
pub trait EventClock {
    /// Now, RFC 3339 in UTC with milliseconds.
    fn now(&self) -> Arc<str>;
}

/// Checks the facts that a step relies on, again, at the instant of the act.
pub trait Preconditions: Send + Sync {
    /// Ok, or why the step may not start: `precondition-changed: …` if a fact of the plan does not hold
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

/// Why a run could not continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The outcomes could not be persisted; nothing more was begun.
    #[error("failed to write the journal of the run")]
    Journal(#[from] journal::Error),
    /// The journal tells of a step that the plan does not have.
    #[error("the journal belongs to another plan: step `{0}` is not in this one")]
    OtherPlan(Box<StepId>),
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
