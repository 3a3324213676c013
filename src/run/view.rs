//! How far each step and each machine of a plan came, by what a run has written down.
//!
//! The dispatcher keeps the machines up to date while it works; an abort reads them, and the steps, from all that is known
//! of the run. Counts, reports and hints are read from here, and interpret no end of a step themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::design::NodeName;
use crate::journal::{Entry, StepOutcome};
use crate::plan::Plan;
use crate::record::Counts;
use crate::step::{StepId, StepKind};

/// A set of kinds of step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// Puts a kind into the set.
    pub fn add(&mut self, kind: StepKind) {
        self.0 |= 1 << kind as u32;
    }

    /// Whether a kind is in the set.
    #[must_use]
    pub const fn has(self, kind: StepKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Whether no kind is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The kinds of step with which a machine leaves service.
pub const TAKE_OUT: [StepKind; 6] = [
    StepKind::Drain,
    StepKind::ShutdownKubelet,
    StepKind::RemoveEtcd,
    StepKind::PowerOff,
    StepKind::Service,
    StepKind::Destroy,
];

/// The machines that a plan takes out of service, or builds.
#[must_use]
pub fn taken_out(plan: &Plan) -> BTreeSet<NodeName> {
    let takes = |kind| TAKE_OUT.contains(&kind) || kind == StepKind::Deploy;
    let steps = plan.steps.iter().filter(|step| takes(step.id.kind));
    steps.filter_map(|step| step.id.node.clone()).collect()
}

/// How far a run brought a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No step of it has begun.
    NotStarted,
    /// Something was done to it, and not all that was planned; or a step has begun whose end is not known.
    HalfDone,
    /// A step of it failed.
    Failed,
    /// All is done that was planned.
    Complete,
}

/// A machine of a plan, in a run.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Kinds of which the plan has a step for it.
    pub planned: Kinds,
    /// Kinds that were begun.
    pub begun: Kinds,
    /// Kinds that were begun, and refused before anything was requested.
    pub refused: Kinds,
    /// Kinds that are done, or that need not be.
    pub achieved: Kinds,
    /// The first step that failed, and why.
    pub failed: Option<Box<(Arc<str>, Arc<str>)>>,
    /// Time spent on it, in milliseconds.
    pub duration_ms: u64,
}

impl NodeView {
    /// Takes in that a step failed, and why; whether it is the first one.
    pub fn fail(&mut self, step: &StepId, why: &Arc<str>) -> bool {
        let is_first = self.failed.is_none();
        if is_first {
            self.failed = Some(Box::new((step.to_string().into(), why.clone())));
        }
        is_first
    }

    /// How far it is.
    #[must_use]
    pub fn completion(&self) -> Completion {
        match () {
            () if self.failed.is_some() => Completion::Failed,
            () if self.planned == self.achieved => Completion::Complete,
            () if self.begun.is_empty() && self.achieved.is_empty() => Completion::NotStarted,
            () => Completion::HalfDone,
        }
    }

    /// Whether a kind of step may have changed something.
    fn was_requested(&self, kind: StepKind) -> bool {
        self.achieved.has(kind) || (self.begun.has(kind) && !self.refused.has(kind))
    }

    /// Whether a kind of step had begun whose end is not known.
    fn is_open(&self, kind: StepKind) -> bool {
        self.was_requested(kind) && !self.achieved.has(kind) && self.failed.is_none()
    }

    /// Whether it was built before, and the plan waits for it to join.
    #[must_use]
    pub fn is_only_awaited(&self) -> bool {
        let built = [StepKind::Destroy, StepKind::Prepare, StepKind::Deploy];
        let is_built = built.into_iter().any(|kind| self.planned.has(kind));
        self.planned.has(StepKind::AwaitReady) && !is_built && !self.is_to_be_taken_out()
    }

    /// Whether the plan takes it out of service.
    #[must_use]
    pub fn is_to_be_taken_out(&self) -> bool {
        TAKE_OUT.into_iter().any(|kind| self.planned.has(kind))
    }

    /// Whether it is out of service, as far as the run came: it was taken out, or was down before, and is not back.
    #[must_use]
    pub fn is_out_of_service(&self, was_down: bool) -> bool {
        let ways_back = [StepKind::AwaitReady, StepKind::Deploy, StepKind::Service];
        let last = ways_back.into_iter().find(|kind| self.planned.has(*kind));
        let is_back = match last {
            Some(last) => {
                let is_cordoned =
                    self.planned.has(StepKind::Uncordon) && !self.achieved.has(StepKind::Uncordon);
                self.achieved.has(last) && !is_cordoned
            }
            None => self.planned == self.achieved,
        };
        let was_taken_out = TAKE_OUT.into_iter().any(|kind| self.was_requested(kind));
        (was_down || was_taken_out) && !is_back
    }

