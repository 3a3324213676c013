//! The end of a run at the remote: its state and the release of its lock in one push, and its tag with them.
//!
//! A run that has ended here and not at the remote keeps its lock, so that nobody takes it for one that never
//! happened. The next process in this clone publishes it before anything else ([`catch_up`]).

use std::sync::Arc;

use super::error::{self, Error};
use super::files::RunFiles;
use super::site_repository::{Actor, SiteRepository};
use super::tag;
use super::time::Timekeeper;
use crate::design::RunId;
use crate::diagnostic::chain;
use crate::record::{Checkpoint, Outcome, RunRecord, State, Store};
use crate::repository::{self, CommitId, PushOutcome, RefUpdate, Signature};

/// How far the end of a run is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// All of it, or there is nobody to publish it to.
    Whole,
    /// All but the tag, which the remote refuses: the state says that it is owed.
    TagOwed {
        /// The tag.
        tag: Arc<str>,
        /// What the remote says.
        why: String,
    },
    /// Nothing: state and tag are in this clone only, and the lock stays.
    Missing {
        /// Why.
        why: String,
    },
}

/// A run that has ended in this clone, and whose end the remote does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpublished {
    /// Which run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Outcome,
}

/// The end of a run that is to be published.
pub(super) struct End<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) state: &'a State,
    /// What the remote has of the state.
    pub(super) remote_tip: Option<CommitId>,
    /// The lock to be released.
    pub(super) lock: Option<CommitId>,
    pub(super) author: Signature,
}

impl SiteRepository<'_> {
    /// Publishes the end of a run: state, tag and the release of the lock, all or none of them; without the
    /// tag where the remote refuses that. Gives the state as it is then.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] where the lock or the records are another process's by now; the repository cannot
    /// be written.
    pub(super) fn publish_end(
        &self,
        store: &Store<'_>,
        end: &End<'_>,
    ) -> Result<(Publication, State), Error> {
        let tag = self.make_tag(end.run)?;
        if self.audience().is_none() {
            if let Some(lock) = end.lock {
                self.release(lock)?;
            }
            return Ok((Publication::Whole, end.state.clone()));
        }
        let lock = self.lock_ref()?;
        let release = end.lock.map(|id| RefUpdate {
            name: lock,
            old: Some(id.0),
            new: None,
        });
        let state = store.publication(end.state, end.remote_tip);
        let rest = || state.iter().chain(&release).cloned();
        let all: Vec<RefUpdate> = state.iter().chain(&tag).chain(&release).cloned().collect();
        let mut pushed = self.push(&all);
        if let (Ok(PushOutcome::LostRace { name, .. }), Some(tag)) = (&pushed, &tag)
            && *name == tag.name
        {
            // The tag of the run is there in other words: whoever made it keeps it.
            pushed = self.push(&rest().collect::<Vec<_>>());
        }
        let publication = match (pushed, &tag) {
            (Ok(PushOutcome::Published), _) => Publication::Whole,
            (Ok(PushOutcome::LostRace { .. }), _) => {
                return Err(Error::Fenced {
                    run: end.run.run.clone(),
                });
            }
            (Err(error), Some(_)) if is_refusal(&error) => {
                return self.publish_without_tag(store, end, release, &error);
            }
            (Err(error), _) => Publication::Missing { why: chain(&error) },
        };
        if publication == Publication::Whole {
            self.forget_lock(end.lock)?;
        }
        Ok((publication, end.state.clone()))
    }

    /// Publishes a state that says that the tag is owed, and the release of the lock.
    fn publish_without_tag(
        &self,
        store: &Store<'_>,
        end: &End<'_>,
        release: Option<RefUpdate>,
        refusal: &Error,
    ) -> Result<(Publication, State), Error> {
        let owing = RunRecord {
            tag_owed: true,
            ..end.run.clone()
        };
        let draft = store
            .draft(end.state, &Checkpoint::of_run(&owing, end.author.clone()))
            .map_err(error::records("write that the tag is owed"))?;
        let state = RefUpdate {
            name: store.state_ref().to_owned(),
            old: end.remote_tip.map(|tip| tip.0),
            new: Some(draft.tip.0),
        };
        let all: Vec<RefUpdate> = [state].into_iter().chain(release).collect();
        match self.push(&all) {
            Ok(PushOutcome::Published) => {
                let state = store
                    .advance(draft)
                    .map_err(error::records("write that the tag is owed"))?;
                self.forget_lock(end.lock)?;
                let owed = Publication::TagOwed {
                    tag: owing.tag.unwrap_or_default(),
                    why: chain(refusal),
                };
                Ok((owed, state))
            }
            Ok(PushOutcome::LostRace { .. }) => Err(Error::Fenced { run: owing.run }),
            Err(error) => {
                let why = chain(&error);
                Ok((Publication::Missing { why }, end.state.clone()))
            }
        }
    }

    /// Makes the tag of a run that names one, and says how it is published. A tag of that name that is here
    /// already stays as it is.
    pub(super) fn make_tag(&self, run: &RunRecord) -> Result<Option<RefUpdate>, Error> {
        let Some(tag) = tag::tag(run) else {
            return Ok(None);
        };
        let id = match self.repository.create_tag(&tag) {
            Err(repository::Error::RefMoved {
                found: Some(found), ..
            }) => found,
            made => made.map_err(error::repository(&self.name, "tag the commit"))?,
        };
        Ok(Some(RefUpdate {
            name: tag.ref_name(),
            old: None,
            new: Some(id),
        }))
    }

    fn forget_lock(&self, lock: Option<CommitId>) -> Result<(), Error> {
        let Some(lock) = lock else { return Ok(()) };
        self.repository
            .forget_lock(self.name.as_str(), lock)
            .map_err(error::repository(&self.name, "release the lock"))
    }
}

