//! A file that all callers share: the tree of a ref below the prefix, at the remote if there is one, moved by
//! compare-and-swap. The state of a rollout and the reservations of a site are such files.

use std::collections::BTreeMap;

use super::{Failure, FailureKind};
use crate::repository::{
    self, CommitId, NewCommit, PushOutcome, REMOTE_COPIES, RefUpdate, Repository, Signature,
};
use crate::run::Connection;

/// How often it is asked again for a ref that moves at that instant.
const TRIES: usize = 5;

/// A shared file.
pub(super) struct SharedFile<'a> {
    /// The repository.
    pub(super) repository: &'a Repository,
    /// How it is shared.
    pub(super) connection: &'a Connection<'a>,
    /// The name of its ref, below the prefix.
    pub(super) below: String,
    /// The name of the file in the tree.
    pub(super) file: &'static str,
    /// The largest that is read.
    pub(super) most_bytes: u64,
    /// In messages: `the state of a rollout is`.
    pub(super) what: &'static str,
}

/// A file, as it was at an instant.
pub(super) struct ReadFile {
    /// The value of the ref.
    pub(super) seen: CommitId,
    /// Its bytes; `None`: the tree has no such file.
    pub(super) bytes: Option<Vec<u8>>,
}

impl SharedFile<'_> {
    /// The full name of its ref.
    pub(super) fn ref_name(&self) -> Result<String, Failure> {
        Ok(format!("{}/{}", self.repository.ref_prefix()?, self.below))
    }

    /// The copy of the ref of a remote in this clone.
    fn copy(&self, remote: &str) -> String {
        format!("{REMOTE_COPIES}/{remote}/{}", self.below)
    }

    /// Reads it: at the remote, or in this clone of a repository without one, or with one that is not to be asked; `None`: there
    /// is no such ref.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or what is there cannot be read.
    pub(super) fn read(&self) -> Result<Option<ReadFile>, Failure> {
        let seen = match self.connection {
            Connection::Alone => self.repository.read_ref(&self.ref_name()?)?,
            Connection::Offline => {
                let remote = self.repository.default_remote().ok().flatten();
                match remote.map_or_else(|| self.repository.copied_remote(), |own| Ok(Some(own)))? {
                    Some(remote) => self.repository.read_ref(&self.copy(&remote))?,
                    None => None,
                }
            }
            Connection::Shared { remote, .. } => {
                let (name, copy) = (self.ref_name()?, self.copy(remote.name()));
                let mut tries = 0;
                loop {
                    let there = remote.ls_remote(&[&name])?.get(&name).copied();
                    let here = self.repository.read_ref(&copy)?;
                    match (there, here) {
                        (Some(there), here) => {
                            let is_here = here == Some(there) && self.repository.has(there)?;
                            if is_here {
                                break here;
                            }
                            match remote.fetch(&[(&name, &copy)]) {
                                Ok(()) => break self.repository.read_ref(&copy)?,
                                // It may have gone since.
                                Err(_) if tries < TRIES => tries += 1,
                                Err(error) => return Err(error.into()),
                            }
                        }
                        (None, Some(here)) => {
                            match self.repository.delete_ref(&copy, here) {
                                Ok(()) | Err(repository::Error::RefMoved { .. }) => {}
                                Err(error) => return Err(error.into()),
                            }
                            break None;
                        }
                        (None, None) => break None,
                    }
                }
            }
        };
        let Some(seen) = seen.map(CommitId) else {
            return Ok(None);
        };
        let bytes = self
            .repository
            .file_within(seen, self.file, self.most_bytes)?;
        Ok(Some(ReadFile { seen, bytes }))
    }

    /// The failure for what is there and cannot be used.
    pub(super) fn unusable(&self, message: &str) -> Failure {
        let name = self.ref_name().unwrap_or_default();
        Failure::error(message).hint(format!(
            "`git log -p {name}` at the remote shows who wrote it; an earlier commit of it can be pushed back"
        ))
    }

    /// Moves the ref from the value that was read to new bytes; `None`: another caller has moved it.
    ///
    /// # Errors
    ///
    /// The remote is not to be asked, cannot be asked, or refuses the ref.
    pub(super) fn replace(
        &self,
        seen: Option<CommitId>,
        bytes: Vec<u8>,
        author: Signature,
        message: String,
    ) -> Result<Option<CommitId>, Failure> {
        let new = self.repository.write_commit(&NewCommit {
            base: None,
            parents: seen.into_iter().collect(),
            changes: BTreeMap::from([(self.file.to_owned(), Some(bytes))]),
            deflated: BTreeMap::new(),
            author,
            message,
        })?;
        let (name, old) = (self.ref_name()?, seen.map(|seen| seen.0));
        match self.connection {
            Connection::Offline => {
                let message = format!(
                    "{} at the remote, which is not asked (`--offline`)",
                    self.what
                );
                Err(Failure::new(FailureKind::Usage, message).hint("leave `--offline` out"))
            }
            Connection::Alone => match self.repository.update_ref(&name, old, new.0) {
                Ok(()) => Ok(Some(new)),
                Err(repository::Error::RefMoved { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Connection::Shared { remote, .. } => {
                let new_value = Some(new.0);
                let update = RefUpdate {
                    name,
                    old,
                    new: new_value,
                };
                match remote.push(&[update])? {
                    PushOutcome::Published => {
                        // What is read with `--offline`; another process may have newer news.
                        let copy = self.copy(remote.name());
                        match self.repository.update_ref(&copy, old, new.0) {
                            Ok(()) | Err(repository::Error::RefMoved { .. }) => Ok(Some(new)),
                            Err(error) => Err(error.into()),
                        }
                    }
                    PushOutcome::LostRace { .. } => Ok(None),
                }
            }
        }
    }
}
