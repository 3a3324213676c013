//! Why a step waits, was skipped or failed by others: the smallest sets of steps that would change that.
//!
//! What a run has written down is taken in by the [schedule](super::schedule), the only owner of these decisions, and it is
//! asked. A wait has the needs that have not ended and that no other of them waits for: if these end with success, the
//! step is decided about; if one of them does not, it is not. A skipped step, or a gate that failed, has a set of failures
//! of which each counts: the plan is simulated once more with some of them repaired, until none can be left out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::Error;
use super::decide::Choice;
use super::driver::Driver;
use super::request::parallelism;
use super::schedule::Schedule;
use crate::journal::{Entry, StepOutcome};
use crate::plan::{CausesNeeded, Plan, StepCause, StepExplanation, StepStanding};

/// Steps that all simulations for one explanation visit at most: less than a second.
const MOST_VISITS: usize = 6_000_000;
/// Simulations for one explanation at most.
const MOST_SIMULATIONS: usize = 400;

/// How far a plan is, for explanations.
pub struct RunProgress<'a> {
    schedule: Schedule<'a>,
    outcomes: Vec<Option<StepOutcome>>,
    has_begun: bool,
    has_ended: bool,
}

impl<'a> RunProgress<'a> {
    /// Takes in what is known of a run of a plan; nothing: it has not begun.
    ///
    /// # Errors
    ///
    /// The steps are no graph, or an entry is about a step of another plan.
    pub fn new(plan: &'a Plan, entries: &[Entry]) -> Result<Self, Error> {
        let schedule = Schedule::of_entries(plan, entries)?;
        let mut outcomes = vec![None; plan.steps.len()];
        let positions = plan.positions();
        for entry in entries {
            let Some(index) = entry.step().and_then(|step| positions.get(step)) else {
                continue;
            };
            match entry {
                Entry::Ended { outcome, .. } => outcomes[*index] = Some(outcome.clone()),
                Entry::Intent { .. } => outcomes[*index] = None,
                Entry::Opened { .. } | Entry::Note { .. } => {}
            }
        }
        Ok(Self {
            schedule,
            outcomes,
            has_begun: !entries.is_empty(),
            has_ended: false,
        })
    }

    /// The same of a run that has ended: what had not begun never does.
    #[must_use]
    pub fn ended(self) -> Self {
        Self {
            has_ended: true,
            ..self
        }
    }

