//! How a run begins: the lock, the newest records, the plan checked once more, the first checkpoint.

use std::sync::Arc;

use super::catch_up::{Arrears, CaughtUp, catch_up};
use super::error::{self, Error};
use super::files::RunFiles;
use super::owed_records::{OwedRuns, settle_owed};
use super::owed_tags::{note_settled, repair_tag, settle_tags, write_settled};
use super::process::{Held, Process};
use super::session::{ApprovedPlan, Begun, Session, SessionStart};
use super::site_repository::{Records, SetAside, SiteRepository};
use super::time::rfc3339;
use super::unfinished::unfinished;
use crate::design::{Digest, RunId};
use crate::journal::Replay;
use crate::record::Unproven;
use crate::record::{
    self, Checkpoint, Counts, JournalMark, Outcome, PendingCheckpoint, RunRecord, State, Store,
    Workers,
};
use crate::repository::{CommitId, PushOutcome};

/// A plan that is to be carried out.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The plan, its commit and its designs.
    pub approved: ApprovedPlan<'a>,
    /// The digest of the plan's file.
    pub plan_digest: &'a Digest,
    /// The approvals that it begins with; none of them may have been spent by another run.
    pub approvals: &'a [record::Approval],
    /// How it begins without approvals that it needs.
    pub break_glass: Option<&'a record::BreakGlass>,
    /// Whether the Policy at its commit may ask for approvals of the changes that follow.
    pub policy_asks: bool,
    /// The workers that carry it out; `None`: this process does.
    pub workers: Option<&'a Workers>,
}

/// Tells, by the newest records, what of a plan does not hold any more.
type PreconditionChecker<'f> = dyn FnMut(&State) -> Result<Vec<String>, Error> + 'f;

/// Begins a run: takes the lock, follows the remote's records, asks `still_holds` with them what of the
/// plan does not hold any more, and writes the run with its plan to the records.
///
/// A lock that a process of this machine left, whose run has ended, is taken over.
///
/// # Errors
///
/// [`Error::Offline`]; [`Error::LockHeld`]; [`Error::Unfinished`]; [`Error::NotSigned`], [`Error::Untrusted`];
/// [`Error::Stale`] with what `still_holds` said; the repository, the remote or the records cannot be read or written. The lock is
/// released again.
pub fn begin<'a>(
    process: Process<'a>,
    proposal: Proposal<'a>,
    still_holds: &mut PreconditionChecker<'_>,
) -> Result<Begun<'a>, Error> {
    let (site, actor) = (process.site, process.actor);
    site.remote()?;
    let store = site.store()?;
    let state = site.records(&store)?.state;
    site.ready(&state)?;
    let milliseconds = u64::try_from(process.time.seconds()).unwrap_or_default() * 1000;
    let run = state
        .site
        .next_run(ulid::Ulid::from_parts(milliseconds, actor.random));
    let held = acquire(process, &proposal, &store, &state, &run)?;
    let mut beginning = Beginning {
        process,
        proposal,
        store,
        held,
    };
    let begun = beginning.run(still_holds);
    begun.inspect_err(|_| {
        let _ = site.release(&beginning.held.lock);
    })
}

/// The observed state of the site's repository before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// A run that had ended and left something undone: that is done now.
    pub ended: Option<CaughtUp>,
    /// Runs that the remote lacked: they are published now.
    pub owed: Option<OwedRuns>,
    /// Runs whose tags the remote has refused once more.
    pub refused: Vec<RunId>,
    /// Records of this clone that the remote has newer runs than.
    pub set_aside: Option<SetAside>,
}