/// Whether the remote was reached, and does not take something.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Repository {
            source: repository::Error::Refused { .. },
            ..
        }
    )
}

/// The run that has ended in this clone and whose end was not published, by what is here alone.
///
/// # Errors
///
/// The lock or the records cannot be read.
pub fn unpublished(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
) -> Result<Option<Unpublished>, Error> {
    let found = left_over(site, actor, time)?;
    Ok(found.map(|left| Unpublished {
        run: left.run.run,
        outcome: left.run.outcome,
    }))
}

/// A lock that an earlier process of this clone has left, and its run, which has ended.
struct LeftOver {
    lock: CommitId,
    run: RunRecord,
}

fn left_over(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
) -> Result<Option<LeftOver>, Error> {
    let lock = site
        .repository
        .read_lock(site.name.as_str())
        .map_err(error::repository(&site.name, "read the lock"))?;
    let me = actor.holder(&RunId::from(""), time.seconds());
    // A process that goes on after its run (a watcher) has left the lock of that run, too.
    let Some(lock) = lock.filter(|lock| lock.holder.is_gone(&me) || lock.holder.is_same(&me))
    else {
        return Ok(None);
    };
    let reading = "read the record of the last run";
    let store = site.store()?;
    let state = store.read().map_err(error::records(reading))?;
    // Where these are the remote's records, as they were fetched, somebody has published them.
    let fetched = site
        .repository
        .refs("refs/trueup-remotes")
        .map_err(error::repository(&site.name, "read what was fetched"))?;
    let ending = format!("/{}/state", site.name);
    let mut fetched = fetched.iter().filter(|(name, _)| name.ends_with(&ending));
    if fetched.any(|(_, tip)| Some(CommitId(*tip)) == state.tip) {
        return Ok(None);
    }
    let run = store
        .run(&state, &RunId::from(lock.holder.run.as_str()))
        .map_err(error::records(reading))?;
    let ended = run.filter(|run| run.outcome != Outcome::Running);
    Ok(ended.map(|run| LeftOver { lock: lock.id, run }))
}

