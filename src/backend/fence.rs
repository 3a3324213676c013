//! The lease of a run, asked right before each request that changes something.
//!
//! A run may change machines while it holds the lock of its site, and has confirmed that a short while ago.
//! An executor runs [`within`] its fence, and awaits [`pass`] before each request that
//! changes something: a request that is not covered by the lease is never sent, however long its step has
//! been under way, and the step is cancelled there.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A clock that runs while the system is suspended, read from any origin.
pub type LeaseClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The lease of a run as its steps see it. The default holds for ever.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<Lease>>);

struct Lease {
    clock: LeaseClock,
    /// How old the last confirmation may be, in milliseconds.
    bound: AtomicU64,
    /// When the lease was last confirmed, in milliseconds of the clock.
    confirmed: AtomicU64,
    is_lost: AtomicBool,
}

impl Fence {
    /// A lease that was confirmed at a time, and holds for `bound` after each confirmation.
    #[must_use]
    pub fn new(clock: LeaseClock, bound: Duration, confirmed: Duration) -> Self {
        Self(Some(Arc::new(Lease {
            clock,
            bound: AtomicU64::new(milliseconds(bound)),
            confirmed: AtomicU64::new(milliseconds(confirmed)),
            is_lost: AtomicBool::new(false),
        })))
    }

    /// The lease was confirmed; `at` is the time before that was asked for.
    pub fn confirm(&self, at: Duration) {
        if let Some(lease) = &self.0 {
            lease
                .confirmed
                .fetch_max(milliseconds(at), Ordering::AcqRel);
        }
    }

    /// The lease was confirmed for another time than before; `at` is the time before that was asked for.
    pub fn confirm_for(&self, at: Duration, bound: Duration) {
        if let Some(lease) = &self.0 {
            self.confirm(at);
            lease.bound.store(milliseconds(bound), Ordering::Release);
        }
    }

    /// The lease is going to be asked for a time that may be shorter, and an answer may not come: the shorter one counts.
    pub fn narrow(&self, bound: Duration) {
        if let Some(lease) = &self.0
            && lease.bound.load(Ordering::Acquire) != u64::MAX
        {
            lease.bound.fetch_min(milliseconds(bound), Ordering::AcqRel);
        }
    }

    /// The lease is another's now, and is never had again. Whether it was held before.
    pub fn lose(&self) -> bool {
        let lease = self.0.as_ref();
        lease.is_some_and(|lease| !lease.is_lost.swap(true, Ordering::AcqRel))
    }

    /// Whether the lease is another's.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let lease = self.0.as_ref();
        lease.is_some_and(|lease| lease.is_lost.load(Ordering::Acquire))
    }

    /// Whether something may be changed now: the lease was confirmed a short while ago, and is not lost.
    #[must_use]
    pub fn holds(&self) -> bool {
        let Some(lease) = &self.0 else { return true };
        let confirmed = lease.confirmed.load(Ordering::Acquire);
        let age = milliseconds((lease.clock)()).saturating_sub(confirmed);
        !self.is_lost() && age < lease.bound.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Fence(open)"),
            Some(lease) => f
                .debug_struct("Fence")
                .field("confirmed", &lease.confirmed)
                .field("is_lost", &lease.is_lost)
                .finish_non_exhaustive(),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The fence of the current task.
#[derive(Clone)]
struct Scope {
    fence: Fence,
    refused: Arc<Notify>,
}

tokio::task_local! {
    static SCOPE: Scope;
}

/// Carries something out within a fence; `None`: it came to a request that the lease did not cover, and was
/// cancelled before that was sent. What it spawned as tasks of their own is not within the fence.
pub async fn within<T>(fence: &Fence, work: impl Future<Output = T>) -> Option<T> {
    let refused = Arc::new(Notify::new());
    let scope = Scope {
        fence: fence.clone(),
        refused: refused.clone(),
    };
    tokio::select! {
        biased;
        result = SCOPE.scope(scope, work) => Some(result),
        () = refused.notified() => None,
    }
}

/// To be awaited right before a request that changes something: ready at once if the lease covers it, or
/// no run has ordered it; else never, and what is carried out is cancelled.
pub async fn pass() {
    let Ok(scope) = SCOPE.try_with(Scope::clone) else {
        return;
    };
    if scope.fence.holds() {
        return;
    }
    scope.refused.notify_one();
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is set by hand, and a lease of ten seconds.
    fn lease() -> (Arc<AtomicU64>, Fence) {
        let seconds = Arc::new(AtomicU64::new(0));
        let read = seconds.clone();
        let clock: LeaseClock = Arc::new(move || Duration::from_secs(read.load(Ordering::SeqCst)));
        (
            seconds,
            Fence::new(clock, Duration::from_secs(10), Duration::ZERO),
        )
    }

    #[tokio::test]
    async fn requests_are_sent_while_the_lease_is_confirmed_and_no_longer() {
        let (clock, fence) = lease();
        let sent = AtomicU64::new(0);
        let drain = async {
            for second in 1..100 {
                clock.store(second, Ordering::SeqCst);
                pass().await;
                sent.fetch_add(1, Ordering::SeqCst);
                if second == 5 {
                    fence.confirm(Duration::from_secs(5));
                }
            }
        };
        assert_eq!(within(&fence, drain).await, None);
        // The last one fourteen seconds after the beginning: nine after the confirmation.
        assert_eq!(sent.load(Ordering::SeqCst), 14);
        // It may be confirmed again, and then continues.
        fence.confirm(Duration::from_secs(90));
        assert_eq!(within(&fence, pass()).await, Some(()));
    }

    #[tokio::test]
    async fn a_lost_lease_is_never_had_again() {
        let (_, fence) = lease();
        assert!(fence.holds() && fence.lose() && !fence.lose());
        fence.confirm(Duration::from_secs(1));
        assert!(!fence.holds());
        assert_eq!(within(&fence, pass()).await, None);
        let reads = async { 7 };
        assert_eq!(within(&fence, reads).await, Some(7), "what only reads ends");
    }

    #[tokio::test]
    async fn what_no_run_has_ordered_is_not_fenced() {
        pass().await;
        assert_eq!(within(&Fence::default(), pass()).await, Some(()));
    }
}
