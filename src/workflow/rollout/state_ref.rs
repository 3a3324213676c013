//! The ref of a rollout: its state, where all callers reach it, moved by compare-and-swap.

use std::collections::BTreeMap;

use crate::repository::{self, CommitId, NewCommit, PushOutcome, RefUpdate, Repository};
use crate::rollout::{MOST_BYTES, RolloutState};
use crate::run::{Committer, Connection};
use crate::workflow::{Failure, FailureKind};

/// The file in the tree of the ref.
const FILE: &str = "rollout.json";
/// How often it is asked again for a ref that moves at that instant.
const TRIES: usize = 5;

/// The ref of a rollout.
pub struct StateRef<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
    /// The rollout.
    pub name: &'a str,
}

/// A state, as it was at an instant.
#[derive(Clone, Debug, Default)]
pub struct ReadState {
    /// The value of the ref.
    pub seen: Option<CommitId>,
    /// The state; `None`: the rollout was not begun.
    pub state: Option<RolloutState>,
}

impl StateRef<'_> {
    fn ref_name(&self) -> Result<String, Failure> {
        Ok(format!(
            "{}/rollouts/{}",
            self.repository.ref_prefix()?,
            self.name
        ))
    }

    /// The copy of the ref of a remote in this clone.
    fn copy(&self, remote: &str) -> String {
        format!("refs/trueup-remotes/{remote}/rollouts/{}", self.name)
    }

    /// Reads the state: at the remote, or in this clone of a repository without one, or with one that is not to be asked.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or what is there is no state of this rollout.
    pub fn read(&self) -> Result<ReadState, Failure> {
        let seen = match self.connection {
            Connection::Alone => self.repository.read_ref(&self.ref_name()?)?,
            Connection::Offline => {
                let remote = self.repository.default_remote()?.unwrap_or_default();
                self.repository.read_ref(&self.copy(&remote))?
            }
            Connection::Shared { remote, .. } => {
                let (name, copy) = (self.ref_name()?, self.copy(remote.name()));
                let mut tries = 0;
                loop {
                    let there = remote.ls_remote(&[&name])?.get(&name).copied();
                    match there {
                        Some(id) if !self.repository.has(id)? && tries < TRIES => {
                            tries += 1;
                            let fetched = remote.fetch(&[(&name, &copy)]);
                            fetched
                                .or_else(|error| if tries < TRIES { Ok(()) } else { Err(error) })?;
                        }
                        there => break there,
                    }
                }
            }
        };
        let Some(seen) = seen.map(CommitId) else {
            return Ok(ReadState::default());
        };
        let bytes = self.repository.file_within(seen, FILE, MOST_BYTES)?;
        let Some(bytes) = bytes else {
            let message = format!("the ref of rollout `{}` has no file `{FILE}`", self.name);
            return Err(self.unusable(message));
        };
        let state = RolloutState::read(self.name, &bytes);
        let state = state.map_err(|error| self.unusable(error.to_string()))?;
        Ok(ReadState {
            seen: Some(seen),
            state: Some(state),
        })
    }

    fn unusable(&self, message: String) -> Failure {
        let name = self.ref_name().unwrap_or_default();
        Failure::error(message).hint(format!(
            "`git log -p {name}` at the remote shows who wrote it; an earlier commit of it can be pushed back, and each site has its own records"
        ))
    }

    /// Moves the ref from the value that was read to a new state; whether it was still there.
    ///
    /// # Errors
    ///
    /// The remote is not to be asked, cannot be asked, or refuses the ref.
    pub fn replace(
        &self,
        seen: Option<CommitId>,
        state: &RolloutState,
        (actor, now): (&Committer, i64),
        message: &str,
    ) -> Result<Option<CommitId>, Failure> {
        let bytes = state
            .write()
            .map_err(|error| Failure::error(error.to_string()))?;
        let new = self.repository.write_commit(&NewCommit {
            base: None,
            parents: seen.into_iter().collect(),
            changes: BTreeMap::from([(FILE.to_owned(), Some(bytes))]),
            deflated: BTreeMap::new(),
            author: actor.at(now),
            message: format!("rollout {}: {message}", self.name),
        })?;
        let name = self.ref_name()?;
        match self.connection {
            Connection::Offline => {
                let message =
                    "the state of a rollout is at the remote, which is not asked (`--offline`)";
                Err(Failure::new(FailureKind::Usage, message).hint("leave `--offline` out"))
            }
            Connection::Alone => {
                match self
                    .repository
                    .update_ref(&name, seen.map(|seen| seen.0), new.0)
                {
                    Ok(()) => Ok(Some(new)),
                    Err(repository::Error::RefMoved { .. }) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
            Connection::Shared { remote, .. } => {
                let update = RefUpdate {
                    name,
                    old: seen.map(|seen| seen.0),
                    new: Some(new.0),
                };
                match remote.push(&[update])? {
                    PushOutcome::Published => Ok(Some(new)),
                    PushOutcome::LostRace { .. } => Ok(None),
                }
            }
        }
    }
}
