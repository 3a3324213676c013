//! The published progress of the workers of a run, gathered for its end, its abort, or a process that resumes it alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::known::KnownParts;
use super::refs::PartRefs;
use super::status::progress;
use crate::journal::Entry;
use crate::plan::{Part, Parts, Plan, saved};
use crate::record::{RunFile, RunRecord, State, Store};
use crate::repository::CommitId;
use crate::run::error::{self, Error};
use crate::run::event::RunEvent;
use crate::run::files::RunFiles;
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
    let lost = LostParts::of(refs, &collected.known, &parts)?;
    for (position, part) in parts.parts.iter().enumerate() {
        let (entries, is_open) = match collected.known.0.get(&part.id) {
            Some(found) => {
                let done = progress(site.repository, found.commit, &[], true)?;
                collected.events.extend(done.events);
                (done.entries, found.status.state.is_open())
            }
            None => match lost.entries(refs, (position, part))? {
                Some(entries) => (entries, true),
                None => continue,
            },
        };
        let mut begun = Vec::new();
        if is_open {
            collected.open.push(part.id.clone());
            let steps = part.steps.iter();
            let steps = steps.map(|step| &plan.steps[step.0 as usize].id);
            begun = possibly_begun(steps, &entries);
        }
        collected.entries.extend(entries);
        collected.entries.extend(begun);
    }
    collected
        .events
        .sort_by(|one, other| one.time.cmp(&other.time));
    Ok(Some(collected))
}

/// The parts without a ref of which something is known here, so that it was deleted: by their journals if this clone has carried
/// them out, else by what was fetched of them before, or by parts that begin only once they have ended.
struct LostParts {
    journals: BTreeSet<String>,
    copies: BTreeMap<Arc<str>, CommitId>,
    needed: BTreeSet<usize>,
}

impl LostParts {
    fn of(refs: PartRefs<'_>, known: &KnownParts, parts: &Parts) -> Result<Self, Error> {
        let begun = parts.parts.iter();
        let begun = begun.filter(|part| known.0.contains_key(&part.id));
        Ok(Self {
            journals: RunFiles::of(refs.site.repository, &refs.site.name, refs.run).parts(),
            copies: refs.list_copies()?,
            needed: begun.flat_map(|part| part.after.iter().copied()).collect(),
        })
    }

    /// The entries of a part of which anything is known.
    fn entries(
        &self,
        refs: PartRefs<'_>,
        (position, part): (usize, &Part),
    ) -> Result<Option<Vec<Entry>>, Error> {
        let site = refs.site;
        if self.journals.contains(&*part.id) {
            let files = RunFiles::of_part(site.repository, &site.name, refs.run, &part.id);
            let own = files.read()?.unwrap_or_default().entries;
            if !own.is_empty() {
                return Ok(Some(own));
            }
        }
        match self.copies.get(&part.id) {
            Some(copy) => Ok(Some(progress(site.repository, *copy, &[], false)?.entries)),
            None => Ok(self.needed.contains(&position).then(Vec::new)),
        }
    }
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
