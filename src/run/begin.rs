//! How a run begins: the lock, the newest records, the plan checked once more, the first checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{self, Error};
use super::files::RunFiles;
use super::interrupted::abandon;
use super::keep::{Parts, Session};
use super::publish::{catch_up, mend_tag, note_settled, settle_tags, write_settled};
use super::site_repository::{Actor, Held, Records, SetAside, SiteRepository};
use super::tag;
use super::time::{Timekeeper, rfc3339};
use crate::design::{Digest, NodeDesign, NodeName, RunId};
use crate::journal::Journal;
use crate::journal::Replay;
use crate::plan::Plan;
use crate::record::{
    self, Checkpoint, Counts, Draft, JournalMark, Outcome, Packed, RunRecord, State, Store,
};
use crate::repository::{CommitId, PushOutcome, RefUpdate};

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
    site: &'a SiteRepository<'a>,
    actor: &'a Actor,
    time: &'a dyn Timekeeper,
    proposal: Proposal<'a>,
    still_holds: &mut dyn FnMut(&State) -> Result<Vec<String>, record::Error>,
) -> Result<Begun<'a>, Error> {
    site.remote()?;
    let store = site.store()?;
    let state = site.records(&store)?.state;
    let milliseconds = u64::try_from(time.seconds()).unwrap_or_default() * 1000;
    let run = state
        .site
        .next_run(ulid::Ulid::from_parts(milliseconds, actor.random));
    let mut held = acquire(site, actor, time, &proposal, &store, &state, &run)?;
    begin_locked(site, actor, time, proposal, store, &mut held, still_holds).inspect_err(|_| {
        let _ = site.release(held.lock.id);
    })
}

/// What a look at the site found before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// A run that had ended, and whose end was not published, or whose tag was not made: that is done now.
    pub ended: Option<RunRecord>,
    /// Records of this clone that the remote has gone on without.
    pub set_aside: Option<SetAside>,
}

/// Looks whether another run is in the way, before anything is planned; [`begin`] looks again. Where the
/// last one ended and was killed before its end was published, that is done now: it may be that nothing is
/// left to begin a run for.
///
/// # Errors
///
/// [`Error::Offline`]; [`Error::LockHeld`] where a process may still run; [`Error::Unfinished`];
/// [`Error::Unpublished`]; the lock or the records cannot be read, or the tag not be made.
pub fn look_out(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
) -> Result<Outlook, Error> {
    site.remote()?;
    let caught_up = catch_up(site, actor, time)?;
    let left = site.lock()?;
    if let Some(left) = &left
        && !site.is_dead(left, actor, time)?
    {
        return Err(site.held(left.clone()));
    }
    let store = site.store()?;
    let records = site.records(&store)?;
    if let Some(run) = unfinished(&store, &records.state)? {
        return Err(Error::Unfinished {
            site: site.name.clone(),
            run: run.run,
        });
    }
    let mended = mend_tag(site, &store, &records.state)?;
    let settled = settle_tags(site, &store, &records.state)?;
    // Its run has ended, or had begun nothing: the first records are published before the first step.
    left.map_or(Ok(()), |left| site.release(left.id))?;
    note_settled(site, actor, time, &store, &settled)?;
    Ok(Outlook {
        ended: caught_up.or(mended),
        set_aside: records.set_aside,
    })
}

