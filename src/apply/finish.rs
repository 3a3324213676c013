//! How a run stands at its end.

use std::sync::Arc;

use super::Error;
use super::dispatcher::{Dispatcher, Message, milliseconds};
use super::schedule::Schedule;
use super::tally::{NodeTally, under_way};
use crate::journal::Entry;
use crate::plan::{Plan, Standing};
use crate::record::{Counts, Outcome, Phase};
use crate::run::{Completion, Finished, GroupResult, NodeOutcome, NodeResult, RunListener};

impl Dispatcher<'_> {
    /// Reports the steps that were still running, and sums up.
    pub(super) fn finish(mut self, listener: &mut dyn RunListener) -> Result<Finished, Error> {
        let open: Vec<usize> = (0..self.plan.steps.len())
            .filter(|index| self.schedule.begun[*index] || self.running.contains_key(index))
            .filter(|index| {
                self.schedule.ended[*index].is_none() && !self.undecided.contains_key(index)
            })
            .collect();
        let stopped = "the run stopped before its end was observed";
        let stopped = open.iter().map(|index| (*index, stopped));
        let undecided = self.undecided.iter();
        let undecided = undecided.map(|(index, evidence)| (*index, &**evidence));
        for (index, why) in stopped.chain(undecided) {
            let outcome = self.schedule.stays_open(index, why);
            let Some(outcome) = outcome else {
                continue;
            };
            self.messages.push(Message::Node(outcome));
        }
        self.speak(listener);
        let interrupted = self.schedule.unfinished > 0;
        let stopped = self.work.stop.is_asked() || !self.undecided.is_empty();
        if interrupted && !stopped {
            let step = (0..self.plan.steps.len()).find(|index| {
                self.schedule.counts(*index) && self.schedule.ended[*index].is_none()
            });
            let step = step.map_or_else(String::new, |step| self.plan.steps[step].id.to_string());
            let message = format!("`{step}` waits for something that never comes");
            return Err(Error::Plan(message.into()));
        }
        Ok(self.summary(interrupted, &open))
    }

    fn summary(self, interrupted: bool, open: &[usize]) -> Finished {
        let id = |index: &usize| self.plan.steps[*index].id.clone();
        let undecided = self.undecided.iter();
        let undecided = undecided.map(|(index, evidence)| (id(index), evidence.clone()));
        Finished {
            undecided: undecided.collect(),
            duration_ms: milliseconds(self.began.elapsed()),
            ..self.schedule.summary(interrupted, open)
        }
    }
}

/// Sums up a run by what is known of its steps, for those that carry nothing out: in an abort, and while it has not ended.
///
/// # Errors
///
/// The steps are no graph, or an entry is about a step of another plan.
pub fn sum_up(plan: &Plan, entries: &[Entry]) -> Result<Finished, Error> {
    let mut schedule = Schedule::of_entries(plan, entries)?;
    let is_open = |index: &usize| schedule.begun[*index] && schedule.ended[*index].is_none();
    let open: Vec<usize> = (0..plan.steps.len()).filter(is_open).collect();
    for index in &open {
        schedule.stays_open(*index, "its end is not known");
    }
    Ok(schedule.summary(schedule.unfinished > 0, &open))
}

impl Schedule<'_> {
    /// Takes in that the end of a step stays unknown; the effect of that on the record of its node.
    fn stays_open(&mut self, index: usize, why: &str) -> Option<NodeOutcome> {
        let outcome = under_way(&self.plan.steps[index], why)?;
        if let Some(node) = self.node_of(index) {
            self.tally.nodes[node].unended = Some(outcome.step.to_string().into());
            if outcome.phase == Some(Phase::Unknown) {
                self.tally.stand(node, Standing::Unknown);
            }
        }
        Some(outcome)
    }

    /// How the run stands; `open`: the steps whose ends are not known.
    fn summary(&self, interrupted: bool, open: &[usize]) -> Finished {
        let groups: Vec<_> = (0..self.plan.groups.len())
            .map(|group| self.tally.result(group))
            .collect();
        let left = self.tally.nodes.iter();
        let left = left.filter_map(|node| Some((node.name.clone(), node.view.left()?)));
        let mut left: Vec<_> = left.collect();
        left.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let (nodes, counts) = node_results(&self.tally.nodes);
        let standings = self.tally.nodes.iter();
        let standings = standings.map(|node| (node.name.clone(), node.standing));
        let outcome = match interrupted {
            true => Outcome::Interrupted,
            false => self.outcome(&groups, counts),
        };
        let under_way = open.iter().map(|index| self.plan.steps[*index].id.clone());
        Finished {
            outcome,
            groups,
            nodes,
            counts,
            standings: standings.collect(),
            interrupted,
            critical_failed: self.critical_failures().next().is_some(),
            halted: self.halt().map(|why| self.with_way_out(why)),
            under_way: under_way.collect(),
            undecided: Vec::new(),
            left,
            duration_ms: 0,
        }
    }

    /// Why the run is halted, and the way out if only the guards in force halt it.
    fn with_way_out(&self, why: Arc<str>) -> Arc<str> {
        let guard = if self.unhealthy.is_some() {
            "soak"
        } else {
            "max_failures"
        };
        let way_out = self.plan.guards.way_out(&[guard]);
        way_out.map_or(why.clone(), |way_out| format!("{why}; {way_out}").into())
    }

    /// The outcome of a run whose steps have all ended.
    pub(super) fn outcome(&self, groups: &[GroupResult], counts: Counts) -> Outcome {
        let critical_failed = self.critical_failures().next().is_some();
        // Whatever the criteria say, a run of which no node succeeded is none.
        let none_succeeded = counts.failed > 0 && counts.succeeded == 0;
        let site_failed = self.site_failed.is_some() || self.halted;
        if critical_failed || site_failed || none_succeeded {
            Outcome::Failed
        } else if self.step_failed || groups.iter().any(|group| !group.succeeded) {
            Outcome::SucceededWithFailures
        } else {
            Outcome::Succeeded
        }
    }
}

/// How the nodes ended that the plan changes, sorted by name, and their counts.
pub(super) fn node_results(tallies: &[NodeTally]) -> (Vec<NodeResult>, Counts) {
    let mut counts = Counts::default();
    let mut nodes = Vec::new();
    for node in tallies.iter().filter(|node| !node.view.planned.is_empty()) {
        let (view, completion) = (&node.view, node.view.completion());
        counts.add(completion);
        nodes.push(NodeResult {
            node: node.name.clone(),
            standing: node.standing,
            failed_step: view.failed.as_ref().map(|failed| failed.0.clone()),
            message: view.failed.as_ref().map(|failed| failed.1.clone()),
            unended_step: node.unended.clone(),
            complete: completion == Completion::Complete,
            begun: completion != Completion::NotStarted,
            may_be_begun: false,
            duration_ms: view.duration_ms,
        });
    }
    nodes.sort_by(|left, right| left.node.cmp(&right.node));
    (nodes, counts)
}
