//! The time of a simulated site: one for all machines, and for all processes that carry steps out on them.
//!
//! It is counted in milliseconds, from 0 on. It runs by tokio's clock while a process has the site open, and
//! is never behind the last entry of the site's file.
//!
//! # Several processes
//!
//! With a virtual clock each process has a clock of its own, which jumps to its next deadline as soon as nothing
//! else is left to do. So that they agree, a process that carries steps out takes part in the common time
//! ([`Participants`]): after each jump, and before any of its tasks is polled, it writes down the time that it has
//! arrived at, and continues once no other participant is behind it ([`arrived`]). Processes learn of each other by the
//! site's file alone, so that nothing can happen to one that waits: the order in time is exact, as if all steps
//! ran in one process. Those that are at the same time run in parallel, and the file's lock orders them. A process that
//! comes later begins at the time of the slowest; one that takes no part (a plan, a report) reads the site as of it.
//!
//! | a participant | what the others do |
//! | --- | --- |
//! | computes, or waits for git, a remote or a disk | they wait for it: its time stands still meanwhile |
//! | takes longer than [`LONGEST_WAIT`] of real time for one instant: it hangs, or was stopped (SIGSTOP) | it is left behind, and when it comes back it finds the time further on, as a process does that was suspended |
//! | is gone, however it ended | the lock of its place is free, which they find within [`LOOK_AFTER`] |
//! | waits for another process, its lock or its lease, before or after its steps | it takes no part then, and no participant waits for it |
//!
//! No process waits for ever for the time of another: of those that wait the slowest does not, and it moves, or is left behind.
//! (The lock of the site's file is another thing: who is stopped while it writes there keeps it, and the others wait.) Leases and locks of runs
//! are in real time, and their renewal has a thread of its own, so that a process that waits here keeps them. A signal
//! is heard when it is the process's turn. Alone, a process writes its time down and continues.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::participants::{Participants, Place, Slowest, Turn};
use crate::threads::lock;

/// How long the others wait, in real time, for a participant that does not move.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// After how long its lock is tried, which is free if its process is gone.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// How long a process that was not left behind takes that to be so: none is that moved lately.
const STILL_THERE: Duration = Duration::from_millis(1);
/// The shortest and the longest pause between two reads of the times of the others.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

thread_local! {
    /// The clock in which the runtime of this thread takes part.
    static CURRENT: RefCell<Option<Arc<SiteClock>>> = const { RefCell::new(None) };
}

/// The time of a simulated site, as one process has it.
#[derive(Debug)]
pub struct SiteClock {
    /// The folder of the participants; `None`: no other process has the same time.
    folder: Option<PathBuf>,
    longest_wait: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    base: u64,
    /// Set at the first use, since a site may be opened outside of a runtime.
    origin: Option<Instant>,
    participants: Option<Participants>,
    place: Option<Place>,
    /// When it was last seen that this process was not left behind.
    looked: Option<std::time::Instant>,
}

impl State {
    fn now(&mut self) -> u64 {
        let origin = *self.origin.get_or_insert_with(Instant::now);
        let elapsed = u64::try_from(origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.base.saturating_add(elapsed)
    }

    fn not_before(&mut self, at: u64) {
        let now = match self.origin {
            Some(_) => self.now(),
            None => self.base,
        };
        self.base += at.saturating_sub(now);
    }
}

impl SiteClock {
    /// A clock that no other process has.
    pub(super) fn alone() -> Arc<Self> {
        Self::new(None, LONGEST_WAIT)
    }

    /// The clock of all processes that have the same file.
    pub(super) fn shared(file: &Path) -> Arc<Self> {
        Self::new(Some(file.with_added_extension("clock")), LONGEST_WAIT)
    }

    pub(super) fn new(folder: Option<PathBuf>, longest_wait: Duration) -> Arc<Self> {
        Arc::new(Self {
            folder,
            longest_wait,
            state: Mutex::default(),
        })
    }

    /// The site's time.
    pub(super) fn now(&self) -> u64 {
        let mut state = self.state();
        // If the times of the others cannot be read, its own counts.
        let common = self.common(&mut state).unwrap_or_default();
        state.not_before(common.unwrap_or_default());
        state.now()
    }

