//! How a worker begins a part, or takes over what another worker has left of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::begin::leave_to_workers;
use super::collect::in_order;
use super::known::{KnownPart, KnownParts};
use super::pace::Pace;
use super::refs::PartRefs;
use super::session::{NewProgress, Others, Owned, PartSession};
use super::shared_push::SharedPushes;
use super::status::{PartState, PartStatus, progress};
use crate::backend::Fence;
use crate::design::RunId;
use crate::journal::{Decision, Entry, Journal, Replay};
use crate::plan::{Part, Parts};
use crate::record::{State, Store, Workers};
use crate::repository::{Holder, Lock};
use crate::run::error::{self, Error};
use crate::run::files::RunFiles;
use crate::run::interrupted::Interrupted;
use crate::run::lease::Lease;
use crate::run::process::Process;
use crate::run::site_repository::Connection;
use crate::run::unfinished::unfinished;
use crate::threads::lock;

/// The interval at which a part is checked whose owner may be at work.
const GLANCE: Duration = Duration::from_secs(15);

/// A part that is to be carried out.
pub struct PartRequest<'a> {
    /// The run, which has begun.
    pub interrupted: &'a Interrupted,
    /// The parts of its plan.
    pub parts: &'a Arc<Parts>,
    /// Which of them, by its position.
    pub part: usize,
    /// The longest time that one request of a crashed worker may still be answered.
    pub longest_request: Duration,
    /// By step id, what an operator found out about steps that cannot be told from outside.
    pub decisions: BTreeMap<Arc<str>, Decision>,
    /// Whether something has to act, given the entries that are known: else the part is decided at once.
    pub acts: &'a dyn Fn(&[Entry]) -> Result<bool, Error>,
}

/// How a worker found a part.
pub enum Opened<'a> {
    /// It has ended.
    Ended,
    /// Parts have not ended that it waits for; their names. Nothing was touched.
    NotReady(Vec<Arc<str>>),
    /// It is this worker's.
    Begun(Box<OpenedPart<'a>>),
}

/// A part that this worker carries out.
pub struct OpenedPart<'a> {
    /// Holds the lease and publishes the progress.
    pub session: PartSession<'a>,
    /// For the dispatcher.
    pub journal: Journal,
    /// The outcomes of other parts, and of earlier workers of this one.
    pub replay: Replay,
    /// Whether an earlier worker has begun it.
    pub is_resumed: bool,
}

