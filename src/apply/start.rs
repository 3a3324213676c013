//! Which steps start next, and what each is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::Error;
use super::dispatcher::Dispatcher;
use super::driver::Driver;
use super::runner::{Runner, StepListener};
use super::schedule::Schedule;
use crate::backend::{NOT_BEGUN, Order, Reporter};
use crate::design::{NodeDesign, NodeName, Section};
use crate::journal::{Decision, Entry, StepOutcome};
use crate::step::{DECIDED_DONE, Parameters, SoakParameters, SoakTerms, Step, StepId, StepKind};

/// The seconds that one look takes at most: a request and its answer, beside the time that a step keeps to report why.
const LOOK: u64 = 10;

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
            self.note(index, DECIDED_DONE)?;
            return self.end_as_decided(index);
        }
        if decision == Some(Decision::NotBegun) {
            // What it noted before counts no more.
            self.note(index, NOT_BEGUN)?;
        }
        // If it is not known whether it was begun, that is found out first.
        let is_known = !self.schedule.only_possibly_begun[index];
        let held_back = match is_known {
            true => None,
            false => self.schedule.held_back(index),
        };
        self.work.log.append(&Entry::Intent {
            step: step.id.clone(),
        })?;
        self.schedule.started(index);
        self.running.insert(index, Instant::now());
        self.say_started(index, 1);
        let probe_first = self.schedule.begun[index] && decision.is_none();
        let mut runner = self.runner(index, probe_first);
        runner.held_back = held_back;
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

    /// Ends a step that was decided to be done. What a deploy has set for its own time is taken back first, since
    /// no other step does.
    fn end_as_decided(&mut self, index: usize) -> Result<(), Error> {
        if self.plan.steps[index].id.kind != StepKind::Deploy {
            return self.settle(index, StepOutcome::Succeeded, true, 0);
        }
        self.schedule.started(index);
        self.running.insert(index, Instant::now());
        let mut runner = self.runner(index, false);
        runner.is_decided = true;
        self.starting.push(runner);
        Ok(())
    }

    /// Notes what an operator has decided about a step.
    fn note(&mut self, index: usize, text: &str) -> Result<(), Error> {
        let text: Arc<str> = Arc::from(text);
        self.work.log.append(&Entry::Note {
            step: self.plan.steps[index].id.clone(),
            text: text.clone(),
        })?;
        self.notes.entry(index).or_default().push(text);
        Ok(())
    }

    /// The runner of a step.
    fn runner(&mut self, index: usize, probe_first: bool) -> Runner {
        let mut step = self.plan.steps[index].clone();
        let timeout = self.time_of(&step);
        step.timeout = timeout;
        self.soak_those_that_came_back(&mut step);
        let mut notes = self.taken_before(index);
        notes.extend(self.notes.get(&index).into_iter().flatten().cloned());
        Runner {
            index,
            listener: StepListener::new(index, self.reports.clone(), notes.clone()),
            order: Order {
                leaving: self.leaving(index),
                soaked: self.soaked(&step),
                notes,
                reporter: Reporter::default(),
                run: self.work.run.clone(),
                node: self.design_for(&step.id),
                step: Arc::new(step),
            },
            probe_first,
            held_back: None,
            timeout: (timeout > 0).then(|| Duration::from_secs(timeout)),
            hardware: self.work.hardware.clone(),
            preconditions: self.work.preconditions.clone(),
            stop: self.work.stop.clone(),
            fence: self.work.fence.clone(),
            reports: self.reports.clone(),
            gate: None,
            attempted: false,
            is_decided: false,
        }
    }

    /// Lets a soak watch the nodes that have come back: those that have not are for the criteria of their group.
    fn soak_those_that_came_back(&self, step: &mut Step) {
        let Some(parameters) = &mut step.parameters else {
            return;
        };
        let Parameters::Soak(SoakParameters { soak: Some(soak) }) = Arc::make_mut(parameters)
        else {
            return;
        };
        let nodes = self.schedule.tally.nodes.iter();
        let back = nodes.filter(|node| node.view.achieved.has(StepKind::AwaitReady));
        let back: BTreeSet<&NodeName> = back.map(|node| &node.name).collect();
        let SoakTerms { nodes, joined, .. } = &mut **soak;
        nodes.retain(|node| back.contains(node) || joined.contains(node));
    }

    /// The machines whose parts a soak reads.
    fn soaked(&mut self, step: &Step) -> Arc<[Arc<NodeDesign>]> {
        let terms = step.given().soak().as_deref();
        let terms = terms.filter(|terms| terms.parts);
        let nodes = terms.into_iter().flat_map(|terms| &terms.nodes);
        let designs = nodes.filter_map(|name| self.designed.get(name.as_str()).cloned());
        designs.collect()
    }

    /// The nodes whose etcd members steps behind this one remove.
    fn leaving(&self, index: usize) -> Arc<BTreeSet<NodeName>> {
        if self.plan.steps[index].id.kind != StepKind::RemoveEtcd {
            return Arc::default();
        }
        let later = self.plan.steps[index + 1..].iter().map(|step| &step.id);
        let later = later.filter(|id| id.kind == StepKind::RemoveEtcd);
        Arc::new(later.filter_map(|id| id.node.clone()).collect())
    }

    /// The seconds that a step may take: of a machine that an earlier run has built, those that are left; where none is,
    /// one look decides.
    fn time_of(&self, step: &Step) -> u64 {
        let deployed_at = *step.given().deployed_at();
        let Some(deployed_at) = deployed_at.filter(|_| step.timeout > 0) else {
            return step.timeout;
        };
        let now: Option<jiff::Timestamp> = self.work.clock.now().parse().ok();
        let over = now.map_or(0, |now| now.as_second().saturating_sub(deployed_at));
        let left = step
            .timeout
            .saturating_sub(u64::try_from(over).unwrap_or_default());
        left.max(LOOK)
    }

    /// The design that a step works by: what is torn down is as it was applied, and is compared with the hardware that
    /// the design of now says.
    fn design_for(&mut self, step: &StepId) -> Option<Arc<NodeDesign>> {
        let name = step.node.as_ref()?.as_str();
        let (now, applied) = (self.designed.get(name), self.applied.get(name));
        if step.kind != StepKind::Destroy {
            return now.or(applied).cloned();
        }
        match (applied, now) {
            (Some(applied), Some(now)) if now.differs_in(Section::Hardware, applied) => {
                Some(Arc::new(applied.compared_as(now)))
            }
            (applied, now) => applied.or(now).cloned(),
        }
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