    /// Whether its node in the cluster is gone, or may be.
    fn is_gone(&self) -> bool {
        self.was_requested(StepKind::Destroy)
            || self.was_requested(StepKind::RemoveFromCluster)
                && !self.has_failed(StepKind::RemoveFromCluster)
    }

    /// Whether a kind of step is the one that failed first.
    fn has_failed(&self, kind: StepKind) -> bool {
        let step = self.failed.as_ref().map(|failed| &*failed.0);
        step.and_then(|step| step.split('/').next()) == Some(kind.as_str())
    }

    /// Whether its node was drained and stays cordoned when the run ends as it is now.
    #[must_use]
    pub fn stays_cordoned(&self) -> bool {
        self.was_requested(StepKind::Drain)
            && !self.is_gone()
            && !self.achieved.has(StepKind::Uncordon)
    }

    /// How its node is left whose machine is what it was, where it was taken out of service and what was to follow did not.
    #[must_use]
    pub fn left(&self) -> Option<Left> {
        if self.is_gone() || self.planned == self.achieved {
            return None;
        }
        let is_rebuilt = self.planned.has(StepKind::Deploy);
        match () {
            () if self.achieved.has(StepKind::RemoveEtcd) => Some(match is_rebuilt {
                true => Left::OutOfEtcd,
                false => Left::Leaving,
            }),
            () if self.achieved.has(StepKind::ShutdownKubelet) => Some(match is_rebuilt {
                true => Left::KubeletStopped,
                false => Left::Leaving,
            }),
            () if self.is_open(StepKind::RemoveEtcd) || self.is_open(StepKind::ShutdownKubelet) => {
                Some(match is_rebuilt {
                    true => Left::OnItsWayOut,
                    false => Left::Leaving,
                })
            }
            () => self
                .was_requested(StepKind::Drain)
                .then_some(Left::Cordoned),
        }
    }
}

/// How a run leaves a node out of service whose machine is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It takes no pods.
    Cordoned,
    /// Its kubelet is stopped, too.
    KubeletStopped,
    /// Its member was removed from its etcd cluster, too.
    OutOfEtcd,
    /// One of these may be, or may come yet.
    OnItsWayOut,
    /// One of these, of a node that was to leave for good.
    Leaving,
}

impl Left {
    /// The way back, in a sentence.
    #[must_use]
    pub fn next(self, node: &NodeName) -> String {
        let out = match self {
            Self::Cordoned => {
                return format!(
                    "{node} is left cordoned; `trueup apply uncordon {node}` lets pods be scheduled on it again."
                );
            }
            Self::Leaving => {
                return format!(
                    "{node} is left cordoned and partly out of its clusters; the same change, planned anew, does the rest."
                );
            }
            Self::KubeletStopped => "its kubelet stopped",
            Self::OnItsWayOut => "may be without its kubelet or its etcd member",
            Self::OutOfEtcd => "removed from its etcd cluster",
        };
        format!(
            "{node} is left cordoned and {out}; `trueup apply redeploy {node}` wipes it and brings it back."
        )
    }
}

impl Counts {
    /// Counts a machine.
    pub fn add(&mut self, completion: Completion) {
        let place = match completion {
            Completion::Complete => &mut self.succeeded,
            Completion::Failed => &mut self.failed,
            Completion::HalfDone => &mut self.half_done,
            Completion::NotStarted => &mut self.not_started,
        };
        *place += 1;
    }
}

/// A step of which something is known.
#[derive(Debug, Default)]
pub(super) struct StepView<'a> {
    /// Whether it has begun.
    begun: bool,
    /// Whether anything was requested by the time when it ended.
    attempted: bool,
    end: Option<&'a StepOutcome>,
    notes: Vec<&'a Arc<str>>,
}

impl StepView<'_> {
    /// Whether it has begun and its end is not known.
    pub(super) fn is_open(&self) -> bool {
        self.begun && self.end.is_none()
    }

    /// Its notes.
    pub(super) fn notes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.notes.iter().copied()
    }
}

/// The steps of a run of which something is known, sorted.
pub(super) struct View<'a>(pub(super) BTreeMap<&'a StepId, StepView<'a>>);

impl<'a> View<'a> {
    /// Reads what a run has written down, in order.
    pub(super) fn of(entries: &'a [Entry]) -> Self {
        let mut steps: BTreeMap<&StepId, StepView<'_>> = BTreeMap::new();
        for entry in entries {
            match entry {
                Entry::Opened { .. } => {}
                Entry::Intent { step } => {
                    let view = steps.entry(step).or_default();
                    (view.begun, view.end) = (true, None);
                }
                Entry::Ended {
                    step,
                    outcome,
                    attempted,
                    ..
                } => {
                    let view = steps.entry(step).or_default();
                    view.begun |= attempted;
                    view.attempted = *attempted;
                    view.end = Some(outcome);
                }
                Entry::Note { step, text } => steps.entry(step).or_default().notes.push(text),
            }
        }
        Self(steps)
    }