/// Begins a part, or takes it over from a worker that was interrupted.
///
/// # Errors
///
/// [`Error::NotOfWorkers`]; [`Error::PartHeld`] if its owner is at work; [`Error::PartLost`] if another worker was faster, or
/// the run has ended; [`Error::BeingEnded`]; [`Error::NotSigned`], [`Error::Untrusted`]; the remote or the journal cannot be read or written.
pub fn open_part<'a>(process: Process<'a>, request: &PartRequest<'_>) -> Result<Opened<'a>, Error> {
    let opening = Opening::look(process, request)?;
    let part = opening.part;
    if opening.known.state(&part.id) == Some(PartState::Ended) {
        return Ok(Opened::Ended);
    }
    let waits_for: Vec<Arc<str>> = part
        .after
        .iter()
        .map(|before| request.parts.parts[*before].id.clone())
        .filter(|before| opening.known.state(before) != Some(PartState::Ended))
        .collect();
    if !waits_for.is_empty() {
        return Ok(Opened::NotReady(waits_for));
    }
    process.site.ready_for_progress(&opening.records)?;
    match opening.open() {
        Ok(part) => Ok(Opened::Begun(Box::new(part))),
        // Another worker was faster, or is at work, and may have ended the part meanwhile.
        Err(error @ (Error::PartHeld { .. } | Error::PartLost { .. })) => {
            let has_ended = Opening::look(process, request)
                .is_ok_and(|now| now.known.state(&part.id) == Some(PartState::Ended));
            match has_ended {
                true => Ok(Opened::Ended),
                false => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Gives the workers of a run the lock again that is gone, unless the run has ended meanwhile.
fn lock_again(process: Process<'_>, interrupted: &Interrupted) -> Result<Option<Lock>, Error> {
    let site = process.site;
    let store = site.store()?;
    let state = site.records(&store)?.state;
    let run = &interrupted.record.run;
    if unfinished(&store, &state)?.is_none_or(|newest| newest.run != *run) {
        return Ok(None);
    }
    match leave_to_workers(process, &interrupted.record, &interrupted.plan) {
        // Another worker was faster.
        Ok(()) | Err(Error::LockHeld { .. }) => site.lock(),
        Err(error) => Err(error),
    }
}

/// A part that is being opened.
struct Opening<'a, 'r> {
    process: Process<'a>,
    request: &'r PartRequest<'r>,
    part: &'r Part,
    workers: Workers,
    store: Store<'a>,
    records: State,
    /// The lock of the run.
    lock: Lock,
    known: KnownParts,
    /// The entries of other parts.
    entries: Vec<Entry>,
}

impl<'a, 'r> Opening<'a, 'r> {
    /// Reads the lock and the parts.
    fn look(process: Process<'a>, request: &'r PartRequest<'r>) -> Result<Self, Error> {
        let (site, record) = (process.site, &request.interrupted.record);
        let part = &request.parts.parts[request.part];
        let not_of_workers = || Error::NotOfWorkers {
            run: record.run.clone(),
        };
        let workers = record.workers.clone().ok_or_else(not_of_workers)?;
        let held = match site.lock()? {
            None => lock_again(process, request.interrupted)?,
            held => held,
        };
        let (run, id) = (record.run.clone(), part.id.clone());
        let held = match held.filter(|held| held.holder.run == record.run.as_str()) {
            Some(held) if held.holder.of_workers => held,
            Some(held) => {
                return Err(Error::BeingEnded {
                    is_gone: process.is_dead(&held)?,
                    holder: Box::new(held.holder),
                    run,
                    part: id,
                });
            }
            None => return Err(Error::PartLost { run, part: id }),
        };
        let store = site.store()?;
        let records = store.read().map_err(error::records("read the records"))?;
        let base = records.tip;
        let refs = PartRefs {
            site,
            run: &record.run,
        };
        let mut known = KnownParts::default();
        let entries = known.update(refs, &refs.list()?, base, Some(&part.id))?;
        let entries = in_order(request.parts, entries);
        Ok(Self {
            process,
            request,
            part,
            workers,
            store,
            records,
            lock: held,
            known,
            entries,
        })
    }

    fn run(&self) -> &'r RunId {
        &self.request.interrupted.record.run
    }

    /// Takes the part.
    fn open(self) -> Result<OpenedPart<'a>, Error> {
        let request = self.request;
        let before = self.known.0.get(&self.part.id).cloned();
        let site = self.process.site;
        let files = RunFiles::of_part(site.repository, &site.name, self.run(), &self.part.id);
        let own = Own::gather(site.repository, &files, before.as_ref())?;
        let mut all = self.entries.clone();
        all.extend(own.entries.iter().cloned());
        let acts = (self.request.acts)(&all)?;
        let must_wait = self.wait_for_owner(before.as_ref())?;
        let epoch = before.as_ref().map_or(0, |before| before.status.epoch) + 1;
        let journal_id = self.journal_id(epoch);
        let journal = files.resumed_journal(
            &journal_id,
            own.journal.clone(),
            own.is_incomplete,
            &own.entries,
        )?;
        let is_resumed = before.is_some() || !own.entries.is_empty();
        let replay = Replay {
            entries: all,
            decisions: self.request.decisions.clone(),
            all_possibly_begun: own.is_incomplete && is_resumed,
        };
        let session = self.session(before, own, (epoch, journal_id));
        if acts {
            claim(&session, must_wait, request.longest_request)?;
        }
        Ok(OpenedPart {
            session,
            journal,
            replay,
            is_resumed,
        })
    }

    /// An id that no other journal has.
    fn journal_id(&self, epoch: u64) -> Arc<str> {
        let Process { actor, time, .. } = self.process;
        let nonce = time.monotonic().as_nanos();
        Arc::from(format!(
            "{}-{epoch}-{:032x}-{nonce}",
            self.part.id, actor.random
        ))
    }

    /// Waits until the owner before can send nothing more; whether its last request may still be on its way.
    fn wait_for_owner(&self, before: Option<&KnownPart>) -> Result<bool, Error> {
        let Some(before) = before.filter(|before| before.status.state.is_open()) else {
            return Ok(false);
        };
        let (time, holder) = (self.process.time, &before.status.holder);
        let me = self.process.holder(self.run());
        if holder.is_gone(&me) {
            return Ok(true);
        }
        let bound = Duration::from_secs(before.status.bound);
        time.explain(&format!(
            "for {} s: so long may the worker on {} that had the part be at work",
            bound.as_secs(),
            holder.host
        ));
        let (began, refs) = (time.monotonic(), self.refs());
        while time.monotonic().saturating_sub(began) < bound {
            time.pause(GLANCE.min(bound));
            if time.is_stopped() {
                return Err(Error::Stopped {
                    site: self.process.site.name.clone(),
                });
            }
            if refs.list()?.parts.get(&self.part.id) != Some(&before.commit) {
                return Err(self.held(holder.clone()));
            }
        }
        Ok(true)
    }

    fn refs(&self) -> PartRefs<'_> {
        PartRefs {
            site: self.process.site,
            run: self.run(),
        }
    }

    fn held(&self, holder: Holder) -> Error {
        Error::PartHeld {
            run: self.run().clone(),
            part: self.part.id.clone(),
            holder: Box::new(holder),
        }
    }

    /// The session of this worker, which has published nothing yet.
    fn session(
        self,
        before: Option<KnownPart>,
        own: Own,
        (epoch, journal): (u64, Arc<str>),
    ) -> PartSession<'a> {
        let (process, run) = (self.process, self.run().clone());
        let status = PartStatus {
            published: before
                .as_ref()
                .map_or_else(Vec::new, |before| before.status.published.clone()),
            ..PartStatus::new((&run, &self.part.id), epoch, process.holder(&run), journal)
        };
        let unpublished = own.entries[own.published.min(own.entries.len())..].to_vec();
        // Without a remote no host is asked too often.
        let pushes_per_minute = match &process.site.connection {
            Connection::Alone => 0,
            _ => self.workers.pushes_per_minute,
        };
        let shared = (pushes_per_minute > 0).then(|| SharedPushes::of(process.site, &run));
        PartSession {
            process,
            shared: shared.flatten(),
            run,
            part: self.part.id.clone(),
            store: self.store,
            base: self.records.tip,
            lock: self.lock.id,
            begun: self.lock.renewed,
            pace: Pace { pushes_per_minute },
            lease: Lease::new(Fence::new(
                process.time.lease_clock(),
                Duration::MAX,
                process.time.monotonic(),
            )),
            parts: self.request.parts.clone(),
            owned: Mutex::new(Owned {
                tip: before.map(|before| before.commit),
                sent: Vec::new(),
                status,
                confirmed: process.time.monotonic(),
                missed: Vec::new(),
                // Until it is claimed, there is nothing to renew.
                next: Duration::MAX,
                failures: 0,
            }),
            progress: Mutex::new(NewProgress {
                journal: own.entries.len(),
                entries: unpublished,
                events: Vec::new(),
            }),
            others: Mutex::new(Others {
                known: self.known,
                news: Vec::new(),
                next: Duration::MAX,
            }),
        }
    }
}

