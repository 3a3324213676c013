//! How a run begins: the lock, the newest records, the plan checked once more, the first checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{self, Error};
use super::files::RunFiles;
use super::interrupted::abandon;
use super::keep::{Parts, Session};
use super::site::{Actor, Held, Site};
use super::tag;
use super::time::{Timekeeper, rfc3339};
use crate::apply::Replay;
use crate::design::{Digest, NodeDesign, NodeName, RunId};
use crate::journal::Journal;
use crate::plan::Plan;
use crate::record::{self, Checkpoint, Counts, Outcome, Packed, RunRecord, State, Store};
use crate::repository::{self, CommitId, RefUpdate};

/// A plan that is to be carried out.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The same as a saved file, packed, which the records and the lock keep.
    pub plan_file: &'a Packed,
    /// Its digest.
    pub plan_digest: &'a Digest,
    /// The commit that is applied, and tagged: it has the files that were planned.
    pub commit: CommitId,
    /// The designs to be reached.
    pub nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// Whether an interrupted run is given up for this one.
    pub supersede: bool,
}

/// A run that has begun.
pub struct Begun<'a> {
    /// Holds the lock and keeps the records.
    pub session: Session<'a>,
    /// For the dispatcher.
    pub journal: Journal,
    /// What was done before; empty for a new run.
    pub replay: Replay,
}

/// Begins a run: takes the lock, follows the remote's records, asks `still_holds` with them what of the
/// plan does not hold any more, and writes the run with its plan to the records.
///
/// A lock that a process of this machine left, whose run has ended, is taken over. The run before, where
/// it was interrupted, is given up first if the proposal says so.
///
/// # Errors
///
/// [`Error::Offline`]; [`Error::LockHeld`]; [`Error::Unfinished`]; [`Error::Stale`] with what
/// `still_holds` said; the repository, the remote or the records cannot be read or written. The lock is
/// released again.
pub fn begin<'a>(
    site: &'a Site<'a>,
    actor: &'a Actor,
    time: &'a dyn Timekeeper,
    proposal: Proposal<'a>,
    still_holds: &mut dyn FnMut(&State) -> Result<Vec<String>, record::Error>,
) -> Result<Begun<'a>, Error> {
    site.remote()?;
    let store = site.store()?;
    let (state, _) = site.records(&store)?;
    let milliseconds = u64::try_from(time.seconds()).unwrap_or_default() * 1000;
    let run = state
        .site
        .next_run(ulid::Ulid::from_parts(milliseconds, actor.random));
    let mut held = acquire(site, actor, time, &proposal, &store, &state, &run)?;
    begin_locked(site, actor, time, proposal, store, &mut held, still_holds).inspect_err(|_| {
        let _ = site.release(&held.lock);
    })
}

/// Looks whether another run is in the way, before anything is planned; [`begin`] looks again. Where the
/// last one ended and was killed before its tag was made and its lock released, that is done now: it may
/// be that nothing is left to begin a run for. That run is given back where its tag was missing.
///
/// # Errors
///
/// [`Error::Offline`]; [`Error::LockHeld`] where a process may still run; [`Error::Unfinished`]; the
/// lock or the records cannot be read, or the tag not be made.
pub fn look_out(
    site: &Site<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
) -> Result<Option<RunRecord>, Error> {
    let left = site.lock()?;
    if let Some(left) = &left {
        let me = actor.holder(&RunId::from(""), time.seconds());
        if !left.holder.is_gone(&me) {
            return Err(Error::LockHeld {
                site: site.name.clone(),
                holder: Box::new(left.holder.clone()),
            });
        }
    }
    let store = site.store()?;
    let (state, _) = site.records(&store)?;
    if let Some(run) = unfinished(&store, &state)? {
        return Err(Error::Unfinished {
            site: site.name.clone(),
            run: run.run,
        });
    }
    let mended = mend_tag(site, &store, &state)?;
    left.map_or(Ok(()), |left| site.release(&left))?;
    Ok(mended)
}

/// Takes the lock; also where a dead process of this machine left it.
fn acquire(
    site: &Site<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    proposal: &Proposal<'_>,
    store: &Store<'_>,
    state: &State,
    run: &RunId,
) -> Result<Held, Error> {
    let holder = match site.take(None, actor, time, run, proposal.plan_file) {
        Err(Error::LockHeld { holder, .. }) => holder,
        other => return other,
    };
    let held = |holder| Error::LockHeld {
        site: site.name.clone(),
        holder,
    };
    let Some(left) = site.lock()? else {
        return Err(held(holder));
    };
    if !left.holder.is_gone(&actor.holder(run, time.seconds())) {
        return Err(held(Box::new(left.holder)));
    }
    if let Some(unfinished) = unfinished(store, state)?
        && !proposal.supersede
    {
        return Err(Error::Unfinished {
            site: site.name.clone(),
            run: unfinished.run,
        });
    }
    site.take(Some(left.id), actor, time, run, proposal.plan_file)
}