    /// The steps that have begun, sorted.
    pub(super) fn begun(&self) -> impl Iterator<Item = &'a StepId> {
        let begun = self.0.iter().filter(|(_, view)| view.begun);
        begun.map(|(step, _)| *step)
    }

    /// Whether the end of a step is known.
    pub(super) fn has_ended(&self, step: &StepId) -> bool {
        self.0.get(step).is_some_and(|view| view.end.is_some())
    }

    /// Whether a step succeeded.
    pub(super) fn has_succeeded(&self, step: &StepId) -> bool {
        let end = self.0.get(step).and_then(|view| view.end);
        matches!(end, Some(StepOutcome::Succeeded))
    }

    /// The steps that have begun and whose end is not known, sorted.
    pub(super) fn open(&self) -> impl Iterator<Item = (&'a StepId, &StepView<'a>)> {
        let steps = self.0.iter().filter(|(_, view)| view.is_open());
        steps.map(|(step, view)| (*step, view))
    }

    /// The machines of a plan.
    pub(super) fn nodes<'p>(&self, plan: &'p Plan) -> BTreeMap<&'p NodeName, NodeView> {
        let mut nodes: BTreeMap<&NodeName, NodeView> = BTreeMap::new();
        let tolerated = tolerated(plan);
        for (index, step) in plan.steps.iter().enumerate() {
            let Some(node) = &step.id.node else { continue };
            let node = nodes.entry(node).or_default();
            let kind = step.id.kind;
            node.planned.add(kind);
            let Some(found) = self.0.get(&step.id) else {
                continue;
            };
            if found.begun {
                node.begun.add(kind);
            }
            let has_failed = matches!(
                found.end,
                Some(StepOutcome::Failed { .. } | StepOutcome::Unknown { .. })
            );
            if has_failed && !found.attempted {
                node.refused.add(kind);
            }
            match found.end {
                Some(StepOutcome::Failed { message } | StepOutcome::Unknown { message }) => {
                    match tolerated.contains(&index) {
                        true => node.achieved.add(kind),
                        false => drop(node.fail(&step.id, message)),
                    }
                }
                Some(StepOutcome::Succeeded) => node.achieved.add(kind),
                Some(StepOutcome::Skipped { .. } | StepOutcome::NotNeeded) | None => {}
            }
        }
        nodes
    }
}

