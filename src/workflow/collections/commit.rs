//! Commits the buffer: its documents are validated, and become what is committed.

use std::collections::BTreeSet;

use super::buffer::pushed;
use super::content::Problem;
use super::{CollectionError, Collections};
use crate::repository::{CommitId, ObjectId, PushOutcome, RefUpdate, Selection};
use crate::run::Connection;

/// How a buffer is committed.
#[derive(Clone, Copy, Debug)]
pub struct CommitRequest<'a> {
    /// Also if its documents have errors.
    pub force: bool,
    /// Not at all: only validated.
    pub dry_run: bool,
    /// The last lines of the message of the commit.
    pub trailer: &'a str,
}

/// A buffer that was validated, and maybe committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The problems of its documents.
    pub problems: Vec<Problem>,
    /// The commit, if it was made.
    pub commit: Option<CommitId>,
}

impl Committed {
    /// Whether documents have errors.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.is_error)
    }
}

impl Collections<'_> {
    /// Validates the buffer and commits it.
    ///
    /// # Errors
    ///
    /// Nothing was committed; why.
    pub fn commit(&self, request: CommitRequest<'_>) -> Result<Committed, CollectionError> {
        let there = self.catch_up()?;
        let committed = self.checkout.head()?;
        let buffer = self.buffer()?.ok_or(CollectionError::EmptyBuffer)?;
        let changes = self.changes(buffer, committed)?;
        let paths: BTreeSet<String> = changes.keys().cloned().collect();
        let names = self.names(&paths).join(", ");
        let message = format!("Commit configdocs: {names}\n\n{}", request.trailer);
        let new = self.write(committed, changes, &message)?;
        self.refuse_guards(committed, new, &paths)?;
        let mut made = Committed {
            problems: self.problems(new)?,
            commit: None,
        };
        if request.dry_run || (made.has_errors() && !request.force) {
            return Ok(made);
        }
        self.refuse_dirty(&paths)?;
        let there = there.map(|there| (there.name, there.tip));
        self.publish_commit(there, buffer.tip, new)?;
        self.checkout.repository.forward(committed, new)?;
        self.move_buffer(Some(buffer.tip.0), None)?;
        made.commit = Some(new);
        Ok(made)
    }

    /// Refuses files that are not as they are committed, before anything is published.
    fn refuse_dirty(&self, paths: &BTreeSet<String>) -> Result<(), CollectionError> {
        let repository = self.checkout.repository;
        if repository.branch()?.is_none() {
            return Err(crate::repository::Error::Detached.into());
        }
        let selection = Selection::below(paths);
        let dirty = repository.dirty(&selection, crate::repository::LARGEST_FILE)?;
        match dirty.first() {
            None => Ok(()),
            Some(file) => Err(CollectionError::Raced(format!(
                "`{}` has changes in the checkout that are not committed",
                file.path
            ))),
        }
    }

    /// Moves the branch at the remote, and takes that of the buffer away, both or none.
    fn publish_commit(
        &self,
        there: Option<(String, Option<ObjectId>)>,
        buffer: CommitId,
        new: CommitId,
    ) -> Result<(), CollectionError> {
        let (
            Connection::Shared {
                remote,
                publish: true,
            },
            Some((name, old)),
        ) = (self.connection, there)
        else {
            return Ok(());
        };
        let updates = [
            RefUpdate {
                name,
                old,
                new: Some(new.0),
            },
            RefUpdate {
                name: self.buffer_ref().to_string(),
                old: Some(buffer.0),
                new: None,
            },
        ];
        match pushed(remote, &updates)? {
            PushOutcome::Published => Ok(()),
            PushOutcome::LostRace { name, .. } => Err(CollectionError::Raced(format!(
                "`{name}` of the remote `{}` has moved at the same time",
                remote.name()
            ))),
        }
    }
}
