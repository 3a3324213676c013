//! The state of a run as the dispatcher keeps it; the files beside this one are what it does with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use super::runner::{Report, Runner};
use super::schedule::Schedule;
use super::{DispatchRequest, Error};
use crate::design::{MergeJoin, NodeDesign};
use crate::journal::Decision;
use crate::plan::Plan;
use crate::run::{EventKind, NodeOutcome, RunEvent, RunListener};

/// The messages to the listener once the journal is durable.
pub(super) enum Message {
    RunEvent(RunEvent),
    Node(NodeOutcome),
    Note(usize, Arc<str>, oneshot::Sender<()>),
}

/// The state of a run.
pub(super) struct Dispatcher<'a> {
    pub(super) plan: &'a Plan,
    pub(super) work: DispatchRequest<'a>,
    /// Places in the designs: the machines of a group follow each other.
    pub(super) applied: MergeJoin<'a, Arc<NodeDesign>>,
    pub(super) designed: MergeJoin<'a, Arc<NodeDesign>>,
    pub(super) schedule: Schedule<'a>,
    pub(super) decided: BTreeMap<usize, Decision>,
    pub(super) undecided: BTreeMap<usize, Arc<str>>,
    pub(super) running: BTreeMap<usize, Instant>,
    /// The runners of the steps that were begun and are not spawned yet.
    pub(super) starting: Vec<Runner>,
    pub(super) messages: Vec<Message>,
    pub(super) began: Instant,
    /// The notes of steps for themselves, in this run and before.
    pub(super) notes: BTreeMap<usize, Vec<Arc<str>>>,
    pub(super) reports: UnboundedSender<Report>,
    pub(super) reports_received: UnboundedReceiver<Report>,
}

impl<'a> Dispatcher<'a> {
    pub(super) fn new(work: DispatchRequest<'a>) -> Result<Self, Error> {
        let (reports, reports_received) = unbounded_channel();
        Ok(Self {
            plan: work.plan,
            schedule: Schedule::new(work.plan)?,
            decided: BTreeMap::new(),
            undecided: BTreeMap::new(),
            running: BTreeMap::new(),
            starting: Vec::new(),
            messages: Vec::new(),
            began: Instant::now(),
            notes: BTreeMap::new(),
            reports,
            reports_received,
            applied: MergeJoin::of(work.applied),
            designed: MergeJoin::of(work.nodes),
            work,
        })
    }

    /// Keeps an event until the journal is durable, behind those of the decisions before it.
    pub(super) fn say(&mut self, kind: EventKind) {
        self.say_decisions();
        self.say_now(kind);
    }

    /// Keeps the events of decisions until the journal is durable.
    pub(super) fn say_decisions(&mut self) {
        for kind in std::mem::take(&mut self.schedule.happened) {
            self.say_now(kind);
        }
    }

    fn say_now(&mut self, kind: EventKind) {
        self.messages.push(Message::RunEvent(RunEvent {
            time: self.work.clock.now(),
            elapsed_ms: milliseconds(self.began.elapsed()),
            kind,
        }));
    }

    pub(super) fn speak(&mut self, listener: &mut dyn RunListener) {
        for saying in self.messages.drain(..) {
            match saying {
                Message::RunEvent(event) => listener.event(event),
                Message::Note(index, text, go_on) => {
                    listener.noted(&self.plan.steps[index].id, &text, go_on);
                }
                Message::Node(outcome) => listener.node_changed(outcome),
            }
        }
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
