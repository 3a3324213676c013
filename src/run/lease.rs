//! The right to carry out a run or a part of one, and the thread that renews it.
//!
//! The dispatcher requests a checkpoint or a publication and continues. Only a step that others have to know
//! of before it acts waits at the gate, which opens when that is published.

use std::sync::Mutex;
use std::sync::mpsc;

use tokio::sync::oneshot;

use crate::backend::Fence;
use crate::remediation::Note;
use crate::step::{Notes, StepId};
use crate::threads::lock;

/// The right to carry out a run, or a part of one, which has to be renewed while that lasts.
pub trait LeaseHolder: Sync {
    /// The fence that each step asks before a request that changes something.
    fn fence(&self) -> Fence;

    /// Renews what is due, writes what has changed and publishes it. To be called every few seconds, from a thread of
    /// its own where steps must not wait for the remote.
    fn tick(&self);

    /// Carries out what was asked of the thread.
    fn run_task(&self, task: GitTask);

    /// The thread that does what takes git.
    fn git_thread(&self) -> &GitThread;
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
