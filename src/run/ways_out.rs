//! The ways out of an interrupted run: resumed, aborted, or superseded by a new plan, each with what it costs. A run that is
//! divided among workers is carried out part by part, or aborted.

use std::sync::Arc;

use super::ending::{RunReport, Undecided};
use super::error::{self, Error};
use super::files::RunFiles;
use super::part::{PartOverview, PartState, overview, plan_of};
use super::progress::known_steps;
use super::site_repository::SiteRepository;
use super::unfinished::unfinished_run;
use super::view::{Completion, View};
use crate::design::{Digest, NodeName, RunId};
use crate::journal::Entry;
use crate::plan::{Parts, Plan, RunState, UnfinishedRun};
use crate::record::{Outcome, RunRecord};
use crate::step::Step;

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
    /// Whether a process that was killed in another clone may have begun more than it has published.
    pub may_be_begun: bool,
    /// Whether a machine may be in the middle of being built.
    pub rebuilding: bool,
    /// How long the rest of its plan takes, in seconds, if that was estimated.
    pub resumed: Option<u64>,
    /// How long its nodes that are not complete take from their beginning; `None` for an action, which no new plan of the site repeats.
    pub anew: Option<u64>,
    /// Whether its end leaves machines behind that owe their soak: only the next update or redeploy has it.
    pub owes_soak: bool,
    /// Steps that wait for a decision.
    pub undecided: Vec<Undecided>,
    /// The parts of a run that workers carry out.
    pub parts: Option<OpenParts>,
    /// The flags that its plan was given: another plan of the same documents needs them again.
    pub allowances: Vec<String>,
    /// Whether another clone began it: what it may do is allowed anew to resume it here.
    pub is_of_another_clone: bool,
    /// Whether a part is carried out here only with the digest of the plan that the caller knows.
    pub needs_digest: bool,
}

/// The parts of a run that have not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenParts {
    /// The remote that has them was not asked.
    Unknown,
    /// They are known.
    Known {
        /// Those that a worker has to carry out, in the order in which they can be.
        left: Vec<Arc<str>>,
        /// Those that a worker is at work on, or was.
        at_work: Vec<Arc<str>>,
    },
}

/// Whether nothing here vouches for the plan of a run in the records, which every account with push rights can write: neither
/// the digest that this clone noted when the run began, nor a signature that the site demands.
///
/// # Errors
///
/// The records cannot be read.
pub fn needs_plan_digest(site: &SiteRepository<'_>, noted: Option<&Digest>) -> Result<bool, Error> {
    Ok(noted.is_none() && !site.has_vouched_records()?)
}

/// Whether this clone began a run, so that it knows its plan by itself.
#[must_use]
pub fn is_begun_here(site: &SiteRepository<'_>, run: &RunId) -> bool {
    let files = RunFiles::of(site.repository, &site.name, run);
    files.noted_plan().is_some()
}

impl WaysOut {
    /// The ways out that a run has now: one that was interrupted, or that workers carry out; `None` for one that has ended
    /// or whose process is at work, if that is not known since the remote that has its lock was not asked, and where the
    /// records have no plan of it that can be read.
    ///
    /// # Errors
    ///
    /// The lock, the records or the journal cannot be read.
    pub fn now(site: &SiteRepository<'_>, run: &RunId) -> Result<Option<Self>, Error> {
        Self::of_unfinished(site, run, unfinished_run(site)?.as_ref())
    }

    /// The same, where the run of the site that has not ended is known.
    ///
    /// # Errors
    ///
    /// As [`WaysOut::now`].
    pub fn of_unfinished(
        site: &SiteRepository<'_>,
        run: &RunId,
        unfinished: Option<&UnfinishedRun>,
    ) -> Result<Option<Self>, Error> {
        let Some(unfinished) = unfinished.filter(|unfinished| unfinished.run == *run) else {
            return Ok(None);
        };
        if site.is_offline() && unfinished.host.is_none() {
            return Ok(None);
        }
        let found = Self::find(site, run)?;
        let is_open =
            |ways: &Self| unfinished.state == RunState::Interrupted || ways.parts.is_some();
        Ok(found.filter(is_open))
    }

