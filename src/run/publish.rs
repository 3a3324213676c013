//! The end of a run at the remote: its state and the release of its lock in one push, and its tag with them.
//!
//! A run that has ended here and not at the remote keeps its lock, so that it is not taken for one that never
//! happened. The next process in this clone publishes it before anything else ([`catch_up`](super::catch_up)).

use std::sync::Arc;

use super::error::{self, Error};
use super::part::PartRefs;
use super::site_repository::SiteRepository;
use super::tag;
use crate::diagnostic::chain;
use crate::record::{Checkpoint, RunRecord, State, Store};
use crate::repository::{self, CommitId, PushOutcome, RefUpdate, Signature};

/// How far the end of a run is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// All of it, or there is no remote.
    Whole,
    /// All but the tag, which the remote refuses: the state marks it as owed.
    TagOwed {
        /// The tag.
        tag: Arc<str>,
        /// The remote's message.
        why: String,
    },
    /// Nothing: state and tag are in this clone only, and the lock stays.
    Missing {
        /// Why.
        why: String,
    },
}

/// The end of a run that is to be published.
pub(super) struct End<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) state: &'a State,
    /// The remote's tip of the state.
    pub(super) remote_tip: Option<CommitId>,
    /// The lock to be released.
    pub(super) lock: Option<CommitId>,
    pub(super) author: Signature,
}

impl SiteRepository<'_> {
    /// Publishes the end of a run: state, tag and the release of the lock, all or none of them; without the
    /// tag if the remote refuses that. Gives the state as it is then.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] if the lock or the records are another process's by now; the repository cannot
    /// be written.
    pub(super) fn publish_end(
        &self,
        store: &Store<'_>,
        end: &End<'_>,
    ) -> Result<(Publication, State), Error> {
        let tag = self.make_tag(end.run)?;
        let has_tag = tag.is_some();
        // A run has one of both, or none.
        let tag = match tag {
            Some(tag) => Some(tag),
            None => self.keep_guards(end.run)?,
        };
        let parts = PartRefs {
            site: self,
            run: &end.run.run,
        };
        let is_of_workers = end.run.workers.is_some();
        if self.audience().is_none() {
            if let Some(lock) = end.lock {
                self.delete_lock(lock)?;
            }
            if is_of_workers {
                parts.forget();
            }
            return Ok((Publication::Whole, end.state.clone()));
        }
        let lock = self.lock_ref()?;
        let release = end.lock.map(|id| RefUpdate {
            name: lock,
            old: Some(id.0),
            new: None,
        });
        let release: Vec<RefUpdate> = release.into_iter().collect();
        let removal = match is_of_workers {
            true => parts.removal()?,
            false => Vec::new(),
        };
        let state = store.publication(end.state, end.remote_tip);
        let without = |tag: &Option<RefUpdate>, removal: &[RefUpdate]| {
            let all = state.iter().chain(tag).chain(&release).chain(removal);
            all.cloned().collect::<Vec<_>>()
        };
        let mut pushed = self.push(&without(&tag, &removal));
        if let Err(error) = &pushed
            && is_refusal(error)
            && !removal.is_empty()
        {
            log::warn!("the remote keeps the refs of the parts: {}", chain(error));
            pushed = self.push(&without(&tag, &[]));
        }
        if let (Ok(PushOutcome::LostRace { name, .. }), Some(tag)) = (&pushed, &tag)
            && *name == tag.name
        {
            // The tag of the run is there with another message: its author keeps it.
            pushed = self.push(&without(&None, &[]));
        }
        if let Err(error) = &pushed
            && is_refusal(error)
            && tag.is_some()
            && !has_tag
        {
            log::warn!(
                "the remote takes no ref that keeps the commit of the guards: {}",
                chain(error)
            );
            pushed = self.push(&without(&None, &[]));
        }
        let publication = match (pushed, &tag) {
            (Ok(PushOutcome::Published), _) => Publication::Whole,
            (Ok(PushOutcome::LostRace { .. }), _) => {
                return Err(Error::Fenced {
                    run: end.run.run.clone(),
                });
            }
            (Err(error), Some(_)) if has_tag && is_refusal(&error) => {
                return self.publish_without_tag(store, end, release, &error);
            }
            (Err(error), _) => Publication::Missing { why: chain(&error) },
        };
        if publication == Publication::Whole {
            self.forget_lock(end.lock)?;
            if is_of_workers {
                parts.forget();
            }
        }
        Ok((publication, end.state.clone()))
    }

    /// Publishes a state that marks the tag as owed, and the release of the lock.
    fn publish_without_tag(
        &self,
        store: &Store<'_>,
        end: &End<'_>,
        release: Vec<RefUpdate>,
        refusal: &Error,
    ) -> Result<(Publication, State), Error> {
        let owing = RunRecord {
            tag_owed: true,
            ..end.run.clone()
        };
        let draft = store
            .draft(end.state, &Checkpoint::of_run(&owing, end.author.clone()))
            .map_err(error::records("write that the tag is owed"))?;
        let state = store.update(end.remote_tip, draft.tip);
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

    /// Makes the tag of a run that names one, and returns how it is published. A tag with that name that is here
    /// already stays as it is.
    pub(super) fn make_tag(&self, run: &RunRecord) -> Result<Option<RefUpdate>, Error> {
        let Some(tag) = tag::tag(run) else {
            return Ok(None);
        };
        let id = match self.repository.create_tag(&tag) {
            Err(repository::Error::RefMoved {
                found: Some(found), ..
            }) => found,
            // It is made where its commit is.
            Err(repository::Error::UnknownRevision { .. }) => return Ok(None),
            made => made.map_err(error::repository(&self.name, "tag the commit"))?,
        };
        Ok(Some(RefUpdate {
            name: tag.ref_name(),
            old: None,
            new: Some(id),
        }))
    }

    pub(super) fn forget_lock(&self, lock: Option<CommitId>) -> Result<(), Error> {
        let Some(lock) = lock else { return Ok(()) };
        self.repository
            .forget_lock(self.name.as_str(), lock)
            .map_err(error::repository(&self.name, "release the lock"))
    }
}

/// Whether the remote was reached, and does not take something.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Repository {
            source: repository::Error::Refused { .. },
            ..
        }
    )
}
