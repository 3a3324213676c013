//! The run that has not ended, as the lock and the records tell it.

use std::sync::Arc;

use super::error::{self, Error};
use super::site_repository::{Connection, SiteRepository};
use crate::design::RunId;
use crate::plan::{RunState, UnfinishedRun};
use crate::record::{Outcome, Packed, RunRecord, State, Store};
use crate::repository::Holder;

/// The holder of the lock of a site.
///
/// # Errors
///
/// The lock cannot be read.
pub fn holder(site: &SiteRepository<'_>) -> Result<Option<Holder>, Error> {
    Ok(site.lock()?.map(|lock| lock.holder))
}

/// Refuses a lock whose holder may be at work: the run is that process's, or its workers'.
///
/// # Errors
///
/// [`Error::LockHeld`], [`Error::EndedElsewhere`]; the lock cannot be read.
pub fn refuse_held(site: &SiteRepository<'_>) -> Result<(), Error> {
    let lock = site.lock()?;
    let held = lock.filter(|lock| state_of(&lock.holder) != RunState::Interrupted);
    held.map_or(Ok(()), |lock| Err(site.held(lock)))
}

/// The run of a site that has not ended, if there is one. The records are taken as they are here, so they have been
/// followed before; the lock is read if it counts, but with `--offline` here.
///
/// # Errors
///
/// The lock or the records cannot be read.
pub fn unfinished_run(site: &SiteRepository<'_>) -> Result<Option<UnfinishedRun>, Error> {
    let holder = match &site.connection {
        Connection::Offline => holder_here(site)?,
        Connection::Alone | Connection::Shared { .. } => holder(site)?,
    };
    unfinished_by(site, holder.into_iter().collect())
}

/// The run that has not ended, by what is here and by a holder of the lock at the remote that is known already: the remote is not asked.
///
/// # Errors
///
/// As [`unfinished_run`].
pub fn unfinished_run_known(
    site: &SiteRepository<'_>,
    at_remote: Option<Holder>,
) -> Result<Option<UnfinishedRun>, Error> {
    let holders = at_remote.into_iter().chain(holder_here(site)?);
    unfinished_by(site, holders.collect())
}

fn holder_here(site: &SiteRepository<'_>) -> Result<Option<Holder>, Error> {
    let lock = site.repository.read_lock(site.name.as_str());
    let lock = lock.map_err(error::repository(&site.name, "read the lock"))?;
    Ok(lock.map(|lock| lock.holder))
}

/// The plan that the lock of a site carries, as a saved file; `None`: it is not held.
///
/// # Errors
///
/// The lock or its plan cannot be read.
pub fn plan_of_lock(site: &SiteRepository<'_>) -> Result<Option<Vec<u8>>, Error> {
    let Some(lock) = site.lock()? else {
        return Ok(None);
    };
    let plan = site.repository.lock_plan(&lock);
    let plan = plan.map_err(error::repository(&site.name, "read the plan of the lock"))?;
    let plan = Packed::from_file(plan).unpack("the plan of the lock");
    plan.map(Some)
        .map_err(error::records("read the plan of the lock"))
}

/// The run that has not ended, by the records here; of several holders of the lock, that of a process which may be at work
/// counts, and else the first.
fn unfinished_by(
    site: &SiteRepository<'_>,
    holders: Vec<Holder>,
) -> Result<Option<UnfinishedRun>, Error> {
    let store = site.store()?;
    let state = store.read().map_err(error::records("read the records"))?;
    let record = unfinished(&store, &state)?;
    if let Some(record) = record {
        let of_run = holders
            .into_iter()
            .filter(|holder| holder.run == record.run.as_str());
        let holder = of_run.min_by_key(|holder| state_of(holder) == RunState::Interrupted);
        return Ok(Some(of_record(record, holder)));
    }
    let Some(holder) = holders.into_iter().next() else {
        return Ok(None);
    };
    // A run that ended and keeps its lock has something left to publish, and is not begun again.
    let run = RunId::from(holder.run.as_str());
    let known = store
        .run(&state, &run)
        .map_err(error::records("read the record of a run"))?;
    let state = state_of(&holder);
    // The first records are published before the first step: a process that is gone without any has begun nothing, and the
    // next run releases its lock.
    let has_begun_nothing = state == RunState::Interrupted && !site.is_offline();
    Ok(
        (known.is_none() && !has_begun_nothing).then(|| UnfinishedRun {
            run,
            action: Arc::from("not in the records yet"),
            state,
            started: Arc::from(holder.since.as_str()),
            actor: Some(Arc::from(holder.who.as_str())),
            host: Some(Arc::from(holder.host.as_str())),
        }),
    )
}

/// How a run ended, or stands. One that has ended elsewhere stands as these records say. A killed process cannot write that its run was interrupted: the lock that it left behind
/// shows it. `unfinished`: the run of its site that has not ended.
#[must_use]
pub fn outcome_now(record: &RunRecord, unfinished: Option<&UnfinishedRun>) -> Outcome {
    let is_at_work = || {
        let own = unfinished.filter(|run| run.run == record.run);
        own.is_some_and(|run| run.state != RunState::Interrupted)
    };
    match record.outcome {
        Outcome::Running if !is_at_work() => Outcome::Interrupted,
        outcome => outcome,
    }
}

fn of_record(record: RunRecord, holder: Option<Holder>) -> UnfinishedRun {
    let state = holder.as_ref().map_or(RunState::Interrupted, state_of);
    UnfinishedRun {
        // Its workers may be at work whatever became of its lock, and nothing but they and its end takes it up.
        state: match state {
            RunState::Interrupted if record.workers.is_some() => RunState::Running,
            state => state,
        },
        actor: holder.as_ref().map(|holder| Arc::from(holder.who.as_str())),
        host: holder.map(|holder| Arc::from(holder.host.as_str())),
        run: record.run,
        action: record.action,
        started: record.started,
    }
}

/// How the run of a lock stands that has not ended in the records.
fn state_of(holder: &Holder) -> RunState {
    let me = Holder::this_process("", "", "");
    match holder.is_gone(&me) {
        _ if holder.ended => RunState::EndedElsewhere,
        true => RunState::Interrupted,
        false => RunState::Running,
    }
}

/// The newest run, where it has not ended.
pub(super) fn unfinished(store: &Store<'_>, state: &State) -> Result<Option<RunRecord>, Error> {
    let Some(last) = &state.site.last_run else {
        return Ok(None);
    };
    let record = store
        .run(state, last)
        .map_err(error::records("read the record of the last run"))?;
    Ok(record.filter(|record| !record.outcome.has_ended()))
}
