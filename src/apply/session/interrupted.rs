//! Runs that were interrupted: found, gone on with, given up; and locks that dead runs left.
//!
//! A resumed run keeps its plan and its commit. What it knows is the journal of this clone, and what
//! the checkpoints in the records say; where the records are newer than the journal, somebody resumed
//! the run elsewhere: the journal begins anew, and from then on every step that has not ended counts as
//! possibly begun, however often the run is resumed here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::begin::{Begun, unfinished};
use super::error::{self, Error};
use super::files::RunFiles;
use super::keep::{Parts, Session, lock};
use super::node;
use super::site::{Actor, Held, Site};
use super::tag::{self, Deed};
use super::time::{Timekeeper, rfc3339};
use crate::apply::{Decision, Entry, Replay, StepOutcome};
use crate::design::{Digest, NodeDesign, NodeName, RunId};
use crate::journal::Journal;
use crate::plan::Plan;
use crate::record::{
    Checkpoint, Counts, NodeRecord, Outcome, Packed, Phase, RunFile, RunRecord, State, Store,
};
use crate::repository::{CommitId, RefUpdate};
use crate::step::StepKind;

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
pub fn find_interrupted(site: &Site<'_>, run: Option<&RunId>) -> Result<Interrupted, Error> {
    let store = site.store()?;
    let (state, _) = site.records(&store)?;
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
    site: &'a Site<'a>,
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
    let held = seize(site, actor, time, run, &interrupted.plan, take_over)?;
    let (state, remote_tip) = site.records(&store)?;
    let mut record = named(site, &store, &state, run)?;
    let files = RunFiles::of(site.repository, &site.name, run);
    let Known { entries, is_newest } = Known::gather(&store, &state, &record, &files)?;

    record.outcome = Outcome::Running;
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
    })?;
    let entries = match is_newest {
        true => entries,
        // Its journal is elsewhere: what its checkpoints told is known, and what its remediations noted is in the
        // records.
        false => {
            let mut told = fitting(entries, plan);
            told.extend(session.remembered());
            told
        }
    };
    if !is_newest {
        session.files.note_elsewhere()?;
    }
    // A process that held the lock before, and wakes up, has another file open.
    let journal = Journal::replace(&session.files.directory, &entries)?;
    let replay = Replay {
        entries,
        decisions,
        all_possibly_begun: session.files.went_on_elsewhere(),
    };
    lock(&session.records).past_verification = is_past_verification(&replay.entries);
    if is_newest {
        session.recall(&replay);
        for outcome in replay.node_outcomes(plan) {
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

/// Gives an interrupted run up: it is tagged as failed where it could have changed something, and what
/// it left half-done is said.
///
/// # Errors
///
/// As [`resume`].
pub fn abort(
    site: &Site<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    run: &RunId,
    take_over: TakeOver,
) -> Result<Aborted, Error> {
    let found = find_interrupted(site, Some(run))?;
    let store = site.store()?;
    let held = seize(site, actor, time, run, &found.plan, take_over)?;
    let give_up = || -> Result<Aborted, Error> {
        let (state, remote_tip) = site.records(&store)?;
        let record = named(site, &store, &state, run)?;
        let given_up = abandon(site, actor, time, &store, &state, record)?;
        let mut updates = Vec::new();
        updates.extend(store.publication(&given_up.state, remote_tip));
        updates.extend(given_up.tag.clone());
        if site.publish(&updates)? {
            given_up.files.remove();
        }
        Ok(given_up.aborted)
    };
    let result = give_up();
    let released = site.release(&held.lock);
    let aborted = result?;
    released?;
    Ok(aborted)
}

/// Releases the lock that a dead run left.
///
/// # Errors
///
/// [`Error::NotLocked`]; [`Error::LockHeld`] where another run has it, or where the process of this run
/// certainly still runs on this machine.
pub fn unlock(
    site: &Site<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    run: &RunId,
) -> Result<(), Error> {
    let Some(left) = site.lock()? else {
        return Err(Error::NotLocked {
            site: site.name.clone(),
        });
    };
    let me = actor.holder(run, time.seconds());
    let holder = &left.holder;
    let is_here = holder.host == me.host
        && holder.boot_id.is_some()
        && holder.boot_id == me.boot_id
        && holder.pid_namespace.is_some()
        && holder.pid_namespace == me.pid_namespace;
    if holder.run != run.as_str() || (is_here && !holder.is_gone(&me)) {
        return Err(Error::LockHeld {
            site: site.name.clone(),
            holder: Box::new(left.holder),
        });
    }
    site.release(&left)
}

/// Takes the lock for a run that was interrupted.
fn seize(
    site: &Site<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    run: &RunId,
    plan: &Packed,
    take_over: TakeOver,
) -> Result<Held, Error> {
    let Some(left) = site.lock()? else {
        return site.take(None, actor, time, run, plan);
    };
    let held = |left: crate::repository::Lock| Error::LockHeld {
        site: site.name.clone(),
        holder: Box::new(left.holder),
    };
    if left.holder.run != run.as_str() {
        return Err(held(left));
    }
    if !left.holder.is_gone(&actor.holder(run, time.seconds())) {
        if !take_over.dead {
            return Err(held(left));
        }
        time.explain("for 10 min, in which the lock must not move: then its holder counts as dead");
        // Judged by this clock alone: the holder's may be wrong.
        let began = time.monotonic();
        while time.monotonic().saturating_sub(began) < DEAD {
            time.pause(GLANCE);
            match site.lock()? {
                Some(now) if now.id == left.id => {}
                Some(now) => return Err(held(now)),
                None => return site.take(None, actor, time, run, plan),
            }
        }
    }
    let taken = site.take(Some(left.id), actor, time, run, plan)?;
    if !take_over.longest_request.is_zero() {
        time.explain(&format!(
            "for {} s: so long may the last request of the process that died be on its way",
            take_over.longest_request.as_secs()
        ));
        time.pause(take_over.longest_request);
    }
    Ok(taken)
}

/// A run that was given up.
pub(super) struct GivenUp {
    pub(super) state: State,
    pub(super) tag: Option<RefUpdate>,
    pub(super) files: RunFiles,
    aborted: Aborted,
}

/// Writes that a run was given up, and tags it. The lock is held.
pub(super) fn abandon(
    site: &Site<'_>,
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
        past_verification: is_past_verification(&known.entries),
        is_no_op: false,
    };
    record.tag = tag::name(&record, &state.site, deed).map(Arc::from);
    let new_tag = tag::tag(&record, commit_of(&record)?, actor.at(seconds));
    if let Some(tag) = &new_tag {
        files.intend_tag(tag)?;
    }
    let written = changed.iter().filter_map(|node| nodes.get(node));
    let state = store
        .checkpoint(
            state,
            &Checkpoint {
                run: &record,
                nodes: written.collect(),
                forgotten: &[],
                plan: None,
                events: &[],
                report: None,
                author: actor.at(seconds),
            },
        )
        .map_err(error::records("write that the run was given up"))?;
    let mut update = None;
    if let Some(tag) = &new_tag {
        let id = site
            .repository
            .create_tag(tag)
            .map_err(error::repository(&site.name, "tag the commit"))?;
        update = Some(RefUpdate {
            name: tag.ref_name(),
            old: None,
            new: Some(id),
        });
    }
    Ok(GivenUp {
        state,
        tag: update,
        files,
        aborted: Aborted {
            run: record.run,
            half_done,
            tag: record.tag,
        },
    })
}

/// What is known of a run that was interrupted.
struct Known {
    entries: Vec<Entry>,
    /// Whether nobody went on with the run since the journal of this clone was written.
    is_newest: bool,
}

impl Known {
    fn gather(
        store: &Store<'_>,
        state: &State,
        record: &RunRecord,
        files: &RunFiles,
    ) -> Result<Self, Error> {
        let has_journal = Journal::is_in(&files.directory);
        let mut entries = match has_journal {
            true => Journal::open::<Entry>(&files.directory)?.1,
            false => Vec::new(),
        };
        let is_newest = has_journal && files.is_newest(state.tip);
        if !is_newest {
            let ended = entries.iter().filter_map(ended_step).collect();
            let events = store
                .events(state, &record.run)
                .map_err(error::records("read the events of the run"))?;
            entries.extend(told_in_events(&events, ended));
        }
        Ok(Self { entries, is_newest })
    }

    /// The nodes that were rebuilt or torn down, or were about to be, where their records do not say so:
    /// what they are to say.
    fn unrecorded(
        &self,
        nodes: &BTreeMap<NodeName, NodeRecord>,
        run: &RunId,
    ) -> BTreeMap<&str, (Phase, Option<Arc<str>>)> {
        let mut last: BTreeMap<&str, (Phase, Option<Arc<str>>)> = BTreeMap::new();
        let newest = if self.is_newest {
            self.entries.as_slice()
        } else {
            &[]
        };
        for entry in newest {
            let (step, seen) = match entry {
                Entry::Intent { step } => {
                    let message = Arc::from(format!("{step} had begun"));
                    (step, Some((Phase::Unknown, Some(message))))
                }
                Entry::Ended { step, outcome, .. } => (step, reached(step, outcome)),
                Entry::Note { .. } => continue,
            };
            if let (Some(node), Some(seen)) = (rebuilt_node(step), seen) {
                last.insert(node, seen);
            }
        }
        last.retain(|node, (phase, _)| {
            nodes
                .get(*node)
                .is_none_or(|record| record.run != *run || record.phase != *phase)
        });
        for (phase, _) in last.values_mut() {
            if *phase != Phase::Failed {
                *phase = Phase::Unknown;
            }
        }
        last
    }

    /// Steps that had begun and have not ended, sorted.
    fn begun(&self) -> Vec<Arc<str>> {
        let mut begun = BTreeSet::new();
        for entry in &self.entries {
            match entry {
                Entry::Intent { step } => begun.insert(step.clone()),
                Entry::Ended { step, .. } => begun.remove(step),
                Entry::Note { .. } => false,
            };
        }
        begun.into_iter().collect()
    }
}

fn ended_step(entry: &Entry) -> Option<Arc<str>> {
    match entry {
        Entry::Ended { step, .. } => Some(step.clone()),
        Entry::Intent { .. } | Entry::Note { .. } => None,
    }
}

/// What began and what ended, as far as it fits together: a process that died told no checkpoint of its last
/// steps, and whoever went on with its journal did not tell of them again. What waits for such a step is looked
/// at like it.
fn fitting(mut entries: Vec<Entry>, plan: &Plan) -> Vec<Entry> {
    let positions = plan.positions();
    let mut ended = vec![false; plan.steps.len()];
    let fits = |entry: &Entry| {
        let Some(&index) = positions.get(&**entry.step()) else {
            return false;
        };
        let mut needs = plan.steps[index].needs.iter();
        let fits = needs.all(|need| ended[need.step.0 as usize]);
        match entry {
            Entry::Intent { .. } => fits,
            Entry::Ended { .. } => {
                ended[index] = fits;
                fits
            }
            Entry::Note { .. } => false,
        }
    };
    entries.retain(fits);
    entries
}

/// What began and what ended, each once, as the events of checkpoints tell it, beside the steps that are known to
/// have `ended`. A process that went on elsewhere may have told of a step again.
fn told_in_events(events: &[u8], mut ended: BTreeSet<Arc<str>>) -> Vec<Entry> {
    let mut begun = BTreeSet::new();
    let mut told = Vec::new();
    for line in events.split(|byte| *byte == b'\n') {
        let Ok(event) = serde_json::from_slice::<serde_json::Value>(line) else {
            continue;
        };
        let text = |key: &str| event.get(key).and_then(serde_json::Value::as_str);
        let Some(step) = text("step").map(Arc::<str>::from) else {
            continue;
        };
        match text("event") {
            Some("step-started") if !ended.contains(&step) && begun.insert(step.clone()) => {
                told.push(Entry::Intent { step });
            }
            Some("step-finished") => {
                let duration = event.get("duration_ms").and_then(serde_json::Value::as_u64);
                let Ok(outcome) = serde_json::from_value::<StepOutcome>(event) else {
                    continue;
                };
                if ended.insert(step.clone()) {
                    told.push(Entry::Ended {
                        attempted: begun.contains(&step),
                        step,
                        outcome,
                        duration_ms: duration.unwrap_or_default(),
                    });
                }
            }
            _ => {}
        }
    }
    told
}

fn is_past_verification(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        matches!(entry, Entry::Ended { step, outcome: StepOutcome::Succeeded, .. }
            if **step == *StepKind::VerifySite.as_str())
    })
}

/// The node of a step that rebuilds or tears it down.
fn rebuilt_node(step: &str) -> Option<&str> {
    let (kind, rest) = step.split_once('/')?;
    [StepKind::Prepare, StepKind::Deploy, StepKind::Destroy]
        .iter()
        .any(|each| each.as_str() == kind)
        .then(|| rest.rsplit('/').next())?
}

/// How far a step that ended brought its node; `None` where it was not attempted.
fn reached(step: &str, outcome: &StepOutcome) -> Option<(Phase, Option<Arc<str>>)> {
    Some(match outcome {
        StepOutcome::Succeeded if step.starts_with("prepare/") => (Phase::Prepared, None),
        StepOutcome::Succeeded if step.starts_with("deploy/") => (Phase::Deployed, None),
        StepOutcome::Succeeded => (Phase::NotStarted, None),
        StepOutcome::Failed { message } => (Phase::Failed, Some(message.clone())),
        StepOutcome::Unknown { message } => (Phase::Unknown, Some(message.clone())),
        StepOutcome::Skipped { .. } | StepOutcome::NotNeeded => return None,
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
    site: &Site<'_>,
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
