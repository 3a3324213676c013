//! A site in its repository: its records, its lock, and the remote that shares them.

use std::sync::Arc;

use super::error::{self, Error};
use super::files::RunFiles;
use crate::design::{RunId, SiteName};
use crate::diagnostic::chain;
use crate::record::{ExchangeOutcome, NotReady, Place, Signing, State, Store};
use crate::repository::{
    self, CommitId, Lock, PushOutcome, REMOTE_COPIES, RefUpdate, Remote, Repository,
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

/// A site in its repository.
#[derive(Clone, Debug)]
pub struct SiteRepository<'a> {
    /// Its repository.
    pub repository: &'a Repository,
    /// Its name.
    pub name: SiteName,
    /// How it is shared.
    pub connection: Connection<'a>,
    /// Where its records are at the remote.
    pub place: Place,
    /// Signs its records; `None`: they are only read.
    pub signing: Option<Arc<dyn Signing + 'a>>,
}

impl<'a> SiteRepository<'a> {
    /// Its records.
    ///
    /// # Errors
    ///
    /// Those of [`Store::at`].
    pub fn store(&self) -> Result<Store<'a>, Error> {
        let store = Store::at(self.repository, &self.name, self.place.clone());
        let store = store.map_err(error::records("open the records"))?;
        Ok(store.signed_by(self.signing.clone()))
    }

    /// Checks that a run on top of these records can be signed, and that the site takes them.
    pub(super) fn ready(&self, state: &State) -> Result<(), Error> {
        let ready = self
            .signing
            .as_ref()
            .map(|signing| signing.ready(state.tip));
        ready.unwrap_or(Ok(())).map_err(|why| self.not_ready(why))
    }

    /// Checks that the progress of a part of a run can be signed as the site demands it.
    pub(super) fn ready_for_progress(&self, state: &State) -> Result<(), Error> {
        self.ready(state)?;
        let signing = self.signing.as_ref().zip(state.tip);
        let touched =
            signing.filter(|(signing, tip)| signing.is_touched() && signing.vouches_for(*tip));
        touched.map_or(Ok(()), |_| {
            let why =
                "a worker signs without a person, and its key has to be touched for each signature";
            Err(self.untrusted(why.to_owned()))
        })
    }

    pub(super) fn not_ready(&self, why: NotReady) -> Error {
        match why {
            NotReady::NoSignature(why) => Error::NotSigned { why },
            NotReady::Refused(why) => self.untrusted(why),
        }
    }

    /// Checks that the site takes these records.
    pub(super) fn check_trust(&self, state: &State) -> Result<(), Error> {
        let signing = self.signing.as_ref().zip(state.tip);
        match signing.and_then(|(signing, tip)| signing.refusal(tip, tip)) {
            Some(why) => Err(self.untrusted(why)),
            None => Ok(()),
        }
    }

    /// Whether the site demands signed runs, and its newest records are signed so.
    ///
    /// # Errors
    ///
    /// The records cannot be read.
    pub fn has_vouched_records(&self) -> Result<bool, Error> {
        let state = self.store()?.read();
        let tip = state.map_err(error::records("read the records"))?.tip;
        let signing = self.signing.as_ref().zip(tip);
        Ok(signing.is_some_and(|(signing, tip)| signing.vouches_for(tip)))
    }

    fn untrusted(&self, why: String) -> Error {
        Error::Untrusted {
            site: self.name.clone(),
            why,
        }
    }

    /// The remote that has the lock; an error if it must not be asked.
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
    pub(super) fn records(&self, store: &Store<'_>) -> Result<Records, Error> {
        let exchange = match self.remote()? {
            Some(remote) => Some(
                store
                    .follow(remote)
                    .map_err(error::records("follow the records of the remote"))?,
            ),
            None => None,
        };
        let state = store.read().map_err(error::records("read the records"))?;
        let remote_tip = exchange.as_ref().and_then(|exchange| exchange.remote_tip);
        let set_aside = exchange.and_then(|exchange| match exchange.standing {
            ExchangeOutcome::SetAside { run, kept } => Some(SetAside { run, kept }),
            _ => None,
        });
        Ok(Records {
            state,
            remote_tip,
            set_aside,
        })
    }

    /// Whether there is a remote, and it must not be asked.
    pub(super) fn is_offline(&self) -> bool {
        matches!(self.connection, Connection::Offline)
    }

    /// The lock as it counts: the remote's if there is one.
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

    /// Whether a lock was last taken in this clone.
    pub(super) fn is_of_this_clone(&self, lock: &Lock) -> Result<bool, Error> {
        let here = self
            .repository
            .read_lock(self.name.as_str())
            .map_err(error::repository(&self.name, "read the lock"))?;
        Ok(here.is_some_and(|here| here.id == lock.id))
    }

    /// The error for a lock that may not be taken.
    pub(super) fn held(&self, lock: Lock) -> Error {
        match lock.holder.ended {
            true => Error::EndedElsewhere {
                site: self.name.clone(),
                holder: Box::new(lock.holder),
            },
            false => Error::LockHeld {
                site: self.name.clone(),
                holder: Box::new(lock.holder),
            },
        }
    }

    /// Gives the lock of a run back whose process has certainly stopped, and notes that, so that nothing waits for the last
    /// request of that process where the run did not come to its end.
    pub(super) fn release(&self, lock: &Lock) -> Result<(), Error> {
        let run = RunId::from(lock.holder.run.as_str());
        let files = RunFiles::of(self.repository, &self.name, &run);
        if files.exists() {
            files.note_released(true);
        }
        self.delete_lock(lock.id)
    }

    /// Deletes the lock, whatever its process does.
    pub(super) fn delete_lock(&self, lock: CommitId) -> Result<(), Error> {
        self.repository
            .release_lock(self.name.as_str(), lock, self.remote()?)
            .map_err(error::repository(&self.name, "release the lock"))
    }

    /// Publishes refs to the audience, all or none.
    pub(super) fn push(&self, updates: &[RefUpdate]) -> Result<PushOutcome, Error> {
        let Some(remote) = self.audience() else {
            return Ok(PushOutcome::Published);
        };
        let marker = self
            .store()?
            .marker_beside(updates)
            .map_err(error::records("mark where the records are"))?;
        let updates: Vec<RefUpdate> = updates.iter().cloned().chain(marker).collect();
        let pushed = remote
            .push(&updates)
            .map_err(error::repository(&self.name, "publish the records"))?;
        if pushed == PushOutcome::Published
            && let Err(error) = self.remember(remote, &updates)
        {
            // They are published whatever becomes of the copy.
            log::warn!(
                "no copy of the published records is kept: {}",
                chain(&error)
            );
        }
        Ok(pushed)
    }

    /// Keeps a copy of the first records that this clone publishes, as if they were fetched: it tells of their remote also if that
    /// is removed from git's configuration.
    fn remember(
        &self,
        remote: &Remote<'_>,
        updates: &[RefUpdate],
    ) -> Result<(), repository::Error> {
        let mut states = updates
            .iter()
            .filter(|update| update.name.ends_with("/state"));
        let Some(tip) = states.find_map(|update| update.new) else {
            return Ok(());
        };
        let copy = format!("{REMOTE_COPIES}/{}/{}/state", remote.name(), self.name);
        if self.repository.read_ref(&copy)?.is_some() {
            return Ok(());
        }
        match self.repository.update_ref(&copy, None, tip) {
            // Another process has written it.
            Err(repository::Error::RefMoved { .. }) => Ok(()),
            written => written,
        }
    }
}

/// The records as they were found.
pub(super) struct Records {
    pub(super) state: State,
    /// The remote's tip.
    pub(super) remote_tip: Option<CommitId>,
    /// Records of this clone that were set aside.
    pub(super) set_aside: Option<SetAside>,
}

/// Records of this clone that the remote does not know, and has newer runs than.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The newest run in them.
    pub run: RunId,
    /// The ref that keeps them.
    pub kept: String,
}
