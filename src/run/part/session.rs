//! A part that a worker carries out: its lease, its progress, and what the other parts publish meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::collect::in_order;
use super::known::KnownParts;
use super::pace::Pace;
use super::refs::{Listed, PartRefs, is_moved};
use super::status::{PartState, PartStatus};
use crate::backend::Fence;
use crate::design::RunId;
use crate::diagnostic::chain;
use crate::journal::Entry;
use crate::plan::Parts;
use crate::record::Store;
use crate::repository::CommitId;
use crate::run::error::{self, Error};
use crate::run::event::{EventKind, RunEvent};
use crate::run::lease::{GitTask, GitThread, LeaseHolder};
use crate::run::process::Process;
use crate::run::session::lock;
use crate::run::stop::StopHandle;

/// How often the other parts are asked for.
const GLANCE: Duration = Duration::from_secs(20);
/// How long nothing is tried after the remote did not answer; each further time twice as long.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How often the end of a part is tried to be published.
const ATTEMPTS: u32 = 6;

/// A part of a run that this process carries out.
pub struct PartSession<'a> {
    pub(super) process: Process<'a>,
    pub(super) run: RunId,
    pub(super) part: Arc<str>,
    pub(super) store: Store<'a>,
    /// The records by whose rules parts have to be signed.
    pub(super) base: Option<CommitId>,
    /// The lock of the run, which does not move while parts may be carried out.
    pub(super) lock: CommitId,
    pub(super) pace: Pace,
    pub(super) parts: Arc<Parts>,
    pub(super) fence: Fence,
    pub(super) git: GitThread,
    pub(super) owned: Mutex<Owned>,
    pub(super) progress: Mutex<NewProgress>,
    pub(super) others: Mutex<Others>,
    pub(super) notices: Mutex<Vec<EventKind>>,
    pub(super) stop: Mutex<Option<StopHandle>>,
}

/// The part as it was published last.
pub(super) struct Owned {
    pub(super) tip: Option<CommitId>,
    /// A commit that was sent, and of which no answer came.
    pub(super) sent: Option<CommitId>,
    pub(super) status: PartStatus,
    /// When it is published again.
    pub(super) next: Duration,
    pub(super) failures: u32,
}

/// The progress that is not published yet.
#[derive(Default)]
pub(super) struct NewProgress {
    pub(super) entries: Vec<Entry>,
    pub(super) events: Vec<RunEvent>,
    /// How many entries the journal has.
    pub(super) journal: usize,
}

/// The other parts.
pub(super) struct Others {
    pub(super) known: KnownParts,
    /// Their entries that the dispatcher has not taken in yet.
    pub(super) news: Vec<Entry>,
    /// When they are asked for again.
    pub(super) next: Duration,
}

