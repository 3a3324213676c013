//! The refs of the parts of a run, where all workers reach them: at the remote, or in this repository if it has no remote.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::design::RunId;
use crate::diagnostic::chain;
use crate::repository::{self, CommitId, PushOutcome, RefUpdate};
use crate::run::error::{self, Error};
use crate::run::site_repository::SiteRepository;

/// How often parts are asked for that are published or removed while they are fetched.
const ATTEMPTS: usize = 8;

/// The refs of the parts of a run.
#[derive(Clone, Copy)]
pub(in crate::run) struct PartRefs<'a> {
    pub(in crate::run) site: &'a SiteRepository<'a>,
    pub(in crate::run) run: &'a RunId,
}

/// The lock and the parts, as they are at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct Listed {
    /// The commit of the lock.
    pub(in crate::run) lock: Option<CommitId>,
    pub(in crate::run) parts: BTreeMap<Arc<str>, CommitId>,
}

impl PartRefs<'_> {
    /// The folder of the refs, with a slash at its end.
    fn folder(&self) -> Result<String, Error> {
        let prefix = self.site.repository.ref_prefix();
        let prefix = prefix.map_err(self.failed("find the parts of the run"))?;
        Ok(format!("{prefix}/{}/run/{}/", self.site.name, self.run))
    }

    fn failed(&self, attempt: &'static str) -> impl FnOnce(repository::Error) -> Error {
        error::repository(&self.site.name, attempt)
    }

    /// Asks for the lock and the parts, and fetches the parts that are not here. A part that is published meanwhile, or is
    /// removed, is asked for again: its commit has no parents, so that the one that was listed does not come with the new one.
    pub(in crate::run) fn list(&self) -> Result<Listed, Error> {
        let mut listed = self.ask()?;
        for _ in 0..ATTEMPTS {
            let fetched = self.fetch(&listed);
            if fetched.is_ok() && self.missing(&listed)?.is_empty() {
                return Ok(listed);
            }
            let now = self.ask()?;
            if now == listed {
                fetched?;
            }
            listed = now;
        }
        Err(Error::Moving {
            site: self.site.name.clone(),
            name: format!("run/{}", self.run),
        })
    }

    /// Asks for the lock and the parts.
    fn ask(&self) -> Result<Listed, Error> {
        let (folder, lock) = (self.folder()?, self.site.lock_ref()?);
        let repository = self.site.repository;
        let refs = match self.site.remote()? {
            Some(remote) => {
                let asked = [lock.as_str(), &format!("{folder}*")];
                remote
                    .ls_remote(&asked)
                    .map_err(self.failed("ask for the parts of the run"))?
            }
            None => {
                let listing = "list the parts of the run";
                let mut refs = repository.refs(&folder).map_err(self.failed(listing))?;
                let held = repository.read_ref(&lock).map_err(self.failed(listing))?;
                refs.extend(held.map(|held| (lock.clone(), held)));
                refs
            }
        };
        let mut listed = Listed::default();
        for (name, id) in refs {
            if name == lock {
                listed.lock = Some(CommitId(id));
            } else if let Some(part) = name.strip_prefix(&folder) {
                listed.parts.insert(Arc::from(part), CommitId(id));
            }
        }
        Ok(listed)
    }

    /// The parts that are not here.
    fn missing<'l>(&self, listed: &'l Listed) -> Result<Vec<&'l str>, Error> {
        let mut missing = Vec::new();
        for (part, commit) in &listed.parts {
            let has = self.site.repository.has(commit.0);
            if !has.map_err(self.failed("find the parts of the run"))? {
                missing.push(&**part);
            }
        }
        Ok(missing)
    }

    /// Fetches the parts that are not here.
    fn fetch(&self, listed: &Listed) -> Result<(), Error> {
        let Some(remote) = self.site.remote()? else {
            return Ok(());
        };
        let missing = self.missing(listed)?;
        if missing.is_empty() {
            return Ok(());
        }
        let (folder, here) = (self.folder()?, self.copies()?);
        let wanted = missing.into_iter();
        let wanted: Vec<(String, String)> = wanted
            .map(|part| (format!("{folder}{part}"), format!("{here}{part}")))
            .collect();
        let wanted: Vec<(&str, &str)> = wanted
            .iter()
            .map(|(there, here)| (there.as_str(), here.as_str()))
            .collect();
        remote
            .fetch(&wanted)
            .map_err(self.failed("fetch the parts of the run"))
    }

    /// The folder of the copies of these refs in this clone.
    fn copies(&self) -> Result<String, Error> {
        let remote = self.site.remote()?.map_or("", |remote| remote.name());
        Ok(format!(
            "refs/trueup-remotes/{remote}/{}/run/{}/",
            self.site.name, self.run
        ))
    }

    /// Moves the ref of a part, where it still has the value that was observed.
    ///
    /// # Errors
    ///
    /// [`Error::Repository`] with [`repository::Error::RefMoved`] where it has another one.
    pub(in crate::run) fn replace(
        &self,
        part: &str,
        seen: Option<CommitId>,
        new: CommitId,
    ) -> Result<(), Error> {
        let attempt = "publish the progress of the part";
        let name = format!("{}{part}", self.folder()?);
        let repository = self.site.repository;
        let Some(remote) = self.site.remote()? else {
            let moved = repository.update_ref(&name, seen.map(|seen| seen.0), new.0);
            return moved.map_err(self.failed(attempt));
        };
        let update = RefUpdate {
            name,
            old: seen.map(|seen| seen.0),
            new: Some(new.0),
        };
        match remote.push(&[update]).map_err(self.failed(attempt))? {
            PushOutcome::Published => Ok(()),
            PushOutcome::LostRace {
                name,
                expected,
                found,
            } => Err(Error::Repository {
                attempt,
                source: repository::Error::RefMoved {
                    name,
                    expected,
                    found,
                },
            }),
        }
    }

    /// Gives a part back that was taken and in which nothing was done. Where that fails, the next worker waits longer.
    pub(in crate::run) fn give_back(&self, part: &str, own: CommitId, before: Option<CommitId>) {
        let given = match before {
            Some(before) => self.replace(part, Some(own), before),
            None => self.remove(part, own),
        };
        if let Err(error) = given {
            log::info!("part `{part}` is not given back: {}", chain(&error));
        }
    }

    fn remove(&self, part: &str, own: CommitId) -> Result<(), Error> {
        let attempt = "remove the part";
        let name = format!("{}{part}", self.folder()?);
        let Some(remote) = self.site.remote()? else {
            let removed = self.site.repository.delete_ref(&name, own.0);
            return removed.map_err(self.failed(attempt));
        };
        let update = RefUpdate {
            name,
            old: Some(own.0),
            new: None,
        };
        remote.push(&[update]).map_err(self.failed(attempt))?;
        Ok(())
    }

    /// The updates that remove the refs of the run at the remote.
    pub(in crate::run) fn removal(&self) -> Result<Vec<RefUpdate>, Error> {
        let folder = self.folder()?;
        let parts = self.list()?.parts.into_iter();
        let removed = parts.map(|(part, commit)| RefUpdate {
            name: format!("{folder}{part}"),
            old: Some(commit.0),
            new: None,
        });
        Ok(removed.collect())
    }

    /// Removes what this clone has of the refs of the run, after its end. What stays is of no consequence.
    pub(in crate::run) fn forget(&self) {
        for folder in [self.copies(), self.folder()].into_iter().flatten() {
            let Ok(refs) = self.site.repository.refs(&folder) else {
                continue;
            };
            for (name, id) in refs {
                if let Err(error) = self.site.repository.delete_ref(&name, id) {
                    log::info!("`{name}` is left: {error}");
                }
            }
        }
    }
}

/// Whether a ref has another value than the one that was observed.
pub(in crate::run) fn is_moved(error: &Error) -> bool {
    matches!(
        error,
        Error::Repository {
            source: repository::Error::RefMoved { .. },
            ..
        }
    )
}
