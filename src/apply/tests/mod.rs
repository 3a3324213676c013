//! Runs of plans against a scripted fixture, in virtual time.

mod cause;
mod crash;
mod estimate;
mod examples;
mod fixture;
mod leaving;
mod model;
mod plans;
mod rehearse;
mod stop;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::backend::Fence;
use crate::design::RunId;
use crate::journal::{self, Decision, Entry, Log, Replay, StepOutcome};
use crate::plan::Plan;
use crate::run::{EventKind, Finished, NodeOutcome, RunEvent, RunListener, Stop};
use fixture::Fixture;
use plans::{Site, group};

/// The same time always.
struct Noon;

impl EventClock for Noon {
    fn now(&self) -> Arc<str> {
        "2026-01-01T12:00:00.000Z".into()
    }
}

/// Keeps what it hears.
#[derive(Default)]
struct Heard {
    events: Vec<RunEvent>,
    nodes: Vec<NodeOutcome>,
}

impl RunListener for Heard {
    fn event(&mut self, event: RunEvent) {
        self.events.push(event);
    }

    fn node_changed(&mut self, outcome: NodeOutcome) {
        self.nodes.push(outcome);
    }
}

impl Heard {
    /// How steps ended, as lines.
    fn ends(&self) -> BTreeMap<String, String> {
        self.events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::StepFinished { step, outcome, .. } => {
                    let words = match outcome {
                        StepOutcome::Succeeded => "ok".to_string(),
                        StepOutcome::Failed { message } => format!("failed: {message}"),
                        StepOutcome::Unknown { message } => format!("unknown: {message}"),
                        StepOutcome::Skipped { reason } => format!("skipped: {reason}"),
                        StepOutcome::NotNeeded => "not needed".to_string(),
                    };
                    Some((step.to_string(), words))
                }
                _ => None,
            })
            .collect()
    }

    fn started(&self) -> Vec<String> {
        self.events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::StepStarted { step, .. } => Some(step.to_string()),
                _ => None,
            })
            .collect()
    }
}

/// A journal in memory whose machine goes down after some appends.
#[derive(Default)]
struct Memory {
    durable: Vec<Entry>,
    pending: Vec<Entry>,
    appends_left: Option<usize>,
    commits: usize,
}

impl Log for Memory {
    fn append(&mut self, entry: &Entry) -> Result<(), journal::Error> {
        if let Some(left) = &mut self.appends_left {
            *left = left.checked_sub(1).ok_or(journal::Error::Broken)?;
        }
        self.pending.push(entry.clone());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), journal::Error> {
        self.commits += usize::from(!self.pending.is_empty());
        self.durable.append(&mut self.pending);
        Ok(())
    }
}

/// One run, with all that can be turned.
struct Run<'a> {
    plan: &'a Plan,
    fixture: &'a Arc<Fixture>,
    log: Memory,
    /// Written instead of `log`.
    journal: Option<journal::Journal>,
    replay: Replay,
    stop: Stop,
    stop_grace: Option<std::time::Duration>,
    stop_after: Option<std::time::Duration>,
    closes_after: Option<std::time::Duration>,
    may_start: Cell<bool>,
    expected: Option<&'a ExpectedDurations>,
    heard: Heard,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, fixture: &'a Arc<Fixture>) -> Self {
        Self {
            plan,
            fixture,
            log: Memory::default(),
            journal: None,
            replay: Replay::default(),
            stop: Stop::new(),
            stop_grace: None,
            stop_after: None,
            closes_after: None,
            may_start: Cell::new(true),
            expected: None,
            heard: Heard::default(),
        }
    }

    async fn execute(&mut self) -> Result<Finished, Error> {
        let empty = BTreeMap::new();
        let may_start = || self.may_start.get();
        let log: &mut dyn Log = match &mut self.journal {
            Some(journal) => journal,
            None => &mut self.log,
        };
        let work = DispatchRequest {
            run: RunId::from("01RUN"),
            plan: self.plan,
            nodes: &empty,
            applied: &empty,
            hardware: self.fixture.clone(),
            log,
            replay: std::mem::take(&mut self.replay),
            clock: &Noon,
            stop: self.stop.clone(),
            stop_grace: self.stop_grace,
            stop_after: self.stop_after,
            closes_after: self.closes_after,
            preconditions: Arc::new(NoPreconditions),
            may_start: &may_start,
            fence: Fence::default(),
            expected: self.expected,
            scope: None,
        };
        super::execute(work, &mut self.heard).await
    }
}

/// Runs a plan to its end in virtual time.
fn run(plan: &Plan, fixture: &Arc<Fixture>) -> (Finished, Heard, Memory) {
    in_virtual_time(async {
        let mut run = Run::new(plan, fixture);
        let finished = run.execute().await.unwrap();
        (finished, run.heard, run.log)
    })
}

fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}
