//! The listener of a part, and its journal: what is durable there is published, too.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::session::PartSession;
use crate::journal::{self, Entry, Log};
use crate::run::event::RunEvent;
use crate::run::lease::binds_others;
use crate::run::listener::RunListener;
use crate::run::outcome::NodeOutcome;
use crate::step::StepId;

/// Publishes the events of a part, and passes them on.
pub struct PartRecorder<'a, 'b> {
    session: &'a PartSession<'b>,
    sink: &'a mut dyn FnMut(&RunEvent),
}

impl<'a, 'b> PartRecorder<'a, 'b> {
    /// A listener that passes events on to `sink`, among them warnings of the session.
    pub fn new(session: &'a PartSession<'b>, sink: &'a mut dyn FnMut(&RunEvent)) -> Self {
        Self { session, sink }
    }
}

impl RunListener for PartRecorder<'_, '_> {
    fn event(&mut self, event: RunEvent) {
        (self.sink)(&event);
        self.session.hear(&event);
        for kind in self.session.notices() {
            let notice = RunEvent {
                kind,
                remaining_ms: None,
                ..event.clone()
            };
            (self.sink)(&notice);
        }
    }

    fn noted(&mut self, step: &StepId, text: &Arc<str>, go_on: oneshot::Sender<()>) {
        if binds_others(step, text) {
            self.session.git.when_published(self.session, go_on);
        } else {
            // The receiver is gone where the step's time was up.
            let _ = go_on.send(());
        }
    }

    /// The records of nodes are written at the end of the run, of what its parts have published.
    fn node_changed(&mut self, _: NodeOutcome) {}
}

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
