//! The refs of the parts of a run, if all workers reach them: at the remote, or in this repository if it has no remote.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shared_push::{Answer, Leader, SharedPushes};
use crate::design::RunId;
use crate::diagnostic::chain;
use crate::repository::{self, CommitId, PushOutcome, RefUpdate};
use crate::run::error::{self, Error};
use crate::run::site_repository::SiteRepository;
use crate::run::time::Timekeeper;

/// How often the parts are fetched that move at that instant.
const TRIES: usize = 5;
/// The ref that each push of a worker moves, beside those of the parts; no part has this name.
const PUSHES: &str = "pushes";

/// The refs of the parts of a run.
#[derive(Clone, Copy)]
pub(in crate::run) struct PartRefs<'a> {
    pub(in crate::run) site: &'a SiteRepository<'a>,
    pub(in crate::run) run: &'a RunId,
}

/// The lock and the parts, as they are at one instant.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Listed {
    /// The commit of the lock.
    pub(in crate::run) lock: Option<CommitId>,
    /// The commit that the last push of a worker has published.
    pub(in crate::run) pushes: Option<CommitId>,
    pub(in crate::run) parts: BTreeMap<Arc<str>, CommitId>,
}

/// How a push in turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum InTurn {
    /// The part is published.
    Published,
    /// Another worker has pushed since the parts were listed: they have to be listed again.
    Missed,
    /// It was left to another worker of this host, and may have been sent or not.
    Unanswered {
        /// Whether that worker had more time than a push takes.
        is_late: bool,
    },
}

/// How a part is published.
#[derive(Clone, Copy)]
pub(in crate::run) enum Way<'a> {
    /// At once.
    OutOfTurn,
    /// Where no other worker has pushed since the parts were listed: so each push is made with all earlier ones known, and the
    /// pace of all workers can be observed. The leader of its host takes along what the others there wait for.
    InTurn(&'a Listed, Option<&'a Leader>),
    /// By the leader of this host.
    ByLeader(&'a SharedPushes, &'a dyn Timekeeper),
}

