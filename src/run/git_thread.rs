//! The thread for git operations of a running run, and the steps that wait for it.
//!
//! The dispatcher requests a checkpoint or a publication and continues. Only a step that others have to know
//! of before it acts waits at the gate, which opens when the records are published.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::lease::{GitTask, GitThread, LeaseHolder, binds_others};
use super::session::Session;
use crate::backend::Fence;
use crate::step::{Effect, StepId};
use crate::threads::lock;

impl LeaseHolder for Session<'_> {
    fn fence(&self) -> Fence {
        self.fence.clone()
    }

    fn tick(&self) {
        self.renew_and_write();
    }

    fn run_task(&self, task: GitTask) {
        self.write_checkpoint();
        match task {
            GitTask::Checkpoint => {}
            GitTask::Publish => {
                self.publish_records();
                // Whether it could be published or not: what was to be found is in this clone at least.
                self.git.open_gate();
            }
        }
    }

    fn git_thread(&self) -> &GitThread {
        &self.git
    }
}

impl Session<'_> {
    /// The gate of a step that is about to start: the first that destroys something in a wave waits until
    /// the remote shows it as begun, and those after it until then, too.
    pub(super) fn starting(&self, step: &StepId) -> Option<oneshot::Receiver<()>> {
        if !step.kind.rebuilds() || step.node.is_none() {
            return None;
        }
        let step = self.effects.step(step)?;
        if step.effect != Effect::Destructive {
            return None;
        }
        let is_first = std::mem::take(&mut lock(&self.records).is_new_wave);
        if !is_first {
            return self.git.place();
        }
        let (go_on, gate) = oneshot::channel();
        self.git.when_published(self, go_on);
        Some(gate)
    }

    /// Lets a step continue after a note: at once, or where a remediation noted something that others must find,
    /// should this process vanish, when that is published: a process that resumes the run in another clone has its
    /// records, and not its journal.
    pub(super) fn share(&self, step: &StepId, text: &str, go_on: oneshot::Sender<()>) {
        // What is noted is an entry of the journal by now.
        lock(&self.records).entries += 1;
        if binds_others(step, text) {
            self.git.when_published(self, go_on);
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
    holder: &dyn LeaseHolder,
    pause: Duration,
    git: GitWork,
    body: impl FnOnce() -> T,
) -> T {
    let (thread, asked) = mpsc::channel();
    // Where the thread is not asked, the channel only says when the run is over.
    let over = match git {
        GitWork::Background => {
            *lock(&holder.git_thread().sender) = Some(thread);
            None
        }
        GitWork::Inline => Some(thread),
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                match asked.recv_timeout(pause) {
                    Ok(task) => holder.run_task(task),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                holder.tick();
            }
        });
        let _over = (over, Over(holder.git_thread()));
        body()
    })
}

/// Ends the thread that does what takes git, however the run ends.
struct Over<'a>(&'a GitThread);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *lock(&self.0.sender) = None;
    }
}
