//! How far an observation of machines is that are asked one by one, and what steps and observations that were cancelled leave
//! to be ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::threads::lock;

/// How long what is being ended is waited for before the process goes.
pub(super) const LAST_ENDS: Duration = Duration::from_secs(5);
/// Most ends that are remembered.
const MOST_ENDINGS: usize = 10_000;

/// Counts the machines that are asked, and those of them that have been observed.
#[derive(Debug, Default)]
pub struct Looks {
    asked: AtomicUsize,
    observed: AtomicUsize,
    endings: Endings,
}

impl Looks {
    /// So many machines more are asked.
    pub(super) fn ask(&self, machines: usize) {
        self.asked.fetch_add(machines, Ordering::Relaxed);
    }

    /// One of them has been observed, or does not answer.
    pub(super) fn observed(&self) {
        self.observed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many have been observed, and how many are asked.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        let observed = self.observed.load(Ordering::Relaxed);
        (observed, self.asked.load(Ordering::Relaxed).max(observed))
    }

    /// Ends of cancelled steps and observations.
    pub(super) fn endings(&self) -> &Endings {
        &self.endings
    }

    /// Waits until what was left by those that were cancelled is ended, such as the sessions at controllers; a few seconds at
    /// most.
    pub async fn leave(&self) {
        self.endings.all().await;
    }
}

/// Sessions whose users were cancelled, and which are being ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Endings {
    pub(super) fn add(&self, ending: JoinHandle<()>) {
        let mut endings = lock(&self.0);
        endings.retain(|each| !each.is_finished());
        if endings.len() < MOST_ENDINGS {
            endings.push(ending);
        }
    }

    /// Waits until all are ended, for a few seconds at most.
    pub(super) async fn all(&self) {
        let endings = std::mem::take(&mut *lock(&self.0));
        // What does not answer meanwhile ends its session by itself.
        drop(tokio::time::timeout(LAST_ENDS, futures_util::future::join_all(endings)).await);
    }
}