/// Looks whether another run is in the way, before anything is planned; [`begin`] looks again. If the
/// last one ended and was killed before its end was published, that is done now: it may be that nothing is
/// left to begin a run for.
///
/// # Errors
///
/// [`Error::Offline`]; [`Error::LockHeld`] if a process may still run; [`Error::Unfinished`];
/// [`Error::Unpublished`]; the lock or the records cannot be read, or the tag not be made.
pub fn ensure_site_is_free(process: Process<'_>) -> Result<Outlook, Error> {
    let site = process.site;
    site.remote()?;
    let caught_up = catch_up(process)?;
    let left = site.lock()?;
    if let Some(left) = &left
        && !process.is_dead(left)?
    {
        return Err(site.held(left.clone()));
    }
    let store = site.store()?;
    let records = site.records(&store)?;
    if let Some(run) = unfinished(&store, &records.state)? {
        return Err(in_the_way(site, run));
    }
    let repaired = repair_tag(site, &store, &records.state)?;
    let repaired = repaired.map(|run| CaughtUp {
        run,
        what: Arrears::Tag,
    });
    let settled = settle_tags(site, &store, &records.state)?;
    // Its run has ended, or had begun nothing: the first records are published before the first step.
    left.map_or(Ok(()), |left| site.release(&left))?;
    note_settled(process, &store, &settled)?;
    Ok(Outlook {
        ended: caught_up.or(repaired),
        owed: settle_owed(process, &store, &records)?,
        refused: {
            let is_settled = |run: &&RunId| settled.iter().any(|record| record.run == **run);
            let owed = records.state.site.tags_owed.iter();
            owed.filter(|run| !is_settled(run)).cloned().collect()
        },
        set_aside: records.set_aside,
    })
}

/// The refusal to begin while a run has not ended.
fn in_the_way(site: &SiteRepository<'_>, unfinished: RunRecord) -> Error {
    let (site, run) = (site.name.clone(), unfinished.run);
    match unfinished.workers {
        Some(_) => Error::OfWorkers { site, run },
        None => Error::Unfinished { site, run },
    }
}

/// Takes the lock; also if a dead process of this machine left it.
fn acquire(
    process: Process<'_>,
    proposal: &Proposal<'_>,
    store: &Store<'_>,
    state: &State,
    run: &RunId,
) -> Result<Held, Error> {
    let plan = proposal.approved.plan_file.as_bytes();
    process.acquire(run, plan, || match unfinished(store, state)? {
        Some(unfinished) => Err(in_the_way(process.site, unfinished)),
        None => Ok(()),
    })
}

/// A run that begins: its lock is held, and nothing of it is in the records yet.
struct Beginning<'a> {
    process: Process<'a>,
    proposal: Proposal<'a>,
    store: Store<'a>,
    held: Held,
}