fn begin_locked<'a>(
    site: &'a Site<'a>,
    actor: &'a Actor,
    time: &'a dyn Timekeeper,
    proposal: Proposal<'a>,
    store: Store<'a>,
    held: &mut Held,
    still_holds: &mut dyn FnMut(&State) -> Result<Vec<String>, record::Error>,
) -> Result<Begun<'a>, Error> {
    let (mut state, mut remote_tip) = site.records(&store)?;
    mend_tag(site, &store, &state)?;
    let mut check = |state: &State| {
        let reasons =
            still_holds(state).map_err(error::records("check whether the plan still holds"))?;
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Error::Stale {
            site: site.name.clone(),
            reasons,
        })
    };
    if let Some(previous) = unfinished(&store, &state)? {
        if !proposal.supersede {
            return Err(Error::Unfinished {
                site: site.name.clone(),
                run: previous.run,
            });
        }
        check(&state)?;
        let given_up = abandon(site, actor, time, &store, &state, previous)?;
        let mut updates = Vec::new();
        updates.extend(store.publication(&given_up.state, remote_tip));
        updates.extend(given_up.tag);
        state = given_up.state;
        if site.publish(&updates)? {
            given_up.files.remove();
            if site.audience().is_some() {
                remote_tip = state.tip;
            }
        }
    }
    check(&state)?;

    // The run's id was made before the newest records were seen.
    let mut run = RunId::from(held.holder.run.as_str());
    if state.site.last_run.as_ref() >= Some(&run) {
        let candidate = ulid::Ulid::from_string(run.as_str()).unwrap_or_default();
        run = state.site.next_run(candidate);
        *held = site.take(Some(held.lock.id), actor, time, &run, proposal.plan_file)?;
    }
    let plan = proposal.plan;
    let record = RunRecord {
        run: run.clone(),
        site: site.name.clone(),
        action: Arc::from(plan.request.action.as_str()),
        revision: Arc::from(proposal.commit.to_string()),
        site_digest: plan.target.site_digest.clone(),
        plan_digest: proposal.plan_digest.clone(),
        started: Arc::from(rfc3339(time.seconds())),
        ended: None,
        outcome: Outcome::Running,
        partial: tag::is_partial(plan),
        unverified: plan.unverified().count(),
        counts: Counts::default(),
        tag: None,
    };
    let files = RunFiles::of(site.repository, &site.name, &run);
    let journal = files.new_journal()?;
    files.note_plan(proposal.plan_digest)?;
    let draft = store
        .draft(
            &state,
            &Checkpoint {
                run: &record,
                nodes: Vec::new(),
                forgotten: &[],
                plan: Some(proposal.plan_file),
                events: &[],
                report: None,
                author: actor.at(time.seconds()),
            },
        )
        .map_err(error::records("write the first records of the run"))?;
    files.note_checkpoint(&draft)?;
    let state = store
        .advance(draft)
        .map_err(error::records("write the first records of the run"))?;
    let session = Session::new(Parts {
        site,
        actor,
        time,
        plan,
        plan_file: proposal.plan_file,
        commit: proposal.commit,
        nodes: proposal.nodes,
        store,
        files,
        state,
        remote_tip,
        run: record,
        held: held.clone(),
    })?;
    session.publish_records();
    Ok(Begun {
        session,
        journal,
        replay: Replay::default(),
    })
}

/// The newest run, where it has not ended.
pub(super) fn unfinished(store: &Store<'_>, state: &State) -> Result<Option<RunRecord>, Error> {
    let Some(last) = &state.site.last_run else {
        return Ok(None);
    };
    let record = store
        .run(state, last)
        .map_err(error::records("read the record of the last run"))?;
    Ok(record.filter(|record| matches!(record.outcome, Outcome::Running | Outcome::Interrupted)))
}

/// Makes the tag of the last site action, and publishes it, where that was not reached; gives the run
/// that it is about.
fn mend_tag(site: &Site<'_>, store: &Store<'_>, state: &State) -> Result<Option<RunRecord>, Error> {
    let Some(action) = &state.site.last_action else {
        return Ok(None);
    };
    let files = RunFiles::of(site.repository, &site.name, &action.run);
    let Some(tag) = files.intended_tag()? else {
        return Ok(None);
    };
    let id = match site.repository.create_tag(&tag) {
        // Whoever went on with the run made it first, in other words: those stay.
        Err(repository::Error::RefMoved { found: Some(_), .. }) => {
            files.remove();
            return Ok(None);
        }
        made => made.map_err(error::repository(
            &site.name,
            "make the tag of the last site action",
        ))?,
    };
    let update = RefUpdate {
        name: tag.ref_name(),
        old: None,
        new: Some(id),
    };
    // Whoever has another tag of that name there keeps it.
    if site.publish(&[update])? {
        files.remove();
    }
    let record = store.run(state, &action.run);
    record.map_err(error::records("read the record of the last run"))
}