    fn plan(&self) -> &'a Plan {
        self.schedule.plan
    }

    fn is_open(&self, index: usize) -> bool {
        self.schedule.ended[index].is_none()
    }

    /// How a step stands.
    #[must_use]
    pub fn standing(&self, index: usize) -> StepStanding {
        match &self.outcomes[index] {
            Some(StepOutcome::Succeeded) => StepStanding::Succeeded,
            Some(StepOutcome::NotNeeded) => StepStanding::NotNeeded,
            Some(StepOutcome::Failed { .. }) => StepStanding::Failed,
            Some(StepOutcome::Unknown { .. }) => StepStanding::Unknown,
            Some(StepOutcome::Skipped { .. }) => StepStanding::Skipped,
            None if self.schedule.begun[index] => StepStanding::Begun,
            None if self.has_ended => StepStanding::NotReached,
            None if !self.has_begun => StepStanding::Planned,
            None if self.open_needs(index).next().is_none() => StepStanding::Ready,
            None => StepStanding::Waiting,
        }
    }

    fn message(&self, index: usize) -> Option<Arc<str>> {
        match self.outcomes[index].as_ref()? {
            StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
                Some(message.clone())
            }
            StepOutcome::Skipped { reason } => Some(reason.clone()),
            StepOutcome::Succeeded | StepOutcome::NotNeeded => None,
        }
    }

    fn cause(&self, index: usize) -> StepCause {
        StepCause {
            step: self.plan().steps[index].id.clone(),
            standing: self.standing(index),
            message: self.message(index),
        }
    }

    /// The steps that a step needs and that have not ended.
    fn open_needs(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let replaced = self.schedule.gate_of[index];
        let needs = self.plan().steps[index].needs.iter();
        let needs = needs.filter(move |need| replaced != Some(need.step.0));
        let needs = needs.map(|need| need.step.0 as usize);
        needs.filter(|need| self.is_open(*need))
    }

    /// The open steps that some steps wait for, directly or not, without these steps.
    fn before(&self, steps: &[usize]) -> FxHashSet<usize> {
        let mut seen = FxHashSet::default();
        let mut next: Vec<usize> = steps.to_vec();
        while let Some(index) = next.pop() {
            for need in self.open_needs(index) {
                if seen.insert(need) {
                    next.push(need);
                }
            }
        }
        seen
    }

    /// Returns the needs of a step that have not ended and that no other of them waits for.
    #[must_use]
    pub fn waits_for(&self, index: usize) -> Vec<usize> {
        let direct: Vec<usize> = self.open_needs(index).collect();
        let implied = self.before(&direct);
        let mut needed = direct;
        needed.retain(|need| !implied.contains(need));
        needed
    }

    /// The open steps before a step that run, or that nothing keeps from beginning, sorted.
    fn now_before(&self, index: usize) -> Vec<usize> {
        let before = self.before(&[index]).into_iter();
        let mut now: Vec<usize> = before
            .filter(|index| self.schedule.begun[*index] || self.open_needs(*index).next().is_none())
            .collect();
        now.sort_unstable();
        now
    }

    /// Explains a step: its standing, and the minimal causes of it.
    #[must_use]
    pub fn explain(&self, index: usize) -> StepExplanation {
        let standing = self.standing(index);
        let mut explained = StepExplanation {
            step: self.plan().steps[index].id.clone(),
            watches: self.plan().steps[index].soaked().cloned().collect(),
            standing,
            message: self.message(index),
            causes: Vec::new(),
            needed: CausesNeeded::All,
            minimal: true,
            now: Vec::new(),
            limit: None,
            expected: self.plan().forecast.schedule.get(index).copied(),
            timing: None,
        };
        match standing {
            StepStanding::Planned | StepStanding::Waiting => {
                let needed = self.waits_for(index);
                // Of a run that has not begun, that is its first step.
                if self.has_begun {
                    let now = self.now_before(index);
                    let now = now.into_iter().filter(|now| !needed.contains(now));
                    explained.now = now.map(|now| self.cause(now)).collect();
                }
                explained.causes = needed.into_iter().map(|need| self.cause(need)).collect();
            }
            StepStanding::Ready => self.explain_ready(index, &mut explained),
            StepStanding::Failed | StepStanding::Skipped => {
                let (causes, minimal) = self.failures_behind(index);
                explained.causes = causes.into_iter().map(|cause| self.cause(cause)).collect();
                explained.minimal = minimal;
            }
            StepStanding::Begun
            | StepStanding::Succeeded
            | StepStanding::NotNeeded
            | StepStanding::NotReached
            | StepStanding::Unknown => {}
        }
        explained
    }

    /// A step that has all its needs: a place that is taken, another step of its node, or a decision that is about to be
    /// made.
    fn explain_ready(&self, index: usize, explained: &mut StepExplanation) {
        let group = self.schedule.group_of(index);
        let running: Vec<usize> = (0..self.plan().steps.len())
            .filter(|other| self.schedule.begun[*other] && self.is_open(*other))
            .collect();
        let node = self.schedule.node_of(index);
        let of_node = running
            .iter()
            .find(|other| node.is_some() && self.schedule.node_of(**other) == node);
        if let Some(other) = of_node {
            explained.standing = StepStanding::Waiting;
            explained.causes = vec![self.cause(*other)];
            explained.limit = Some("the steps of one node run one after the other".into());
            return;
        }
        let limit = parallelism(self.plan());
        let in_lane: Vec<usize> = running
            .into_iter()
            .filter(|other| self.schedule.group_of(*other) == group)
            .collect();
        if in_lane.len() >= limit {
            explained.standing = StepStanding::Waiting;
            explained.needed = CausesNeeded::AnyOne;
            explained.causes = in_lane.into_iter().map(|other| self.cause(other)).collect();
            explained.limit = Some(format!("{limit} steps of a group run at the same time").into());
            return;
        }
        let mut schedule = self.schedule.clone();
        match schedule.choose(index) {
            Choice::End(StepOutcome::Skipped { reason }) => explained.message = Some(reason),
            Choice::End(StepOutcome::Failed { message } | StepOutcome::Unknown { message }) => {
                explained.message = Some(message);
            }
            Choice::Aside => {
                explained.standing = StepStanding::Waiting;
                let gate = self.schedule.gate_of[index].map(|gate| gate as usize);
                explained.causes = gate.map(|gate| self.cause(gate)).into_iter().collect();
            }
            Choice::End(StepOutcome::Succeeded | StepOutcome::NotNeeded)
            | Choice::Run
            | Choice::Leave => {}
        }
    }

    /// The smallest set of failures without which a step would have run or succeeded, and whether none can be left out.
    fn failures_behind(&self, index: usize) -> (Vec<usize>, bool) {
        let failures: Vec<usize> = (0..self.plan().steps.len())
            .filter(|other| self.failed_by_itself(*other))
            .collect();
        if failures.contains(&index) {
            return (Vec::new(), true);
        }
        let mut search = Search {
            progress: self,
            target: index,
            failures: &failures,
            left: (MOST_VISITS / self.plan().steps.len().max(1)).clamp(8, MOST_SIMULATIONS),
        };
        let above = self.ancestors(index);
        let mut candidates: Vec<usize> = failures.clone();
        candidates.retain(|failure| above.contains(failure));
        if !search.is_enough(&candidates) {
            candidates.clone_from(&failures);
            if !search.is_enough(&candidates) {
                return (self.without_any_failure(index, &above), true);
            }
        }
        let found = search.smallest(&mut Vec::new(), &candidates);
        let mut found = found.unwrap_or(candidates);
        found.sort_unstable();
        (found, search.left > 0)
    }

    /// The first decision above a step that is what it is without any failure: criteria that the plan cannot meet. It is no
    /// cause of itself.
    fn without_any_failure(&self, index: usize, above: &FxHashSet<usize>) -> Vec<usize> {
        let none = FxHashSet::default();
        let Some(schedule) = WhatIf::run(self.plan(), index, &none).map(|what_if| what_if.schedule)
        else {
            return Vec::new();
        };
        let first = above
            .iter()
            .copied()
            .filter(|other| schedule.ended[*other] == Some(false))
            .filter(|other| self.standing(*other) == StepStanding::Failed)
            .min();
        first.into_iter().collect()
    }

    fn failed_by_itself(&self, index: usize) -> bool {
        let step = &self.plan().steps[index];
        let is_failure = matches!(
            self.outcomes[index],
            Some(StepOutcome::Failed { .. } | StepOutcome::Unknown { .. })
        );
        is_failure && step.id.kind.facts().touches_world()
    }

    fn ancestors(&self, index: usize) -> FxHashSet<usize> {
        let mut seen = FxHashSet::default();
        let mut next = vec![index];
        while let Some(index) = next.pop() {
            for need in &self.plan().steps[index].needs {
                if seen.insert(need.step.0 as usize) {
                    next.push(need.step.0 as usize);
                }
            }
        }
        seen
    }
}

