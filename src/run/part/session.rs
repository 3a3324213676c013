//! A part that a worker carries out: its lease, its progress, and what the other parts publish meanwhile.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::collect::in_order;
use super::known::KnownParts;
use super::pace::{PUSHES_OF_BEGIN, Pace};
use super::refs::{InTurn, Listed, PartRefs, Way};
use super::shared_push::{Lead, Leader, SharedPushes};
use super::status::{PartState, PartStatus};
use crate::design::RunId;
use crate::diagnostic::chain;
use crate::journal::Entry;
use crate::plan::Parts;
use crate::record::Store;
use crate::repository::CommitId;
use crate::run::error::{self, Error};
use crate::run::event::{EventKind, RunEvent};
use crate::run::lease::{GitTask, Lease, LeaseHolder};
use crate::run::outcome::NodeOutcome;
use crate::run::process::Process;
use crate::step::StepId;
use crate::threads::lock;

/// How often the other parts are asked for.
const GLANCE: Duration = Duration::from_secs(20);
/// How long nothing is tried after the remote did not answer; each further time twice as long.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How often the end of a part is tried to be published.
const ATTEMPTS: u32 = 6;
/// How often a worker that other workers come before lists the parts again, before it publishes out of turn.
const TURNS: u64 = 100;
/// For how long a worker that leads its host waits for the others there that publish at the same time.
const GATHERING: Duration = Duration::from_secs(2);

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
    /// When the lock was left to the workers, in seconds since 1970.
    pub(super) begun: i64,
    pub(super) pace: Pace,
    /// Where it meets other workers of this host; `None` if pushes are not counted.
    pub(super) shared: Option<SharedPushes>,
    pub(super) parts: Arc<Parts>,
    pub(super) lease: Lease,
    pub(super) owned: Mutex<Owned>,
    pub(super) progress: Mutex<NewProgress>,
    pub(super) others: Mutex<Others>,
}

/// The part as it was published last.
pub(super) struct Owned {
    pub(super) tip: Option<CommitId>,
    /// Commits that were sent, and of which no answer came.
    pub(super) sent: Vec<CommitId>,
    pub(super) status: PartStatus,
    /// When it was published last.
    pub(super) confirmed: Duration,
    /// When pushes were refused since then that others came before, in seconds since 1970.
    pub(super) missed: Vec<i64>,
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

