//! The decisions that follow from known ends alone, without anything asked of a machine or a cluster.

use super::Error;
use super::driver::Driver;
use super::schedule::Schedule;
use crate::journal::{Entry, StepOutcome};
use crate::plan::Plan;

/// Returns the positions of the steps that would have to act next, given the known entries of a run; of a part, where
/// `own` names its steps. Empty: all that is left is decided without an act.
///
/// # Errors
///
/// [`Error::OtherPlan`] if an entry is about a step that the plan does not have; the steps are no graph that can be run.
pub fn steps_to_act(plan: &Plan, own: &[bool], known: &[Entry]) -> Result<Vec<usize>, Error> {
    let indexes = plan.positions();
    let mut schedule = Schedule::of_part(plan, own)?;
    for entry in known {
        let Some(step) = entry.step() else { continue };
        let index = indexes.get(step).copied();
        let index = index.ok_or_else(|| Error::OtherPlan(Box::new(step.clone())))?;
        schedule.replay(index, entry);
    }
    let mut decided = Decided {
        schedule,
        acting: Vec::new(),
    };
    decided.decide_ready()?;
    decided.begin_waiting()?;
    decided.acting.sort_unstable();
    Ok(decided.acting)
}

/// A schedule in which no step that acts ever ends.
struct Decided<'a> {
    schedule: Schedule<'a>,
    acting: Vec<usize>,
}

impl<'a> Driver<'a> for Decided<'a> {
    type Error = Error;

    fn schedule(&mut self) -> &mut Schedule<'a> {
        &mut self.schedule
    }

    fn settle_at_once(&mut self, index: usize, outcome: StepOutcome) -> Result<(), Error> {
        self.schedule.take_in(index, &outcome, false, 0);
        Ok(())
    }

    fn begin(&mut self, index: usize) -> Result<(), Error> {
        self.schedule.started(index);
        self.acting.push(index);
        Ok(())
    }
}