/// The search for a smallest set of failures to repair (QuickXplain: about as many simulations as it has members, times
/// the logarithm of those that there are).
struct Search<'p, 'a> {
    progress: &'p RunProgress<'a>,
    target: usize,
    failures: &'p [usize],
    /// Simulations that may still be made.
    left: usize,
}

impl Search<'_, '_> {
    /// Whether the step would run or succeed if these failures were none.
    fn is_enough(&mut self, repaired: &[usize]) -> bool {
        self.left = self.left.saturating_sub(1);
        let repaired: FxHashSet<usize> = repaired.iter().copied().collect();
        let failing = self.failures.iter().copied();
        let failing = failing.filter(|failure| !repaired.contains(failure));
        would_run(self.progress.plan(), self.target, &failing.collect())
    }

    /// The smallest part of `candidates` that is enough together with `known`; `None` if the bound was reached.
    fn smallest(&mut self, known: &mut Vec<usize>, candidates: &[usize]) -> Option<Vec<usize>> {
        if self.left == 0 {
            return None;
        }
        if self.is_enough(known) {
            return Some(Vec::new());
        }
        if let [only] = candidates {
            return Some(vec![*only]);
        }
        let (first, second) = candidates.split_at(candidates.len() / 2);
        let base = known.len();
        known.extend_from_slice(first);
        let of_second = self.smallest(known, second);
        known.truncate(base);
        let of_second = of_second?;
        known.extend_from_slice(&of_second);
        let of_first = self.smallest(known, first);
        known.truncate(base);
        let mut found = of_first?;
        found.extend(of_second);
        Some(found)
    }
}

