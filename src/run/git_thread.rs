//! The thread for git operations of a running run, and the steps that wait for it.
//!
//! The dispatcher requests a checkpoint or a publication and continues. Only a step that others have to know
//! of before it acts waits at the gate, which opens when the records are published.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::node;
use super::session::{GitTask, Session, lock};
use crate::remediation::Note;
use crate::step::{Effect, StepId};

impl Session<'_> {
    /// Does what takes git, or lets the thread do it that is there for that.
    pub(super) fn ask(&self, task: GitTask) {
        let thread = lock(&self.git_thread).clone();
        let is_taken = thread.is_some_and(|thread| thread.send(task).is_ok());
        if !is_taken {
            self.run_task(task);
        }
    }

    fn run_task(&self, task: GitTask) {
        self.write_checkpoint();
        match task {
            GitTask::Checkpoint => {}
            GitTask::Publish => {
                self.publish_records();
                // Whether it could be published or not: what was to be found is in this clone at least.
                let mut gate = lock(&self.gate);
                gate.is_closed = false;
                for waiting in gate.waiting.drain(..) {
                    let _ = waiting.send(());
                }
            }
        }
    }

    /// Lets `go_on` be sent once the records are published.
    fn when_published(&self, go_on: oneshot::Sender<()>) {
        let mut gate = lock(&self.gate);
        gate.is_closed = true;
        gate.waiting.push(go_on);
        drop(gate);
        self.ask(GitTask::Publish);
    }

    /// The gate of a step that is about to start: the first that destroys something in a wave waits until
    /// the remote shows it as begun, and those after it until then, too.
    pub(super) fn starting(&self, step: &StepId) -> Option<oneshot::Receiver<()>> {
        if !node::rebuilds(step.kind) || step.node.is_none() {
            return None;
        }
        let step = self.steps.get(step)?;
        if step.effect != Effect::Destructive {
            return None;
        }
        let is_first = std::mem::take(&mut lock(&self.records).is_new_wave);
        let (go_on, gate) = oneshot::channel();
        if is_first {
            self.when_published(go_on);
            return Some(gate);
        }
        let mut closed = lock(&self.gate);
        closed.is_closed.then(|| {
            closed.waiting.push(go_on);
            gate
        })
    }

    /// Lets a step continue after a note: at once, or where a remediation noted something that others must find,
    /// should this process vanish, when that is published: a process that resumes the run in another clone has its
    /// records, and not its journal.
    pub(super) fn share(&self, step: &StepId, text: &str, go_on: oneshot::Sender<()>) {
        // What is noted is an entry of the journal by now.
        lock(&self.records).entries += 1;
        if node::is_recorded(step.kind) && Note::binds_others(text) {
            self.when_published(go_on);
        } else {
            // The receiver is gone where the step's time was up.
            let _ = go_on.send(());
        }
    }
}

/// Where a run does what takes git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitWork {
    /// On a thread of its own, so that the dispatcher waits for no remote.
    Background,
    /// At once: the time of the run is simulated, and would pass while it waits.
    Inline,
}

/// Runs `body` while another thread does what takes git: what is asked for at once, and what is due every
/// `pause` of real time.
pub fn with_heartbeat<T>(
    session: &Session<'_>,
    pause: Duration,
    git: GitWork,
    body: impl FnOnce() -> T,
) -> T {
    let (thread, asked) = mpsc::channel();
    // Where the thread is not asked, the channel only says when the run is over.
    let over = match git {
        GitWork::Background => {
            *lock(&session.git_thread) = Some(thread);
            None
        }
        GitWork::Inline => Some(thread),
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                match asked.recv_timeout(pause) {
                    Ok(task) => session.run_task(task),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                session.tick();
            }
        });
        let _over = (over, Over(session));
        body()
    })
}

/// Ends the thread that does what takes git, however the run ends.
struct Over<'a, 'b>(&'a Session<'b>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        *lock(&self.0.git_thread) = None;
    }
}
