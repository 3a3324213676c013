//! Runs that were interrupted: found, resumed, aborted; and locks that dead runs left.
//!
//! A resumed run keeps its plan and its commit. What it knows is the journal of this clone, and what
//! the checkpoints in the records tell. Where the records name another journal, somebody resumed the run
//! elsewhere, and where the journal is damaged it has forgotten something: then the journal begins anew, and
//! from then on every step that has no end in it counts as possibly begun, however often the run is resumed
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::begin::{Begun, unfinished};
use super::error::{self, Error};
use super::files::RunFiles;
use super::keep::{Parts, Session, lock};
use super::known::{Known, is_past_verification};
use super::node;
use super::outcome::NodeOutcome;
use super::publish::{End, Publication, catch_up};
use super::site_repository::{Actor, Held, Records, SiteRepository};
use super::tag::{self, Deed};
use super::time::{Timekeeper, rfc3339};
use crate::design::{Digest, NodeDesign, NodeName, RunId};
use crate::journal::{Decision, Replay};
use crate::plan::Plan;
use crate::record::{
    Checkpoint, Counts, NodeRecord, Outcome, Packed, Phase, RunFile, RunRecord, State, Store,
};
use crate::repository::{CommitId, Lock, RefUpdate};

/// How long a lock must not have moved before it counts as dead.
const DEAD: Duration = Duration::from_secs(10 * 60);
/// How often it is looked at meanwhile.
const GLANCE: Duration = Duration::from_secs(15);

/// A run that was interrupted.
#[derive(Clone, Debug)]
pub struct Interrupted {
    /// Its record.
    pub record: RunRecord,
    /// Its plan, as it was saved, packed.
    pub plan: Packed,
    /// Its commit, which is kept.
    pub commit: CommitId,
    /// The digest of the plan that this clone began the run with, if it did. The plan and all else come from the
    /// records, which everybody with push rights can write.
    pub noted_plan: Option<Digest>,
}

/// How a lock is taken that another process may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    /// Take it after it has not moved for ten minutes (`--take-over-dead`).
    pub dead: bool,
    /// The longest time that one request of the dead run may still be answered; it is waited out.
    pub longest_request: Duration,
}

/// What a run that was given up leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The run.
    pub run: RunId,
    /// What stays half-done; nodes sorted by name, then steps.
    pub half_done: Vec<HalfDone>,
    /// The tag, where it could have changed something.
    pub tag: Option<Arc<str>>,
}

/// Something that stays half-done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HalfDone {
    /// A node, how far it came, and what is known of it.
    Node {
        /// Which.
        node: NodeName,
        /// How far.
        phase: Phase,
        /// What failed, or what had begun.
        message: Option<Arc<str>>,
    },
    /// A step that had begun and whose end nobody wrote down.
    Step {
        /// Its id.
        step: Arc<str>,
    },
}

/// Finds the run that was interrupted: the one that is named, or the newest.
///
/// # Errors
///
/// [`Error::NoSuchRun`], [`Error::Ended`], [`Error::NothingInterrupted`]; the records or the remote
/// cannot be read.
pub fn find_interrupted(
    site: &SiteRepository<'_>,
    run: Option<&RunId>,
) -> Result<Interrupted, Error> {
    let store = site.store()?;
    let state = site.records(&store)?.state;
    let record = match run {
        Some(run) => named(site, &store, &state, run)?,
        None => unfinished(&store, &state)?.ok_or_else(|| Error::NothingInterrupted {
            site: site.name.clone(),
        })?,
    };
    let plan = store
        .packed_file(&state, &record.run, RunFile::Plan)
        .map_err(error::records("read the plan of the run"))?
        .ok_or_else(|| broken(&record, "it has no plan"))?;
    let commit = commit_of(&record)?;
    let files = RunFiles::of(site.repository, &site.name, &record.run);
    Ok(Interrupted {
        noted_plan: files.noted_plan(),
        record,
        plan,
        commit,
    })
}