/// The steps whose failure is ignored, by their places in the plan: they stop what is torn down anyway.
#[must_use]
pub fn tolerated(plan: &Plan) -> FxHashSet<usize> {
    let of_destroys = plan
        .steps
        .iter()
        .filter(|step| step.id.kind == StepKind::Destroy);
    let needed = of_destroys.flat_map(|step| step.needs.iter().map(|need| need.step.0 as usize));
    needed
        .filter(|index| plan.steps[*index].id.kind == StepKind::ShutdownKubelet)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds that were planned, begun and achieved.
    type Done<'a> = [&'a [StepKind]; 3];

    #[test]
    fn how_a_node_is_left_follows_from_what_was_done_and_whether_it_was_to_come_back() {
        use StepKind::{Deploy, Destroy, Drain, RemoveEtcd, ShutdownKubelet};
        let kinds = |kinds: &[StepKind]| {
            let mut set = Kinds::default();
            kinds.iter().for_each(|kind| set.add(*kind));
            set
        };
        let back = [Drain, RemoveEtcd, ShutdownKubelet, Destroy, Deploy];
        let gone = &back[..4];
        let cases: [(Done<'_>, Option<Left>); 9] = [
            ([&back, &[], &[]], None),
            ([&back, &[Drain], &[]], Some(Left::Cordoned)),
            (
                [&back, &[Drain, RemoveEtcd], &[Drain]],
                Some(Left::OnItsWayOut),
            ),
            (
                [gone, &[Drain, ShutdownKubelet], &[Drain]],
                Some(Left::Leaving),
            ),
            ([&back, &back[..2], &back[..2]], Some(Left::OutOfEtcd)),
            (
                [&back, &back[..3], &[Drain, ShutdownKubelet]],
                Some(Left::KubeletStopped),
            ),
            ([gone, &back[..2], &back[..2]], Some(Left::Leaving)),
            ([&back, &back[..4], &back[..3]], None),
            ([&back, &back, &back], None),
        ];
        for ([planned, begun, achieved], left) in cases {
            let view = NodeView {
                planned: kinds(planned),
                begun: kinds(begun),
                achieved: kinds(achieved),
                ..NodeView::default()
            };
            assert_eq!(view.left(), left, "{begun:?} {achieved:?} of {planned:?}");
        }
        // A node that could not be deleted is where it was, and takes no pods.
        let leaves = kinds(&[Drain, StepKind::ClearLabels, StepKind::RemoveFromCluster]);
        let mut view = NodeView {
            planned: leaves,
            begun: leaves,
            achieved: kinds(&[Drain, StepKind::ClearLabels]),
            ..NodeView::default()
        };
        assert_eq!(view.left(), None, "it may be gone");
        view.fail(
            &"remove-from-cluster/n1".parse().unwrap(),
            &Arc::from("it is Ready"),
        );
        assert_eq!(view.left(), Some(Left::Cordoned));
        assert!(view.stays_cordoned());
    }

    #[test]
    fn a_node_that_was_drained_stays_cordoned_until_it_is_uncordoned_or_gone() {
        use StepKind::{Destroy, Drain, Service, Uncordon};
        let cases: [(&[StepKind], &[StepKind], bool); 6] = [
            (&[Drain], &[Drain], true),
            (&[Drain], &[], true),
            (&[Drain, Service], &[Drain], true),
            (&[Drain, Service, Uncordon], &[Drain, Service], true),
            (&[Drain, Uncordon], &[Drain, Uncordon], false),
            (&[Drain, Destroy], &[Drain], false),
        ];
        for (begun, achieved, stays) in cases {
            let mut view = NodeView::default();
            begun.iter().for_each(|kind| view.begun.add(*kind));
            achieved.iter().for_each(|kind| view.achieved.add(*kind));
            assert_eq!(view.stays_cordoned(), stays, "{begun:?} {achieved:?}");
        }
    }

    #[test]
    fn a_machine_is_complete_only_where_all_is_done_that_was_planned() {
        use StepKind::{Deploy, Prepare};
        let kinds = |kinds: &[StepKind]| {
            let mut set = Kinds::default();
            kinds.iter().for_each(|kind| set.add(*kind));
            set
        };
        let both = [Prepare, Deploy];
        let first = &both[..1];
        let table: [(&[StepKind], &[StepKind], bool, Completion); 6] = [
            (&both, &both, false, Completion::Complete),
            (&both, &both, true, Completion::Failed),
            (&both, first, true, Completion::Failed),
            (&both, first, false, Completion::HalfDone),
            (first, &[], false, Completion::HalfDone),
            (&[], &[], false, Completion::NotStarted),
        ];
        for (begun, achieved, failed, expected) in table {
            let mut view = NodeView {
                planned: kinds(&both),
                begun: kinds(begun),
                achieved: kinds(achieved),
                ..NodeView::default()
            };
            if failed {
                view.fail(&"deploy/g/a".parse().unwrap(), &Arc::from("no boot"));
            }
            assert_eq!(view.completion(), expected, "{begun:?} {achieved:?}");
        }
    }

    #[test]
    fn a_drain_that_was_refused_before_it_began_leaves_nothing_cordoned() {
        let mut plan = crate::plan::tests::saved::full();
        let first = plan.steps.iter().position(|step| step.id.node.is_some());
        let first = first.unwrap();
        plan.steps[first].id.kind = StepKind::Drain;
        let step = plan.steps[first].id.clone();
        for (attempted, left) in [(true, Some(Left::Cordoned)), (false, None)] {
            let entries = [
                Entry::Intent { step: step.clone() },
                Entry::Ended {
                    step: step.clone(),
                    outcome: StepOutcome::Failed {
                        message: "etcd has no quorum".into(),
                    },
                    attempted,
                    duration_ms: 1,
                },
            ];
            let nodes = View::of(&entries).nodes(&plan);
            let node = &nodes[step.node.as_ref().unwrap()];
            assert_eq!(node.left(), left, "{attempted}");
            assert_eq!(node.stays_cordoned(), attempted);
            let summed = crate::apply::sum_up(&plan, &entries).unwrap();
            let found = summed.left.iter().map(|(_, left)| *left).next();
            assert_eq!(found, left, "{attempted}");
        }
    }

    #[test]
    fn a_step_that_begins_once_more_has_no_end_until_it_ends_again() {
        let step: StepId = "deploy/g/a".parse().unwrap();
        let intent = || Entry::Intent { step: step.clone() };
        let ended = || Entry::Ended {
            step: step.clone(),
            outcome: StepOutcome::Succeeded,
            attempted: true,
            duration_ms: 1,
        };
        for (entries, has_ended) in [
            (vec![intent()], false),
            (vec![intent(), ended()], true),
            (vec![intent(), ended(), intent()], false),
            (vec![intent(), ended(), intent(), ended()], true),
        ] {
            let view = View::of(&entries);
            assert_eq!(view.has_ended(&step), has_ended, "{entries:?}");
            assert_eq!(view.open().count(), usize::from(!has_ended), "{entries:?}");
        }
    }
}
