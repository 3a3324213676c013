//! This process as it works on a site: where, for whom, and by which clock.

use super::error::{self, Error};
use super::files::RunFiles;
use super::site_repository::SiteRepository;
use super::time::{Timekeeper, rfc3339};
use crate::design::RunId;
use crate::record::{Packed, Requested};
use crate::repository::{CommitId, Holder, Lock, NewLock, Signature};

/// How often the attempt at a lock is retried that was released while its holder was judged.
const TRIES: usize = 3;

/// The user of trueup, by git's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committer {
    /// The person or account.
    pub name: String,
    /// Mail address.
    pub email: String,
    /// Random, fresh in every process: run ids and nonces are made of it.
    pub random: u128,
}

impl Committer {
    /// As the author of a commit at a time.
    #[must_use]
    pub fn at(&self, seconds: i64) -> Signature {
        Signature {
            name: self.name.clone(),
            email: self.email.clone(),
            seconds,
        }
    }

    /// This process as the holder of the lock for a run.
    pub(super) fn holder(&self, run: &RunId, seconds: i64) -> Holder {
        Holder::this_process(&self.name, run.as_str(), &rfc3339(seconds))
    }
}

/// This process as it works on a site.
#[derive(Clone, Copy)]
pub struct Process<'a> {
    /// The site in its repository.
    pub site: &'a SiteRepository<'a>,
    /// The user.
    pub actor: &'a Committer,
    /// Its clock.
    pub time: &'a dyn Timekeeper,
    /// The request to a service that it works for.
    pub requested: Option<&'a Requested>,
}

impl<'a> Process<'a> {
    /// A process that works on a site, for an actor, by a clock.
    pub fn new(
        site: &'a SiteRepository<'a>,
        actor: &'a Committer,
        time: &'a dyn Timekeeper,
    ) -> Self {
        Self {
            site,
            actor,
            time,
            requested: None,
        }
    }

    /// The same, for a request to a service, which the record of its run names.
    #[must_use]
    pub fn requested(self, request: &'a Requested) -> Self {
        Self {
            requested: Some(request),
            ..self
        }
    }

    /// The signature of a commit made now.
    pub(super) fn signature(&self) -> Signature {
        self.actor.at(self.time.seconds())
    }

    /// This process as the holder of the lock for a run.
    pub(super) fn holder(&self, run: &RunId) -> Holder {
        self.actor.holder(run, self.time.seconds())
    }

    /// Takes the lock, in place of an observed one where `seen` is given.
    pub(super) fn take(
        &self,
        seen: Option<CommitId>,
        run: &RunId,
        plan: &Packed,
    ) -> Result<Held, Error> {
        self.take_as(seen, self.holder(run), plan.as_bytes())
    }

    /// Renews the lock, which is held since it was taken.
    pub(super) fn renew(&self, held: &Held, plan: &Packed) -> Result<Held, Error> {
        self.take_as(Some(held.lock.id), held.holder.clone(), plan.as_bytes())
    }

    /// Takes the lock if it is free, or if a dead process of this machine left it and `may_take_over` does not
    /// refuse that.
    pub(super) fn acquire(
        &self,
        run: &RunId,
        plan: &[u8],
        may_take_over: impl Fn() -> Result<(), Error>,
    ) -> Result<Held, Error> {
        let mut tries = 0;
        loop {
            let held = match self.take_as(None, self.holder(run), plan) {
                Err(error @ Error::LockHeld { .. }) => error,
                other => return other,
            };
            let lost = match self.site.lock()? {
                None => held,
                Some(left) if !self.is_dead(&left)? => return Err(self.site.held(left)),
                Some(left) => {
                    may_take_over()?;
                    match self.take_left(Some(left.id), self.holder(run), plan) {
                        Err(error) if error.is_lost_race() => error,
                        Err(error) => return Err(error),
                        Ok(held) => {
                            let gone = RunId::from(left.holder.run.as_str());
                            RunFiles::of(self.site.repository, &self.site.name, &gone)
                                .note_released(true);
                            return Ok(held);
                        }
                    }
                }
            };
            // Its process came to its end meanwhile, and released it.
            if tries == TRIES {
                return Err(lost);
            }
            tries += 1;
        }
    }

    /// Takes a lock that another process left, if it is still as it was observed.
    ///
    /// # Errors
    ///
    /// [`Error::LockHeld`] if another process was faster; [`Error::is_lost_race`] if it is free by now.
    pub(super) fn take_left(
        &self,
        seen: Option<CommitId>,
        holder: Holder,
        plan: &[u8],
    ) -> Result<Held, Error> {
        match self.take_as(seen, holder, plan) {
            Err(error) if error.is_lost_race() => Err(match self.site.lock()? {
                Some(lock) => self.site.held(lock),
                None => error,
            }),
            other => other,
        }
    }

    /// Takes the lock for a holder.
    pub(super) fn take_as(
        &self,
        seen: Option<CommitId>,
        holder: Holder,
        plan: &[u8],
    ) -> Result<Held, Error> {
        let site = self.site;
        let asked = self.time.monotonic();
        let nonce = format!(
            "{:032x}-{}-{}-{}",
            self.actor.random,
            holder.run,
            asked.as_nanos(),
            seen.map(|seen| seen.to_string()).unwrap_or_default()
        );
        let new = NewLock {
            site: site.name.as_str(),
            holder: &holder,
            plan,
            nonce: &nonce,
            author: self.signature(),
        };
        let remote = site.remote()?;
        let lock = match seen {
            Some(seen) => site.repository.move_lock(seen, &new, remote),
            None => site.repository.acquire_lock(&new, remote),
        };
        let lock = lock.map_err(error::repository(&site.name, "take the lock"))?;
        log::info!(
            "the lock of `{}` is held for run {}",
            site.name,
            lock.holder.run
        );
        Ok(Held {
            lock,
            holder,
            renewed: asked,
        })
    }

    /// Whether a lock is that of a process that is certainly gone, so that it can be taken over at once. Not
    /// where its run has ended in another clone, which alone has its records.
    pub(super) fn is_dead(&self, lock: &Lock) -> Result<bool, Error> {
        let me = self.holder(&RunId::from(lock.holder.run.as_str()));
        if !lock.holder.is_gone(&me) {
            return Ok(false);
        }
        Ok(!lock.holder.ended || self.site.is_of_this_clone(lock)?)
    }
}

/// A lock that this process holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) lock: Lock,
    pub(super) holder: Holder,
    /// When it was last renewed, by the monotonic clock, before the remote was asked.
    pub(super) renewed: std::time::Duration,
}