    /// The entries of other parts since the last call.
    #[must_use]
    pub fn learned(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.others).news)
    }

    /// Publishes that the part has ended, or that its worker has stopped in good order.
    ///
    /// # Errors
    ///
    /// [`Error::PartLost`] if another worker has it; it could not be published: its journal is here, and the next worker in
    /// this clone publishes it.
    pub fn finish(&self, has_ended: bool) -> Result<(), Error> {
        let state = match has_ended {
            true => PartState::Ended,
            false => PartState::Interrupted,
        };
        let mut wait = AFTER_FAILURE;
        for attempt in 1.. {
            if self.lease.is_lost() {
                return Err(self.lost());
            }
            match self.publish_in_turn(state) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_lost_race() || self.lease.is_lost() => {
                    return Err(self.lost());
                }
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

    /// Publishes the part in a state once that keeps all workers within their pace.
    pub(super) fn publish_in_turn(&self, state: PartState) -> Result<(), Error> {
        let mut is_alone = false;
        for turn in 0..TURNS {
            if self.pace.is_unlimited() || self.process.time.is_stopped() {
                break;
            }
            let shared = self.shared.as_ref().filter(|_| !is_alone);
            let leader = match shared.map(|shared| (shared, shared.lead())) {
                Some((shared, Lead::Another)) => {
                    let by_leader = Way::ByLeader(shared, self.process.time);
                    match self.publish(state, by_leader)? {
                        InTurn::Published => return Ok(()),
                        InTurn::Unanswered { is_late } => is_alone = is_late,
                        InTurn::Missed => {}
                    }
                    continue;
                }
                Some((_, Lead::Own(leader))) => Some(leader),
                Some((_, Lead::Nowhere)) | None => None,
            };
            let Some(listed) = self.turn(turn > 0, leader.as_ref())? else {
                break;
            };
            let in_turn = Way::InTurn(&listed, leader.as_ref());
            if self.publish(state, in_turn)? == InTurn::Published {
                return Ok(());
            }
        }
        self.publish(state, Way::OutOfTurn).map(drop)
    }

    /// Waits until a push keeps all workers within their pace; the parts as they are then. `None`: this process is to stop, and does not
    /// wait.
    fn turn(&self, is_missed: bool, leader: Option<&Leader>) -> Result<Option<Listed>, Error> {
        let time = self.process.time;
        let mut is_spread = !is_missed && !self.is_crowded();
        if leader.is_some() && !is_missed {
            time.pause(GATHERING);
        }
        loop {
            if time.is_stopped() {
                return Ok(None);
            }
            let listed = self.refs().list()?;
            self.take_in_listed(&listed);
            if self.lease.is_lost() {
                return Err(self.lost());
            }
            let seconds = self.seconds_to_turn();
            if seconds == 0 && is_spread {
                return Ok(Some(listed));
            }
            is_spread = true;
            time.pause(Duration::from_secs(seconds) + self.spread());
        }
    }

    /// When all workers published lately, by the parts as they were listed last, and with what this one missed.
    fn published(&self) -> Vec<i64> {
        let mut published = lock(&self.others).known.published();
        published.extend(&lock(&self.owned).missed);
        published.extend([self.begun; PUSHES_OF_BEGIN]);
        published
    }

    /// How many seconds a push has to wait.
    fn seconds_to_turn(&self) -> u64 {
        let (now, published) = (self.process.time.seconds(), self.published());
        self.pace
            .wait_of_worker(now, &published, self.is_of_one_host())
    }

    /// Whether all workers that have had parts are on this host, if one pushes at a time.
    fn is_of_one_host(&self) -> bool {
        let me = lock(&self.owned).status.holder.clone();
        self.shared.is_some() && lock(&self.others).known.are_all_on_host_of(&me)
    }

    /// Whether other workers may publish at the same time: they have parts, or parts are ready for them.
    fn is_crowded(&self) -> bool {
        if self.is_of_one_host() {
            return false;
        }
        let ready = lock(&self.others).known.ready(&self.parts);
        let published = self.published();
        let now = self.process.time.seconds();
        self.pace.is_crowded(now, &published, ready)
    }

    /// A time by which this worker waits longer than others.
    fn spread(&self) -> Duration {
        let mut hasher = DefaultHasher::new();
        let Process { actor, time, .. } = self.process;
        (actor.random, &*self.part, time.monotonic()).hash(&mut hasher);
        let longest = u64::try_from(self.pace.spread().as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(hasher.finish() % longest.max(1))
    }

    /// Publishes the part in a state, with what is new.
    pub(super) fn publish(&self, state: PartState, way: Way<'_>) -> Result<InTurn, Error> {
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
        status.published.append(&mut owned.missed.clone());
        let is_pushed = !matches!(way, Way::ByLeader(..));
        status.published = self.pace.recent(seconds, &status.published, is_pushed);
        // What is published first may be what counts, whether its answer comes or not.
        self.lease.fence.narrow(bound);
        let asked = self.process.time.monotonic();
        let sent = self.send(&mut owned, &status, (&entries, &events), way);
        if let Ok((_, InTurn::Missed)) = sent {
            owned.missed.push(seconds);
        }
        if let Ok((tip, InTurn::Published)) = sent {
            owned.tip = Some(tip);
            owned.sent.clear();
            owned.missed.clear();
            owned.status = status;
            owned.failures = 0;
            owned.confirmed = asked;
            // Workers that were published together are so again.
            owned.next = self.process.time.monotonic() + interval;
            self.lease.fence.confirm_for(asked, bound);
        } else {
            let mut progress = lock(&self.progress);
            progress.entries.splice(..0, entries);
            progress.events.splice(..0, events);
        }
        sent.map(|(_, in_turn)| in_turn)
    }

    /// Sends a status; one that was sent before and arrived unnoticed is followed.
    fn send(
        &self,
        owned: &mut Owned,
        status: &PartStatus,
        news: (&[Entry], &[RunEvent]),
        way: Way<'_>,
    ) -> Result<(CommitId, InTurn), Error> {
        let repository = self.process.site.repository;
        let signature = self.process.signature();
        let commit = status.commit(repository, owned.tip, news, signature)?;
        let commit = self
            .store
            .write_shared(commit)
            .map_err(error::records("publish the part"))?;
        let refs = self.refs();
        let publish = |seen| refs.publish(&self.part, seen, commit, way);
        let mut moved = publish(owned.tip);
        for sent in owned.sent.iter().rev() {
            if !moved.as_ref().is_err_and(Error::is_lost_race) {
                break;
            }
            moved = publish(Some(*sent));
        }
        // Also a push that another one came before may have arrived, if its answer was lost.
        let is_answered = match &moved {
            Ok(in_turn) => *in_turn == InTurn::Published,
            Err(error) => error.is_lost_race(),
        };
        if !is_answered {
            owned.sent.push(commit);
        }
        moved.map(|in_turn| (commit, in_turn))
    }

    /// Asks for the other parts, and whether the lock and this part are still what they were.
    fn look(&self, now: Duration) {
        if lock(&self.others).next > now {
            return;
        }
        lock(&self.others).next = now + GLANCE;
        // The dispatcher does not wait for the remote.
        match self.refs().list() {
            Ok(listed) => self.take_in_listed(&listed),
            Err(error) => log::info!("the other parts: {}", chain(&error)),
        }
    }

    /// Takes in the parts as they are listed.
    fn take_in_listed(&self, listed: &Listed) {
        let mut others = lock(&self.others);
        let found = others
            .known
            .update(self.refs(), listed, self.base, Some(&self.part));
        match found {
            Ok(news) => others.news.extend(in_order(&self.parts, news)),
            Err(error) => self
                .lease
                .warn(format!("the other parts: {}", chain(&error))),
        }
        drop(others);
        self.check_place(listed);
    }

    /// Stops if the lock of the run or this part is another's.
    pub(super) fn check_place(&self, listed: &Listed) {
        let owned = lock(&self.owned);
        let here = listed.parts.get(&self.part).copied();
        let is_own = here == owned.tip || here.is_some_and(|here| owned.sent.contains(&here));
        drop(owned);
        if !is_own || listed.lock != Some(self.lock) {
            self.lose();
        }
    }

    fn renew(&self, now: Duration) {
        if lock(&self.owned).next > now || self.lease.is_lost() {
            return;
        }
        match self.publish_renewal(now) {
            Ok(()) => {}
            Err(error) if error.is_lost_race() => self.lose(),
            Err(error) => {
                let mut owned = lock(&self.owned);
                owned.next = now + AFTER_FAILURE * 2u32.pow(owned.failures.min(3));
                owned.failures += 1;
                drop(owned);
                self.lease.warn(format!(
                    "the lease of part `{}` could not be renewed: {}",
                    self.part,
                    chain(&error)
                ));
            }
        }
    }

    /// Renews the lease when that keeps all workers within their pace, else a little later; in time in any case.
    fn publish_renewal(&self, now: Duration) -> Result<(), Error> {
        let is_late = {
            let owned = lock(&self.owned);
            let bound = Duration::from_secs(owned.status.bound);
            now.saturating_sub(owned.confirmed) > bound / 2
        };
        if is_late || self.pace.is_unlimited() {
            return self.publish(PartState::Running, Way::OutOfTurn).map(drop);
        }
        let time = self.process.time;
        let mut leader = None;
        if let Some(shared) = &self.shared {
            match shared.lead() {
                Lead::Own(own) => {
                    leader = Some(own);
                    time.pause(GATHERING);
                }
                Lead::Another => {
                    let by_leader = Way::ByLeader(shared, time);
                    if self.publish(PartState::Running, by_leader)? != InTurn::Published {
                        lock(&self.owned).next = now + self.spread();
                    }
                    return Ok(());
                }
                Lead::Nowhere => {}
            }
        }
        let listed = self.refs().list()?;
        self.take_in_listed(&listed);
        if self.lease.is_lost() {
            return Ok(());
        }
        let seconds = self.seconds_to_turn();
        let in_turn = Way::InTurn(&listed, leader.as_ref());
        if seconds == 0 && self.publish(PartState::Running, in_turn)? == InTurn::Published {
            return Ok(());
        }
        lock(&self.owned).next = now + Duration::from_secs(seconds) + self.spread();
        Ok(())
    }

    /// Another process has the part or the run.
    fn lose(&self) {
        self.lease.lose(|| {
            format!(
                "another worker has taken part `{}` of run {}, the run has ended, or its lock was made anew: this worker is fenced, and stops at once",
                self.part, self.run
            )
        });
    }
}

impl LeaseHolder for PartSession<'_> {
    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn tick(&self) {
        let now = self.process.time.monotonic();
        self.look(now);
        self.renew(now);
    }

    fn run_task(&self, task: GitTask) {
        if let GitTask::Publish = task {
            if let Err(error) = self.publish_in_turn(PartState::Running) {
                self.lease.warn(format!(
                    "the part could not be published: {}",
                    chain(&error)
                ));
                if error.is_lost_race() {
                    self.lose();
                }
            }
            // Whether it could be published or not: what was to be found is in this clone at least.
            self.lease.git.open_gate();
        }
    }

    fn on_event(&self, event: &RunEvent) {
        if !matches!(event.kind, EventKind::StepProgress { .. }) {
            lock(&self.progress).events.push(event.clone());
        }
    }

    /// It is an entry of the journal, which is published.
    fn noted(&self, _: &StepId, _: &Arc<str>) {}

    /// The records of nodes are written at the end of the run, of what its parts have published.
    fn node_changed(&self, _: &NodeOutcome) {}
}
