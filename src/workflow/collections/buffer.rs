//! The buffer: one commit on a branch of its own, on what was committed when it was written.

use std::collections::{BTreeMap, BTreeSet};

use super::content::Problem;
use super::kept_text::kept;
use super::{CollectionError, Collections};
use crate::repository::{self, CommitId, NewCommit, ObjectId, PushOutcome, RefUpdate, Remote};
use crate::run::Connection;

/// The largest file of a collection.
const LARGEST: u64 = 16 << 20;

/// How documents go into a buffer that has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMode {
    /// Not at all.
    RejectOnContents,
    /// In addition to those of other collections.
    Append,
    /// In place of all of them.
    Replace,
}

impl BufferMode {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RejectOnContents => "rejectoncontents",
            Self::Append => "append",
            Self::Replace => "replace",
        }
    }

    /// The mode of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::RejectOnContents, Self::Append, Self::Replace];
        all.into_iter()
            .find(|mode| mode.as_str() == name.to_ascii_lowercase())
    }
}

/// A buffer with documents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    /// The commit that was committed when it was written.
    pub(super) base: CommitId,
    /// The commit of the buffer.
    pub(super) tip: CommitId,
}

/// The new bytes of files, by path; `None`: the file is removed.
pub(super) type Changes = BTreeMap<String, Option<Vec<u8>>>;