/// Publishes the end of a run that an earlier process of this clone could not publish, or was killed before
/// it did: before anything else is done with the remote. Gives that run, where there was one. Costs nothing
/// where there is none.
///
/// # Errors
///
/// [`Error::Unpublished`] where the remote still does not take it; the remote cannot be reached.
pub fn catch_up(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
) -> Result<Option<RunRecord>, Error> {
    let Some(left) = left_over(site, actor, time)? else {
        return Ok(None);
    };
    // What is not to be published now waits.
    if site.is_offline() || (site.remote()?.is_some() && site.audience().is_none()) {
        return Ok(None);
    }
    let store = site.store()?;
    let records = site.records(&store)?;
    let lock = site.lock()?.filter(|lock| lock.id == left.lock);
    // Somebody may have resumed or aborted it elsewhere: then theirs counts.
    let run = store
        .run(&records.state, &left.run.run)
        .map_err(error::records("read the record of the last run"))?;
    let Some(run) = run.filter(|run| run.outcome != Outcome::Running) else {
        site.forget_lock(lock.is_none().then_some(left.lock))?;
        return Ok(None);
    };
    let is_new = lock.is_some()
        || store
            .publication(&records.state, records.remote_tip)
            .is_some();
    let files = RunFiles::of(site.repository, &site.name, &run.run);
    let end = End {
        run: &run,
        state: &records.state,
        remote_tip: records.remote_tip,
        lock: lock.map(|lock| lock.id),
        author: actor.at(time.seconds()),
    };
    let (publication, _) = site.publish_end(&store, &end)?;
    if let Publication::Missing { why } = publication {
        return Err(Error::Unpublished { run: run.run, why });
    }
    site.forget_lock(Some(left.lock))?;
    if run.outcome != Outcome::Interrupted {
        files.remove();
    }
    Ok(is_new.then_some(run))
}

/// Makes the tag of the last site action, and publishes it, where a process was killed before it did; gives
/// the run that it is about.
pub(super) fn mend_tag(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
) -> Result<Option<RunRecord>, Error> {
    let Some(action) = &state.site.last_action else {
        return Ok(None);
    };
    let files = RunFiles::of(site.repository, &site.name, &action.run);
    if !files.exists() {
        return Ok(None);
    }
    let record = store
        .run(state, &action.run)
        .map_err(error::records("read the record of the last run"))?;
    let Some(run) = record.filter(|run| !run.tag_owed) else {
        return Ok(None);
    };
    let name = run.tag.as_ref().map(|tag| format!("refs/tags/{tag}"));
    let was_here = match &name {
        Some(name) => site
            .repository
            .read_ref(name)
            .map_err(error::repository(&site.name, "read a tag"))?
            .is_some(),
        None => true,
    };
    if let Some(tag) = site.make_tag(&run)? {
        // Whoever has another tag of that name there keeps it.
        site.push(&[tag])?;
    }
    files.remove();
    Ok((!was_here).then_some(run))
}

/// Publishes the tags that the remote has refused; gives the runs whose tags are there now.
pub(super) fn settle_tags(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
) -> Result<Vec<RunRecord>, Error> {
    let mut settled = Vec::new();
    for run in &state.site.tags_owed {
        let record = store
            .run(state, run)
            .map_err(error::records("read the record of a run"))?;
        let Some(mut record) = record else { continue };
        let Some(tag) = site.make_tag(&record)? else {
            continue;
        };
        match site.push(&[tag]) {
            Ok(_) => {
                record.tag_owed = false;
                settled.push(record);
            }
            Err(error) if is_refusal(&error) => {
                log::warn!("the tag of run {run} is still refused: {}", chain(&error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(settled)
}

/// Writes that tags that were owed are published.
pub(super) fn write_settled(
    store: &Store<'_>,
    mut state: State,
    settled: &[RunRecord],
    author: &Signature,
) -> Result<State, Error> {
    for record in settled {
        state = store
            .checkpoint(&state, &Checkpoint::of_run(record, author.clone()))
            .map_err(error::records("write that a tag is published"))?;
    }
    Ok(state)
}

/// Publishes that tags that were owed are there, under the lock. Where another process takes the lock first, its run
/// says so.
pub(super) fn note_settled(
    site: &SiteRepository<'_>,
    actor: &Actor,
    time: &dyn Timekeeper,
    store: &Store<'_>,
    settled: &[RunRecord],
) -> Result<(), Error> {
    let Some(last) = settled.last() else {
        return Ok(());
    };
    let holder = actor.holder(&last.run, time.seconds());
    let held = match site.take_as(None, actor, time, holder, b"") {
        Err(Error::LockHeld { .. }) => return Ok(()),
        other => other?,
    };
    let publish = || -> Result<(), Error> {
        let records = site.records(store)?;
        let owed = |record: &&RunRecord| records.state.site.tags_owed.contains(&record.run);
        let settled: Vec<RunRecord> = settled.iter().filter(owed).cloned().collect();
        let author = actor.at(time.seconds());
        let state = write_settled(store, records.state, &settled, &author)?;
        let update = store.publication(&state, records.remote_tip);
        site.push(&update.into_iter().collect::<Vec<_>>())?;
        Ok(())
    };
    let published = publish();
    site.release(held.lock.id)?;
    published
}
