//! Resumes an interrupted run.
//!
//! A resumed run keeps its plan and its commit. What it knows is the journal of this clone, and what
//! the checkpoints in the records hold. If the records name another journal, the run was resumed
//! elsewhere, and where the journal is damaged it has forgotten something: then the journal begins anew, and
//! from then on every step that has no end in it counts as possibly begun, however often the run is resumed
//! here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{self, Error};
use super::files::RunFiles;
use super::interrupted::{Interrupted, named};
use super::known::{KnownRun, elapsed, is_past_verification, longest_node};
use super::lease::LeaseHolder as _;
use super::outcome::NodeOutcome;
use super::owed_records::publish_owed_beside;
use super::process::{Held, Process};
use super::session::{ApprovedPlan, Begun, Session, SessionStart};
use super::site_repository::Records;
use super::take_over::{TakeOver, take_over};
use super::untold::{Then, untold};
use crate::design::{NodeDesign, NodeName};
use crate::journal::{Decision, Entry, Journal, Replay};
use crate::plan::Plan;
use crate::record::Outcome;
use crate::step::Notes;
use crate::threads::lock;

/// How an interrupted run is resumed.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// By step id, what an operator found out about steps that cannot be told from outside.
    pub decisions: BTreeMap<Arc<str>, Decision>,
    /// How its lock is taken.
    pub take_over: TakeOver,
}

/// Resumes an interrupted run: takes its lock (at once if its process is gone from this
/// machine), and gathers what it had done. `plan` is [`Interrupted::plan`], read; `nodes` are the designs of
/// its commit.
///
/// # Errors
///
/// [`Error::NotSigned`], [`Error::Untrusted`]; [`Error::LockHeld`] if its process may still run, or another run has the lock; [`Error::Ended`]
/// where it has ended meanwhile; the journal, the records or the remote cannot be read or written.
pub fn resume<'a>(
    process: Process<'a>,
    interrupted: &'a Interrupted,
    plan: &'a Plan,
    nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    how: Resumption,
) -> Result<Begun<'a>, Error> {
    let state = process.site.store()?.read();
    let state = state.map_err(error::records("read the records"))?;
    process.site.ready(&state)?;
    let held = take_over(process, interrupted, how.take_over)?;
    let approved = ApprovedPlan {
        plan,
        plan_file: &interrupted.plan,
        commit: interrupted.commit,
        nodes,
    };
    let (session, known, entries) = open_session(process, interrupted, approved, held)?;
    for damage in &known.damage {
        session.lease.warn(damage.clone());
    }
    let (journal, mut replay) = open_journal(&session, &known, entries)?;
    replay.decisions = how.decisions;
    take_in(&session, &known, &replay);
    tell_late(&session, &replay)?;
    session.checkpoint(None)?;
    session.publish_records();
    Ok(Begun {
        session,
        journal,
        replay,
    })
}

/// The session of the resumed run, what is known of it, and the entries that its journal begins with.
pub(super) fn open_session<'a>(
    process: Process<'a>,
    interrupted: &Interrupted,
    approved: ApprovedPlan<'a>,
    held: Held,
) -> Result<(Session<'a>, KnownRun, Vec<Entry>), Error> {
    let (site, run) = (process.site, &interrupted.record.run);
    let store = site.store()?;
    let mut records = site.records(&store)?;
    site.check_trust(&records.state)?;
    publish_owed_beside(process, &store, &mut records);
    let Records {
        state, remote_tip, ..
    } = records;
    let mut record = named(site, &store, &state, run)?;
    let files = RunFiles::of(site.repository, &site.name, run);
    let known = KnownRun::gather(site, (&store, &state), &record, &files)?;
    let entries = known.entries(approved.plan);
    record.outcome = Outcome::Running;
    let session = Session::new(SessionStart {
        process,
        approved,
        store,
        files,
        state,
        remote_tip,
        run: record,
        journal: Arc::from(held.lock.id.to_string()),
        held,
        entries: entries.len(),
    })?;
    Ok((session, known, entries))
}

/// The journal of the resumed run under a new id, and what the dispatcher takes in of it. A process that held the
/// lock before, and wakes up, has another file open.
pub(super) fn open_journal(
    session: &Session<'_>,
    known: &KnownRun,
    mut entries: Vec<Entry>,
) -> Result<(Journal, Replay), Error> {
    if !known.is_newest {
        // Its journal is elsewhere: what its remediations noted is in the records.
        entries.extend(session.remembered());
    }
    let all_possibly_begun = known.is_incomplete();
    let journal = session.files.resumed_journal(
        &session.journal,
        known.id.clone(),
        all_possibly_begun,
        &entries,
    )?;
    let replay = Replay {
        entries,
        decisions: BTreeMap::new(),
        all_possibly_begun,
    };
    Ok((journal, replay))
}

/// Adds to the events what the journal tells of ended steps and they do not, and takes from them how long the run was carried out.
fn tell_late(session: &Session<'_>, replay: &Replay) -> Result<(), Error> {
    let mut records = lock(&session.records);
    let told = session
        .store
        .events(&records.state, &session.run)
        .map_err(error::records("read the events of the run"))?;
    records.earlier_ms = elapsed(&told).max(longest_node(&replay.entries));
    let known = (&replay.entries[..], &told[..]);
    let now = session.process.time.seconds();
    for event in untold(known, &records.run, Then::Resumed, now) {
        records.add_late(&session.journal, &event);
    }
    Ok(())
}

/// Brings the records up to date with what the journal tells and they do not have.
pub(super) fn take_in(session: &Session<'_>, known: &KnownRun, replay: &Replay) {
    lock(&session.records).past_verification = is_past_verification(&replay.entries);
    if known.is_newest {
        session.recall(replay);
    }
    // Of an older journal the records have the notes, but for those that stand in no record.
    session.recall_notes(replay, |notes| known.is_newest || notes == Notes::LeftPods);
    for outcome in NodeOutcome::all_of(replay, session.approved.plan) {
        if !known.is_recorded(&outcome) || session.is_behind(&outcome) {
            session.node_changed(&outcome);
        }
    }
}
