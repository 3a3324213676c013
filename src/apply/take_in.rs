//! The consequences of the end of a step, live or from the journal.
//!
//! A resumed run takes in the same outcomes in the same order, and so comes to the same state.

use std::sync::Arc;

use super::schedule::Schedule;
use crate::journal::StepOutcome;
use crate::step::{KindSubject, StepKind};

impl Schedule<'_> {
    /// Takes in how a step ended, now or in the journal.
    pub(super) fn take_in(
        &mut self,
        index: usize,
        outcome: &StepOutcome,
        attempted: bool,
        duration_ms: u64,
    ) {
        let step = &self.plan.steps[index];
        let kind = step.id.kind;
        let group = self.group_of(index);
        let succeeded = matches!(outcome, StepOutcome::Succeeded | StepOutcome::NotNeeded);
        self.ended[index] = Some(succeeded);
        self.unfinished -= usize::from(self.counts(index));
        if let Some(why) = self.why(index, outcome) {
            self.why_not.insert(index, why);
        }
        self.group_step_ended(index, kind, outcome, succeeded);
        if let Some(node) = self.node_of(index) {
            let gate_open = match self.gate_of[index] {
                Some(gate) => self.ended[gate as usize].is_none(),
                None => matches!(kind, StepKind::Relabel | StepKind::PowerOn),
            };
            let open =
                group.filter(|group| gate_open && self.tally.group_tallies[*group].open_gates > 0);
            let failed = matches!(
                outcome,
                StepOutcome::Failed { .. } | StepOutcome::Unknown { .. }
            );
            if failed && self.is_tolerated(index) {
                self.tally.nodes[node].view.achieved.add(kind);
            } else {
                self.tally
                    .node_step_ended(node, step, outcome, attempted, open);
            }
            if failed && !attempted {
                self.tally.nodes[node].view.refused.add(kind);
            }
            self.places.take_in(node, &self.tally);
            let node = &mut self.tally.nodes[node];
            node.view.duration_ms += duration_ms;
            if node.open == Some(index) {
                node.open = None;
                let parked = std::mem::take(&mut node.parked);
                self.wake(parked);
            }
        }
        if let Some(most) = self.plan.options.max_failures {
            self.halted |= self.tally.failures > most;
        }
        self.graph.end(index, succeeded);
        if let Some(group) = group {
            self.release(index, group);
        }
    }

    fn group_step_ended(
        &mut self,
        index: usize,
        kind: StepKind,
        outcome: &StepOutcome,
        succeeded: bool,
    ) {
        if let StepOutcome::Failed { message } | StepOutcome::Unknown { message } = outcome {
            let subject = kind.facts().subject;
            if kind == StepKind::Soak {
                let id = &self.plan.steps[index].id;
                let why = format!("`{id}`: {message}");
                self.unhealthy.get_or_insert(why.into());
                self.halted = true;
            }
            match (subject, self.group_of(index)) {
                (KindSubject::Site, _) if kind.facts().touches_world() => {
                    let reason = format!("`{kind}` failed: {message}");
                    self.site_failed.get_or_insert(reason.into());
                }
                // The critical check tells of groups that have failed.
                (KindSubject::Site, _) => self.step_failed |= kind != StepKind::CriticalCheck,
                (KindSubject::Group, Some(group)) => {
                    let failed = &mut self.tally.group_tallies[group].failed;
                    failed.get_or_insert(message.clone());
                }
                (KindSubject::Group, None) => self.step_failed = true,
                (KindSubject::Node | KindSubject::NodeOrSite, _) => {
                    self.step_failed |= !self.is_tolerated(index);
                }
            }
        }
        let Some(group) = self.group_of(index) else {
            return;
        };
        let wave = self.wave_of[index];
        let has_begun = wave.is_some_and(|wave| self.ended[wave as usize] == Some(true));
        let destroys = self.torn_down_by.get(&index).copied();
        if kind == StepKind::GatePrepared {
            self.tally.gate_judged(group);
        }
        let tally = &mut self.tally.group_tallies[group];
        if kind == StepKind::GateDeployed {
            let is_judged = !matches!(outcome, StepOutcome::Skipped { .. });
            tally.ended = is_judged.then_some(succeeded);
        }
        if kind == StepKind::StartWave && succeeded {
            tally.to_tear_down += destroys.unwrap_or_default();
        }
        if kind == StepKind::Destroy && has_begun {
            tally.to_tear_down = tally.to_tear_down.saturating_sub(1);
        }
    }

    /// Whether a step may fail: the kubelet of a machine that is destroyed next stops then at the latest
    /// (airship-node-teardown, "Shutdown the kubelet").
    pub(super) fn is_tolerated(&self, index: usize) -> bool {
        self.tolerated.contains(&index)
    }

    /// Lets steps that were put aside be decided again.
    pub(super) fn wake(&mut self, parked: Vec<u32>) {
        for parked in parked {
            self.graph.again(parked);
        }
    }

    /// Makes deploys that waited for their gate ready, once it was judged or can no longer fail.
    fn release(&mut self, index: usize, group: usize) {
        let judged = self.plan.steps[index].id.kind == StepKind::GatePrepared;
        if self.tally.group_tallies[group].parked.is_empty() {
            return;
        }
        if judged || self.tally.gate_is_certain(group) {
            let parked = std::mem::take(&mut self.tally.group_tallies[group].parked);
            self.wake(parked);
        }
    }

    /// The reason for those that need the success of a step that did not succeed.
    fn why(&self, index: usize, outcome: &StepOutcome) -> Option<Arc<str>> {
        let id = &self.plan.steps[index].id;
        match outcome {
            StepOutcome::Succeeded | StepOutcome::NotNeeded => None,
            StepOutcome::Skipped { reason } => Some(reason.clone()),
            StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
                Some(match (id.kind, &id.group) {
                    (StepKind::GateDeployed, Some(group)) => {
                        format!("group `{group}` failed").into()
                    }
                    (StepKind::StartGroup, _) => message.clone(),
                    (StepKind::StartWave, _) => format!("`{id}`: {message}").into(),
                    (StepKind::GatePrepared, Some(group)) => {
                        format!("group `{group}` failed, {message}").into()
                    }
                    _ => format!("`{id}` failed").into(),
                })
            }
        }
    }
}
