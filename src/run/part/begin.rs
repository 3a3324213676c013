//! The lock of a run that is divided among workers, and how the run is found by the name that the engine gives it.

use crate::design::RunId;
use crate::record::{self, Packed, RunRecord, State, Store};
use crate::repository::Holder;
use crate::run::error::{self, Error};
use crate::run::process::{Held, Process};
use crate::run::session::Session;
use crate::run::site_repository::SiteRepository;
use crate::threads::lock;

/// How many of the newest runs are searched for a name.
const SEARCHED: usize = 200;

/// Finds a run that is divided among workers, by its id or by the name that the engine gives it: the newest.
///
/// # Errors
///
/// The records or the remote cannot be read.
pub fn find_shared(site: &SiteRepository<'_>, name: &str) -> Result<Option<RunRecord>, Error> {
    let store = site.store()?;
    let state = site.records(&store)?.state;
    let found = find_named(&store, &state, name);
    found.map_err(error::records("read the records of the runs"))
}

/// The run that began with a name, or has an id, and is divided among workers, by records that were read.
///
/// # Errors
///
/// A record cannot be read.
pub fn find_named(
    store: &Store<'_>,
    state: &State,
    name: &str,
) -> Result<Option<RunRecord>, record::Error> {
    for run in store.runs(state)?.iter().rev().take(SEARCHED) {
        let record = store.run(state, run)?;
        let is_named = |record: &RunRecord| {
            let workers = record.workers.as_ref();
            workers.is_some_and(|workers| &*workers.name == name || run.as_str() == name)
        };
        if let Some(record) = record.filter(is_named) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// Leaves the lock of a run that has just begun to its workers.
///
/// # Errors
///
/// [`Error::Fenced`] if it is another process's by now; the remote cannot be reached: `trueup run begin` with the same name
/// does it later.
pub fn hand_over(session: &Session<'_>) -> Result<(), Error> {
    let process = session.process;
    let mut renewal = lock(&session.held);
    renewal.stop();
    let plan = session.approved.plan_file;
    renewal.held = give(process, &session.run, &renewal.held, plan)?;
    Ok(())
}

/// Gives a lock that is held to the workers of its run.
pub(super) fn give(
    process: Process<'_>,
    run: &RunId,
    held: &Held,
    plan: &Packed,
) -> Result<Held, Error> {
    process.take_as(
        Some(held.lock.id),
        of_workers(process, run),
        plan.as_bytes(),
    )
}

fn of_workers(process: Process<'_>, run: &RunId) -> Holder {
    Holder {
        of_workers: true,
        ..process.holder(run)
    }
}

/// Ensures that the lock of a run which has begun is its workers': its first process may have been killed before it
/// left the lock to them.
///
/// # Errors
///
/// [`Error::LockHeld`] if another process or run has it.
pub fn leave_to_workers(
    process: Process<'_>,
    record: &RunRecord,
    plan: &Packed,
) -> Result<(), Error> {
    let seen = match process.site.lock()? {
        None => None,
        Some(held) if held.holder.run != record.run.as_str() => {
            return Err(process.site.held(held));
        }
        Some(held) if held.holder.of_workers => return Ok(()),
        Some(held) if process.is_dead(&held)? => Some(held.id),
        Some(held) => return Err(process.site.held(held)),
    };
    process.take_left(seen, of_workers(process, &record.run), plan.as_bytes())?;
    Ok(())
}
