//! Takes over the lock of an interrupted run, or releases it.

use std::time::Duration;

use super::catch_up::catch_up;
use super::error::{self, Error};
use super::files::RunFiles;
use super::interrupted::{Interrupted, named};
use super::process::{Held, Process};
use super::session::BOUND;
use crate::design::RunId;
use crate::record::Outcome;
use crate::repository::Lock;

/// How long a lock must not have moved before it counts as dead.
const DEAD: Duration = Duration::from_secs(10 * 60);
/// The interval at which it is checked meanwhile.
const GLANCE: Duration = Duration::from_secs(15);

/// How a lock is taken that another process may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    /// Take it after it has not moved for ten minutes (`--take-over-dead`).
    pub dead: bool,
    /// The longest time that one request of the crashed run may still be answered; it is waited out.
    pub longest_request: Duration,
}

/// Takes the lock for a run that was interrupted.
pub(super) fn take_over(
    process: Process<'_>,
    interrupted: &Interrupted,
    how: TakeOver,
) -> Result<Held, Error> {
    let site = process.site;
    let run = &interrupted.record.run;
    let files = RunFiles::of(site.repository, &site.name, run);
    let left = match site.lock()? {
        Some(left) if left.holder.run != run.as_str() => return Err(site.held(left)),
        // Whether its lock is there or not: what its workers are doing is fenced by what ends such a run.
        _ if interrupted.record.workers.is_some() => {
            return Err(Error::OfWorkers {
                site: site.name.clone(),
                run: run.clone(),
            });
        }
        None => None,
        Some(left) if process.is_dead(&left)? => Some(left),
        Some(left) if how.dead => wait_until_dead(process, left)?,
        Some(left) => return Err(site.held(left)),
    };
    let wait = match &left {
        Some(_) => how.longest_request,
        // One that was interrupted in good order has released its lock, and asks for nothing any more.
        None if outcome_now(process, run)? != Outcome::Running => Duration::ZERO,
        None => lease_of_missing(process, run, &files)? + how.longest_request,
    };
    let was_locked = left.is_some();
    let taken = process.take_left(
        left.map(|left| left.id),
        process.holder(run),
        interrupted.plan.as_bytes(),
    )?;
    if !wait.is_zero() {
        process.time.explain(&format!(
            "for {} s: so long may the last request of the interrupted process be on its way",
            wait.as_secs()
        ));
        pause(process, wait).inspect_err(|_| {
            let _ = match was_locked {
                true => site.release(&taken.lock),
                false => site.delete_lock(taken.lock.id),
            };
        })?;
    }
    files.note_released(false);
    Ok(taken)
}

/// The outcome of a run whose lock is gone: its process may have released it just now.
///
/// # Errors
///
/// [`Error::Ended`] if it has ended.
fn outcome_now(process: Process<'_>, run: &RunId) -> Result<Outcome, Error> {
    let store = process.site.store()?;
    let state = process.site.records(&store)?.state;
    Ok(named(process.site, &store, &state, run)?.outcome)
}

/// How long the process of a run may still act whose lock is gone, though it never wrote that it stopped: nothing, where it is
/// certainly gone. A lock that was deleted at the remote does not stop it before it renews it, or fails to.
fn lease_of_missing(
    process: Process<'_>,
    run: &RunId,
    files: &RunFiles,
) -> Result<Duration, Error> {
    let site = process.site;
    if files.is_released() {
        return Ok(Duration::ZERO);
    }
    let here = site
        .repository
        .read_lock(site.name.as_str())
        .map_err(error::repository(&site.name, "read the lock"))?;
    match here.filter(|here| here.holder.run == run.as_str()) {
        Some(here) if here.holder.is_gone(&process.holder(run)) => Ok(Duration::ZERO),
        Some(here) => Err(site.held(here)),
        None => {
            process.time.explain(&format!(
                "the lock of run {run} is gone, and the run has not ended: its process may be at work"
            ));
            Ok(BOUND)
        }
    }
}

/// Waits until a lock has not moved for so long that its holder has stopped, whatever became of it; `None`
/// if it was released meanwhile. Judged by this clock alone: the holder's may be wrong.
fn wait_until_dead(process: Process<'_>, left: Lock) -> Result<Option<Lock>, Error> {
    let (site, time) = (process.site, process.time);
    time.explain("for 10 min, in which the lock must not move: then its holder counts as dead");
    let began = time.monotonic();
    while time.monotonic().saturating_sub(began) < DEAD {
        pause(process, GLANCE)?;
        match site.lock()? {
            Some(now) if now.id == left.id => {}
            Some(now) => return Err(site.held(now)),
            None => return Ok(None),
        }
    }
    Ok(Some(left))
}

/// Waits, unless a stop is asked for.
fn pause(process: Process<'_>, wait: Duration) -> Result<(), Error> {
    process.time.pause(wait);
    match process.time.is_stopped() {
        true => Err(Error::Stopped {
            site: process.site.name.clone(),
        }),
        false => Ok(()),
    }
}

/// The safeguards that a release of a lock may skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// Only if its process is certainly gone.
    Dead,
    /// Also if it has not moved for ten minutes, which is waited for.
    Unmoved,
    /// Whatever its process does.
    Forced,
}

/// Releases the lock of a crashed run: by the rule by which it would be taken over, unless forced.
///
/// # Errors
///
/// [`Error::NotLocked`]; [`Error::LockHeld`] if another run has it, or its process may still run;
/// [`Error::EndedElsewhere`].
pub fn unlock(process: Process<'_>, run: &RunId, how: Unlock) -> Result<(), Error> {
    let site = process.site;
    if how != Unlock::Forced {
        catch_up(process)?;
    }
    let Some(left) = site.lock()? else {
        return Err(Error::NotLocked {
            site: site.name.clone(),
        });
    };
    if left.holder.run != run.as_str() {
        return Err(site.held(left));
    }
    if how == Unlock::Forced {
        return site.delete_lock(left.id);
    }
    // Also of a run that another clone of this machine began.
    let release = |left: &Lock| {
        RunFiles::of(site.repository, &site.name, run).note_released(true);
        site.release(left)
    };
    if process.is_dead(&left)? {
        return release(&left);
    }
    if how == Unlock::Dead || left.holder.of_workers {
        return Err(site.held(left));
    }
    match wait_until_dead(process, left)? {
        Some(left) => release(&left),
        None => Ok(()),
    }
}