/// Whether a step is begun, or ends well at once, in a run in which these steps fail and no others.
fn would_run(plan: &Plan, target: usize, failing: &FxHashSet<usize>) -> bool {
    WhatIf::run(plan, target, failing).is_some_and(|what_if| what_if.target_ran)
}

/// A run in which each step ends as soon as it began.
struct WhatIf<'a, 'f> {
    schedule: Schedule<'a>,
    failing: &'f FxHashSet<usize>,
    running: VecDeque<usize>,
    target: usize,
    target_ran: bool,
}

impl<'a, 'f> WhatIf<'a, 'f> {
    /// The run at its end; `None`: its steps are no graph.
    fn run(plan: &'a Plan, target: usize, failing: &'f FxHashSet<usize>) -> Option<Self> {
        let mut what_if = Self {
            schedule: Schedule::new(plan).ok()?,
            failing,
            running: VecDeque::new(),
            target,
            target_ran: false,
        };
        let Ok(()) = what_if.run_to_end();
        Some(what_if)
    }

    fn run_to_end(&mut self) -> Result<(), Infallible> {
        loop {
            self.decide_ready()?;
            if self.schedule.has_free_place_for_waiting() {
                self.begin_waiting()?;
            }
            self.schedule.happened.clear();
            let Some(index) = self.running.pop_front() else {
                return Ok(());
            };
            let outcome = match self.failing.contains(&index) {
                true => StepOutcome::Failed {
                    message: Arc::from("failed"),
                },
                false => StepOutcome::Succeeded,
            };
            self.schedule.stopped(index);
            self.schedule.take_in(index, &outcome, true, 0);
        }
    }
}

impl<'a> Driver<'a> for WhatIf<'a, '_> {
    type Error = Infallible;

    fn schedule(&mut self) -> &mut Schedule<'a> {
        &mut self.schedule
    }

    fn settle_at_once(&mut self, index: usize, outcome: StepOutcome) -> Result<(), Infallible> {
        let step = &self.schedule.plan.steps[index];
        let is_refused = step.given().refused().is_some();
        // What the plan refuses is a failure like others, which may be repaired.
        let outcome = match &outcome {
            StepOutcome::Failed { .. } if is_refused && !self.failing.contains(&index) => {
                StepOutcome::Succeeded
            }
            StepOutcome::Succeeded
            | StepOutcome::Failed { .. }
            | StepOutcome::Unknown { .. }
            | StepOutcome::Skipped { .. }
            | StepOutcome::NotNeeded => outcome,
        };
        let is_well = matches!(outcome, StepOutcome::Succeeded | StepOutcome::NotNeeded);
        self.target_ran |= index == self.target && is_well;
        self.schedule.take_in(index, &outcome, false, 0);
        Ok(())
    }

    fn begin(&mut self, index: usize) -> Result<(), Infallible> {
        self.schedule.started(index);
        self.target_ran |= index == self.target;
        self.running.push_back(index);
        Ok(())
    }
}
