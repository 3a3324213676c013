//! The lock of a site: one ref that only one run can have.
//!
//! The lock is a commit without parents, with a nonce, so that no two are alike. Its tree holds its
//! holder and run, and carries the run's plan, so that another clone can see which steps
//! may have begun. If there is a remote, it is taken by a push that only succeeds if the remote
//! has none: the remote decides, and `<prefix>/<site>/lock` here is a cache of its ref, which holds
//! the last lock of this clone. Whatever an earlier process left in it is replaced. Without a
//! remote the ref here is the lock.

use std::collections::BTreeMap;

use super::remote::{PushOutcome, RefUpdate, Remote};
use super::{CommitId, Error, Holder, NewCommit, ObjectId, Repository, Signature};

const HOLDER: &str = "holder.json";
const PLAN: &str = "plan";

/// How often the attempt at a lock is retried that was released while it was asked who holds it.
const TRIES: usize = 3;

/// A lock that is to be taken or renewed.
#[derive(Clone, Debug)]
pub struct NewLock<'a> {
    /// The site.
    pub site: &'a str,
    /// This process.
    pub holder: &'a Holder,
    /// The plan of the run, as the caller writes it.
    pub plan: &'a [u8],
    /// Random; must differ with every call.
    pub nonce: &'a str,
    /// Author and time.
    pub author: Signature,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its commit: the value of the ref.
    pub id: CommitId,
    /// When it was taken or last renewed, in seconds since 1970 on its holder's clock.
    pub renewed: i64,
    /// By whom it is held.
    pub holder: Holder,
}

impl Repository {
    /// Takes the lock of a site.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if it is held. [`Error::Unreachable`] if the remote could not be asked:
    /// should the lock have arrived there all the same, it names this run, which can release it.
    pub fn acquire_lock(
        &self,
        new: &NewLock<'_>,
        remote: Option<&Remote<'_>>,
    ) -> Result<Lock, Error> {
        let name = self.lock_name(new.site)?;
        let lock = self.write_lock(new)?;
        let mut tries = 0;
        loop {
            let lost = match remote {
                Some(remote) => publish(remote, &name, None, Some(lock.id.0)),
                None => self.update_ref(&name, None, lock.id.0),
            };
            let moved = match lost {
                Ok(()) if remote.is_some() => {
                    self.set_ref(&name, lock.id.0)?;
                    return Ok(lock);
                }
                Ok(()) => return Ok(lock),
                Err(error @ Error::RefMoved { .. }) => error,
                Err(error) => return Err(error),
            };
            let held = match remote {
                Some(remote) => self.read_remote_lock(new.site, remote)?,
                None => self.read_lock(new.site)?,
            };
            match held {
                Some(held) => return Err(locked(new.site, held)),
                // It was released between the two.
                None if tries < TRIES => tries += 1,
                None => return Err(moved),
            }
        }
    }

    /// Replaces an observed lock by a new one: to renew one's own, or to take over another's.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] if the lock has moved since: it is not this process's (any more).
    pub fn move_lock(
        &self,
        seen: CommitId,
        new: &NewLock<'_>,
        remote: Option<&Remote<'_>>,
    ) -> Result<Lock, Error> {
        let name = self.lock_name(new.site)?;
        let lock = self.write_lock(new)?;
        match remote {
            Some(remote) => {
                publish(remote, &name, Some(seen), Some(lock.id.0))?;
                self.set_ref(&name, lock.id.0)?;
            }
            None => self.update_ref(&name, Some(seen.0), lock.id.0)?,
        }
        Ok(lock)
    }

    /// Releases an observed lock. One that is gone already is released.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] if the lock has moved since.
    pub fn release_lock(
        &self,
        site: &str,
        seen: CommitId,
        remote: Option<&Remote<'_>>,
    ) -> Result<(), Error> {
        let name = self.lock_name(site)?;
        if let Some(remote) = remote {
            publish(remote, &name, Some(seen), None)?;
            return self.forget_lock(site, seen);
        }
        match self.delete_ref(&name, seen.0) {
            Err(Error::RefMoved { found: None, .. }) => Ok(()),
            other => other,
        }
    }

