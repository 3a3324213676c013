//! The end of a run that was divided among workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::begin::give;
use super::collect::{Collected, collected};
use super::pace::{PUSHES_OF_END, Pace};
use crate::design::{NodeDesign, NodeName};
use crate::journal::Entry;
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::repository::Lock;
use crate::run::error::{self, Error};
use crate::run::event::EventKind;
use crate::run::interrupted::Interrupted;
use crate::run::process::{Held, Process};
use crate::run::resume::{open_journal, open_session, take_in};
use crate::run::session::{ApprovedPlan, Begun, Session};
use crate::run::site_repository::Connection;
use crate::threads::lock;

/// How a run was found that is to be ended.
pub enum Ending<'a> {
    /// Something is left to be done; the parts that a worker has, or had. The lock is the workers' again.
    Unfinished(Vec<Arc<str>>),
    /// All that acts has ended: the rest is decided, recorded and tagged by this process.
    Complete(Box<Begun<'a>>),
}

/// Takes the lock of a run from its workers, and collects what they have done. `is_complete` judges the entries.
///
/// # Errors
///
/// [`Error::NotOfWorkers`]; [`Error::LockHeld`] if another process ends or aborts the run; [`Error::Untrusted`]; the records
/// or the remote cannot be read or written.
pub fn end_run<'a>(
    process: Process<'a>,
    interrupted: &'a Interrupted,
    plan: &'a Plan,
    nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    is_complete: &dyn Fn(&[Entry]) -> Result<bool, Error>,
) -> Result<Ending<'a>, Error> {
    let (site, record) = (process.site, &interrupted.record);
    let state = site.store()?.read();
    site.ready(&state.map_err(error::records("read the records"))?)?;
    let judged = || {
        let found = gather(process, interrupted)?;
        let is_over = found.open.is_empty() && is_complete(&found.entries)?;
        Ok((found, is_over))
    };
    // The lock is not touched while workers are at work: they stop if it moves.
    if site
        .lock()?
        .is_some_and(|left| is_of_workers(&left, record))
    {
        let (found, is_over) = judged()?;
        if !is_over {
            return Ok(Ending::Unfinished(found.open));
        }
        wait_for_turn(process, record, &found);
    }
    let held = take(process, interrupted)?;
    let found = match judged() {
        Ok((found, true)) => found,
        unfinished => {
            give(process, &record.run, &held, &interrupted.plan)?;
            return unfinished.map(|(found, _)| Ending::Unfinished(found.open));
        }
    };
    let approved = ApprovedPlan {
        plan,
        plan_file: &interrupted.plan,
        commit: interrupted.commit,
        nodes,
    };
    let (session, known, entries) = open_session(process, interrupted, approved, held)?;
    take_in_events(&session, &found)?;
    let (journal, replay) = open_journal(&session, &known, entries)?;
    take_in(&session, &known, &replay);
    Ok(Ending::Complete(Box::new(Begun {
        session,
        journal,
        replay,
    })))
}

/// Takes the lock from the workers, or from a process that was killed while it ended the run.
pub(super) fn take(process: Process<'_>, interrupted: &Interrupted) -> Result<Held, Error> {
    let (site, run) = (process.site, &interrupted.record.run);
    if interrupted.record.workers.is_none() {
        return Err(Error::NotOfWorkers { run: run.clone() });
    }
    let left = match site.lock()? {
        None => None,
        Some(left) if left.holder.run != run.as_str() => return Err(site.held(left)),
        Some(left) if left.holder.of_workers || process.is_dead(&left)? => Some(left.id),
        Some(left) => return Err(site.held(left)),
    };
    process.take_left(left, process.holder(run), interrupted.plan.as_bytes())
}

/// Waits until the pushes of the end keep the run within its pace.
fn wait_for_turn(process: Process<'_>, record: &RunRecord, found: &Collected) {
    let (Some(workers), Connection::Shared { .. }) = (&record.workers, &process.site.connection)
    else {
        return;
    };
    let pace = Pace {
        pushes_per_minute: workers.pushes_per_minute,
    };
    let (now, published) = (process.time.seconds(), found.known.published());
    let seconds = pace.wait(now, &published, PUSHES_OF_END);
    if seconds > 0 {
        process.time.explain(&format!(
            "for {seconds} s: so that the run makes no more than {} pushes a minute",
            workers.pushes_per_minute
        ));
        process.time.pause(Duration::from_secs(seconds));
    }
}

fn is_of_workers(lock: &Lock, record: &RunRecord) -> bool {
    lock.holder.of_workers && lock.holder.run == record.run.as_str()
}

fn gather(process: Process<'_>, interrupted: &Interrupted) -> Result<Collected, Error> {
    let (site, record) = (process.site, &interrupted.record);
    let store = site.store()?;
    let state = site.records(&store)?.state;
    collected(site, &store, &state, record)?.ok_or_else(|| Error::NotOfWorkers {
        run: record.run.clone(),
    })
}

/// Adds the events of the parts to those of the run, unless an earlier process has: it was killed behind its first
/// checkpoint.
fn take_in_events(session: &Session<'_>, found: &Collected) -> Result<(), Error> {
    let mut records = lock(&session.records);
    let known = session
        .store
        .events(&records.state, &session.run)
        .map_err(error::records("read the events of the run"))?;
    if !known.is_empty() {
        return Ok(());
    }
    for event in &found.events {
        records.add_event(&session.journal, event);
        if let EventKind::StepFinished {
            step,
            outcome: crate::journal::StepOutcome::Succeeded,
            duration_ms,
            ..
        } = &event.kind
        {
            records.step_timed(step, *duration_ms);
        }
    }
    Ok(())
}
