//! The journal of a part: what is durable there is published, too.

use super::session::PartSession;
use crate::journal::{self, Entry, Log};

/// The journal of a part, whose durable entries are published.
pub struct PartLog<'a, 'b> {
    log: Box<dyn Log>,
    session: &'a PartSession<'b>,
    /// Entries that are not durable yet.
    pending: Vec<Entry>,
}

impl<'a, 'b> PartLog<'a, 'b> {
    /// The log of a part.
    #[must_use]
    pub fn new(log: Box<dyn Log>, session: &'a PartSession<'b>) -> Self {
        Self {
            log,
            session,
            pending: Vec::new(),
        }
    }
}

impl Log for PartLog<'_, '_> {
    fn append(&mut self, entry: &Entry) -> Result<(), journal::Error> {
        self.log.append(entry)?;
        self.pending.push(entry.clone());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), journal::Error> {
        self.log.commit()?;
        self.session.take_in(&mut self.pending);
        Ok(())
    }
}