impl PartRefs<'_> {
    /// The folder of the refs if all workers reach them, with a slash at its end.
    fn folder(&self) -> Result<String, Error> {
        let place = &self.site.place;
        Ok(match self.site.remote()? {
            Some(_) => place.parts_at_remote(self.run),
            None => place.own_parts(self.run),
        })
    }

    fn failed(&self, attempt: &'static str) -> impl FnOnce(repository::Error) -> Error {
        error::repository(&self.site.name, attempt)
    }

    /// Asks for the lock and the parts, and fetches the parts that are not here: those that have moved meanwhile as they are
    /// then.
    pub(in crate::run) fn list(&self) -> Result<Listed, Error> {
        let mut listed = self.ask()?;
        for _ in 1..TRIES {
            let Err(error) = self.fetch(&mut listed) else {
                return Ok(listed);
            };
            // A part that was given back is gone.
            let now = self.ask()?;
            if now.parts == listed.parts {
                return Err(error);
            }
            listed = now;
        }
        self.fetch(&mut listed)?;
        Ok(listed)
    }

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
                continue;
            }
            match name.strip_prefix(&folder) {
                Some(PUSHES) => listed.pushes = Some(CommitId(id)),
                Some(part) => {
                    listed.parts.insert(Arc::from(part), CommitId(id));
                }
                None => {}
            }
        }
        Ok(listed)
    }

    fn fetch(&self, listed: &mut Listed) -> Result<(), Error> {
        let Some(remote) = self.site.remote()? else {
            return Ok(());
        };
        let (folder, copies) = (self.folder()?, self.copies()?);
        let repository = self.site.repository;
        let finding = "find the parts of the run";
        let mut wanted = BTreeMap::new();
        for (part, commit) in &listed.parts {
            if !repository.has(commit.0).map_err(self.failed(finding))? {
                let refs = (format!("{folder}{part}"), format!("{copies}{part}"));
                wanted.insert(part.clone(), refs);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let refs: Vec<(&str, &str)> = wanted
            .values()
            .map(|(there, here)| (there.as_str(), here.as_str()))
            .collect();
        remote
            .fetch(&refs)
            .map_err(self.failed("fetch the parts of the run"))?;
        for (part, (_, here)) in wanted {
            let fetched = repository.read_ref(&here).map_err(self.failed(finding))?;
            listed
                .parts
                .extend(fetched.map(|fetched| (part, CommitId(fetched))));
        }
        Ok(())
    }

    /// The folder of the copies of these refs in this clone.
    fn copies(&self) -> Result<String, Error> {
        let remote = self.site.remote()?.map_or("", |remote| remote.name());
        Ok(format!(
            "refs/trueup-remotes/{remote}/{}/run/{}/",
            self.site.name, self.run
        ))
    }

    /// The failure of a part whose ref is broken, with the way out.
    pub(in crate::run) fn broken(&self, part: &Arc<str>, error: Error) -> Result<Error, Error> {
        let Error::Broken { reason, .. } = error else {
            return Ok(error);
        };
        let name = format!("{}{part}", self.folder()?);
        Ok(Error::BrokenPart {
            run: self.run.clone(),
            part: part.clone(),
            deletes: match self.site.remote()? {
                Some(remote) => format!("git push {} --delete {name}", remote.name()),
                None => format!("git update-ref -d {name}"),
            },
            reason,
        })
    }

    /// The parts as this clone fetched them last.
    pub(in crate::run) fn list_copies(&self) -> Result<BTreeMap<Arc<str>, CommitId>, Error> {
        if self.site.remote()?.is_none() {
            return Ok(BTreeMap::new());
        }
        let copies = self.copies()?;
        let found = self.site.repository.refs(&copies);
        let found = found.map_err(self.failed("find the parts of the run"))?;
        let parts = found.into_iter().filter_map(|(name, id)| {
            let part = name.strip_prefix(&copies)?;
            Some((Arc::from(part), CommitId(id)))
        });
        Ok(parts.collect())
    }

    /// Moves the ref of a part, if it still has the value that was observed.
    ///
    /// # Errors
    ///
    /// [`Error::Repository`] with [`repository::Error::RefMoved`] if it has another one.
    pub(in crate::run) fn replace(
        &self,
        part: &str,
        seen: Option<CommitId>,
        new: CommitId,
    ) -> Result<(), Error> {
        self.publish(part, seen, new, Way::OutOfTurn).map(drop)
    }

    /// Publishes a part in some way, if its ref still has the value that was observed.
    ///
    /// # Errors
    ///
    /// Those of [`PartRefs::replace`].
    pub(in crate::run) fn publish(
        &self,
        part: &str,
        seen: Option<CommitId>,
        new: CommitId,
        way: Way<'_>,
    ) -> Result<InTurn, Error> {
        let attempt = "publish the progress of the part";
        let folder = self.folder()?;
        let update = |name: &str, old: Option<CommitId>| RefUpdate {
            name: format!("{folder}{name}"),
            old: old.map(|old| old.0),
            new: Some(new.0),
        };
        let own = update(part, seen);
        let Some(remote) = self.site.remote()? else {
            let moved = self.site.repository.update_ref(&own.name, own.old, new.0);
            return moved
                .map(|()| InTurn::Published)
                .map_err(self.failed(attempt));
        };
        let moved = |name, expected, found| Error::Repository {
            attempt,
            source: repository::Error::RefMoved {
                name,
                expected,
                found,
            },
        };
        let (turn, mut waiting) = match way {
            Way::OutOfTurn => (None, Vec::new()),
            Way::InTurn(listed, leader) => {
                let turn = update(PUSHES, listed.pushes);
                let names = [turn.name.as_str(), &own.name];
                let waiting = leader.map(|leader| leader.waiting(&folder, &names));
                (Some(turn), waiting.unwrap_or_default())
            }
            Way::ByLeader(shared, time) => {
                return match shared.ask(&own, time) {
                    Answer::Published => Ok(InTurn::Published),
                    Answer::Moved => Err(moved(own.name, own.old, None)),
                    Answer::None => Ok(InTurn::Unanswered { is_late: false }),
                    Answer::Late => Ok(InTurn::Unanswered { is_late: true }),
                };
            }
        };
        loop {
            // First the one that may only be missed: a remote may take refs one by one.
            let others = waiting.iter().map(|one| &one.update);
            let updates: Vec<RefUpdate> =
                turn.iter().chain([&own]).chain(others).cloned().collect();
            let objects = waiting.iter().map(|one| one.objects.as_str());
            match remote.with_objects_of(objects).push(&updates) {
                Ok(PushOutcome::Published) => {
                    waiting.into_iter().for_each(|one| one.answer(true));
                    return Ok(InTurn::Published);
                }
                Ok(PushOutcome::LostRace { name, .. })
                    if turn.as_ref().is_some_and(|turn| turn.name == name) =>
                {
                    return Ok(InTurn::Missed);
                }
                Ok(PushOutcome::LostRace {
                    name,
                    expected,
                    found,
                }) => match waiting.iter().position(|one| one.update.name == name) {
                    Some(at) => waiting.swap_remove(at).answer(false),
                    None => return Err(moved(name, expected, found)),
                },
                // What is refused of another worker must not stop this one.
                Err(error) if waiting.is_empty() => return Err(self.failed(attempt)(error)),
                Err(_) => waiting.clear(),
            }
        }
    }

    /// Gives a part back that was taken and in which nothing was done. If that fails, the next worker waits longer.
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
        let listed = self.list()?;
        let pushes = listed.pushes.map(|pushes| (Arc::from(PUSHES), pushes));
        let all = listed.parts.into_iter().chain(pushes);
        let removed = all.map(|(name, commit)| RefUpdate {
            name: format!("{folder}{name}"),
            old: Some(commit.0),
            new: None,
        });
        Ok(removed.collect())
    }

    /// Removes what this clone has of the refs of the run, after its end. What stays is of no consequence.
    pub(in crate::run) fn forget(&self) {
        if let Some(shared) = SharedPushes::of(self.site, self.run) {
            shared.forget();
        }
        let own = self.site.place.own_parts(self.run);
        for folder in [self.copies(), Ok(own)].into_iter().flatten() {
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
