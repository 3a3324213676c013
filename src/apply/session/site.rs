//! Where a run takes place: the repository, the site, its remote and its lock.

use super::error::{self, Error};
use super::time::{Timekeeper, rfc3339};
use crate::design::{RunId, SiteName};
use crate::record::{Exchange, Packed, State, Store};
use crate::repository::{
    CommitId, Holder, Lock, NewLock, PushOutcome, RefUpdate, Remote, Repository, Signature,
};

/// How a run is connected to the site's other clones.
#[derive(Clone, Debug)]
pub enum Connection<'a> {
    /// The repository has no remote.
    Alone,
    /// Lock and records are shared through this remote.
    Shared {
        /// The remote.
        remote: Remote<'a>,
        /// Whether records and tags are published (`--no-push` leaves it); the lock always is.
        publish: bool,
    },
    /// There is a remote, and it must not be asked (`--offline`): nothing can be applied.
    Offline,
}

/// The site of a run.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// Its repository.
    pub repository: &'a Repository,
    /// Its name.
    pub name: SiteName,
    /// How it is shared.
    pub connection: Connection<'a>,
}

/// Who runs trueup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The person or account.
    pub name: String,
    /// Mail address.
    pub email: String,
    /// Random, fresh in every process: run ids and nonces are made of it.
    pub random: u128,
}

impl Actor {
    /// The actor at a time.
    pub(super) fn at(&self, seconds: i64) -> Signature {
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

impl<'a> Site<'a> {
    pub(super) fn store(&self) -> Result<Store<'a>, Error> {
        Store::open(self.repository, &self.name).map_err(error::records("open the records"))
    }

    /// The remote that has the lock; an error where it must not be asked.
    pub(super) fn remote(&self) -> Result<Option<&Remote<'a>>, Error> {
        match &self.connection {
            Connection::Alone => Ok(None),
            Connection::Shared { remote, .. } => Ok(Some(remote)),
            Connection::Offline => Err(Error::Offline {
                site: self.name.clone(),
            }),
        }
    }

    /// The remote that records and tags are published to.
    pub(super) fn audience(&self) -> Option<&Remote<'a>> {
        match &self.connection {
            Connection::Shared {
                remote,
                publish: true,
            } => Some(remote),
            Connection::Alone | Connection::Shared { .. } | Connection::Offline => None,
        }
    }

    /// The newest records, and what the remote has of them.
    pub(super) fn records(&self, store: &Store<'_>) -> Result<(State, Option<CommitId>), Error> {
        let exchange = match self.remote()? {
            Some(remote) => Some(
                store
                    .follow(remote)
                    .map_err(error::records("follow the records of the remote"))?,
            ),
            None => None,
        };
        let state = store.read().map_err(error::records("read the records"))?;
        let remote_tip = exchange.and_then(|Exchange { remote_tip, .. }| remote_tip);
        Ok((state, remote_tip))
    }

    /// The lock as it counts: the remote's where there is one.
    pub(super) fn lock(&self) -> Result<Option<Lock>, Error> {
        match self.remote()? {
            Some(remote) => self
                .repository
                .read_remote_lock(self.name.as_str(), remote)
                .map_err(error::repository(&self.name, "read the lock")),
            None => self
                .repository
                .read_lock(self.name.as_str())
                .map_err(error::repository(&self.name, "read the lock")),
        }
    }

    /// The name of the lock's ref.
    pub(super) fn lock_ref(&self) -> Result<String, Error> {
        let prefix = self
            .repository
            .ref_prefix()
            .map_err(error::repository(&self.name, "find the lock"))?;
        Ok(format!("{prefix}/{}/lock", self.name))
    }

    /// Takes the lock, in the place of one that was seen where `seen` says so.
    pub(super) fn take(
        &self,
        seen: Option<CommitId>,
        actor: &Actor,
        time: &dyn Timekeeper,
        run: &RunId,
        plan: &Packed,
    ) -> Result<Held, Error> {
        let seconds = time.seconds();
        let asked = time.monotonic();
        let holder = actor.holder(run, seconds);
        let nonce = format!("{:032x}-{run}-{}", actor.random, asked.as_nanos());
        let new = NewLock {
            site: self.name.as_str(),
            holder: &holder,
            plan: plan.as_bytes(),
            nonce: &nonce,
            author: actor.at(seconds),
        };
        let remote = self.remote()?;
        let lock = match seen {
            Some(seen) => self.repository.move_lock(seen, &new, remote),
            None => self.repository.acquire_lock(&new, remote),
        };
        let lock = lock.map_err(error::repository(&self.name, "take the lock"))?;
        log::info!("the lock of `{}` is held for run {run}", self.name);
        Ok(Held {
            lock,
            holder,
            renewed: asked,
        })
    }

    /// Gives the lock back.
    pub(super) fn release(&self, lock: &Lock) -> Result<(), Error> {
        self.repository
            .release_lock(self.name.as_str(), lock.id, self.remote()?)
            .map_err(error::repository(&self.name, "release the lock"))
    }

    /// Publishes refs to the audience, all or none. `Ok(false)`: somebody else was faster.
    pub(super) fn publish(&self, updates: &[RefUpdate]) -> Result<bool, Error> {
        let Some(remote) = self.audience() else {
            return Ok(true);
        };
        let outcome = remote
            .push(updates)
            .map_err(error::repository(&self.name, "publish the records"))?;
        Ok(outcome == PushOutcome::Published)
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