/// Publishes that this worker owns the part, and waits until nothing of the owner before is on its way.
fn claim(session: &PartSession<'_>, must_wait: bool, longest: Duration) -> Result<(), Error> {
    let process = session.process;
    let before = lock(&session.owned).tip;
    match session.publish_in_turn(PartState::Running) {
        Err(error) if error.is_lost_race() => return Err(session.lost()),
        other => other?,
    }
    // An end or an abort of the run that began before this finds the part; one that began later has moved the lock.
    let listed = session.refs().list()?;
    session.check_place(&listed);
    if session.lease.is_lost() {
        if let Some(own) = lock(&session.owned).tip {
            // Nothing was done yet.
            session.refs().give_back(&session.part, own, before);
        }
        return Err(session.lost());
    }
    if must_wait && !longest.is_zero() {
        process.time.explain(&format!(
            "for {} s: so long may the last request of the interrupted worker be on its way",
            longest.as_secs()
        ));
        process.time.pause(longest);
    }
    if process.time.is_stopped() {
        return Err(Error::Stopped {
            site: process.site.name.clone(),
        });
    }
    lock(&session.others).next = process.time.monotonic();
    Ok(())
}

/// The known progress of the part itself.
struct Own {
    /// The id of the journal of this clone.
    journal: Option<Arc<str>>,
    entries: Vec<Entry>,
    /// How many of the entries are published.
    published: usize,
    /// Whether steps may have been begun of which nothing is known.
    is_incomplete: bool,
}

impl Own {
    /// The journal of this clone if it is the newest, else what was published.
    fn gather(
        repository: &crate::repository::Repository,
        files: &RunFiles,
        before: Option<&KnownPart>,
    ) -> Result<Self, Error> {
        let Some(before) = before else {
            // A journal whose part has no ref: that was deleted, and what the journal tells was done. Another worker may have done more.
            let found = files.read()?.unwrap_or_default();
            return Ok(Self {
                is_incomplete: !found.entries.is_empty(),
                journal: found.id,
                entries: found.entries,
                published: 0,
            });
        };
        let shared = progress(repository, before.commit, &[], false)?.entries;
        let published = shared.len();
        let mark = Some(&before.status.journal);
        let found = files.read()?.unwrap_or_default();
        let is_newest = found.is_of(mark) && found.damage.is_none() && !found.is_shorter_than(mark);
        let is_whole = !before.status.state.is_open();
        Ok(match is_newest && found.entries.len() >= published {
            true => Self {
                is_incomplete: found.incomplete,
                journal: found.id,
                entries: found.entries,
                published,
            },
            false => Self {
                journal: found.id,
                entries: shared,
                published,
                is_incomplete: !is_whole,
            },
        })
    }
}
