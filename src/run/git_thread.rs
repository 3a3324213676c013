//! The thread for git operations of a running run.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::lease::{GitThread, LeaseHolder};
use crate::threads::lock;

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
    // If the thread is not asked, the channel only says when the run is over.
    let over = match git {
        GitWork::Background => {
            *lock(&holder.lease().git.sender) = Some(thread);
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
        let _over = (over, Over(&holder.lease().git));
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
