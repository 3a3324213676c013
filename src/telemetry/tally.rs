//! The account of spans: how many have ended, how many the collector has, and why not all.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::threads::lock;

/// Told once, when the first span is lost: why.
pub type Notice = Box<dyn Fn(&str) + Send + Sync>;

/// Spans that no collector has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    /// How many.
    pub lost: u64,
    /// Of how many.
    pub ended: u64,
    /// Why the last of them was lost; shows neither the endpoint nor what was sent.
    pub why: String,
}

/// Counts spans on their way.
pub(super) struct Tally {
    /// Most spans that wait to be sent.
    capacity: usize,
    waiting: AtomicUsize,
    ended: AtomicU64,
    delivered: AtomicU64,
    /// Spans that the collector has refused, of those that were delivered.
    rejected: AtomicU64,
    /// Why the last request has failed.
    why: Mutex<String>,
    notice: Option<Notice>,
    is_told: AtomicBool,
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").finish_non_exhaustive()
    }
}

impl Tally {
    pub(super) fn new(capacity: usize, notice: Option<Notice>) -> Self {
        Self {
            capacity,
            waiting: AtomicUsize::default(),
            ended: AtomicU64::default(),
            delivered: AtomicU64::default(),
            rejected: AtomicU64::default(),
            why: Mutex::default(),
            notice,
            is_told: AtomicBool::default(),
        }
    }

    /// Counts a span that has ended; whether it may wait.
    pub(super) fn ends(&self) -> bool {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if self.waiting.fetch_add(1, Ordering::AcqRel) < self.capacity {
            return true;
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.note(format!(
            "more than {} spans wait for the collector",
            self.capacity
        ));
        self.lose();
        false
    }

    /// Counts spans that wait no more, because they are being sent.
    pub(super) fn takes(&self, spans: usize) {
        self.waiting.fetch_sub(spans, Ordering::AcqRel);
    }

    /// Counts spans that the collector has taken.
    pub(super) fn delivers(&self, spans: usize) {
        self.delivered.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Counts spans that the collector has refused, among those that it has taken.
    pub(super) fn rejects(&self, spans: u64) {
        if spans > 0 {
            self.rejected.fetch_add(spans, Ordering::Relaxed);
            self.note("the collector has rejected them".to_owned());
            self.lose();
        }
    }

    /// Notes why a request has failed, which may be sent again.
    pub(super) fn note(&self, why: String) {
        *lock(&self.why) = why;
    }

    /// Tells that spans are lost, for the reason that was noted.
    pub(super) fn lose(&self) {
        if let Some(notice) = &self.notice
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            let why = lock(&self.why);
            notice(&why);
        }
    }

    /// The losses up to now that were not told before.
    pub(super) fn losses(&self) -> Option<Losses> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (ended, rejected) = (count(&self.ended), count(&self.rejected));
        let kept = count(&self.delivered).saturating_sub(rejected);
        let lost = ended.saturating_sub(kept);
        if lost == 0 || self.is_told.load(Ordering::Relaxed) {
            return None;
        }
        let mut why = lock(&self.why);
        if why.is_empty() {
            "the collector has not answered in time".clone_into(&mut why);
        }
        Some(Losses {
            lost,
            ended,
            why: why.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn spans_beyond_the_bound_and_those_that_were_not_taken_are_lost() {
        let tally = Tally::new(2, None);
        assert_eq!(
            [tally.ends(), tally.ends(), tally.ends()],
            [true, true, false]
        );
        tally.takes(2);
        assert!(tally.ends());
        tally.delivers(2);
        let losses = tally.losses().unwrap();
        assert_eq!((losses.lost, losses.ended), (2, 4));
        assert!(losses.why.contains("more than 2 spans"), "{losses:?}");
        tally.delivers(2);
        assert_eq!(tally.losses(), None);
        tally.rejects(1);
        let losses = tally.losses().unwrap();
        assert_eq!((losses.lost, losses.ended), (1, 4));
        assert!(losses.why.contains("rejected"), "{losses:?}");
    }

    #[test]
    fn the_first_loss_is_told_at_once_where_that_is_asked_for_and_only_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let notice: Notice = Box::new(move |why| heard.lock().unwrap().push(why.to_owned()));
        let tally = Tally::new(1, Some(notice));
        assert!(tally.ends());
        for why in ["one", "two"] {
            tally.note(why.to_owned());
            tally.lose();
        }
        assert_eq!(*told.lock().unwrap(), ["one"]);
        assert_eq!(tally.losses(), None);
    }
}
