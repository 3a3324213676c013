//! Which steps start next, and what each is given.

use std::cmp::Reverse;
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::Error;
use super::decide::Choice;
use super::dispatcher::Dispatcher;
use super::request::parallelism;
use super::runner::{Runner, StepListener};
use crate::backend::{Order, Reporter};
use crate::design::NodeDesign;
use crate::journal::{Decision, Entry, StepOutcome};
use crate::step::{StepId, StepKind};

impl Dispatcher<'_> {
    /// Decides about every step whose needs have ended, until nothing more follows.
    pub(super) fn decide_ready(&mut self) -> Result<(), Error> {
        while let Some(index) = self.graph.next_ready() {
            if self.ended[index].is_some() || self.running.contains_key(&index) {
                continue;
            }
            match self.choose(index) {
                Choice::End(outcome) => self.settle(index, outcome, false, 0)?,
                Choice::Run => self.enqueue(index),
                Choice::Aside | Choice::Leave => {}
            }
        }
        Ok(())
    }

    /// Takes the steps that may start now, writes their intents, and reports them.
    pub(super) fn take_starting(&mut self) -> Result<Vec<Runner>, Error> {
        let mut starting = Vec::new();
        if !self.has_free_place_for_waiting() || !(self.work.may_start)() {
            return Ok(starting);
        }
        loop {
            let lanes: Vec<usize> = self.busy_lanes.iter().copied().collect();
            for lane in lanes {
                while let Some(index) = self.next_in(lane) {
                    starting.extend(self.start(index)?);
                }
            }
            // What ended without a runner may have made more ready.
            let before = self.busy_lanes.len();
            self.decide_ready()?;
            if self.busy_lanes.len() == before {
                return Ok(starting);
            }
        }
    }

    /// The next step of a lane that has a free place.
    fn next_in(&mut self, lane: usize) -> Option<usize> {
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

    /// Starts a step, unless what it depends on has changed while it waited for a place.
    fn start(&mut self, index: usize) -> Result<Option<Runner>, Error> {
        match self.choose(index) {
            Choice::End(outcome) => self.settle(index, outcome, false, 0).map(|()| None),
            Choice::Run => self.begin(index),
            Choice::Aside | Choice::Leave => Ok(None),
        }
    }

    /// Begins a step; `None` where it was decided that it is done.
    fn begin(&mut self, index: usize) -> Result<Option<Runner>, Error> {
        let step = &self.plan.steps[index];
        let decision = self.decided.remove(&index);
        if decision == Some(Decision::Done) {
            self.settle(index, StepOutcome::Succeeded, true, 0)?;
            return Ok(None);
        }
        self.work.log.append(&Entry::Intent {
            step: step.id.clone(),
        })?;
        if let Some(node) = self.node_of(index) {
            self.tally.nodes[node].busy = true;
            self.tally.nodes[node].sent.add(step.id.kind);
        }
        let lane = self.lane_of(index);
        self.lanes[lane].running += 1;
        self.running.insert(index, Instant::now());
        self.say_started(index, 1);
        let probe_first = self.begun[index] && decision.is_none();
        Ok(Some(self.runner(index, probe_first)))
    }

    /// The runner of a step.
    fn runner(&mut self, index: usize, probe_first: bool) -> Runner {
        let step = &self.plan.steps[index];
        let mut notes = self.taken_before(index);
        notes.extend(self.notes.get(&index).into_iter().flatten().cloned());
        Runner {
            index,
            listener: StepListener::new(index, self.reports.clone(), notes.clone()),
            order: Order {
                notes,
                reporter: Reporter::default(),
                run: self.work.run.clone(),
                step: Arc::new(step.clone()),
                node: self.design_for(&step.id).cloned(),
            },
            probe_first,
            timeout: (step.timeout > 0).then(|| Duration::from_secs(step.timeout)),
            hardware: self.work.hardware.clone(),
            preconditions: self.work.preconditions.clone(),
            stop: self.work.stop.clone(),
            fence: self.work.fence.clone(),
            reports: self.reports.clone(),
            gate: None,
            attempted: false,
        }
    }

    /// The design that a step works by: what is torn down is as it was applied.
    fn design_for(&mut self, step: &StepId) -> Option<&Arc<NodeDesign>> {
        let name = step.node.as_ref()?.as_str();
        let (first, second) = match step.kind {
            StepKind::Destroy => (&mut self.applied, &mut self.designed),
            _ => (&mut self.designed, &mut self.applied),
        };
        first.get(name).or_else(|| second.get(name))
    }

    /// The notes of clear-labels about the node that a step waits for: labels to restore when it is there again.
    fn taken_before(&self, index: usize) -> Vec<Arc<str>> {
        let step = &self.plan.steps[index].id;
        if step.kind != StepKind::AwaitReady {
            return Vec::new();
        }
        let notes = self.notes.range(..index).filter(|(other, _)| {
            let other = &self.plan.steps[**other].id;
            other.kind == StepKind::ClearLabels && other.node == step.node
        });
        notes.flat_map(|(_, notes)| notes.iter().cloned()).collect()
    }
}
