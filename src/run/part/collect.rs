//! The published progress of the workers of a run, gathered for its end, its abort, or a process that resumes it alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::known::KnownParts;
use super::refs::PartRefs;
use super::status::progress;
use crate::journal::Entry;
use crate::plan::{Parts, Plan, saved};
use crate::record::{RunFile, RunRecord, State, Store};
use crate::run::error::{self, Error};
use crate::run::event::RunEvent;
use crate::run::site_repository::SiteRepository;
use crate::step::StepId;

/// The published progress of all parts.
pub(in crate::run) struct Collected {
    pub(in crate::run) known: KnownParts,
    /// In the order of the parts, with an intent for each step that may have begun.
    pub(in crate::run) entries: Vec<Entry>,
    /// In the order of time.
    pub(in crate::run) events: Vec<RunEvent>,
    /// Parts that a worker has, or had, and did not leave in good order.
    pub(in crate::run) open: Vec<Arc<str>>,
}

/// Gathers the progress of a run's parts; `None` for a run that is not divided among workers.
pub(in crate::run) fn collected(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
    record: &RunRecord,
) -> Result<Option<Collected>, Error> {
    let Some(workers) = &record.workers else {
        return Ok(None);
    };
    let plan = plan_of(store, state, record)?;
    let parts = Parts::of(&plan, workers.nodes_per_part);
    let refs = PartRefs {
        site,
        run: &record.run,
    };
    let mut known = KnownParts::default();
    known.update(refs, &refs.list()?, state.tip, None)?;
    let mut collected = Collected {
        known,
        entries: Vec::new(),
        events: Vec::new(),
        open: Vec::new(),
    };
    for part in &parts.parts {
        let Some(found) = collected.known.0.get(&part.id) else {
            continue;
        };
        let done = progress(site.repository, found.commit, &[], true)?;
        let is_open = found.status.state.is_open();
        collected.entries.extend(done.entries.iter().cloned());
        collected.events.extend(done.events);
        if is_open {
            collected.open.push(part.id.clone());
            let steps = part
                .steps
                .iter()
                .map(|step| &plan.steps[step.0 as usize].id);
            collected
                .entries
                .extend(possibly_begun(steps, &done.entries));
        }
    }
    collected
        .events
        .sort_by(|one, other| one.time.cmp(&other.time));
    Ok(Some(collected))
}

/// Intents of those of some steps that act and of which no entry tells.
pub(in crate::run) fn possibly_begun<'a>(
    steps: impl Iterator<Item = &'a StepId>,
    entries: &[Entry],
) -> Vec<Entry> {
    let known: BTreeSet<&StepId> = entries.iter().filter_map(Entry::step).collect();
    let unknown = steps.filter(|step| step.kind.facts().touches_world() && !known.contains(step));
    unknown
        .map(|step| Entry::Intent { step: step.clone() })
        .collect()
}

/// The plan of a run, as the records have it.
pub(in crate::run) fn plan_of(
    store: &Store<'_>,
    state: &State,
    record: &RunRecord,
) -> Result<Plan, Error> {
    let broken = |reason: String| Error::Broken {
        what: format!("the plan of run {}", record.run),
        reason,
    };
    let reading = || error::records("read the plan of the run");
    let file = store
        .packed_file(state, &record.run, RunFile::Plan)
        .map_err(reading())?;
    let file = file.ok_or_else(|| broken("it is not in the records".to_owned()))?;
    let bytes = file.unpack("plan").map_err(reading())?;
    saved::read(&bytes).map_err(|error| broken(error.to_string()))
}

/// Entries by part, put in the order of the parts; those of parts that the plan does not have are left out.
pub(in crate::run) fn in_order(
    parts: &Parts,
    entries: BTreeMap<Arc<str>, Vec<Entry>>,
) -> Vec<Entry> {
    let mut ordered: Vec<(usize, Vec<Entry>)> = entries
        .into_iter()
        .filter_map(|(part, entries)| Some((parts.find(&part)?, entries)))
        .collect();
    ordered.sort_by_key(|(position, _)| *position);
    ordered
        .into_iter()
        .flat_map(|(_, entries)| entries)
        .collect()
}
