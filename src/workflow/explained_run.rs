//! The basis on which things of a run are explained: its plan, its steps, and how long such steps take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Checkout, Failure, FailureKind, Known, Thing, explain, plan_of_run};
use crate::design::{NodeName, RunId};
use crate::plan::{Explanation, ExplanationBasis, Plan, UnfinishedRun};
use crate::record::{Outcome, State, Store};
use crate::run::{
    Durations, RunReport, SiteRepository, is_begun_here, known_steps, unfinished_run,
};
use crate::site::{Accept, At, Depth, Detail, Settings};

/// A run by which a thing is explained.
pub struct ExplainedRun {
    /// Its plan.
    pub plan: Plan,
    /// The run, and whether it has ended.
    pub basis: ExplanationBasis,
    /// The known facts about its steps.
    pub known: Known<'static>,
}

impl ExplainedRun {
    /// Reads a run; `unfinished`: the one of its site that has not ended; `now`: in seconds since 1970.
    ///
    /// # Errors
    ///
    /// It has no record; its plan, records or journal cannot be read.
    pub fn read(
        (checkout, site): (&Checkout<'_>, &SiteRepository<'_>),
        (store, state): (&Store<'_>, &State),
        run: &RunId,
        unfinished: Option<&UnfinishedRun>,
        now: i64,
    ) -> Result<Self, Failure> {
        let record = store.run(state, run)?;
        let record = record.ok_or_else(|| {
            Failure::new(FailureKind::NotFound, format!("run {run} has no record"))
        })?;
        let plan = plan_of_run(store, state, run)?;
        let steps = known_steps(site, (store, state), &record)?;
        let unfinished = unfinished.filter(|unfinished| unfinished.run == *run);
        // Only of a step that is under way it is told how long such a step takes.
        let is_under_way = unfinished.is_some() && !steps.began.is_empty();
        let outcome = match record.outcome {
            Outcome::Running | Outcome::Interrupted => None,
            ended => Some(ended),
        };
        Ok(Self {
            basis: ExplanationBasis::Run {
                run: run.clone(),
                outcome,
                halted: record.halted.clone(),
                unfinished: unfinished.cloned(),
                may_be_begun: steps.may_be_begun,
            },
            known: Known {
                profiles: match is_under_way {
                    true => profiles(checkout),
                    false => BTreeMap::new(),
                },
                durations: Durations::read(store, state)?,
                steps,
                undecided: match record.outcome {
                    Outcome::Interrupted => RunReport::of(store, state, &record)?
                        .map_or_else(Vec::new, |report| report.undecided),
                    _ => Vec::new(),
                },
                is_divided: record.workers.is_some(),
                resume_flags: match is_begun_here(site, run) {
                    true => Vec::new(),
                    false => plan.allowances(),
                },
                now,
                ..Known::default()
            },
            plan,
        })
    }
}

impl ExplainedRun {
    /// The plan of a run, and the explanation of the run as a whole; without that where what is known of its steps cannot
    /// be read: a page of the run shows the rest.
    ///
    /// # Errors
    ///
    /// Its plan cannot be read.
    pub fn whole(
        checkout: &Checkout<'_>,
        site: &SiteRepository<'_>,
        (store, state): (&Store<'_>, &State),
        run: &RunId,
        now: i64,
    ) -> Result<(Plan, Option<Explanation>), Failure> {
        let read = || -> Result<(Plan, Explanation), Failure> {
            let unfinished = unfinished_run(site)?;
            let unfinished = unfinished.as_ref();
            let Self { plan, basis, known } =
                Self::read((checkout, site), (store, state), run, unfinished, now)?;
            let explained = explain(&plan, basis, &Thing::Run, known);
            let explanation = explained.map_err(|error| Failure::error(error.to_string()))?;
            Ok((plan, explanation))
        };
        match read() {
            Ok((plan, explanation)) => Ok((plan, Some(explanation))),
            Err(failure) => {
                log::warn!("run {run} cannot be explained: {failure}");
                Ok((plan_of_run(store, state, run)?, None))
            }
        }
    }
}

/// The hardware profiles of nodes by the documents that are checked out; none if these cannot be loaded: without them
/// nothing is known of usual durations, and all else stays.
fn profiles(checkout: &Checkout<'_>) -> BTreeMap<NodeName, Arc<str>> {
    let load = || {
        let mut loader = checkout.loader().ok()?;
        let location = checkout.location_at(At::Worktree).ok()?;
        let settings = Settings {
            depth: Depth::Typed,
            detail: Detail::Designs,
            accept: Accept::default(),
        };
        loader.load(&location, At::Worktree, settings).ok()
    };
    let Some(site) = load() else {
        log::info!("without the documents that are checked out, usual durations are not known");
        return BTreeMap::new();
    };
    let nodes = site.design.nodes.iter();
    let profiles =
        nodes.filter_map(|(name, node)| Some((name.clone(), node.hardware_profile.clone()?)));
    profiles.collect()
}
