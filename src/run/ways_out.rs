//! The ways out of an interrupted run: resumed, aborted, or superseded by a new plan, each with what it costs.

use super::error::{self, Error};
use super::part::plan_of;
use super::progress::known_steps;
use super::site_repository::SiteRepository;
use super::view::{Completion, View};
use crate::design::{NodeName, RunId};
use crate::journal::Entry;
use crate::plan::Plan;

/// The state of an interrupted run, from which each way out begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaysOut {
    /// Nodes of which all is done that was planned.
    pub complete: usize,
    /// Nodes that were begun: resumed they are finished, aborted they stay so, and a new plan begins them anew; sorted.
    pub half_done: Vec<NodeName>,
    /// Nodes of which a step failed: only a new plan takes them up; sorted.
    pub failed: Vec<NodeName>,
    /// Nodes that were not begun, sorted.
    pub not_started: Vec<NodeName>,
    /// How long the rest of its plan takes, in seconds, where that was estimated.
    pub resumed: Option<u64>,
    /// How long its nodes that are not complete take from their beginning.
    pub anew: Option<u64>,
}

impl WaysOut {
    /// The ways out of a run; `None` where the records have no plan of it that can be read, or workers carry it out.
    ///
    /// # Errors
    ///
    /// The records or the journal cannot be read.
    pub fn find(site: &SiteRepository<'_>, run: &RunId) -> Result<Option<Self>, Error> {
        let store = site.store()?;
        let reading = "read the records";
        let state = store.read().map_err(error::records(reading))?;
        let record = store.run(&state, run).map_err(error::records(reading))?;
        // The workers of a divided run have ways out of their own.
        let Some(record) = record.filter(|record| record.workers.is_none()) else {
            return Ok(None);
        };
        let Ok(plan) = plan_of(&store, &state, &record) else {
            return Ok(None);
        };
        let known = known_steps(site, (&store, &state), &record)?;
        Ok(Some(Self::of(&plan, &known.entries)))
    }

    /// The ways out of a run with a plan of which so much is known.
    #[must_use]
    pub fn of(plan: &Plan, entries: &[Entry]) -> Self {
        let view = View::of(entries);
        let mut found = Self::default();
        let nodes = view.nodes(plan);
        for (node, view) in &nodes {
            let place = match view.completion() {
                Completion::Complete => {
                    found.complete += 1;
                    continue;
                }
                Completion::HalfDone => &mut found.half_done,
                Completion::Failed => &mut found.failed,
                Completion::NotStarted => &mut found.not_started,
            };
            place.push((*node).clone());
        }
        let schedule = &plan.forecast.schedule;
        let Some(end) = schedule.iter().map(|times| times.1).max() else {
            return found;
        };
        let until_end = |is_left: &dyn Fn(usize) -> bool| {
            let left = schedule
                .iter()
                .enumerate()
                .filter(|(index, _)| is_left(*index));
            let begin = left.map(|(_, times)| times.0).min();
            Some(u64::from(end - begin.unwrap_or(end).min(end)))
        };
        found.resumed = until_end(&|index| {
            let step = plan.steps.get(index);
            step.is_some_and(|step| !view.has_ended(&step.id))
        });
        found.anew = until_end(&|index| {
            let node = plan.steps.get(index).and_then(|step| step.id.node.as_ref());
            let view = node.and_then(|node| nodes.get(node));
            view.is_some_and(|view| view.completion() != Completion::Complete)
        });
        found
    }
}
