//! The decision about a step whose needs have all ended: it runs, it ends at once, or it waits aside.

use std::sync::Arc;

use super::schedule::Schedule;
use crate::guard::Verdict;
use crate::journal::StepOutcome;
use crate::plan::Standing;
use crate::run::{EventKind, GateStage, TAKE_OUT};
use crate::step::{Actor, StepIndex, StepKind, Wait};

/// The decision about a step.
pub(super) enum Choice {
    /// A runner carries it out.
    Run,
    /// It ends at once.
    End(StepOutcome),
    /// It waits aside, and is made ready again by what it waits for.
    Aside,
    /// It is carried out after the steps of the run.
    Leave,
}

fn failed(message: impl Into<Arc<str>>) -> Choice {
    let message = message.into();
    Choice::End(StepOutcome::Failed { message })
}

fn skipped(reason: impl Into<Arc<str>>) -> Choice {
    let reason = reason.into();
    Choice::End(StepOutcome::Skipped { reason })
}

impl Schedule<'_> {
    /// Decides about a step whose needs have all ended. Asked again as it starts.
    pub(super) fn choose(&mut self, index: usize) -> Choice {
        let kind = self.plan.steps[index].id.kind;
        let group = self.group_of(index);
        let cause = self.graph.cause(index).map(|cause| self.reason_of(cause));
        match (kind, group) {
            (StepKind::StartGroup, Some(group)) => self.start_group(group, cause),
            (StepKind::StartWave, group) => self.start_wave(index, group),
            (StepKind::GatePrepared, Some(group)) => match cause {
                Some(cause) => skipped(cause),
                None => {
                    let judged = self.prepared_at(index, group);
                    self.judge(group, GateStage::Prepared, judged)
                }
            },
            (StepKind::GateDeployed, Some(group)) => {
                match self.tally.group_tallies[group].failed.clone() {
                    Some(reason) => failed(reason),
                    None if self.halted && self.tally.is_open(group) => skipped(self.halt_reason()),
                    None => {
                        let judged = self.tally.judge_deployed(group);
                        self.judge(group, GateStage::Deployed, judged)
                    }
                }
            }
            (StepKind::CriticalCheck, _) => self.critical_check(),
            (StepKind::Tag, _) => Choice::Leave,
            (kind, _) => match (cause, kind.facts().touches_world()) {
                (Some(cause), _) => skipped(cause),
                (None, true) => self.choose_for_world(index),
                (None, false) => Choice::End(StepOutcome::Succeeded),
            },
        }
    }

    /// Why what needs the success of `cause` is not attempted.
    fn reason_of(&self, cause: usize) -> Arc<str> {
        let known = self.why_not.get(&cause).cloned();
        known.unwrap_or_else(|| format!("`{}` did not succeed", self.plan.steps[cause].id).into())
    }

    fn start_group(&mut self, group: usize, cause: Option<Arc<str>>) -> Choice {
        let planned = &self.plan.groups[group];
        if let Some(cause) = cause {
            let is_halt = self.halted && cause == self.halt_reason();
            return if is_halt {
                skipped(cause)
            } else {
                failed(cause)
            };
        }
        self.happened.push(EventKind::GroupStarted {
            group: planned.name.clone(),
            nodes: planned.nodes.len(),
        });
        Choice::End(StepOutcome::Succeeded)
    }

    fn start_wave(&self, index: usize, group: Option<usize>) -> Choice {
        let mut not_back = None;
        let needs = self.plan.steps[index].needs.iter();
        for need in needs.filter(|need| need.wait == Wait::Success) {
            let other = need.step.0 as usize;
            if self.plan.steps[other].id.kind == StepKind::AwaitReady {
                if self.is_away(other) {
                    not_back.get_or_insert(other);
                }
            } else if self.ended[other] == Some(false) {
                return skipped(self.reason_of(other));
            }
        }
        if let Some(group) = group
            && let Some(reason) = &self.tally.group_tallies[group].failed
        {
            return failed(reason.clone());
        }
        // Where other groups have sent all of its nodes, how these stand is for the group's criteria.
        let is_to_send = |first: &usize| self.node_of(*first).is_some() && !self.was_sent(*first);
        let to_send = || self.graph.dependents(index).filter(is_to_send);
        if let Some(step) = not_back
            && to_send().next().is_some()
        {
            let step = &self.plan.steps[step].id;
            return failed(format!(
                "the wave before did not come back: `{step}` did not succeed"
            ));
        }
        let of_wave = to_send().filter_map(|step| self.node_of(step));
        let no_place = self
            .places
            .no_place_for_any(of_wave, self.plan, &self.tally);
        if let Some(reason) = no_place {
            return failed(reason);
        }
        if self.halted {
            return skipped(self.halt_reason());
        }
        if group.is_some_and(|group| !self.tally.can_still_hold(group)) {
            return failed("the group's criteria can no longer hold");
        }
        Choice::End(StepOutcome::Succeeded)
    }

    /// Whether the node of a step is out of its clusters, in whichever of its groups this run took it out, or
    /// since an earlier run did, and has not come back. A node that was never sent is still what it was.
    fn is_away(&self, index: usize) -> bool {
        self.node_of(index).is_some_and(|node| {
            let view = &self.tally.nodes[node].view;
            view.is_out_of_service(!view.is_to_be_taken_out())
        })
    }

    /// Judges the prepared nodes of a group at one of its gates.
    fn prepared_at(&self, gate: usize, group: usize) -> (usize, Verdict) {
        let (successful, verdict) = self.tally.judge_prepared(group);
        match verdict.passed {
            true => (successful, verdict),
            false => {
                let successful = successful + self.in_other_groups(gate);
                self.tally.judge(group, successful)
            }
        }
    }

    /// The nodes of a group that count as prepared at one of its gates though they are not: another group builds them
    /// just now, and a later gate of this one judges them.
    fn in_other_groups(&self, gate: usize) -> usize {
        let group = self.group_of(gate);
        if group.is_none_or(|group| !self.tally.group_tallies[group].shared) {
            return 0;
        }
        let later = gate + 1..self.plan.steps.len();
        let is_under_way = |index: &usize| {
            self.plan.steps[*index].id.kind == StepKind::Prepare
                && self.ended[*index].is_none()
                && self.group_of(*index) == group
                && self.node_of(*index).is_some_and(|node| {
                    let node = &self.tally.nodes[node];
                    node.standing == Standing::NotStarted && node.view.failed.is_none()
                })
        };
        later.filter(is_under_way).count()
    }

    fn judge(
        &mut self,
        group: usize,
        stage: GateStage,
        (successful, verdict): (usize, Verdict),
    ) -> Choice {
        let planned = &self.plan.groups[group];
        let words = verdict.unmet.join("; ");
        self.happened.push(EventKind::GateEvaluated {
            group: planned.name.clone(),
            stage,
            successful,
            nodes: planned.judged(),
            passed: verdict.passed,
            unmet: verdict.unmet,
        });
        if verdict.passed {
            Choice::End(StepOutcome::Succeeded)
        } else {
            failed(format!("{stage}: {words}"))
        }
    }

    fn critical_check(&self) -> Choice {
        if let Some(reason) = &self.site_failed {
            return failed(reason.clone());
        }
        let groups: Vec<String> = self
            .critical_failures()
            .map(|group| format!("`{}`", group.name))
            .collect();
        match groups.len() {
            0 => Choice::End(StepOutcome::Succeeded),
            1 => failed(format!("critical group {} failed", groups.concat())),
            _ => failed(format!("critical groups {} failed", groups.join(", "))),
        }
    }

    fn choose_for_world(&mut self, index: usize) -> Choice {
        let node = self.node_of(index).map(|node| &mut self.tally.nodes[node]);
        if let Some(node) = node
            && (node.busy || node.open.is_some_and(|open| open != index))
        {
            // Steps of one node run one after the other, also if groups that share it run in
            // parallel, and where a process before this one began the other; the result of this one depends on
            // how that ends.
            node.parked.push(StepIndex::from_position(index).0);
            return Choice::Aside;
        }
        if self.begun[index] && !(self.only_possibly_begun[index] && self.was_sent(index)) {
            // It was asked for before the interruption: its end is wanted whatever happened since. (Where
            // it is unknown whether it was, another group may have sent its node.)
            return Choice::Run;
        }
        let step = &self.plan.steps[index];
        if self.was_sent(index) {
            return Choice::End(StepOutcome::NotNeeded);
        }
        if let Some(reason) = step.given().refused() {
            return failed(reason.clone());
        }
        if let Some(outcome) = self.held_back(index) {
            return Choice::End(outcome);
        }
        if let (Some(gate), Some(group)) = (self.gate_of[index], self.group_of(index)) {
            match self.ended[gate as usize] {
                Some(true) => {}
                Some(false) => return skipped(self.reason_of(gate as usize)),
                None if self.tally.gate_is_certain(group) => {}
                None => {
                    let parked = &mut self.tally.group_tallies[group].parked;
                    parked.push(StepIndex::from_position(index).0);
                    return Choice::Aside;
                }
            }
        }
        Choice::Run
    }

    /// How a step ends that must not be begun any more: too many nodes failed, or its node has no place among those out of service.
    pub(super) fn held_back(&self, index: usize) -> Option<StepOutcome> {
        if self.halted {
            let reason = self.halt_reason();
            return Some(StepOutcome::Skipped { reason });
        }
        let takes_out = TAKE_OUT.contains(&self.plan.steps[index].id.kind);
        let node = self.node_of(index).filter(|_| takes_out)?;
        let no_place = self.places.no_place_for(node, self.plan, &self.tally)?;
        let message = no_place.into();
        Some(StepOutcome::Failed { message })
    }

    /// Whether the step is not to be sent, because another group has sent its node already ("the
    /// workflow will not resubmit nodes that have already completed or failed in this deployment").
    fn was_sent(&self, index: usize) -> bool {
        let step = &self.plan.steps[index];
        let Some(node) = self.node_of(index) else {
            return false;
        };
        let node = &self.tally.nodes[node];
        let kind = step.id.kind;
        if node.view.begun.has(kind) {
            return true;
        }
        let is_unprepared = kind == StepKind::Deploy
            && node.view.planned.has(StepKind::Prepare)
            && !node.view.achieved.has(StepKind::Prepare);
        let is_sent_once = kind.rebuilds() || kind.facts().actor == Actor::Cluster;
        step.standby && is_sent_once && (node.view.failed.is_some() || is_unprepared)
    }

    fn halt_reason(&self) -> Arc<str> {
        format!("halted: {}", self.halt().unwrap_or_default()).into()
    }

    /// Why the run is halted, if it is.
    pub(super) fn halt(&self) -> Option<Arc<str>> {
        if let Some(unhealthy) = &self.unhealthy {
            return Some(unhealthy.clone());
        }
        let most = self.plan.options.max_failures.filter(|_| self.halted)?;
        Some(format!("more than {most} nodes failed").into())
    }
}
