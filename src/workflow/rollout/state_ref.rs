//! The ref of a rollout: its state, if all callers reach it, moved by compare-and-swap.

use crate::repository::{CommitId, Repository};
use crate::rollout::{MOST_BYTES, RolloutState};
use crate::run::{Committer, Connection};
use crate::workflow::Failure;
use crate::workflow::shared_file::SharedFile;

/// The file in the tree of the ref.
const FILE: &str = "rollout.json";

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
    fn file(&self) -> SharedFile<'_> {
        SharedFile {
            repository: self.repository,
            connection: self.connection,
            below: format!("rollouts/{}", self.name),
            file: FILE,
            most_bytes: MOST_BYTES,
            what: "the state of a rollout is",
        }
    }

    /// Reads the state: at the remote, or in this clone of a repository without one, or with one that is not to be asked.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or what is there is no state of this rollout.
    pub fn read(&self) -> Result<ReadState, Failure> {
        let file = self.file();
        let Some(read) = file.read()? else {
            return Ok(ReadState::default());
        };
        let unusable = |message: &str| {
            file.unusable(message)
                .hint("each site has its own records, which tell what was done to it")
        };
        let Some(bytes) = read.bytes else {
            let message = format!("the ref of rollout `{}` has no file `{FILE}`", self.name);
            return Err(unusable(&message));
        };
        let state = RolloutState::read(self.name, &bytes);
        let state = state.map_err(|error| unusable(&error.to_string()))?;
        Ok(ReadState {
            seen: Some(read.seen),
            state: Some(state),
        })
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
        let message = format!("rollout {}: {message}", self.name);
        self.file().replace(seen, bytes, actor.at(now), message)
    }
}
