//! How far a run is, for those that only read: what is known of its steps, and when they began.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{self, Error};
use super::event::{EventKind, RunEvent};
use super::files::RunFiles;
use super::known::{KnownRun, elapsed, entries_of_events, longest_node};
use super::part::plan_of;
use super::site_repository::SiteRepository;
use super::unfinished::unfinished;
use crate::design::NodeName;
use crate::journal::Entry;
use crate::record::{NodeRecord, RunRecord, State, Store};
use crate::step::StepId;

/// The known facts about the steps of a run.
#[derive(Debug, Default)]
pub struct KnownSteps {
    /// Beginnings, ends and notes, from the journal of this clone and from checkpoints.
    pub entries: Vec<Entry>,
    /// When each step began last, RFC 3339, as far as checkpoints have it.
    pub began: BTreeMap<StepId, Arc<str>>,
    /// For how long it was carried out, as far as checkpoints tell, in milliseconds.
    pub elapsed_ms: u64,
    /// Whether a process whose journal is not here may have begun more.
    pub may_be_begun: bool,
}

/// Returns what is known of the steps of a run, whether it runs, was interrupted or has ended.
///
/// # Errors
///
/// The journal or the records cannot be read.
pub fn known_steps(
    site: &SiteRepository<'_>,
    (store, state): (&Store<'_>, &State),
    record: &RunRecord,
) -> Result<KnownSteps, Error> {
    let events = store
        .events(state, &record.run)
        .map_err(error::records("read the events of the run"))?;
    // The parts of a run are at the remote until it ends, and the records have all of it then.
    let is_recorded = record.workers.is_some() && (site.is_offline() || record.outcome.has_ended());
    let (entries, may_be_begun) = if is_recorded {
        (entries_of_events(&events), false)
    } else {
        let files = RunFiles::of(site.repository, &site.name, &record.run);
        let known = KnownRun::gather(site, (store, state), record, &files)?;
        (known.all().to_vec(), known.may_have_begun_more(record))
    };
    let mut began = BTreeMap::new();
    for line in events.split(|byte| *byte == b'\n') {
        // What is no event, or a newer trueup's, has no time of a step.
        if let Ok(event) = serde_json::from_slice::<RunEvent>(line)
            && let EventKind::StepStarted { step, .. } = event.kind
        {
            began.insert(step, event.time);
        }
    }
    Ok(KnownSteps {
        elapsed_ms: elapsed(&events).max(longest_node(&entries)),
        entries,
        began,
        may_be_begun,
    })
}

/// Brings records of nodes up to date with what the run that has not ended has done: its checkpoints come later than that,
/// and those of a divided run at its end only. Gives the records that nodes have if its process, whose journal is not here, has begun
/// what it may have: they hold of machines that show it.
///
/// # Errors
///
/// The journal, the records or the parts cannot be read, or are not to be trusted.
pub fn bring_up_to_date(
    site: &SiteRepository<'_>,
    (store, state): (&Store<'_>, &State),
    nodes: &mut BTreeMap<NodeName, NodeRecord>,
    now: i64,
) -> Result<BTreeMap<NodeName, NodeRecord>, Error> {
    let Some(record) = unfinished(store, state)? else {
        return Ok(BTreeMap::new());
    };
    if record.workers.is_some() && site.is_offline() {
        return Ok(BTreeMap::new());
    }
    let plan = plan_of(store, state, &record)?;
    let files = RunFiles::of(site.repository, &site.name, &record.run);
    let mut known = KnownRun::gather(site, (store, state), &record, &files)?;
    let mut possible = match known.may_have_begun_more(&record) {
        true => nodes.clone(),
        false => BTreeMap::new(),
    };
    known.take_in(nodes, &record, Some(&plan), now);
    if known.may_have_begun_more(&record) {
        known.suspect(&plan);
        known.take_in(&mut possible, &record, Some(&plan), now);
        possible.retain(|name, record| nodes.get(name) != Some(record));
    }
    Ok(possible)
}
