//! How far an observation of machines is that are asked one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the machines that are asked, and those of them that have been observed.
#[derive(Debug, Default)]
pub struct Looks {
    asked: AtomicUsize,
    observed: AtomicUsize,
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
}
