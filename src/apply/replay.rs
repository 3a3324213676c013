//! The outcomes of an interrupted run and of other parts of it, taken in as if they came now.

use rustc_hash::FxHashMap;

use super::Error;
use super::dispatcher::Dispatcher;
use super::schedule::Schedule;
use crate::journal::Entry;
use crate::plan::Plan;
use crate::step::StepId;

impl<'a> Schedule<'a> {
    /// The schedule of a plan of whose steps so much is known.
    pub(super) fn of_entries(plan: &'a Plan, entries: &[Entry]) -> Result<Self, Error> {
        let mut schedule = Self::new(plan)?;
        let positions = plan.positions();
        for entry in entries {
            let Some(step) = entry.step() else { continue };
            let index = *positions
                .get(step)
                .ok_or_else(|| Error::OtherPlan(Box::new(step.clone())))?;
            schedule.replay(index, entry);
        }
        Ok(schedule)
    }
}

impl Schedule<'_> {
    /// Takes in an entry of a journal about a step, by its position.
    pub(super) fn replay(&mut self, index: usize, entry: &Entry) {
        match entry {
            Entry::Opened { .. } | Entry::Note { .. } => {}
            Entry::Intent { .. } => {
                let is_own = self.is_own(index);
                self.begun[index] = is_own;
                if let Some(node) = self.node_of(index) {
                    let kind = self.plan.steps[index].id.kind;
                    self.tally.nodes[node].view.begun.add(kind);
                    if is_own {
                        self.tally.nodes[node].open = Some(index);
                    }
                    self.places.take_in(node, &self.tally);
                }
            }
            Entry::Ended {
                outcome,
                attempted,
                duration_ms,
                ..
            } => {
                if self.ended[index].is_none() {
                    self.take_in(index, outcome, *attempted, *duration_ms);
                }
            }
        }
    }
}

impl Dispatcher<'_> {
    /// Takes in what an interrupted run did before.
    pub(super) fn replay(&mut self) -> Result<(), Error> {
        let replay = std::mem::take(&mut self.work.replay);
        if replay.entries.is_empty() && !replay.all_possibly_begun && replay.decisions.is_empty() {
            return Ok(());
        }
        let indexes = self.plan.positions();
        self.take_in_entries(&indexes, replay.entries)?;
        if replay.all_possibly_begun {
            for (index, step) in self.plan.steps.iter().enumerate() {
                let is_possible = !self.schedule.begun[index]
                    && self.schedule.is_own(index)
                    && step.id.kind.facts().touches_world()
                    && self.schedule.ended[index].is_none();
                self.schedule.begun[index] |= is_possible;
                self.schedule.only_possibly_begun[index] = is_possible;
            }
        }
        for (step, decision) in replay.decisions {
            let id: Option<StepId> = step.parse().ok();
            match id.and_then(|id| indexes.get(&id)) {
                Some(&index)
                    if self.schedule.begun[index] && self.schedule.ended[index].is_none() =>
                {
                    self.decided.insert(index, decision);
                }
                _ => return Err(Error::NothingToDecide(step)),
            }
        }
        Ok(())
    }

    /// Takes in what other parts of the run have published since.
    pub(super) fn learn(&mut self) -> Result<(), Error> {
        let Some(scope) = &self.work.scope else {
            return Ok(());
        };
        let learned = (scope.learned)();
        if learned.is_empty() {
            return Ok(());
        }
        let indexes = self.plan.positions();
        self.take_in_entries(&indexes, learned)
    }

    fn take_in_entries(
        &mut self,
        indexes: &FxHashMap<&StepId, usize>,
        entries: Vec<Entry>,
    ) -> Result<(), Error> {
        for entry in entries {
            let Some(step) = entry.step() else {
                continue;
            };
            let index = *indexes
                .get(step)
                .ok_or_else(|| Error::OtherPlan(Box::new(step.clone())))?;
            self.schedule.replay(index, &entry);
            if let Entry::Note { text, .. } = entry {
                self.notes.entry(index).or_default().push(text);
            }
        }
        Ok(())
    }
}
