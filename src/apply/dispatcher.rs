//! The state of a run as the dispatcher keeps it; the files beside this one are what it does with it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use super::graph::{self, Graph};
use super::request::parallelism;
use super::runner::Report;
use super::tally::Tally;
use super::{DispatchRequest, Error};
use crate::design::{MergeJoin, NodeDesign};
use crate::journal::Decision;
use crate::plan::{Plan, PlannedGroup};
use crate::run::{EventKind, NodeOutcome, RunEvent, RunListener};
use crate::step::{Step, StepIndex, StepKind};

/// The messages to the listener once the journal is durable.
pub(super) enum Message {
    RunEvent(RunEvent),
    Node(NodeOutcome),
    Note(usize, Arc<str>, oneshot::Sender<()>),
}

/// Steps that compete for the same places: those of one group, or those outside groups.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) waiting: BinaryHeap<Reverse<u32>>,
    pub(super) running: usize,
}

/// The state of a run.
pub(super) struct Dispatcher<'a> {
    pub(super) plan: &'a Plan,
    pub(super) work: DispatchRequest<'a>,
    /// Places in the designs: the machines of a group follow each other.
    pub(super) applied: MergeJoin<'a, Arc<NodeDesign>>,
    pub(super) designed: MergeJoin<'a, Arc<NodeDesign>>,
    pub(super) graph: Graph,
    pub(super) tally: Tally<'a>,
    /// For each step, its group and its node.
    pub(super) group_of: Vec<Option<u32>>,
    pub(super) node_of: Vec<Option<u32>>,
    /// For each deploy that may overtake its gate, that gate.
    pub(super) gate_of: Vec<Option<u32>>,
    /// For each destroy of a wave, that wave.
    pub(super) wave_of: Vec<Option<u32>>,
    /// How many machines each wave tears down.
    pub(super) torn_down_by: FxHashMap<usize, usize>,
    /// For each step, whether it ended, and with success.
    pub(super) ended: Vec<Option<bool>>,
    /// For each step, whether an earlier run began it.
    pub(super) begun: Vec<bool>,
    /// For each step, whether that is not known, and it only may have.
    pub(super) only_possibly_begun: Vec<bool>,
    pub(super) decided: BTreeMap<usize, Decision>,
    /// Why steps did not succeed, as those that need them are told.
    pub(super) why_not: FxHashMap<usize, Arc<str>>,
    pub(super) site_failed: Option<Arc<str>>,
    /// Too many nodes failed: nothing more is begun.
    pub(super) halted: bool,
    /// Whether anything but nodes and groups failed.
    pub(super) step_failed: bool,
    pub(super) undecided: BTreeMap<usize, Arc<str>>,
    /// One lane a group, and the last for all else.
    pub(super) lanes: Vec<Lane>,
    pub(super) busy_lanes: BTreeSet<usize>,
    pub(super) running: BTreeMap<usize, Instant>,
    pub(super) unfinished: usize,
    pub(super) messages: Vec<Message>,
    pub(super) began: Instant,
    /// The notes of steps for themselves, in this run and before.
    pub(super) notes: BTreeMap<usize, Vec<Arc<str>>>,
    pub(super) reports: UnboundedSender<Report>,
    pub(super) reports_received: UnboundedReceiver<Report>,
}

impl<'a> Dispatcher<'a> {
    pub(super) fn new(work: DispatchRequest<'a>) -> Result<Self, Error> {
        let plan = work.plan;
        let tally = Tally::new(plan);
        let group_of: Vec<_> = plan.steps.iter().map(|step| tally.group_of(step)).collect();
        let gate_of = gates(plan, &group_of, &tally);
        let wave_of = graph::waves(&plan.steps);
        let (reports, reports_received) = unbounded_channel();
        let steps = plan.steps.len();
        let tags = plan
            .steps
            .iter()
            .filter(|step| step.id.kind == StepKind::Tag);
        Ok(Self {
            plan,
            graph: Graph::new(&plan.steps, &gate_of)?,
            node_of: plan.steps.iter().map(|step| tally.node_of(step)).collect(),
            group_of,
            gate_of,
            torn_down_by: torn_down_by(plan, &wave_of),
            wave_of,
            ended: vec![None; steps],
            begun: vec![false; steps],
            only_possibly_begun: vec![false; steps],
            decided: BTreeMap::new(),
            why_not: FxHashMap::default(),
            site_failed: None,
            halted: false,
            step_failed: false,
            undecided: BTreeMap::new(),
            lanes: (0..=plan.groups.len()).map(|_| Lane::default()).collect(),
            busy_lanes: BTreeSet::new(),
            running: BTreeMap::new(),
            unfinished: steps - tags.count(),
            messages: Vec::new(),
            began: Instant::now(),
            notes: BTreeMap::new(),
            reports,
            reports_received,
            tally,
            applied: MergeJoin::of(work.applied),
            designed: MergeJoin::of(work.nodes),
            work,
        })
    }