    /// The time before which the site's is not, by the other processes.
    fn common(&self, state: &mut State) -> io::Result<Option<u64>> {
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        if state.participants.is_none() {
            state.participants = Participants::open(folder)?;
        }
        let now = state.now();
        match (&state.participants, &mut state.place) {
            (Some(participants), Some(place)) => {
                if state.looked.is_some_and(|at| at.elapsed() < STILL_THERE) {
                    return Ok(None);
                }
                state.looked = Some(std::time::Instant::now());
                match participants.left_behind(place)? {
                    true => participants.rejoin(place, now).map(Some),
                    false => Ok(None),
                }
            }
            (Some(participants), None) => participants.common(),
            (None, _) => Ok(None),
        }
    }

    /// The time at which it begins to run, before its first use.
    pub(super) fn start(&self) -> u64 {
        self.state().base
    }

    /// Lets the site's time be no less than this.
    pub(super) fn not_before(&self, at: u64) {
        self.state().not_before(at);
    }

    /// The instant of a time that is to come.
    pub(super) fn instant(&self, at: u64) -> Instant {
        let wait = at.saturating_sub(self.state().now());
        Instant::now() + Duration::from_millis(wait)
    }

    /// The number of this process among the participants.
    pub(super) fn number(&self) -> Option<usize> {
        self.state().place.as_ref().map(Place::number)
    }

    /// Takes part in the common time until the answer is dropped; on a runtime that calls [`arrived`].
    fn take_part(self: &Arc<Self>) -> io::Result<TakesPart> {
        if let Some(folder) = &self.folder {
            let mut state = self.state();
            let own = state.now();
            let participants = Participants::create(folder)?;
            let (place, at) = participants.join(own)?;
            state.not_before(at);
            state.participants = Some(participants);
            state.place = Some(place);
        }
        let before = CURRENT.replace(Some(self.clone()));
        let takes_part = TakesPart { before };
        self.arrive();
        Ok(takes_part)
    }

    /// Waits until no other participant is behind this one.
    fn arrive(&self) {
        let mut state = self.state();
        if self.wait(&mut state).is_err() {
            // Without the file there is no common time, and its own continues.
            state.place = None;
        }
    }

    fn wait(&self, state: &mut State) -> io::Result<()> {
        let mut at = state.now();
        let State {
            base,
            participants: Some(participants),
            place: Some(place),
            ..
        } = state
        else {
            return Ok(());
        };
        let mut awaited: Option<(Slowest, std::time::Instant)> = None;
        let mut pause = PAUSES.0;
        let mut turn = participants.arrive(place, at)?;
        loop {
            match turn {
                Turn::Its => return Ok(()),
                Turn::LeftBehind => {
                    let common = participants.rejoin(place, at)?;
                    *base += common - at;
                    at = common;
                }
                Turn::Waits(slowest) => {
                    let since = match awaited {
                        Some((other, since)) if other == slowest => since,
                        _ => {
                            let now = std::time::Instant::now();
                            (awaited, pause) = (Some((slowest, now)), PAUSES.0);
                            now
                        }
                    };
                    if since.elapsed() > LOOK_AFTER {
                        let only_dead = since.elapsed() < self.longest_wait;
                        participants.leave_behind(slowest, only_dead)?;
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
            turn = participants.turn(place)?;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A process that takes part in the time of its site; no more when this is dropped.
struct TakesPart {
    before: Option<Arc<SiteClock>>,
}

impl Drop for TakesPart {
    fn drop(&mut self) {
        let Some(clock) = CURRENT.replace(self.before.take()) else {
            return;
        };
        let mut state = clock.state();
        let now = state.now();
        (state.base, state.origin) = (now, None);
        if let (Some(participants), Some(place)) = (&state.participants, &state.place) {
            // If it cannot be written, its free lock tells the others.
            let _ = participants.leave(place);
        }
        state.place = None;
    }
}

/// Carries something out that takes part in the common time of a site; if its folder cannot be used, in its own time.
pub(in crate::backend) async fn taking_part<T>(
    clock: &Arc<SiteClock>,
    work: impl Future<Output = T>,
) -> T {
    let _takes_part = clock.take_part();
    work.await
}

/// Waits for the other processes at a simulated site, if there are any. To be called by a runtime with a paused clock
/// whenever it comes back from being idle: time has jumped then, and no task has seen it.
pub fn arrived() {
    let clock = CURRENT.with_borrow(Clone::clone);
    if let Some(clock) = clock {
        clock.arrive();
    }
}
