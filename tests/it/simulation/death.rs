//! Deaths of a process, at every place where it can make a difference, and the time that it lives in.
//!
//! A process dies in the middle of a write of its journal, before or behind a call of a backend, whenever it
//! looks at the clock (which a session does before and behind all that it writes), or after some time.
//! Whatever it held in memory is gone then; what it had written and what it had asked for is not.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use trueup::apply::{self, Preconditions};
use trueup::backend::{ActError, Hardware, LeaseClock, Order, Pending, Probe};
use trueup::design::NodeDesign;
use trueup::journal::{self, Journal};
use trueup::journal::{Entry, Log};
use trueup::observed::ObservedNodes;
use trueup::run::Timekeeper;
use trueup::step::StepIndex;

/// When a process dies. Places are counted from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// While a frame of the journal is written: so many bytes of it are on the disk.
    Torn(usize, usize),
    /// A frame of the journal is on the disk, and nobody was told so.
    Written(usize),
    /// Before a backend was called.
    Before(usize),
    /// A backend has done what it was asked for, and nobody heard its answer.
    Behind(usize),
    /// When it looked at the clock.
    Looking(usize),
    /// After so long.
    After(Duration),
}

/// How often a process came by the places where it can die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) commits: usize,
    /// The longest frame of the journal.
    pub(super) longest_frame: usize,
    pub(super) calls: usize,
    pub(super) looks: usize,
}

/// What a process dies with if it has to be unwound.
struct Dead;

/// Whether, and when, a process dies.
pub(super) struct Undertaker {
    death: Option<Death>,
    came: AtomicBool,
    notify: Notify,
    places: Mutex<Places>,
}

impl Undertaker {
    pub(super) fn new(death: Option<Death>) -> Arc<Self> {
        Arc::new(Self {
            death,
            came: AtomicBool::new(false),
            notify: Notify::new(),
            places: Mutex::default(),
        })
    }

