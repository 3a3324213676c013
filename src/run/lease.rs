//! The right to carry out a run or a part of one, and the thread that renews it.
//!
//! The dispatcher requests a checkpoint or a publication and continues. Only a step that others have to know
//! of before it acts waits at the gate, which opens when that is published.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::event::{EventKind, RunEvent};
use super::outcome::NodeOutcome;
use super::stop::StopHandle;
use crate::backend::Fence;
use crate::remediation::Note;
use crate::step::{Notes, StepId};
use crate::threads::lock;

/// The right to carry out a run, or a part of one: whether it holds, what stops when it is lost, and what
/// listeners have to be told of it.
pub struct Lease {
    pub(super) fence: Fence,
    pub(super) git: GitThread,
    notices: Mutex<Vec<EventKind>>,
    stop: Mutex<Option<StopHandle>>,
}

/// The holder of a lease, which renews it while the run or the part lasts.
pub trait LeaseHolder: Sync {
    /// The lease.
    fn lease(&self) -> &Lease;

    /// Renews what is due, writes what has changed and publishes it. To be called every few seconds, from a thread of
    /// its own where steps must not wait for the remote.
    fn tick(&self);

    /// Carries out what was asked of the thread.
    fn run_task(&self, task: GitTask);

    /// Takes in an event.
    fn on_event(&self, event: &RunEvent);

    /// Takes in what a step noted, which is durable in the journal.
    fn noted(&self, step: &StepId, text: &Arc<str>);

    /// For how long processes before this one carried the run out, in milliseconds.
    fn earlier_ms(&self) -> u64 {
        0
    }

    /// The publication that a step waits for before it starts.
    fn starting(&self, _step: &StepId) -> Option<oneshot::Receiver<()>> {
        None
    }

    /// Takes in what a step did to the record of its node.
    fn node_changed(&self, outcome: &NodeOutcome);
}

impl Lease {
    pub(super) fn new(fence: Fence) -> Self {
        Self {
            fence,
            git: GitThread::default(),
            notices: Mutex::default(),
            stop: Mutex::default(),
        }
    }

    /// The fence that each step asks before a request that changes something.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Whether another step may start: the lease was renewed in time, and is not lost.
    #[must_use]
    pub fn may_start(&self) -> bool {
        self.fence.holds()
    }

    /// Whether another process has it now.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.fence.is_lost()
    }

    /// The handle that stops what is under way when the lease is lost.
    pub fn stop_when_lost(&self, stop: StopHandle) {
        *lock(&self.stop) = Some(stop);
        if self.is_lost() {
            self.ask_to_stop();
        }
    }

    /// Another process has the lease: nothing more starts, running steps are cancelled, and nothing more is written.
    pub(super) fn lose(&self, message: impl FnOnce() -> String) {
        if self.fence.lose() {
            self.warn(message());
            self.ask_to_stop();
        }
    }

    fn ask_to_stop(&self) {
        if let Some(stop) = &*lock(&self.stop) {
            stop.stop_at_once();
        }
    }

    /// The checkpoints and warnings since the last call, for listeners.
    pub(super) fn notices(&self) -> Vec<EventKind> {
        std::mem::take(&mut *lock(&self.notices))
    }

    pub(super) fn warn(&self, message: String) {
        let message = Arc::from(message);
        self.notice(EventKind::Warning { message });
    }

    pub(super) fn notice(&self, kind: EventKind) {
        lock(&self.notices).push(kind);
    }
}

/// The thread that does what takes git, and the steps that wait until something is published.
#[derive(Default)]
pub struct GitThread {
    /// Without one all is done at once.
    pub(super) sender: Mutex<Option<mpsc::Sender<GitTask>>>,
    gate: Mutex<Gate>,
}

/// Git operations that are requested while the run is running.
#[derive(Clone, Copy, Debug)]
pub enum GitTask {
    /// Write what has changed.
    Checkpoint,
    /// Write what has changed, publish it, and open the gate.
    Publish,
}

/// The steps that wait until the records are published.
#[derive(Default)]
struct Gate {
    is_closed: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl GitThread {
    /// Does what takes git, or lets the thread do it that is there for that.
    pub(super) fn ask(&self, holder: &dyn LeaseHolder, task: GitTask) {
        let thread = lock(&self.sender).clone();
        let is_taken = thread.is_some_and(|thread| thread.send(task).is_ok());
        if !is_taken {
            holder.run_task(task);
        }
    }

    /// Lets `go_on` be sent once what has changed is published.
    pub(super) fn when_published(&self, holder: &dyn LeaseHolder, go_on: oneshot::Sender<()>) {
        let mut gate = lock(&self.gate);
        gate.is_closed = true;
        gate.waiting.push(go_on);
        drop(gate);
        self.ask(holder, GitTask::Publish);
    }

    /// A place at the gate, while it is closed.
    pub(super) fn place(&self) -> Option<oneshot::Receiver<()>> {
        let (go_on, gate) = oneshot::channel();
        let mut closed = lock(&self.gate);
        closed.is_closed.then(|| {
            closed.waiting.push(go_on);
            gate
        })
    }

    /// Lets the steps continue that wait at the gate.
    pub(super) fn open_gate(&self) {
        let mut gate = lock(&self.gate);
        gate.is_closed = false;
        for waiting in gate.waiting.drain(..) {
            let _ = waiting.send(());
        }
    }
}

/// Whether others have to find a note before its step continues.
pub(super) fn binds_others(step: &StepId, text: &str) -> bool {
    step.kind.facts().notes != Notes::None && Note::binds_others(text)
}
