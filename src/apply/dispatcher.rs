//! The state of a run as the dispatcher keeps it; the files beside this one are what it does with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use super::estimate;
use super::runner::{Report, Runner};
use super::schedule::Schedule;
use super::{DispatchRequest, Error};
use crate::design::{MergeJoin, NodeDesign};
use crate::journal::Decision;
use crate::plan::Plan;
use crate::run::{EventKind, NodeOutcome, RunEvent, RunListener};

/// The time that is left is estimated anew when one in so many of the remaining steps has ended, so that all estimates of
/// a run together are linear in its steps.
const ESTIMATES: usize = 8;
/// Where so few remain, with every one that ends.
const FEW: usize = 64;

/// The messages to the listener once the journal is durable.
pub(super) enum Message {
    RunEvent(Box<RunEvent>),
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
    /// How many steps had not ended when the time that is left was estimated last.
    pub(super) estimated: Option<usize>,
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
            schedule: match &work.scope {
                Some(scope) => Schedule::of_part(work.plan, scope.own)?,
                None => Schedule::new(work.plan)?,
            },
            decided: BTreeMap::new(),
            undecided: BTreeMap::new(),
            running: BTreeMap::new(),
            starting: Vec::new(),
            messages: Vec::new(),
            began: Instant::now(),
            estimated: None,
            notes: BTreeMap::new(),
            reports,
            reports_received,
            applied: MergeJoin::of(work.applied),
            designed: MergeJoin::of(work.nodes),
            work,
        })
    }

    /// Keeps an event until the journal is durable, behind those of the decisions before it.
    pub(super) fn emit(&mut self, kind: EventKind) {
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
        self.messages.push(Message::RunEvent(Box::new(RunEvent {
            time: self.work.clock.now(),
            elapsed_ms: milliseconds(self.began.elapsed()),
            remaining_ms: None,
            kind,
        })));
    }

    /// Estimates the time that is left, if enough has happened since it was estimated last; the last event reports it.
    pub(super) fn estimate_rest(&mut self) {
        let Some(expected) = self.work.expected else {
            return;
        };
        let left = self.schedule.unfinished;
        let is_due = self.estimated.is_none_or(|before| {
            let ended = before.saturating_sub(left);
            ended > 0 && ended * ESTIMATES >= left.saturating_sub(FEW)
        });
        let events = self.messages.iter_mut().rev();
        let mut events = events.filter_map(|message| match message {
            Message::RunEvent(event) => Some(event),
            Message::Node(_) | Message::Note(..) => None,
        });
        let Some(event) = events.next().filter(|_| is_due) else {
            return;
        };
        let running = self.running.iter();
        let running: Vec<(usize, u64)> = running
            .map(|(index, began)| (*index, milliseconds(began.elapsed())))
            .collect();
        event.remaining_ms = Some(estimate::rest(&self.schedule, &running, expected));
        self.estimated = Some(left);
    }

    pub(super) fn speak(&mut self, listener: &mut dyn RunListener) {
        for saying in self.messages.drain(..) {
            match saying {
                Message::RunEvent(event) => listener.event(*event),
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
