//! Locks that move between the question whose they are and the attempt to take them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use trueup::backend::LeaseClock;
use trueup::repository::{Holder, NewLock, Repository, Signature};
use trueup::run::{Error, Kind, Process, SiteRepository, Timekeeper, begin};

use super::{Hand, Job, actor, alone, holds, move_elsewhere, plan, remote_of, shared};
use crate::git::{Checkout, Origin};

/// A clock by which something happens at the moment in which a lock is tried for the nth time.
struct AtTry<F> {
    hand: Hand,
    left: AtomicU32,
    happens: F,
}

impl<F: Fn(&Hand) + Sync> AtTry<F> {
    fn new(nth: u32, happens: F) -> Self {
        Self {
            hand: Hand::new(),
            left: AtomicU32::new(nth),
            happens,
        }
    }
}

impl<F: Fn(&Hand) + Sync> Timekeeper for AtTry<F> {
    fn seconds(&self) -> i64 {
        self.hand.seconds()
    }

    /// It is read before a lock is tried.
    fn monotonic(&self) -> Duration {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            (self.happens)(&self.hand);
        }
        self.hand.monotonic()
    }

    fn lease_clock(&self) -> LeaseClock {
        self.hand.lease_clock()
    }

    fn pause(&self, time: Duration) {
        self.hand.pause(time);
    }

    fn is_stopped(&self) -> bool {
        self.hand.is_stopped()
    }

    fn explain(&self, waits_for: &str) {
        self.hand.explain(waits_for);
    }
}

/// Leaves the site locked by a process of this machine that is gone.
fn leave_locked(site: &SiteRepository<'_>, time: &Hand) {
    let gone = Holder {
        process_start: Some(u64::MAX),
        ..Holder::this_process("Ada", "run-1", "2027-01-15T12:00:00Z")
    };
    let new = NewLock {
        site: "one",
        holder: &Holder { pid: 1, ..gone },
        plan: b"",
        nonce: "left",
        author: Signature {
            name: "Ada".to_owned(),
            email: String::new(),
            seconds: time.seconds(),
        },
    };
    site.repository.acquire_lock(&new, remote_of(site)).unwrap();
}

/// Begins a run in a clone whose lock a dead process left, while something happens to the lock at the nth attempt to
/// take it.
fn begin_while(
    is_shared: bool,
    nth: u32,
    happens: impl Fn(&SiteRepository<'_>, &Hand) + Sync,
) -> Result<(), Error> {
    let origin = Origin::new();
    let checkout = Checkout::clone_of(&origin.url(), &[]);
    let commit = checkout.commit("one");
    checkout.git(&["push", "--quiet", "origin", "HEAD:main"]);
    let site_in: fn(&Repository) -> SiteRepository<'_> = match is_shared {
        true => shared,
        false => alone,
    };
    let time = AtTry::new(nth, |hand: &Hand| {
        happens(&site_in(&checkout.open()), hand);
    });
    let repository = checkout.open();
    let site = site_in(&repository);
    leave_locked(&site, &time.hand);
    let order = Job::new(plan(&["a"]), commit);
    let actor = actor();
    let process = Process::new(&site, &actor, &time);
    begin(process, order.proposal(), &mut holds).map(|_| ())
}

/// Both attempts to take a lock: as if it was free, and as the lock of a dead process.
const ATTEMPTS: [u32; 2] = [1, 2];

#[test]
fn a_lock_that_is_released_while_its_holder_is_judged_is_free() {
    for (is_shared, nth) in [false, true]
        .into_iter()
        .flat_map(|way| ATTEMPTS.map(|nth| (way, nth)))
    {
        let begun = begin_while(is_shared, nth, |site, _| {
            let left = site.repository.read_lock("one").unwrap().unwrap();
            let remote = remote_of(site);
            site.repository
                .release_lock("one", left.id, remote)
                .unwrap();
        });
        assert!(begun.is_ok(), "{is_shared} {nth}: {begun:?}");
    }
}

#[test]
fn a_lock_that_another_process_takes_first_is_held() {
    for (is_shared, nth) in [false, true]
        .into_iter()
        .flat_map(|way| ATTEMPTS.map(|nth| (way, nth)))
    {
        let refused = begin_while(is_shared, nth, move_elsewhere).unwrap_err();
        let Error::LockHeld { holder, .. } = &refused else {
            panic!("{is_shared} {nth}: {refused:?}");
        };
        assert_eq!(holder.host, "elsewhere");
        assert_eq!(refused.kind(), Kind::LockHeld);
    }
}