    /// Forgets what this clone has of the lock of a site, if it is that one.
    ///
    /// # Errors
    ///
    /// The ref cannot be written.
    pub fn forget_lock(&self, site: &str, id: CommitId) -> Result<(), Error> {
        match self.delete_ref(&self.lock_name(site)?, id.0) {
            Err(Error::RefMoved { .. }) => Ok(()),
            other => other,
        }
    }

    /// The lock of a site in this clone.
    ///
    /// # Errors
    ///
    /// The ref cannot be read, or is no lock.
    pub fn read_lock(&self, site: &str) -> Result<Option<Lock>, Error> {
        match self.read_ref(&self.lock_name(site)?)? {
            Some(id) => self.lock_at(CommitId(id)).map(Some),
            None => Ok(None),
        }
    }

    /// The lock of a site at the remote.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or its ref is no lock.
    pub fn read_remote_lock(&self, site: &str, remote: &Remote<'_>) -> Result<Option<Lock>, Error> {
        let name = self.lock_name(site)?;
        let here = format!("refs/trueup-remotes/{}/{site}/lock", remote.name());
        // It may be released between the question and the fetch: then the question is asked again.
        for attempt in 0..3 {
            let Some(id) = remote.ls_remote(&[&name])?.get(&name).copied() else {
                return Ok(None);
            };
            if !self.has(id)? {
                match remote.fetch(&[(&name, &here)]) {
                    Err(Error::Unreachable { .. }) if attempt < 2 => continue,
                    other => other?,
                }
            }
            if self.has(id)? {
                return self.lock_at(CommitId(id)).map(Some);
            }
        }
        Ok(None)
    }

    /// The plan that a lock carries.
    ///
    /// # Errors
    ///
    /// It carries none, or cannot be read.
    pub fn lock_plan(&self, lock: &Lock) -> Result<Vec<u8>, Error> {
        self.file_at(lock.id, PLAN)?.ok_or_else(|| Error::Broken {
            what: format!("lock {}", lock.id),
            reason: "it carries no plan".to_owned(),
        })
    }

    /// The ref of the lock of a site.
    fn lock_name(&self, site: &str) -> Result<String, Error> {
        Ok(format!("{}/{site}/lock", self.ref_prefix()?))
    }

    fn write_lock(&self, new: &NewLock<'_>) -> Result<Lock, Error> {
        let holder = serde_json::to_vec_pretty(new.holder).map_err(|error| Error::Broken {
            what: "the holder of a lock".to_owned(),
            reason: error.to_string(),
        })?;
        let changes = BTreeMap::from([
            (HOLDER.to_owned(), Some(holder)),
            (PLAN.to_owned(), Some(new.plan.to_vec())),
        ]);
        let message = format!(
            "lock of {} for run {}\n\n{}",
            new.site, new.holder.run, new.nonce
        );
        let id = self.write_commit(&NewCommit {
            base: None,
            parents: Vec::new(),
            changes,
            deflated: BTreeMap::new(),
            author: new.author.clone(),
            message,
        })?;
        Ok(Lock {
            id,
            renewed: new.author.seconds,
            holder: new.holder.clone(),
        })
    }

    fn lock_at(&self, id: CommitId) -> Result<Lock, Error> {
        let broken = |reason: String| Error::BrokenLock { id, reason };
        let holder = self
            .file_at(id, HOLDER)?
            .ok_or_else(|| broken("it names no holder".to_owned()))?;
        let holder: Holder =
            serde_json::from_slice(&holder).map_err(|error| broken(error.to_string()))?;
        Ok(Lock {
            id,
            renewed: self.summary(id)?.seconds,
            holder: holder.printable(),
        })
    }
}

fn publish(
    remote: &Remote<'_>,
    name: &str,
    seen: Option<CommitId>,
    new: Option<ObjectId>,
) -> Result<(), Error> {
    let update = RefUpdate {
        name: name.to_owned(),
        old: seen.map(|seen| seen.0),
        new,
    };
    match remote.push(&[update])? {
        PushOutcome::Published => Ok(()),
        PushOutcome::LostRace {
            name,
            expected,
            found,
        } => Err(Error::RefMoved {
            name,
            expected,
            found,
        }),
    }
}

fn locked(site: &str, held: Lock) -> Error {
    Error::Locked {
        site: site.to_owned(),
        holder: Box::new(held.holder),
    }
}
