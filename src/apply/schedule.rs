//! The decisions of a run without its acts: which steps are ready, which start next, and what follows from an end.
//!
//! A [driver](super::driver::Driver) carries them out: the dispatcher of a run, which has runners and a journal, and the estimate of a
//! plan ([`super::estimate`]), for which time is a number. Both follow the same code, so that an estimate has the
//! same parallelism, waves and gates as the run.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Error;
use super::graph::Graph;
use super::places::Places;
use super::request::parallelism;
use super::tally::Tally;
use crate::plan::{self, Plan, PlannedGroup};
use crate::run::{self, EventKind};
use crate::step::{Step, StepIndex, StepKind};

/// Steps that compete for the same places: those of one group, or those outside groups.
#[derive(Clone, Default)]
pub(super) struct Lane {
    waiting: BinaryHeap<Reverse<u32>>,
    running: usize,
}

/// How far the steps of a plan are.
#[derive(Clone)]
pub(super) struct Schedule<'a> {
    pub(super) plan: &'a Plan,
    pub(super) graph: Graph,
    pub(super) tally: Tally<'a>,
    pub(super) places: Places,
    /// For each step, its group and its node.
    group_of: Arc<[Option<u32>]>,
    node_of: Arc<[Option<u32>]>,
    /// For each deploy that may overtake its gate, that gate.
    pub(super) gate_of: Arc<[Option<u32>]>,
    /// For each destroy of a wave, that wave.
    pub(super) wave_of: Arc<[Option<u32>]>,
    /// How many machines each wave tears down.
    pub(super) torn_down_by: Arc<FxHashMap<usize, usize>>,
    /// Steps whose failure is ignored.
    pub(super) tolerated: Arc<FxHashSet<usize>>,
    /// For each step, whether it ended, and with success.
    pub(super) ended: Vec<Option<bool>>,
    /// For each step, whether it runs now.
    pub(super) runs: Vec<bool>,
    /// For each step, whether an earlier run began it.
    pub(super) begun: Vec<bool>,
    /// For each step, whether that is not known, and it only may have.
    pub(super) only_possibly_begun: Vec<bool>,
    /// Why steps did not succeed, as those that need them are told.
    pub(super) why_not: FxHashMap<usize, Arc<str>>,
    pub(super) site_failed: Option<Arc<str>>,
    /// Too many nodes failed: nothing more is begun.
    pub(super) halted: bool,
    /// The problem in a soak, after which nothing more is begun.
    pub(super) unhealthy: Option<Arc<str>>,
    /// Whether anything but nodes and groups failed.
    pub(super) step_failed: bool,
    /// One lane a group, and the last for all else.
    lanes: Vec<Lane>,
    pub(super) busy_lanes: BTreeSet<usize>,
    /// How many of its own steps have not ended.
    pub(super) unfinished: usize,
    /// For each step, whether it is decided about here; `None`: all are.
    own: Option<Arc<[bool]>>,
    /// The events of decisions that were not reported yet.
    pub(super) happened: Vec<EventKind>,
}

impl<'a> Schedule<'a> {
    /// The schedule of a plan of which nothing was begun.
    pub(super) fn new(plan: &'a Plan) -> Result<Self, Error> {
        let tally = Tally::new(plan);
        let group_of: Vec<_> = plan.steps.iter().map(|step| tally.group_of(step)).collect();
        let node_of: Vec<_> = plan.steps.iter().map(|step| tally.node_of(step)).collect();
        let gate_of = gates(plan, &group_of, &tally);
        let wave_of = plan::waves_of_steps(&plan.steps);
        let steps = plan.steps.len();
        let tags = plan.steps.iter();
        let tags = tags.filter(|step| step.id.kind == StepKind::Tag).count();
        Ok(Self {
            plan,
            graph: Graph::new(&plan.steps, &gate_of)?,
            places: Places::new(plan, &tally, &wave_of),
            tally,
            group_of: group_of.into(),
            node_of: node_of.into(),
            gate_of: gate_of.into(),
            torn_down_by: Arc::new(torn_down_by(plan, &wave_of)),
            wave_of: wave_of.into(),
            tolerated: Arc::new(run::tolerated(plan)),
            ended: vec![None; steps],
            runs: vec![false; steps],
            begun: vec![false; steps],
            only_possibly_begun: vec![false; steps],
            why_not: FxHashMap::default(),
            site_failed: None,
            halted: false,
            unhealthy: None,
            step_failed: false,
            lanes: vec![Lane::default(); plan.groups.len() + 1],
            busy_lanes: BTreeSet::new(),
            unfinished: steps - tags,
            own: None,
            happened: Vec::new(),
        })
    }

    /// The same, which decides about some of the steps only. The ends of the others are taken in as they become known.
    pub(super) fn of_part(plan: &'a Plan, own: &[bool]) -> Result<Self, Error> {
        let mut schedule = Self::new(plan)?;
        schedule.own = Some(Arc::from(own));
        let counts = |index: &usize| schedule.counts(*index);
        schedule.unfinished = (0..plan.steps.len()).filter(counts).count();
        Ok(schedule)
    }

    /// Whether a step is decided about here.
    pub(super) fn is_own(&self, index: usize) -> bool {
        self.own
            .as_ref()
            .is_none_or(|own| own.get(index) == Some(&true))
    }

    /// Whether a step has to end before this schedule is at its end.
    pub(super) fn counts(&self, index: usize) -> bool {
        self.plan.steps[index].id.kind != StepKind::Tag && self.is_own(index)
    }

    /// The group of a step, by its position.
    pub(super) fn group_of(&self, index: usize) -> Option<usize> {
        self.group_of[index].map(|group| group as usize)
    }

    /// The node of a step, by its position.
    pub(super) fn node_of(&self, index: usize) -> Option<usize> {
        self.node_of[index].map(|node| node as usize)
    }

    fn lane_of(&self, index: usize) -> usize {
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

    /// The next step of a lane that has a free place.
    pub(super) fn next_in(&mut self, lane: usize) -> Option<usize> {
        let limit = parallelism(self.plan);
        loop {
            if self.lanes[lane].running >= limit {
                return None;
            }
            let Some(Reverse(next)) = self.lanes[lane].waiting.pop() else {
                self.busy_lanes.remove(&lane);
                return None;
            };
            if self.ended[next as usize].is_none() {
                return Some(next as usize);
            }
        }
    }

    /// Takes in that a step runs.
    pub(super) fn started(&mut self, index: usize) {
        if let Some(node) = self.node_of(index) {
            let kind = self.plan.steps[index].id.kind;
            self.tally.nodes[node].busy = true;
            self.tally.nodes[node].view.begun.add(kind);
            self.places.take_in(node, &self.tally);
        }
        let lane = self.lane_of(index);
        self.lanes[lane].running += 1;
        self.runs[index] = true;
    }

    /// Takes in that a step runs no more, whether it ended or not.
    pub(super) fn stopped(&mut self, index: usize) {
        self.runs[index] = false;
        let lane = self.lane_of(index);
        self.lanes[lane].running -= 1;
        if let Some(node) = self.node_of(index) {
            let node = &mut self.tally.nodes[node];
            node.busy = false;
            let parked = std::mem::take(&mut node.parked);
            self.wake(parked);
        }
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
