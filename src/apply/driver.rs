//! The loops that carry out the decisions of a schedule, the same for a run and for its estimate.

use super::decide::Choice;
use super::schedule::Schedule;
use crate::journal::StepOutcome;

/// Carries out the decisions of a schedule.
pub(super) trait Driver<'a> {
    /// The reason why it cannot continue.
    type Error;

    /// The schedule.
    fn schedule(&mut self) -> &mut Schedule<'a>;

    /// Takes in that a step ended without having run.
    fn settle_at_once(&mut self, index: usize, outcome: StepOutcome) -> Result<(), Self::Error>;

    /// Begins a step.
    fn begin(&mut self, index: usize) -> Result<(), Self::Error>;

    /// Decides about every step whose needs have ended, until nothing more follows.
    fn decide_ready(&mut self) -> Result<(), Self::Error> {
        while let Some(index) = self.schedule().graph.next_ready() {
            let schedule = self.schedule();
            let is_over = schedule.ended[index].is_some() || schedule.runs[index];
            if is_over || !schedule.is_own(index) {
                continue;
            }
            match schedule.choose(index) {
                Choice::End(outcome) => self.settle_at_once(index, outcome)?,
                Choice::Run => schedule.enqueue(index),
                Choice::Aside | Choice::Leave => {}
            }
        }
        Ok(())
    }

    /// Begins the steps that have a free place, unless what they depend on has changed while they waited for it.
    fn begin_waiting(&mut self) -> Result<(), Self::Error> {
        loop {
            let lanes: Vec<usize> = self.schedule().busy_lanes.iter().copied().collect();
            for lane in lanes {
                while let Some(index) = self.schedule().next_in(lane) {
                    match self.schedule().choose(index) {
                        Choice::End(outcome) => self.settle_at_once(index, outcome)?,
                        Choice::Run => self.begin(index)?,
                        Choice::Aside | Choice::Leave => {}
                    }
                }
            }
            // What ended without a runner may have made more ready.
            let before = self.schedule().busy_lanes.len();
            self.decide_ready()?;
            if self.schedule().busy_lanes.len() == before {
                return Ok(());
            }
        }
    }
}