/// Goes on with an interrupted run: takes its lock (at once where its process is gone from this
/// machine), and gathers what it had done. `plan` is [`Interrupted::plan`], read; `decisions` are what
/// somebody found out about steps that cannot be told from outside.
///
/// # Errors
///
/// [`Error::LockHeld`] where its process may still run, or another run has the lock; [`Error::Ended`]
/// where it has ended meanwhile; the journal, the records or the remote cannot be read or written.
#[expect(
    clippy::too_many_arguments,
    reason = "each is another thing that a resumed run needs"
)]
pub fn resume<'a>(
    site: &'a SiteRepository<'a>,
    actor: &'a Actor,
    time: &'a dyn Timekeeper,
    interrupted: &'a Interrupted,
    plan: &'a Plan,
    nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    decisions: BTreeMap<Arc<str>, Decision>,
    take_over: TakeOver,
) -> Result<Begun<'a>, Error> {
    let run = &interrupted.record.run;
    let store = site.store()?;
    let held = seize(
        site,
        actor,
        time,
        &interrupted.record,
        &interrupted.plan,
        take_over,
    )?;
    let Records {
        state, remote_tip, ..
    } = site.records(&store)?;
    let mut record = named(site, &store, &state, run)?;
    let files = RunFiles::of(site.repository, &site.name, run);
    let known = Known::gather(&store, &state, &record, &files)?;

    record.outcome = Outcome::Running;
    let journal_id: Arc<str> = Arc::from(held.lock.id.to_string());
    let entries = known.entries(plan);
    let session = Session::new(Parts {
        site,
        actor,
        time,
        plan,
        plan_file: &interrupted.plan,
        commit: interrupted.commit,
        nodes,
        store,
        files,
        state,
        remote_tip,
        run: record,
        held,
        journal: journal_id.clone(),
        entries: entries.len(),
    })?;
    let mut entries = entries;
    if !known.is_newest {
        // Its journal is elsewhere: what its remediations noted is in the records.
        entries.extend(session.remembered());
    }
    for damage in &known.damage {
        session.warn(damage.clone());
    }
    // A process that held the lock before, and wakes up, has another file open.
    let is_incomplete = known.is_incomplete();
    let journal =
        session
            .files
            .resumed_journal(&journal_id, known.id.clone(), is_incomplete, &entries)?;
    let replay = Replay {
        entries,
        decisions,
        all_possibly_begun: is_incomplete,
    };
    lock(&session.records).past_verification = is_past_verification(&replay.entries);
    if known.is_newest {
        session.recall(&replay);
    }
    for outcome in NodeOutcome::all_of(&replay, plan) {
        if !known.is_recorded(&outcome) || session.is_behind(&outcome) {
            session.node_changed(&outcome);
        }
    }
    session.checkpoint(None)?;
    session.publish_records();
    Ok(Begun {
        session,
        journal,
        replay,
    })
}

/// Aborts an interrupted run: it is tagged as failed where it could have changed something, and what
/// it left half-done is said.
///
/// # Errors
///
/// As [`resume`].
pub fn abort(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    run: &RunId,
    take_over: TakeOver,
) -> Result<Aborted, Error> {
    let found = find_interrupted(site, Some(run))?;
    let store = site.store()?;
    let held = seize(site, actor, time, &found.record, &found.plan, take_over)?;
    let give_up = || -> Result<Aborted, Error> {
        let Records {
            state, remote_tip, ..
        } = site.records(&store)?;
        let record = named(site, &store, &state, run)?;
        let given_up = abandon(site, actor, time, &store, &state, record)?;
        let end = End {
            run: &given_up.run,
            state: &given_up.state,
            remote_tip,
            lock: Some(held.lock.id),
            author: actor.at(time.seconds()),
        };
        match site.publish_end(&store, &end)?.0 {
            Publication::Missing { why } => Err(Error::Unpublished {
                run: run.clone(),
                why,
            }),
            Publication::Whole | Publication::TagOwed { .. } => {
                given_up.files.remove();
                Ok(given_up.aborted)
            }
        }
    };
    give_up().inspect_err(|error| {
        // What is written and not published keeps its lock.
        if !matches!(error, Error::Unpublished { .. }) {
            let _ = site.release(held.lock.id);
        }
    })
}

