//! The listener of a run: the dispatcher's events go to the session, and on to other listeners.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::session::Session;
use crate::run::{NodeOutcome, RunEvent, RunListener};
use crate::step::StepId;

/// Writes down what the dispatcher says, and passes every event on.
pub struct Recorder<'a, 'b> {
    pub(super) session: &'a Session<'b>,
    pub(super) sink: &'a mut dyn FnMut(&RunEvent),
}

impl<'a, 'b> Recorder<'a, 'b> {
    /// A listener that passes events on to `sink`, among them those of checkpoints and warnings.
    pub fn new(session: &'a Session<'b>, sink: &'a mut dyn FnMut(&RunEvent)) -> Self {
        Self { session, sink }
    }

    /// Passes on what the session has to say, at the time of the last event.
    pub(super) fn relay(&mut self, time: &Arc<str>, elapsed_ms: u64) {
        for kind in self.session.notices() {
            let time = time.clone();
            (self.sink)(&RunEvent {
                time,
                elapsed_ms,
                remaining_ms: None,
                kind,
            });
        }
    }
}

impl RunListener for Recorder<'_, '_> {
    fn event(&mut self, event: RunEvent) {
        // People see it before a checkpoint is waited for.
        (self.sink)(&event);
        self.session.hear(&event);
        self.relay(&event.time, event.elapsed_ms);
    }

    fn noted(&mut self, step: &StepId, text: &Arc<str>, go_on: oneshot::Sender<()>) {
        self.session.noted(step, text);
        self.session.share(step, text, go_on);
    }

    fn starting(&mut self, step: &StepId) -> Option<oneshot::Receiver<()>> {
        self.session.starting(step)
    }

    fn node_changed(&mut self, outcome: NodeOutcome) {
        self.session.node_changed(&outcome);
    }
}
