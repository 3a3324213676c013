//! A scripted backend that counts how often each step was begun.
//!
//! An operation that was begun runs and ends at its time, whether its caller still waits for it or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{ActError, Hardware, Order, Pending, Probe};
use crate::design::NodeDesign;
use crate::observed::ObservedNodes;

/// The behaviour of a step in this fixture.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Fails in the end, for good.
    Fail,
    /// Answers with errors that pass, so often, before anything is begun.
    Busy(u32),
    /// Begins it, and loses the answer once.
    LoseAnswer,
    /// Loses the answer, and nothing can be told from outside.
    Ambiguous,
    /// Takes so many seconds.
    Take(u64),
    /// Takes so many seconds, and tells how far it is.
    Tell(u64),
    /// Notes what it is going to ask for, asks, and loses the answer once; finds it by its note.
    Note,
    /// Breaks the program.
    Panic,
}

#[derive(Default)]
struct State {
    calls: BTreeMap<String, u32>,
    ends: BTreeMap<String, Instant>,
    effects: BTreeMap<String, u32>,
    running: BTreeSet<String>,
    most_running: usize,
    taken_back: Vec<String>,
    left_cordoned: Vec<String>,
}

/// The fixture.
#[derive(Default)]
pub(super) struct Fixture {
    script: BTreeMap<String, Act>,
    state: Mutex<State>,
    acting: AtomicUsize,
}

impl Fixture {
    pub(super) fn new<'a>(script: impl IntoIterator<Item = (&'a str, Act)>) -> Arc<Self> {
        Arc::new(Self {
            script: script
                .into_iter()
                .map(|(step, act)| (step.to_string(), act))
                .collect(),
            state: Mutex::default(),
            acting: AtomicUsize::new(0),
        })
    }

    /// How often each step was begun.
    pub(super) fn effects(&self) -> BTreeMap<String, u32> {
        self.state.lock().unwrap().effects.clone()
    }

    /// The most steps that were awaited at the same time.
    pub(super) fn most_running(&self) -> usize {
        self.state.lock().unwrap().most_running
    }

    /// How many seconds a step takes.
    pub(super) fn takes(&self, id: &str) -> u64 {
        match self.script.get(id) {
            Some(Act::Take(seconds) | Act::Tell(seconds)) => *seconds,
            _ => 1 + id.len() as u64 % 5,
        }
    }

    /// How many steps are being carried out.
    pub(super) fn acting(&self) -> usize {
        self.acting.load(Ordering::SeqCst)
    }

    /// The steps of which was taken back what they had set.
    pub(super) fn taken_back(&self) -> Vec<String> {
        self.state.lock().unwrap().taken_back.clone()
    }

    /// The drains of the nodes that were left cordoned.
    pub(super) fn left_cordoned(&self) -> Vec<String> {
        self.state.lock().unwrap().left_cordoned.clone()
    }

    async fn carry_out(&self, order: &Order) -> Result<(), ActError> {
        let _acting = Acting::of(&self.acting);
        let id = order.step.id.to_string();
        let script = self.script.get(&id);
        if matches!(script, Some(Act::Note)) {
            match order.notes.first() {
                None => {
                    order.reporter.progress("task 1");
                    order.reporter.note("task 1").await?;
                }
                Some(task) => order.reporter.progress(format!("found {task}")),
            }
        }
        if matches!(script, Some(Act::Tell(_))) {
            order.reporter.progress("3 of 7 pods are left");
        }
        assert!(!matches!(script, Some(Act::Panic)), "as the script says");
        let end = {
            let mut state = self.state.lock().unwrap();
            let state = &mut *state;
            let calls = state.calls.entry(id.clone()).or_default();
            *calls += 1;
            match script {
                Some(Act::Busy(times)) if *calls <= *times => {
                    return Err(ActError::Passing("busy".into()));
                }
                _ => {}
            }
            let takes = self.takes(&id);
            let end = state.ends.entry(id.clone()).or_insert_with(|| {
                *state.effects.entry(id.clone()).or_default() += 1;
                Instant::now() + Duration::from_secs(takes)
            });
            let lost = matches!(script, Some(Act::LoseAnswer | Act::Note)) && *calls == 1;
            if lost || matches!(script, Some(Act::Ambiguous)) {
                return Err(ActError::Ambiguous("the answer was lost".into()));
            }
            state.running.insert(id.clone());
            state.most_running = state.most_running.max(state.running.len());
            *end
        };
        tokio::time::sleep_until(end).await;
        self.state.lock().unwrap().running.remove(&id);
        match script {
            Some(Act::Fail) => Err(ActError::Permanent("broken".into())),
            _ => Ok(()),
        }
    }
}

/// Counts a step that is being carried out, until it ends or is dropped.
struct Acting<'a>(&'a AtomicUsize);

impl<'a> Acting<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Hardware for Fixture {
    fn take_back<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
        let id = order.step.id.to_string();
        self.state.lock().unwrap().taken_back.push(id);
        Box::pin(std::future::ready(Err(ActError::Passing("away".into()))))
    }

    fn leave_cordoned<'a>(&'a self, order: &'a Order) -> Pending<'a, ()> {
        let id = order.step.id.to_string();
        self.state.lock().unwrap().left_cordoned.push(id);
        Box::pin(std::future::ready(()))
    }

    fn observe<'a>(&'a self, _: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        let id = order.step.id.to_string();
        let state = self.state.lock().unwrap();
        let probe = match (state.ends.get(&id), self.script.get(&id)) {
            (None, _) => Probe::NotBegun,
            (_, Some(Act::Ambiguous)) => Probe::Ambiguous("check the machine".into()),
            (Some(end), Some(Act::Fail)) if *end <= Instant::now() => Probe::UnderWay,
            (Some(end), _) if *end <= Instant::now() => Probe::Done,
            (Some(_), _) => Probe::UnderWay,
        };
        Box::pin(std::future::ready(probe))
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(self.carry_out(order))
    }
}
