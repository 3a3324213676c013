//! Which steps start next, and what each is given.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::Error;
use super::dispatcher::Dispatcher;
use super::driver::Driver;
use super::runner::{Runner, StepListener};
use super::schedule::Schedule;
use crate::backend::{Order, Reporter};
use crate::design::NodeDesign;
use crate::journal::{Decision, Entry, StepOutcome};
use crate::step::{StepId, StepKind};

impl<'a> Driver<'a> for Dispatcher<'a> {
    type Error = Error;

    fn schedule(&mut self) -> &mut Schedule<'a> {
        &mut self.schedule
    }

    fn settle_at_once(&mut self, index: usize, outcome: StepOutcome) -> Result<(), Error> {
        self.settle(index, outcome, false, 0)
    }

    /// Writes the intent of a step, unless it was decided that it is done.
    fn begin(&mut self, index: usize) -> Result<(), Error> {
        let step = &self.plan.steps[index];
        let decision = self.decided.remove(&index);
        if decision == Some(Decision::Done) {
            return self.settle(index, StepOutcome::Succeeded, true, 0);
        }
        self.work.log.append(&Entry::Intent {
            step: step.id.clone(),
        })?;
        self.schedule.started(index);
        self.running.insert(index, Instant::now());
        self.say_started(index, 1);
        let probe_first = self.schedule.begun[index] && decision.is_none();
        let runner = self.runner(index, probe_first);
        self.starting.push(runner);
        Ok(())
    }
}

impl Dispatcher<'_> {
    /// Takes the steps that may start now, writes their intents, and reports them.
    pub(super) fn take_starting(&mut self) -> Result<Vec<Runner>, Error> {
        if self.schedule.has_free_place_for_waiting() && (self.work.may_start)() {
            self.begin_waiting()?;
        }
        Ok(std::mem::take(&mut self.starting))
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