impl<'a> Beginning<'a> {
    fn run(&mut self, still_holds: &mut PreconditionChecker<'_>) -> Result<Begun<'a>, Error> {
        let records = self.settled_records(still_holds)?;
        let run = self.run_id(&records.state)?;
        self.first_checkpoint(records, run)
    }

    /// The newest records, with the run before settled, by which the plan still holds.
    fn settled_records(&self, still_holds: &mut PreconditionChecker<'_>) -> Result<Records, Error> {
        let (site, store) = (self.process.site, &self.store);
        let mut records = site.records(store)?;
        repair_tag(site, store, &records.state)?;
        let settled = settle_tags(site, store, &records.state)?;
        records.state = write_settled(store, records.state, &settled, &self.process.signature())?;
        let mut check = |state: &State| {
            let reasons = still_holds(state)?;
            if reasons.is_empty() {
                return Ok(());
            }
            Err(Error::Stale {
                site: site.name.clone(),
                reasons,
            })
        };
        if let Some(previous) = unfinished(store, &records.state)? {
            return Err(in_the_way(site, previous));
        }
        check(&records.state)?;
        site.check_trust(&records.state)?;
        self.check_approvals(&records.state)?;
        Ok(records)
    }

    /// Whether no run has begun with one of the approvals: the lock is held, and the first records of this run spend them.
    fn check_approvals(&self, state: &State) -> Result<(), Error> {
        let approvals = self.proposal.approvals;
        if approvals.is_empty() {
            return Ok(());
        }
        let spent = self
            .store
            .spent_approvals(state)
            .map_err(error::records("read which approvals are spent"))?;
        let again = approvals.iter().find_map(|approval| {
            let run = spent.get(&approval.statement)?;
            Some((approval.by.clone(), run.clone()))
        });
        match again {
            None => Ok(()),
            Some((by, run)) => Err(Error::Spent { by, run }),
        }
    }

    /// The id of the run. The one in the lock was made before the newest records were read: if these have a
    /// newer one, the lock is taken again under the next id.
    fn run_id(&mut self, state: &State) -> Result<RunId, Error> {
        let run = RunId::from(self.held.holder.run.as_str());
        if state.site.last_run.as_ref() < Some(&run) {
            return Ok(run);
        }
        let candidate = ulid::Ulid::from_string(run.as_str()).unwrap_or_default();
        let run = state.site.next_run(candidate);
        let plan = self.proposal.approved.plan_file;
        self.held = self.process.take(Some(self.held.lock.id), &run, plan)?;
        Ok(run)
    }

    /// Writes the run to the records, and publishes that, before its first step.
    fn first_checkpoint(&self, records: Records, run: RunId) -> Result<Begun<'a>, Error> {
        let (process, proposal, store) = (self.process, &self.proposal, &self.store);
        let Records {
            state,
            mut remote_tip,
            ..
        } = records;
        let journal_id: Arc<str> = Arc::from(self.held.lock.id.to_string());
        let mark = JournalMark {
            id: journal_id.clone(),
            entries: 0,
        };
        let record = first_record(process, proposal, run.clone(), mark);
        let files = RunFiles::of(process.site.repository, &process.site.name, &run);
        let journal = files.new_journal(&journal_id)?;
        files.note_plan(proposal.plan_digest)?;
        let written = Checkpoint {
            plan: Some(proposal.approved.plan_file),
            ..Checkpoint::of_run(&record, process.signature())
        };
        let draft = store
            .draft(&state, &written)
            .map_err(error::records("write the first records of the run"))?;
        if let Some(why) = draft.unsigned {
            files.remove();
            return Err(Error::NotSigned { why });
        }
        // Before the first step the remote has this run: no clone takes it for one that never
        // happened, whatever becomes of this process and of the remote.
        publish_first(process.site, store, &draft, &mut remote_tip, &run)
            .inspect_err(|_| files.remove())?;
        let state = store
            .advance(draft)
            .map_err(error::records("write the first records of the run"))?;
        let session = Session::new(SessionStart {
            process,
            approved: proposal.approved,
            store: store.clone(),
            files,
            state,
            remote_tip,
            run: record,
            held: self.held.clone(),
            journal: journal_id,
            entries: 0,
        })?;
        Ok(Begun {
            session,
            journal,
            replay: Replay::default(),
        })
    }
}

/// The record of a run that has begun nothing yet.
fn first_record(
    process: Process<'_>,
    proposal: &Proposal<'_>,
    run: RunId,
    journal: JournalMark,
) -> RunRecord {
    let plan = proposal.approved.plan;
    RunRecord {
        run,
        site: process.site.name.clone(),
        action: Arc::from(plan.request.action.as_str()),
        revision: Arc::from(proposal.approved.commit.to_string()),
        site_digest: plan.target.site_digest.clone(),
        plan_digest: proposal.plan_digest.clone(),
        started: Arc::from(rfc3339(process.time.seconds())),
        ended: None,
        outcome: Outcome::Running,
        partial: plan.is_partial(),
        unverified: plan.unverified().count(),
        counts: Counts::default(),
        unproven: Unproven::default(),
        halted: None,
        tag: None,
        annotation: None,
        tag_owed: false,
        actor: Some(Arc::from(process.actor.name.as_str())),
        requested: process.requested.cloned().map(Box::new),
        journal: Some(journal),
        ticket: plan.options.ticket.clone(),
        approvals: proposal.approvals.to_vec(),
        break_glass: proposal.break_glass.cloned().map(Box::new),
        repositories: proposal.approved.plan.target.repositories.clone(),
        policy_asks: proposal.policy_asks,
        workers: proposal.workers.cloned(),
    }
}

/// Publishes the first records of a run, which has begun nothing yet.
fn publish_first(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    draft: &PendingCheckpoint,
    remote_tip: &mut Option<CommitId>,
    run: &RunId,
) -> Result<(), Error> {
    if site.audience().is_none() {
        return Ok(());
    }
    match site.push(&[store.update(*remote_tip, draft.tip)])? {
        PushOutcome::Published => *remote_tip = Some(draft.tip),
        PushOutcome::LostRace { .. } => return Err(Error::Fenced { run: run.clone() }),
    }
    Ok(())
}
