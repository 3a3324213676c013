//! The end of a run that an earlier process of this clone could not publish: found, and published.

use super::error::{self, Error};
use super::files::RunFiles;
use super::process::Process;
use super::publish::{End, Publication};
use crate::design::RunId;
use crate::record::{Outcome, RunRecord};
use crate::repository::{CommitId, REMOTE_COPIES};

/// A run that has ended in this clone, and whose end the remote does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpublished {
    /// Which run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Outcome,
}

/// A thing that an earlier process of this clone had left undone, and a later one has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaughtUp {
    /// Its run.
    pub run: RunRecord,
    /// The thing.
    pub what: Arrears,
}

/// A thing that a run owed which ended, or was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrears {
    /// Its end was not published.
    End,
    /// Its lock was not released.
    Lock,
    /// Its tag was missing.
    Tag,
}

/// The run that has ended in this clone and whose end was not published, by what is here alone.
///
/// # Errors
///
/// The lock or the records cannot be read.
pub fn unpublished(process: Process<'_>) -> Result<Option<Unpublished>, Error> {
    let found = left_over(process)?;
    Ok(found.map(|left| Unpublished {
        run: left.run.run,
        outcome: left.run.outcome,
    }))
}

/// A lock that an earlier process of this clone has left, and its run, which has ended.
struct LeftOver {
    lock: CommitId,
    run: RunRecord,
}

fn left_over(process: Process<'_>) -> Result<Option<LeftOver>, Error> {
    let site = process.site;
    let lock = site
        .repository
        .read_lock(site.name.as_str())
        .map_err(error::repository(&site.name, "read the lock"))?;
    let me = process.holder(&RunId::from(""));
    // A process that continues after its run (a watcher) has left the lock of that run, too.
    let Some(lock) = lock.filter(|lock| lock.holder.is_gone(&me) || lock.holder.is_same(&me))
    else {
        return Ok(None);
    };
    let reading = "read the record of the last run";
    let store = site.store()?;
    let state = store.read().map_err(error::records(reading))?;
    // Where these are the remote's records, as they were fetched, they are published.
    let fetched = site
        .repository
        .refs(REMOTE_COPIES)
        .map_err(error::repository(&site.name, "read the fetched records"))?;
    let ending = format!("/{}/state", site.name);
    let mut fetched = fetched.iter().filter(|(name, _)| name.ends_with(&ending));
    if fetched.any(|(_, tip)| Some(CommitId(*tip)) == state.tip) {
        return Ok(None);
    }
    let run = store
        .run(&state, &RunId::from(lock.holder.run.as_str()))
        .map_err(error::records(reading))?;
    let ended = run.filter(|run| run.outcome != Outcome::Running);
    Ok(ended.map(|run| LeftOver { lock: lock.id, run }))
}

/// Publishes the end of a run that an earlier process of this clone could not publish, or was killed before
/// it did: before anything else is done with the remote. Gives that run, if there was one. Costs nothing
/// if there was no such run.
///
/// # Errors
///
/// [`Error::Unpublished`] if the remote still does not take it; the remote cannot be reached.
pub fn catch_up(process: Process<'_>) -> Result<Option<CaughtUp>, Error> {
    let site = process.site;
    let Some(left) = left_over(process)? else {
        return Ok(None);
    };
    // What is not to be published now waits.
    if site.is_offline() || (site.remote()?.is_some() && site.audience().is_none()) {
        return Ok(None);
    }
    let store = site.store()?;
    let records = site.records(&store)?;
    let lock = site.lock()?.filter(|lock| lock.id == left.lock);
    // It may have been resumed or aborted elsewhere: then theirs counts.
    let run = store
        .run(&records.state, &left.run.run)
        .map_err(error::records("read the record of the last run"))?;
    let Some(run) = run.filter(|run| run.outcome != Outcome::Running) else {
        site.forget_lock(lock.is_none().then_some(left.lock))?;
        return Ok(None);
    };
    let owes_records = site.audience().is_some()
        && store
            .publication(&records.state, records.remote_tip)
            .is_some();
    let what = match lock {
        _ if owes_records => Some(Arrears::End),
        Some(_) => Some(Arrears::Lock),
        None => None,
    };
    let files = RunFiles::of(site.repository, &site.name, &run.run);
    let end = End {
        run: &run,
        state: &records.state,
        remote_tip: records.remote_tip,
        lock: lock.map(|lock| lock.id),
        author: process.signature(),
    };
    let (publication, _) = site.publish_end(&store, &end)?;
    if let Publication::Missing { why } = publication {
        return Err(Error::Unpublished { run: run.run, why });
    }
    site.forget_lock(Some(left.lock))?;
    if run.outcome != Outcome::Interrupted {
        files.remove();
    }
    Ok(what.map(|what| CaughtUp { run, what }))
}