impl Collections<'_> {
    /// The buffer as it is at the remote, if there is one; `None` if it is empty.
    pub(super) fn buffer(&self) -> Result<Option<Buffer>, CollectionError> {
        let repository = self.checkout.repository;
        let Some(tip) = self.buffer_tip()?.map(CommitId) else {
            return Ok(None);
        };
        let parents = repository.parents(tip)?;
        let [base] = parents[..] else {
            return Err(CollectionError::Refused(format!(
                "the branch `{}` is no buffer: its commit has not one parent",
                self.buffer_ref()
            )));
        };
        let buffer = Buffer { base, tip };
        let is_empty = self.changed_paths(base, tip)?.is_empty();
        Ok((!is_empty).then_some(buffer))
    }

    /// The commit that the branch of the buffer is at, which is followed from the remote.
    fn buffer_tip(&self) -> Result<Option<ObjectId>, CollectionError> {
        let (repository, name) = (self.checkout.repository, self.buffer_ref());
        let here = repository.read_ref(&name)?;
        let Connection::Shared {
            remote,
            publish: true,
        } = self.connection
        else {
            return Ok(here);
        };
        let there = remote.ls_remote(&[&name])?.remove(&*name);
        if here == there {
            return Ok(here);
        }
        let moved = match there {
            Some(tip) => {
                remote.fetch_commit(CommitId(tip))?;
                repository.update_ref(&name, here, tip)
            }
            None => match here {
                Some(tip) => repository.delete_ref(&name, tip),
                None => Ok(()),
            },
        };
        match moved {
            // Another request has followed it at the same time.
            Ok(()) | Err(repository::Error::RefMoved { .. }) => Ok(there),
            Err(error) => Err(error.into()),
        }
    }

    /// The files of collections that differ between two commits.
    pub(super) fn changed_paths(
        &self,
        from: CommitId,
        to: CommitId,
    ) -> Result<BTreeSet<String>, CollectionError> {
        let listed = |commit| -> Result<BTreeMap<String, _>, CollectionError> {
            let files = self.files(commit)?.into_values().flatten();
            Ok(files
                .map(|file| (file.path.to_string(), (file.blob, file.is_plain)))
                .collect())
        };
        let (before, after) = (listed(from)?, listed(to)?);
        let paths = before.keys().chain(after.keys());
        let changed = paths.filter(|path| before.get(*path) != after.get(*path));
        Ok(changed.cloned().collect())
    }

    /// The changes of a buffer, as they apply to the commit that is committed now.
    pub(super) fn changes(
        &self,
        buffer: Buffer,
        committed: CommitId,
    ) -> Result<Changes, CollectionError> {
        let repository = self.checkout.repository;
        let paths = self.changed_paths(buffer.base, buffer.tip)?;
        if buffer.base != committed {
            if !repository.is_ancestor(buffer.base, committed)? {
                return Err(CollectionError::Raced(
                    "the buffer was written on a commit that is not in the history of what is committed".to_owned(),
                ));
            }
            let since = self.changed_paths(buffer.base, committed)?;
            let both: Vec<&str> = paths.intersection(&since).map(String::as_str).collect();
            if !both.is_empty() {
                return Err(CollectionError::Raced(format!(
                    "{} changed in git since the buffer was written; buffer mode `replace` writes it again",
                    both.join(", ")
                )));
            }
        }
        let mut changes = Changes::new();
        for path in paths {
            let bytes = repository.file_within(buffer.tip, &path, LARGEST)?;
            changes.insert(path, bytes);
        }
        Ok(changes)
    }

    /// Puts a collection into the buffer, or with `None` its removal; gives the problems of what is then in it.
    ///
    /// # Errors
    ///
    /// Nothing was put in; why.
    pub fn put(
        &self,
        name: &str,
        bytes: Option<&[u8]>,
        mode: BufferMode,
        message: &str,
    ) -> Result<Vec<Problem>, CollectionError> {
        self.catch_up()?;
        let committed = self.checkout.head()?;
        let before = self.buffer_tip()?;
        let path = self.file_for(name, committed)?;
        let buffer = match mode {
            BufferMode::Replace => None,
            _ => self.buffer()?,
        };
        let mut changes = match (buffer, mode) {
            (None, _) => Changes::new(),
            (Some(buffer), BufferMode::Append) => self.changes(buffer, committed)?,
            (Some(_), _) => return Err(CollectionError::Occupied(mode)),
        };
        if changes.contains_key(&path) {
            return Err(CollectionError::Occupied(mode));
        }
        let repository = self.checkout.repository;
        let old = repository.file_within(committed, &path, LARGEST)?;
        let kept = match (&old, bytes) {
            (Some(old), Some(new)) => kept(old, new),
            _ => None,
        };
        let bytes = kept.or(bytes.map(<[u8]>::to_vec));
        if old == bytes {
            return Err(CollectionError::Unchanged);
        }
        let is_removal = bytes.is_none();
        changes.insert(path.clone(), bytes);
        let tip = self.write(committed, changes, message)?;
        let problems = self.judged(committed, tip, &path, is_removal)?;
        self.publish(before, Some(tip))?;
        Ok(problems)
    }

    /// Writes a commit on another one; no branch is moved.
    pub(super) fn write(
        &self,
        on: CommitId,
        changes: Changes,
        message: &str,
    ) -> Result<CommitId, CollectionError> {
        let repository = self.checkout.repository;
        let actor = self.client.actor(repository)?;
        let seconds = self.client.clock().seconds();
        Ok(repository.write_commit(&NewCommit {
            base: Some(on),
            parents: vec![on],
            changes,
            deflated: BTreeMap::new(),
            author: actor.at(seconds),
            message: message.to_owned(),
        })?)
    }

    /// Moves the branch of the buffer, first at the remote.
    fn publish(
        &self,
        before: Option<ObjectId>,
        after: Option<CommitId>,
    ) -> Result<(), CollectionError> {
        let name = self.buffer_ref();
        if let Connection::Shared {
            remote,
            publish: true,
        } = self.connection
        {
            let update = RefUpdate {
                name: name.to_string(),
                old: before,
                new: after.map(|commit| commit.0),
            };
            match pushed(remote, &[update])? {
                PushOutcome::Published => {}
                PushOutcome::LostRace { .. } => return Err(raced()),
            }
        }
        self.move_buffer(before, after)
    }

    /// Moves the branch of the buffer here.
    pub(super) fn move_buffer(
        &self,
        before: Option<ObjectId>,
        after: Option<CommitId>,
    ) -> Result<(), CollectionError> {
        let (repository, name) = (self.checkout.repository, self.buffer_ref());
        let moved = match (before, after) {
            (before, Some(after)) => repository.update_ref(&name, before, after.0),
            (Some(before), None) => repository.delete_ref(&name, before),
            (None, None) => Ok(()),
        };
        match moved {
            Err(repository::Error::RefMoved { .. }) => Err(raced()),
            other => Ok(other?),
        }
    }
}

/// Pushes branches; one that the remote does not take is no failure of the service.
pub(super) fn pushed(
    remote: &Remote<'_>,
    updates: &[RefUpdate],
) -> Result<PushOutcome, CollectionError> {
    remote.push(updates).map_err(|error| match error {
        refused @ repository::Error::Refused { .. } => {
            CollectionError::NotPublished(refused.to_string())
        }
        other => other.into(),
    })
}

/// Another request has written the buffer in between.
fn raced() -> CollectionError {
    CollectionError::Raced("another request has changed the buffer at the same time".to_owned())
}