    /// The ways out of a run; `None` if the records have no plan of it that can be read.
    ///
    /// # Errors
    ///
    /// The records or the journal cannot be read.
    pub fn find(site: &SiteRepository<'_>, run: &RunId) -> Result<Option<Self>, Error> {
        let store = site.store()?;
        let reading = "read the records";
        let state = store.read().map_err(error::records(reading))?;
        let record = store.run(&state, run).map_err(error::records(reading))?;
        let Some(record) = record else {
            return Ok(None);
        };
        let Ok(plan) = plan_of(&store, &state, &record) else {
            return Ok(None);
        };
        let files = RunFiles::of(site.repository, &site.name, run);
        let noted = files.noted_plan();
        let needs_digest = record.workers.is_some() && needs_plan_digest(site, noted.as_ref())?;
        if record.workers.is_some() && site.is_offline() {
            return Ok(Some(Self {
                parts: Some(OpenParts::Unknown),
                needs_digest,
                ..Self::default()
            }));
        }
        let parts = OpenParts::of(site, &record, &plan)?;
        let known = known_steps(site, (&store, &state), &record)?;
        // The report is that of the process that was interrupted, and none has resumed the run since.
        let report = RunReport::of(&store, &state, &record).map_err(error::records(reading))?;
        let report = report.filter(|_| record.outcome == Outcome::Interrupted);
        let ways = Self::of(&plan, &known.entries);
        let mut steps = plan.steps.iter();
        Ok(Some(Self {
            rebuilding: ways.rebuilding
                || known.may_be_begun && steps.any(|step| step.id.kind.rebuilds()),
            undecided: report.map_or_else(Vec::new, |report| report.undecided),
            may_be_begun: known.may_be_begun,
            parts,
            needs_digest,
            is_of_another_clone: noted.is_none(),
            ..ways
        }))
    }

    /// The ways out of a run with a plan of which so much is known.
    #[must_use]
    pub fn of(plan: &Plan, entries: &[Entry]) -> Self {
        let view = View::of(entries);
        let mut found = Self {
            allowances: plan.allowances(),
            rebuilding: view.open().any(|(step, _)| step.kind.rebuilds()),
            ..Self::default()
        };
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
        // A machine that the plan does not change owes it since an earlier run.
        let is_back = |node: &NodeName| {
            nodes
                .get(node)
                .is_none_or(|view| view.completion() == Completion::Complete)
        };
        let is_owed = |step: &Step| !view.has_succeeded(&step.id) && step.soaked().any(is_back);
        found.owes_soak = plan.steps.iter().any(is_owed);
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
        // What an action asks for is no part of a plan of the site, which has other steps.
        if plan.request.action.is_targeted() {
            return found;
        }
        found.anew = until_end(&|index| {
            let Some(step) = plan.steps.get(index) else {
                return false;
            };
            let view = step.id.node.as_ref().and_then(|node| nodes.get(node));
            is_owed(step) || view.is_some_and(|view| view.completion() != Completion::Complete)
        });
        found
    }
}

impl OpenParts {
    /// The open parts of a run, where workers carry it out.
    fn of(
        site: &SiteRepository<'_>,
        record: &RunRecord,
        plan: &Plan,
    ) -> Result<Option<Self>, Error> {
        let Some(workers) = &record.workers else {
            return Ok(None);
        };
        let parts = overview(site, record, &Parts::of(plan, workers.nodes_per_part))?;
        let is_at_work = |state: Option<PartState>| state == Some(PartState::Running);
        let open = parts
            .iter()
            .filter(|part| part.state != Some(PartState::Ended));
        let (at_work, left) = open.partition(|part| is_at_work(part.state));
        let names = |parts: Vec<&PartOverview>| {
            let names = parts.into_iter().map(|part| part.part.clone());
            names.collect()
        };
        Ok(Some(Self::Known {
            left: names(left),
            at_work: names(at_work),
        }))
    }
}