    /// The group of a step, by its position.
    pub(super) fn group_of(&self, index: usize) -> Option<usize> {
        self.group_of[index].map(|group| group as usize)
    }

    /// The node of a step, by its position.
    pub(super) fn node_of(&self, index: usize) -> Option<usize> {
        self.node_of[index].map(|node| node as usize)
    }

    pub(super) fn lane_of(&self, index: usize) -> usize {
        self.group_of(index).unwrap_or(self.plan.groups.len())
    }

    /// Lets a step wait for a place in its lane.
    pub(super) fn enqueue(&mut self, index: usize) {
        let lane = self.lane_of(index);
        let position = StepIndex::from_position(index).0;
        self.lanes[lane].waiting.push(Reverse(position));
        self.busy_lanes.insert(lane);
    }

    pub(super) fn has_free_place_for_waiting(&self) -> bool {
        let limit = parallelism(self.plan);
        self.busy_lanes.iter().any(|lane| {
            let lane = &self.lanes[*lane];
            lane.running < limit && !lane.waiting.is_empty()
        })
    }

    /// The critical groups that ended without success.
    pub(super) fn critical_failures(&self) -> impl Iterator<Item = &'a PlannedGroup> + '_ {
        self.plan
            .groups
            .iter()
            .zip(&self.tally.group_tallies)
            .filter(|(group, tally)| group.critical && tally.ended == Some(false))
            .map(|(group, _)| group)
    }

    /// Keeps an event until the journal is durable.
    pub(super) fn say(&mut self, kind: EventKind) {
        self.messages.push(Message::RunEvent(RunEvent {
            time: self.work.clock.now(),
            elapsed_ms: milliseconds(self.began.elapsed()),
            kind,
        }));
    }

    pub(super) fn speak(&mut self, listener: &mut dyn RunListener) {
        for saying in self.messages.drain(..) {
            match saying {
                Message::RunEvent(event) => listener.event(event),
                Message::Note(index, text, go_on) => {
                    listener.noted(&self.plan.steps[index].id, &text, go_on);
                }
                Message::Node(outcome) => listener.node_changed(outcome),
            }
        }
    }
}

/// For each deploy that may overtake its gate of prepared nodes, that gate.
fn gates(plan: &Plan, group_of: &[Option<u32>], tally: &Tally<'_>) -> Vec<Option<u32>> {
    let gate = |(step, group): (&Step, &Option<u32>)| {
        // What was prepared before waits for nothing but its gate, and so for its group.
        let overtakes = plan.options.overlap
            && step.id.kind == StepKind::Deploy
            && step.needs.len() > 1
            && group.is_some_and(|group| !tally.group_tallies[group as usize].shared);
        let mut gates = step.needs.iter().filter(|need| {
            let other = plan.steps.get(need.step.0 as usize);
            other.is_some_and(|other| other.id.kind == StepKind::GatePrepared)
        });
        gates.next().filter(|_| overtakes).map(|need| need.step.0)
    };
    plan.steps.iter().zip(group_of).map(gate).collect()
}

/// How many machines each wave tears down.
fn torn_down_by(plan: &Plan, wave_of: &[Option<u32>]) -> FxHashMap<usize, usize> {
    let mut torn_down_by: FxHashMap<usize, usize> = FxHashMap::default();
    for (step, wave) in plan.steps.iter().zip(wave_of) {
        if let Some(wave) = wave.filter(|_| step.id.kind == StepKind::Destroy) {
            *torn_down_by.entry(wave as usize).or_default() += 1;
        }
    }
    torn_down_by
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