/// What a lock is released without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlock {
    /// Only where its process is certainly gone.
    Dead,
    /// Also where it has not moved for ten minutes, which is waited for.
    Unmoved,
    /// Whatever its process does.
    Forced,
}

/// Releases the lock that a dead run left: by the rule by which it would be taken over, unless forced.
///
/// # Errors
///
/// [`Error::NotLocked`]; [`Error::LockHeld`] where another run has it, or its process may still run;
/// [`Error::EndedElsewhere`].
pub fn unlock(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    run: &RunId,
    how: Unlock,
) -> Result<(), Error> {
    if how != Unlock::Forced {
        catch_up(site, actor, time)?;
    }
    let Some(left) = site.lock()? else {
        return Err(Error::NotLocked {
            site: site.name.clone(),
        });
    };
    if left.holder.run != run.as_str() {
        return Err(site.held(left));
    }
    if how == Unlock::Forced || site.is_dead(&left, actor, time)? {
        return site.release(left.id);
    }
    if how == Unlock::Dead {
        return Err(site.held(left));
    }
    match wait_until_dead(site, time, left)? {
        Some(left) => site.release(left.id),
        None => Ok(()),
    }
}

/// Takes the lock for a run that was interrupted.
fn seize(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    record: &RunRecord,
    plan: &Packed,
    take_over: TakeOver,
) -> Result<Held, Error> {
    let run = &record.run;
    let left = match site.lock()? {
        None => None,
        Some(left) if left.holder.run != run.as_str() => return Err(site.held(left)),
        Some(left) if site.is_dead(&left, actor, time)? => Some(left),
        Some(left) if take_over.dead => wait_until_dead(site, time, left)?,
        Some(left) => return Err(site.held(left)),
    };
    let was_locked = left.is_some();
    let taken = site.take(left.map(|left| left.id), actor, time, run, plan)?;
    // One that was interrupted in good order has released its lock, and asks for nothing any more.
    let wait = match was_locked || record.outcome == Outcome::Running {
        true => take_over.longest_request,
        false => Duration::ZERO,
    };
    if !wait.is_zero() {
        time.explain(&format!(
            "for {} s: so long may the last request of the interrupted process be on its way",
            wait.as_secs()
        ));
        pause(site, time, wait).inspect_err(|_| {
            let _ = site.release(taken.lock.id);
        })?;
    }
    Ok(taken)
}

/// Waits until a lock has not moved for so long that its holder has stopped, whatever became of it; `None`
/// where it was released meanwhile. Judged by this clock alone: the holder's may be wrong.
fn wait_until_dead(
    site: &SiteRepository<'_>,
    time: &dyn Timekeeper,
    left: Lock,
) -> Result<Option<Lock>, Error> {
    time.explain("for 10 min, in which the lock must not move: then its holder counts as dead");
    let began = time.monotonic();
    while time.monotonic().saturating_sub(began) < DEAD {
        pause(site, time, GLANCE)?;
        match site.lock()? {
            Some(now) if now.id == left.id => {}
            Some(now) => return Err(site.held(now)),
            None => return Ok(None),
        }
    }
    Ok(Some(left))
}

/// Waits, unless a stop is asked for.
fn pause(site: &SiteRepository<'_>, time: &dyn Timekeeper, wait: Duration) -> Result<(), Error> {
    time.pause(wait);
    match time.is_stopped() {
        true => Err(Error::Stopped {
            site: site.name.clone(),
        }),
        false => Ok(()),
    }
}

/// A run that was given up.
pub(super) struct GivenUp {
    run: RunRecord,
    pub(super) state: State,
    pub(super) tag: Option<RefUpdate>,
    pub(super) files: RunFiles,
    aborted: Aborted,
}

