//! The basis on which things of a run are explained: its plan, its steps, and how long such steps take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Checkout, Failure, Known, Thing, explain, plan_of_run};
use crate::design::{NodeName, RunId};
use crate::plan::{Explanation, ExplanationBasis, Plan, UnfinishedRun};
use crate::record::{Outcome, State, Store};
use crate::run::{Connection, Durations, KnownSteps, known_steps};
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
        (checkout, connection): (&Checkout<'_>, &Connection<'_>),
        (store, state): (&Store<'_>, &State),
        run: &RunId,
        unfinished: Option<&UnfinishedRun>,
        now: i64,
    ) -> Result<Self, Failure> {
        let record = store.run(state, run)?;
        let record = record.ok_or_else(|| Failure::error(format!("run {run} has no record")))?;
        let plan = plan_of_run(store, state, run)?;
        let site = checkout.site(connection.clone())?;
        let steps = known_steps(&site, (store, state), &record)?;
        let unfinished = unfinished.filter(|unfinished| unfinished.run == *run);
        let outcome = match record.outcome {
            Outcome::Running | Outcome::Interrupted => None,
            ended => Some(Arc::from(ended.to_string())),
        };
        Ok(Self {
            basis: ExplanationBasis::Run {
                run: run.clone(),
                outcome,
                unfinished: unfinished.cloned(),
            },
            known: Known {
                profiles: profiles(checkout, &steps),
                durations: Durations::read(store, state)?,
                steps,
                now,
                ..Known::default()
            },
            plan,
        })
    }
}

impl ExplainedRun {
    /// Explains the run as a whole; with its plan.
    ///
    /// # Errors
    ///
    /// What is known is about another plan.
    pub fn as_a_whole(self) -> Result<(Plan, Explanation), Failure> {
        let Self { plan, basis, known } = self;
        let explained = explain(&plan, basis, &Thing::Run, known);
        let explanation = explained.map_err(|error| Failure::error(error.to_string()))?;
        Ok((plan, explanation))
    }
}

/// The hardware profiles of nodes by the documents that are checked out; none where these cannot be loaded: without them
/// nothing is known of usual durations, and all else stays.
fn profiles(checkout: &Checkout<'_>, steps: &KnownSteps) -> BTreeMap<NodeName, Arc<str>> {
    let has_begun = !steps.began.is_empty();
    let loaded = has_begun.then(|| {
        let mut loader = checkout.loader().ok()?;
        let location = checkout.location_at(At::Worktree).ok()?;
        let settings = Settings {
            depth: Depth::Typed,
            detail: Detail::Designs,
            accept: Accept::default(),
        };
        loader.load(&location, At::Worktree, settings).ok()
    });
    let Some(site) = loaded.flatten() else {
        return BTreeMap::new();
    };
    let nodes = site.design.nodes.iter();
    let profiles =
        nodes.filter_map(|(name, node)| Some((name.clone(), node.hardware_profile.clone()?)));
    profiles.collect()
}