/// Takes the lock; also where a dead process of this machine left it.
fn acquire(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    proposal: &Proposal<'_>,
    store: &Store<'_>,
    state: &State,
    run: &RunId,
) -> Result<Held, Error> {
    let held = match site.take(None, actor, time, run, proposal.plan_file) {
        Err(error @ Error::LockHeld { .. }) => error,
        other => return other,
    };
    let Some(left) = site.lock()? else {
        return Err(held);
    };
    if !site.is_dead(&left, actor, time)? {
        return Err(site.held(left));
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
    site: &'a SiteRepository<'a>,
    actor: &'a Actor,
    time: &'a dyn Timekeeper,
    proposal: Proposal<'a>,
    store: Store<'a>,
    held: &mut Held,
    still_holds: &mut dyn FnMut(&State) -> Result<Vec<String>, record::Error>,
) -> Result<Begun<'a>, Error> {
    let mut records = site.records(&store)?;
    mend_tag(site, &store, &records.state)?;
    let settled = settle_tags(site, &store, &records.state)?;
    let author = actor.at(time.seconds());
    records.state = write_settled(&store, records.state, &settled, &author)?;
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
    if let Some(previous) = unfinished(&store, &records.state)? {
        if !proposal.supersede {
            return Err(Error::Unfinished {
                site: site.name.clone(),
                run: previous.run,
            });
        }
        check(&records.state)?;
        supersede(site, actor, time, &store, &mut records, previous)?;
    }
    check(&records.state)?;
    let Records {
        state,
        mut remote_tip,
        ..
    } = records;

    // The run's id was made before the newest records were seen.
    let mut run = RunId::from(held.holder.run.as_str());
    if state.site.last_run.as_ref() >= Some(&run) {
        let candidate = ulid::Ulid::from_string(run.as_str()).unwrap_or_default();
        run = state.site.next_run(candidate);
        *held = site.take(Some(held.lock.id), actor, time, &run, proposal.plan_file)?;
    }
    let journal_id: Arc<str> = Arc::from(held.lock.id.to_string());
    let mark = JournalMark {
        id: journal_id.clone(),
        entries: 0,
    };
    let record = first_record(site, time, &proposal, run.clone(), mark);
    let files = RunFiles::of(site.repository, &site.name, &run);
    let journal = files.new_journal(&journal_id)?;
    files.note_plan(proposal.plan_digest)?;
    let written = Checkpoint {
        plan: Some(proposal.plan_file),
        ..Checkpoint::of_run(&record, actor.at(time.seconds()))
    };
    let draft = store
        .draft(&state, &written)
        .map_err(error::records("write the first records of the run"))?;
    // Before the first step everybody can see that there is this run: no clone takes it for one that never
    // happened, whatever becomes of this process and of the remote.
    publish_first(site, &store, &draft, &mut remote_tip, &run).inspect_err(|_| files.remove())?;
    let state = store
        .advance(draft)
        .map_err(error::records("write the first records of the run"))?;
    let session = Session::new(Parts {
        site,
        actor,
        time,
        plan: proposal.plan,
        plan_file: proposal.plan_file,
        commit: proposal.commit,
        nodes: proposal.nodes,
        store,
        files,
        state,
        remote_tip,
        run: record,
        held: held.clone(),
        journal: journal_id,
        entries: 0,
    })?;
    Ok(Begun {
        session,
        journal,
        replay: Replay::default(),
    })
}

/// Aborts the run before, which was interrupted, and publishes that.
fn supersede(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    store: &Store<'_>,
    records: &mut Records,
    previous: RunRecord,
) -> Result<(), Error> {
    let given_up = abandon(site, actor, time, store, &records.state, previous)?;
    let mut updates = Vec::new();
    updates.extend(store.publication(&given_up.state, records.remote_tip));
    updates.extend(given_up.tag);
    records.state = given_up.state;
    if site.push(&updates)? == PushOutcome::Published {
        given_up.files.remove();
        if site.audience().is_some() {
            records.remote_tip = records.state.tip;
        }
    }
    Ok(())
}

/// The record of a run that has begun nothing yet.
fn first_record(
    site: &SiteRepository<'_>,
    time: &dyn Timekeeper,
    proposal: &Proposal<'_>,
    run: RunId,
    journal: JournalMark,
) -> RunRecord {
    let plan = proposal.plan;
    RunRecord {
        run,
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
        annotation: None,
        tag_owed: false,
        journal: Some(journal),
    }
}

/// Publishes the first records of a run, which has begun nothing yet.
fn publish_first(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    draft: &Draft,
    remote_tip: &mut Option<CommitId>,
    run: &RunId,
) -> Result<(), Error> {
    if site.audience().is_none() {
        return Ok(());
    }
    let update = RefUpdate {
        name: store.state_ref().to_owned(),
        old: remote_tip.map(|tip| tip.0),
        new: Some(draft.tip.0),
    };
    match site.push(&[update])? {
        PushOutcome::Published => *remote_tip = Some(draft.tip),
        PushOutcome::LostRace { .. } => return Err(Error::Fenced { run: run.clone() }),
    }
    Ok(())
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
