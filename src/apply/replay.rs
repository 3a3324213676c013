//! The outcomes of an interrupted run, taken in as if they came now.

use super::Error;
use super::dispatcher::Dispatcher;
use crate::journal::Entry;
use crate::step::StepId;

impl Dispatcher<'_> {
    /// Takes in what an interrupted run did before.
    pub(super) fn replay(&mut self) -> Result<(), Error> {
        let replay = std::mem::take(&mut self.work.replay);
        if replay.entries.is_empty() && !replay.all_possibly_begun && replay.decisions.is_empty() {
            return Ok(());
        }
        let indexes = self.plan.positions();
        for entry in replay.entries {
            let Some(step) = entry.step() else {
                continue;
            };
            let index = *indexes
                .get(step)
                .ok_or_else(|| Error::OtherPlan(Box::new(step.clone())))?;
            match entry {
                Entry::Opened { .. } => {}
                Entry::Intent { .. } => {
                    self.schedule.begun[index] = true;
                    if let Some(node) = self.schedule.node_of(index) {
                        let kind = self.plan.steps[index].id.kind;
                        self.schedule.tally.nodes[node].sent.add(kind);
                        self.schedule.tally.nodes[node].open = Some(index);
                    }
                }
                Entry::Ended {
                    outcome,
                    attempted,
                    duration_ms,
                    ..
                } => {
                    if self.schedule.ended[index].is_none() {
                        self.schedule
                            .take_in(index, &outcome, attempted, duration_ms);
                    }
                }
                Entry::Note { text, .. } => self.notes.entry(index).or_default().push(text),
            }
        }
        if replay.all_possibly_begun {
            for (index, step) in self.plan.steps.iter().enumerate() {
                let is_possible = !self.schedule.begun[index]
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
}