impl PartSession<'_> {
    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The part.
    #[must_use]
    pub fn part(&self) -> &str {
        &self.part
    }

    /// The handle that stops the part when its lease is lost.
    pub fn stop_when_lost(&self, stop: StopHandle) {
        *lock(&self.stop) = Some(stop);
        if self.fence.is_lost() {
            self.ask_to_stop();
        }
    }

    /// The entries of other parts since the last call.
    #[must_use]
    pub fn learned(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.others).news)
    }

    /// Publishes that the part has ended, or that its worker has stopped in good order.
    ///
    /// # Errors
    ///
    /// [`Error::PartLost`] where another worker has it; it could not be published: its journal is here, and the next worker in
    /// this clone publishes it.
    pub fn finish(&self, has_ended: bool) -> Result<(), Error> {
        let state = match has_ended {
            true => PartState::Ended,
            false => PartState::Interrupted,
        };
        let mut wait = AFTER_FAILURE;
        for attempt in 1.. {
            if self.fence.is_lost() {
                return Err(self.lost());
            }
            self.wait_for_turn();
            match self.publish(state) {
                Ok(()) => return Ok(()),
                Err(error) if is_moved(&error) => return Err(self.lost()),
                Err(error) if attempt == ATTEMPTS || self.process.time.is_stopped() => {
                    return Err(Error::Unpublished {
                        run: self.run.clone(),
                        why: chain(&error),
                    });
                }
                Err(error) => log::info!("attempt {attempt} to end the part: {}", chain(&error)),
            }
            self.process.time.pause(wait);
            wait *= 2;
        }
        Ok(())
    }

    /// The error of a worker whose part is another's.
    pub(super) fn lost(&self) -> Error {
        Error::PartLost {
            run: self.run.clone(),
            part: self.part.clone(),
        }
    }

    pub(super) fn refs(&self) -> PartRefs<'_> {
        PartRefs {
            site: self.process.site,
            run: &self.run,
        }
    }

    /// Adds entries that are durable in the journal.
    pub(super) fn take_in(&self, entries: &mut Vec<Entry>) {
        let mut progress = lock(&self.progress);
        progress.journal += entries.len();
        progress.entries.append(entries);
    }

    /// Adds an event.
    pub(super) fn hear(&self, event: &RunEvent) {
        if !matches!(event.kind, EventKind::StepProgress { .. }) {
            lock(&self.progress).events.push(event.clone());
        }
    }

    /// The warnings since the last call, for listeners.
    pub(super) fn notices(&self) -> Vec<EventKind> {
        std::mem::take(&mut *lock(&self.notices))
    }

    fn warn(&self, message: String) {
        let message = Arc::from(message);
        lock(&self.notices).push(EventKind::Warning { message });
    }

    /// Waits until a push of this worker keeps all workers within their pace.
    pub(super) fn wait_for_turn(&self) {
        let published = {
            let owned = lock(&self.owned);
            let others = lock(&self.others);
            let mut published = others.known.published();
            published.extend(&owned.status.published);
            published
        };
        let seconds = self.pace.wait(self.process.time.seconds(), &published);
        if seconds > 0 {
            self.process.time.pause(Duration::from_secs(seconds));
        }
    }

    /// Publishes the part in a state, with what is new.
    pub(super) fn publish(&self, state: PartState) -> Result<(), Error> {
        let workers = lock(&self.others).known.running().max(1);
        let interval = self.pace.interval(workers);
        let bound = Pace::bound(interval);
        let mut owned = lock(&self.owned);
        let (entries, events, journal) = {
            let mut progress = lock(&self.progress);
            let entries = std::mem::take(&mut progress.entries);
            (
                entries,
                std::mem::take(&mut progress.events),
                progress.journal,
            )
        };
        let seconds = self.process.time.seconds();
        let mut status = owned.status.clone();
        status.state = state;
        status.bound = bound.as_secs();
        status.journal.entries = journal;
        status.published = self.pace.recent(seconds, &status.published);
        // What is published first may be what counts, whether its answer comes or not.
        self.fence.narrow(bound);
        let asked = self.process.time.monotonic();
        let sent = self.send(&mut owned, &status, (&entries, &events));
        match sent {
            Ok(tip) => {
                owned.tip = Some(tip);
                owned.sent = None;
                owned.status = status;
                owned.failures = 0;
                owned.next = asked + interval;
                self.fence.confirm_for(asked, bound);
                Ok(())
            }
            Err(error) => {
                let mut progress = lock(&self.progress);
                progress.entries.splice(..0, entries);
                progress.events.splice(..0, events);
                Err(error)
            }
        }
    }

    /// Sends a status; one that was sent before and arrived unnoticed is followed.
    fn send(
        &self,
        owned: &mut Owned,
        status: &PartStatus,
        news: (&[Entry], &[RunEvent]),
    ) -> Result<CommitId, Error> {
        let repository = self.process.site.repository;
        let signature = self.process.signature();
        let commit = status.commit(repository, owned.tip, news, signature)?;
        let commit = self
            .store
            .write_shared(commit)
            .map_err(error::records("publish the part"))?;
        let moved = self.refs().replace(&self.part, owned.tip, commit);
        let moved = match (moved, owned.sent) {
            (Err(error), Some(sent)) if is_moved(&error) => {
                self.refs().replace(&self.part, Some(sent), commit)
            }
            (moved, _) => moved,
        };
        if let Err(error) = &moved
            && !is_moved(error)
        {
            owned.sent = Some(commit);
        }
        moved.map(|()| commit)
    }

    /// Asks for the other parts, and whether the lock and this part are still what they were.
    fn look(&self, now: Duration) {
        if lock(&self.others).next > now {
            return;
        }
        lock(&self.others).next = now + GLANCE;
        let refs = self.refs();
        // The dispatcher does not wait for the remote.
        let listed = match refs.list() {
            Ok(listed) => listed,
            Err(error) => return log::info!("the other parts: {}", chain(&error)),
        };
        let mut others = lock(&self.others);
        let found = others
            .known
            .update(refs, &listed, self.base, Some(&self.part));
        match found {
            Ok(news) => others.news.extend(in_order(&self.parts, news)),
            Err(error) => self.warn(format!("the other parts: {}", chain(&error))),
        }
        drop(others);
        self.check_place(&listed);
    }

    /// Stops where the lock of the run or this part is another's.
    pub(super) fn check_place(&self, listed: &Listed) {
        let owned = lock(&self.owned);
        let here = listed.parts.get(&self.part).copied();
        let is_own = here == owned.tip || (here.is_some() && here == owned.sent);
        drop(owned);
        if !is_own || listed.lock != Some(self.lock) {
            self.lose();
        }
    }

    fn renew(&self, now: Duration) {
        if lock(&self.owned).next > now || self.fence.is_lost() {
            return;
        }
        match self.publish(PartState::Running) {
            Ok(()) => {}
            Err(error) if is_moved(&error) => self.lose(),
            Err(error) => {
                let mut owned = lock(&self.owned);
                owned.next = now + AFTER_FAILURE * 2u32.pow(owned.failures.min(3));
                owned.failures += 1;
                drop(owned);
                self.warn(format!(
                    "the lease of part `{}` could not be renewed: {}",
                    self.part,
                    chain(&error)
                ));
            }
        }
    }

    /// Another process has the part or the run: nothing more starts, and running steps are cancelled.
    fn lose(&self) {
        if self.fence.lose() {
            self.warn(format!(
                "part `{}` of run {} is another process's now: this worker is fenced, and stops at once",
                self.part, self.run
            ));
            self.ask_to_stop();
        }
    }

    fn ask_to_stop(&self) {
        if let Some(stop) = &*lock(&self.stop) {
            stop.stop_at_once();
        }
    }
}

impl LeaseHolder for PartSession<'_> {
    fn fence(&self) -> Fence {
        self.fence.clone()
    }

    fn tick(&self) {
        let now = self.process.time.monotonic();
        self.look(now);
        self.renew(now);
    }

    fn run_task(&self, task: GitTask) {
        if let GitTask::Publish = task {
            if let Err(error) = self.publish(PartState::Running) {
                self.warn(format!(
                    "the part could not be published: {}",
                    chain(&error)
                ));
                if is_moved(&error) {
                    self.lose();
                }
            }
            // Whether it could be published or not: what was to be found is in this clone at least.
            self.git.open_gate();
        }
    }

    fn git_thread(&self) -> &GitThread {
        &self.git
    }
}