/// Writes that a run was given up, and tags it. The lock is held.
pub(super) fn abandon(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    store: &Store<'_>,
    state: &State,
    mut record: RunRecord,
) -> Result<GivenUp, Error> {
    let files = RunFiles::of(site.repository, &site.name, &record.run);
    let known = Known::gather(store, state, &record, &files)?;
    let mut nodes = store
        .nodes(state)
        .map_err(error::records("read the records of the nodes"))?;
    let mut changed = BTreeSet::new();
    // What the journal knows and no checkpoint has. Designs are not at hand, so that what was done counts
    // as unknown, and is looked at before anything else.
    for (node, (phase, message)) in known.unrecorded(&nodes, &record.run) {
        let node = NodeName::from(node);
        let found = nodes
            .entry(node.clone())
            .or_insert_with(|| node::blank(&node, &record.run));
        unsettle(found, &record.run, phase, message);
        changed.insert(node);
    }
    let begun = known.begun();
    let mine = || nodes.values().filter(|node| node.run == record.run);
    let mut half_done: Vec<HalfDone> = mine()
        .filter(|node| matches!(node.phase, Phase::Unknown | Phase::Prepared | Phase::Failed))
        .map(|node| HalfDone::Node {
            node: node.node.clone(),
            phase: node.phase,
            message: node.last_error.clone(),
        })
        .collect();
    half_done.extend(begun.into_iter().map(|step| HalfDone::Step { step }));
    record.counts = Counts {
        succeeded: mine().filter(|node| node.phase == Phase::Deployed).count(),
        failed: mine()
            .filter(|node| matches!(node.phase, Phase::Failed | Phase::Unknown))
            .count(),
        not_started: record.counts.not_started,
    };
    let seconds = time.seconds();
    record.outcome = Outcome::Abandoned;
    record.ended = Some(Arc::from(rfc3339(seconds)));
    let deed = Deed {
        past_verification: is_past_verification(known.all()),
        is_no_op: false,
    };
    record.tag = tag::name(&record, &state.site, deed).map(Arc::from);
    record.annotation = tag::annotation(&record, actor.at(seconds));
    let written = changed.iter().filter_map(|node| nodes.get(node));
    let state = store
        .checkpoint(
            state,
            &Checkpoint {
                nodes: written.collect(),
                ..Checkpoint::of_run(&record, actor.at(seconds))
            },
        )
        .map_err(error::records("write that the run was given up"))?;
    let update = site.make_tag(&record)?;
    Ok(GivenUp {
        state,
        tag: update,
        files,
        aborted: Aborted {
            run: record.run.clone(),
            half_done,
            tag: record.tag.clone(),
        },
        run: record,
    })
}

fn unsettle(record: &mut NodeRecord, run: &RunId, phase: Phase, message: Option<Arc<str>>) {
    record.run = run.clone();
    record.phase = phase;
    record.digests.clear();
    record.last_error = message.or_else(|| Some(Arc::from(format!("run {run} was given up"))));
}

/// The record of a run that has not ended.
fn named(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
    run: &RunId,
) -> Result<RunRecord, Error> {
    let record = store
        .run(state, run)
        .map_err(error::records("read the record of the run"))?
        .ok_or_else(|| Error::NoSuchRun {
            site: site.name.clone(),
            run: run.clone(),
        })?;
    match record.outcome {
        Outcome::Running | Outcome::Interrupted => Ok(record),
        outcome => Err(Error::Ended {
            run: run.clone(),
            outcome,
        }),
    }
}

fn commit_of(record: &RunRecord) -> Result<CommitId, Error> {
    record
        .revision
        .parse()
        .map_err(|_| broken(record, "its revision is no commit"))
}

fn broken(record: &RunRecord, reason: &str) -> Error {
    Error::Broken {
        what: format!("the record of run {}", record.run),
        reason: reason.to_owned(),
    }
}
