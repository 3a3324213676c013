//! A run that holds the lock of its site: its lock, its records, and their copy at the remote.
//!
//! A [`Session`] is shared between the thread that dispatches, which reports events to it, and one that
//! does all that takes git: it renews the lock, writes checkpoints and publishes them, when it is time and
//! when it is asked ([`with_heartbeat`](super::with_heartbeat)). The dispatcher never waits for it; only a step that others have to
//! know of before it acts does. A process that lost the lock, or finds that another one wrote the records, starts
//! nothing more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::durations::Durations;
use super::effects::PlanEffects;
use super::error::{self, Error};
use super::files::RunFiles;
use super::lease::Lease;
use super::process::{Held, Process};
use super::publish::Publication;
use super::records::LiveRecords;
use crate::backend::Fence;
use crate::design::{Digests, NodeDesign, NodeName, RunId};
use crate::journal::{Journal, Replay};
use crate::plan::Plan;
use crate::record::{Packed, RunRecord, SiteState, State, Store};
use crate::repository::CommitId;
use crate::threads::lock;

/// How often the lock is renewed.
pub(super) const RENEWAL: Duration = Duration::from_secs(60);
/// The age of the last renewal at which no step starts any more, and none sends a request that changes
/// something.
pub(super) const BOUND: Duration = Duration::from_secs(5 * 60);

/// A plan as it was approved: with its file, its commit and its designs.
#[derive(Clone, Copy, Debug)]
pub struct ApprovedPlan<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The same as a saved file, packed, which the records and the lock keep.
    pub plan_file: &'a Packed,
    /// The commit that is applied, and tagged: it has the files that were planned.
    pub commit: CommitId,
    /// The designs to be reached.
    pub nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
}

/// A run that has begun.
pub struct Begun<'a> {
    /// Holds the lock and keeps the records.
    pub session: Session<'a>,
    /// For the dispatcher.
    pub journal: Journal,
    /// The outcomes of earlier processes; empty for a new run.
    pub replay: Replay,
}

/// A run that holds the lock of its site.
pub struct Session<'a> {
    pub(super) process: Process<'a>,
    pub(super) approved: ApprovedPlan<'a>,
    pub(super) run: RunId,
    pub(super) store: Store<'a>,
    pub(super) files: RunFiles,
    pub(super) effects: PlanEffects<'a>,
    /// The records before the run, as the whole site counts them.
    pub(super) before: SiteState,
    pub(super) held: Mutex<Renewal>,
    pub(super) lease: Lease,
    /// The id of the journal.
    pub(super) journal: Arc<str>,
    pub(super) records: Mutex<LiveRecords<'a>>,
    pub(super) published: Mutex<Published>,
    /// Held while a checkpoint is written.
    pub(super) writing: Mutex<()>,
    /// Why the newest records are not signed, if they should be.
    pub(super) unsigned: Mutex<Option<String>>,
    /// How far the end is published; `None` before the end.
    pub(super) publication: Mutex<Option<Publication>>,
    /// The digests by the rules of now of records of earlier ones, which a success writes.
    pub(super) renewed: Mutex<BTreeMap<NodeName, Digests>>,
}

/// The lock, and when it is to be renewed.
pub(super) struct Renewal {
    pub(super) held: Held,
    pub(super) next: Duration,
}

impl Renewal {
    /// The lock is not renewed any more.
    pub(super) fn stop(&mut self) {
        self.next = Duration::MAX;
    }
}

/// The remote's part of the records.
pub(super) struct Published {
    pub(super) tip: Option<CommitId>,
    pub(super) next: Duration,
}

/// The inputs of a session.
pub(super) struct SessionStart<'a> {
    pub(super) process: Process<'a>,
    pub(super) approved: ApprovedPlan<'a>,
    pub(super) store: Store<'a>,
    pub(super) files: RunFiles,
    pub(super) state: State,
    pub(super) remote_tip: Option<CommitId>,
    pub(super) run: RunRecord,
    pub(super) held: Held,
    /// The id of the journal, and how many entries it has.
    pub(super) journal: Arc<str>,
    pub(super) entries: usize,
}

impl<'a> Session<'a> {
    /// Lets the run, if it succeeds, write records of earlier rules anew, with these digests.
    pub fn renew_records(&self, digests: BTreeMap<NodeName, Digests>) {
        *lock(&self.renewed) = digests;
    }

    /// The durations of steps in past runs; none if they cannot be read.
    #[must_use]
    pub fn durations(&self) -> Durations {
        let state = lock(&self.records).state.clone();
        Durations::read(&self.store, &state).unwrap_or_default()
    }

    pub(super) fn new(start: SessionStart<'a>) -> Result<Self, Error> {
        let SessionStart {
            process,
            approved,
            state,
            held,
            ..
        } = start;
        let nodes = start
            .store
            .nodes(&state)
            .map_err(error::records("read the records of the nodes"))?;
        let now = process.time.monotonic();
        Ok(Self {
            process,
            approved,
            run: start.run.run.clone(),
            store: start.store,
            files: start.files,
            effects: PlanEffects::of(approved.plan),
            before: state.site.clone(),
            lease: Lease::new(Fence::new(process.time.lease_clock(), BOUND, held.renewed)),
            journal: start.journal,
            held: Mutex::new(Renewal {
                next: held.renewed + RENEWAL,
                held,
            }),
            records: Mutex::new(LiveRecords::new(
                approved.nodes,
                nodes,
                (state, start.run),
                start.entries,
                now,
            )),
            published: Mutex::new(Published {
                tip: start.remote_tip,
                next: now,
            }),
            writing: Mutex::new(()),
            unsigned: Mutex::default(),
            publication: Mutex::new(None),
            renewed: Mutex::default(),
        })
    }

    /// How far the end of the run is published; `None` before its end.
    #[must_use]
    pub fn publication(&self) -> Option<Publication> {
        lock(&self.publication).clone()
    }

    /// The newest run whose tag the remote still refuses, by the records as they are now.
    #[must_use]
    pub fn tag_owed(&self) -> Option<RunId> {
        let records = lock(&self.records);
        records.state.site.tags_owed.last().cloned()
    }

    /// Which run it is.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Whether it is divided among workers.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        lock(&self.records).run.workers.is_some()
    }

    /// The commit that is applied.
    #[must_use]
    pub fn commit(&self) -> CommitId {
        self.approved.commit
    }

    /// The lock is gone, or another process holds it.
    pub(super) fn lose(&self) {
        self.lease.lose(|| {
            format!(
                "the lock of site `{}` is not of this process any more, which was taken over or whose lock was removed: run {} is fenced \
                 here, and stops at once",
                self.process.site.name, self.run
            )
        });
    }
}
