//! The listener of a run or a part: the dispatcher's events go to who holds the lease, and on to other listeners.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::event::{EventKind, RunEvent};
use super::lease::{LeaseHolder, binds_others};
use super::listener::RunListener;
use super::outcome::NodeOutcome;
use crate::step::StepId;

/// Writes down what the dispatcher reports, and passes every event on.
pub struct Recorder<'a> {
    holder: &'a dyn LeaseHolder,
    sink: &'a mut dyn FnMut(&RunEvent),
    earlier_ms: u64,
}

impl<'a> Recorder<'a> {
    /// A listener that passes events on to `sink`, among them those of checkpoints and warnings.
    pub fn new(holder: &'a dyn LeaseHolder, sink: &'a mut dyn FnMut(&RunEvent)) -> Self {
        Self {
            holder,
            sink,
            earlier_ms: holder.earlier_ms(),
        }
    }

    /// Passes on an event that was not the dispatcher's; the time is that of this process.
    pub(super) fn tell(&mut self, time: &Arc<str>, elapsed_ms: u64, kind: EventKind) {
        (self.sink)(&RunEvent {
            time: time.clone(),
            elapsed_ms: self.earlier_ms + elapsed_ms,
            remaining_ms: None,
            kind,
        });
    }

    /// Passes on what became of the lease and the records, at the time of the last event.
    pub(super) fn relay(&mut self, time: &Arc<str>, elapsed_ms: u64) {
        for kind in self.holder.lease().notices() {
            self.tell(time, elapsed_ms, kind);
        }
    }
}

impl RunListener for Recorder<'_> {
    fn event(&mut self, mut event: RunEvent) {
        let own_ms = event.elapsed_ms;
        event.elapsed_ms += self.earlier_ms;
        // People see it before a checkpoint is waited for.
        (self.sink)(&event);
        self.holder.on_event(&event);
        self.relay(&event.time, own_ms);
    }

    /// Lets the step continue: at once, or if it noted something that others must find, should this process vanish,
    /// when that is published: a process that continues in another clone has what is published, and not the journal.
    fn noted(&mut self, step: &StepId, text: &Arc<str>, go_on: oneshot::Sender<()>) {
        self.holder.noted(step, text);
        if binds_others(step, text) {
            let git = &self.holder.lease().git;
            git.when_published(self.holder, go_on);
        } else {
            // The receiver is gone if the step's time was up.
            let _ = go_on.send(());
        }
    }

    fn starting(&mut self, step: &StepId) -> Option<oneshot::Receiver<()>> {
        self.holder.starting(step)
    }

    fn node_changed(&mut self, outcome: NodeOutcome) {
        self.holder.node_changed(&outcome);
    }
}
