//! The interface of those who listen to a run.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{NodeOutcome, RunEvent};
use crate::step::StepId;

/// A listener of a run. Both are called when the event is durable in the journal, and
/// before anything that follows from it is done.
pub trait RunListener {
    /// Something happens.
    fn event(&mut self, event: RunEvent);

    /// A step noted something for itself, and continues when `go_on` is sent. A note that others have to find before
    /// that is published first, elsewhere: this does not wait for it.
    fn noted(&mut self, _step: &StepId, _text: &Arc<str>, go_on: oneshot::Sender<()>) {
        // The receiver is gone if the step's time was up.
        let _ = go_on.send(());
    }

    /// A step is about to start, whose start was told: what it waits for.
    fn starting(&mut self, _step: &StepId) -> Option<oneshot::Receiver<()>> {
        None
    }

    /// The record of a node changes.
    fn node_changed(&mut self, outcome: NodeOutcome);
}