    /// Runs a process; `None`: it died while it looked at the clock.
    pub(super) fn attend<T>(
        self: &Arc<Self>,
        clock: &Hand,
        process: impl FnOnce() -> T,
    ) -> Option<T> {
        clock.looks.store(0, Ordering::SeqCst);
        let fatal = match self.death {
            Some(Death::Looking(look)) => look + 1,
            _ => 0,
        };
        clock.fatal.store(fatal, Ordering::SeqCst);
        let lived = catch_unwind(AssertUnwindSafe(process));
        clock.fatal.store(0, Ordering::SeqCst);
        clock.arrive();
        let looks = clock.looks.load(Ordering::SeqCst);
        self.places.lock().unwrap().looks = looks;
        match lived {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Dead>() => {
                self.came.store(true, Ordering::SeqCst);
                None
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    pub(super) fn came(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }

    pub(super) fn places(&self) -> Places {
        *self.places.lock().unwrap()
    }

    /// Waits for the death that comes from outside.
    pub(super) async fn comes(&self) {
        match self.death {
            Some(Death::After(time)) => {
                tokio::time::sleep(time).await;
                self.came.store(true, Ordering::SeqCst);
            }
            _ => self.notify.notified().await,
        }
    }

    /// Nothing goes on behind this.
    async fn die<T>(&self) -> T {
        self.came.store(true, Ordering::SeqCst);
        self.notify.notify_one();
        std::future::pending().await
    }
}

/// A journal that a process may die over.
pub(super) struct Dying {
    journal: Journal,
    path: PathBuf,
    has_pending: bool,
    undertaker: Arc<Undertaker>,
}

impl Dying {
    pub(super) fn new(journal: Journal, path: PathBuf, undertaker: Arc<Undertaker>) -> Self {
        Self {
            journal,
            path,
            has_pending: false,
            undertaker,
        }
    }

    fn length(&self) -> u64 {
        // Whoever took the run over and ended it has removed it.
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }
}

impl Log for Dying {
    fn append(&mut self, entry: &Entry) -> Result<(), journal::Error> {
        self.has_pending = true;
        self.journal.append(entry)
    }

    fn commit(&mut self) -> Result<(), journal::Error> {
        if !std::mem::take(&mut self.has_pending) {
            return self.journal.commit();
        }
        let before = self.length();
        self.journal.commit()?;
        let frame = usize::try_from(self.length() - before).unwrap();
        let mut places = self.undertaker.places.lock().unwrap();
        let commit = places.commits;
        places.commits += 1;
        places.longest_frame = places.longest_frame.max(frame);
        let left = match self.undertaker.death {
            Some(Death::Torn(at, left)) if at == commit => left.min(frame.saturating_sub(1)),
            Some(Death::Written(at)) if at == commit => frame,
            _ => return Ok(()),
        };
        self.undertaker.came.store(true, Ordering::SeqCst);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&self.path)
            .unwrap();
        file.set_len(before + left as u64).unwrap();
        Err(journal::Error::File {
            what: "write",
            path: self.path.clone(),
            source: io::ErrorKind::StorageFull.into(),
        })
    }
}

/// Backends that a process may die over.
pub(super) struct Mortal<T> {
    inner: T,
    undertaker: Arc<Undertaker>,
}

impl<T> Mortal<T> {
    pub(super) fn new(inner: T, undertaker: Arc<Undertaker>) -> Self {
        Self { inner, undertaker }
    }

    async fn call<R>(&self, call: impl Future<Output = R>) -> R {
        let number = {
            let mut places = self.undertaker.places.lock().unwrap();
            places.calls += 1;
            places.calls - 1
        };
        if self.undertaker.death == Some(Death::Before(number)) {
            return self.undertaker.die().await;
        }
        let answer = call.await;
        if self.undertaker.death == Some(Death::Behind(number)) {
            return self.undertaker.die().await;
        }
        answer
    }
}

impl<T: Hardware> Hardware for Mortal<Arc<T>> {
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(self.call(self.inner.observe(nodes)))
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(self.call(self.inner.probe(order)))
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(self.call(self.inner.act(order)))
    }
}

impl<T: Preconditions> Preconditions for Mortal<T> {
    fn check<'a>(&'a self, step: StepIndex, order: &'a Order) -> Pending<'a, Result<(), Arc<str>>> {
        Box::pin(self.call(self.inner.check(step, order)))
    }
}

/// The same time always, for events: what they tell must not depend on anything else.
pub(super) struct Noon;

impl apply::EventClock for Noon {
    fn now(&self) -> Arc<str> {
        "2027-01-15T12:00:00.000Z".into()
    }
}

/// The time of a stage: it passes as tokio's does while something runs, and stands still else.
#[derive(Default)]
pub(super) struct Hand {
    time: Arc<Passed>,
    /// How far the clock on the wall is off, in seconds.
    pub(super) off: AtomicI64,
    looks: AtomicUsize,
    /// The look that is the last, from 1 on; 0: none is.
    fatal: AtomicUsize,
}

/// The time that has passed on a stage.
#[derive(Default)]
struct Passed {
    /// In milliseconds, up to the beginning of what runs.
    base: AtomicU64,
    origin: Mutex<Option<Instant>>,
}

impl Passed {
    fn now(&self) -> Duration {
        let runs = self
            .origin
            .lock()
            .unwrap()
            .map_or(Duration::ZERO, |origin| origin.elapsed());
        Duration::from_millis(self.base.load(Ordering::SeqCst)) + runs
    }
}

impl Hand {
    pub(super) fn copy(&self) -> Self {
        let base = self.time.base.load(Ordering::SeqCst);
        Self {
            time: Arc::new(Passed {
                base: AtomicU64::new(base),
                ..Passed::default()
            }),
            off: AtomicI64::new(self.off.load(Ordering::SeqCst)),
            ..Self::default()
        }
    }

    /// Runs something in time that jumps.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            *self.time.origin.lock().unwrap() = Some(Instant::now());
            let result = future.await;
            self.arrive();
            result
        })
    }

    /// What ran is over; also if it was unwound, and nobody knows how long it ran.
    fn arrive(&self) {
        let origin = self.time.origin.lock().unwrap().take();
        if let Some(origin) = origin
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.time
                .base
                .fetch_add(milliseconds(origin.elapsed()), Ordering::SeqCst);
        }
    }

    fn look(&self) -> u64 {
        let look = self.looks.fetch_add(1, Ordering::SeqCst) + 1;
        if look == self.fatal.load(Ordering::SeqCst) {
            // No panic: nobody is to hear of it.
            resume_unwind(Box::new(Dead));
        }
        milliseconds(self.now())
    }

    /// The time, for whoever is no part of the process.
    pub(super) fn now(&self) -> Duration {
        self.time.now()
    }
}

impl Timekeeper for Hand {
    fn seconds(&self) -> i64 {
        let passed = i64::try_from(self.look() / 1000).unwrap();
        1_800_000_000 + passed + self.off.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.look())
    }

    fn lease_clock(&self) -> LeaseClock {
        let time = self.time.clone();
        Arc::new(move || time.now())
    }

    fn pause(&self, time: Duration) {
        self.time
            .base
            .fetch_add(milliseconds(time), Ordering::SeqCst);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}
