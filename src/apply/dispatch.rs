//! The loop that decides what starts next, and takes in what ended.
//!
//! One turn: decide all that is ready; write the intents of what starts behind the outcomes that made
//! it ready, in one commit; say what happened and what is going to; start the runners; wait until
//! something ends; take in everything that has ended by then. So an intent is durable before its step
//! acts, an outcome before what depends on it starts, and one fsync carries as many of them as came
//! together while the last one was being written.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{Id, JoinSet};
use tokio::time::{Duration, Instant};

use super::decide::Choice;
use super::graph::{self, Graph};
use super::runner::{End, Report, Runner, StepListener};
use super::tally::Tally;
use super::work::parallelism;
use super::{Error, Work};
use crate::backend::{Order, Reporter};
use crate::design::{Beside, NodeDesign};
use crate::journal::{Decision, Entry, StepOutcome};
use crate::plan::{Plan, PlannedGroup};
use crate::run::{EventKind, Finished, NodeOutcome, RunEvent, RunListener};
use crate::step::{StepIndex, StepKind};

/// How often it is asked whether a step may start, while it may not.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);
/// How often in a row what comes is taken in before it is written down.
const GATHERINGS: usize = 64;

/// Carries a plan out, up to its tag.
///
/// # Errors
///
/// [`Error::Journal`] where what was done could not be written down, [`Error::OtherPlan`],
/// [`Error::NothingToDecide`], [`Error::Plan`].
pub async fn execute(work: Work<'_>, listener: &mut dyn RunListener) -> Result<Finished, Error> {
    let mut dispatcher = Dispatcher::new(work)?;
    dispatcher.replay()?;
    dispatcher.run(listener).await
}

/// Something to be said when the journal is durable.
pub(super) enum Message {
    RunEvent(RunEvent),
    Node(NodeOutcome),
    Note(usize, Arc<str>, oneshot::Sender<()>),
}

/// Steps that compete for the same places: those of one group, or those outside groups.
#[derive(Default)]
struct Lane {
    waiting: BinaryHeap<Reverse<u32>>,
    pub(super) running: usize,
}

/// The state of a run.
pub(super) struct Dispatcher<'a> {
    pub(super) plan: &'a Plan,
    pub(super) work: Work<'a>,
    /// Places in the designs: the machines of a group follow each other.
    applied: Beside<'a, Arc<NodeDesign>>,
    designed: Beside<'a, Arc<NodeDesign>>,
    pub(super) graph: Graph,
    pub(super) tally: Tally<'a>,
    /// For each step, its group and its node.
    group_of: Vec<Option<u32>>,
    node_of: Vec<Option<u32>>,
    /// For each deploy that may overtake its gate, that gate.
    pub(super) gate_of: Vec<Option<u32>>,
    /// For each destroy of a wave, that wave.
    pub(super) wave_of: Vec<Option<u32>>,
    /// How many machines each wave tears down.
    pub(super) torn_down_by: FxHashMap<usize, usize>,
    /// For each step, whether it ended, and with success.
    pub(super) ended: Vec<Option<bool>>,
    /// For each step, whether an earlier run began it.
    pub(super) begun: Vec<bool>,
    /// For each step, whether that is not known, and it only may have.
    pub(super) only_possibly_begun: Vec<bool>,
    pub(super) decided: BTreeMap<usize, Decision>,
    /// Why steps did not succeed, as those that need them are told.
    pub(super) why_not: FxHashMap<usize, Arc<str>>,
    pub(super) site_failed: Option<Arc<str>>,
    /// Too many nodes failed: nothing more is begun.
    pub(super) halted: bool,
    /// Whether anything but nodes and groups failed.
    pub(super) step_failed: bool,
    pub(super) undecided: BTreeMap<usize, Arc<str>>,
    /// One lane a group, and the last for all else.
    lanes: Vec<Lane>,
    busy_lanes: BTreeSet<usize>,
    pub(super) running: BTreeMap<usize, Instant>,
    pub(super) unfinished: usize,
    pub(super) messages: Vec<Message>,
    pub(super) began: Instant,
    /// What steps noted for themselves, in this run and before.
    pub(super) notes: BTreeMap<usize, Vec<Arc<str>>>,
    reports: UnboundedSender<Report>,
    reports_received: UnboundedReceiver<Report>,
}

impl<'a> Dispatcher<'a> {
    fn new(work: Work<'a>) -> Result<Self, Error> {
        let plan = work.plan;
        let tally = Tally::new(plan);
        let group_of: Vec<_> = plan.steps.iter().map(|step| tally.group_of(step)).collect();
        let gate_of: Vec<_> = plan
            .steps
            .iter()
            .zip(&group_of)
            .map(|(step, group)| {
                // What was prepared before waits for nothing but its gate, and so for its group.
                let overtakes = plan.options.overlap
                    && step.id.kind == StepKind::Deploy
                    && step.needs.len() > 1
                    && group.is_some_and(|group| !tally.group_tallies[group as usize].shared);
                let mut gates = step.needs.iter().filter(|need| {
                    let other = plan.steps.get(need.step.0 as usize);
                    other.is_some_and(|other| other.id.kind == StepKind::GatePrepared)
                });
                gates.next().filter(|_| overtakes).map(|need| need.step.0)
            })
            .collect();
        let wave_of = graph::waves(&plan.steps);
        let mut torn_down_by: FxHashMap<usize, usize> = FxHashMap::default();
        for (step, wave) in plan.steps.iter().zip(&wave_of) {
            if let Some(wave) = wave.filter(|_| step.id.kind == StepKind::Destroy) {
                *torn_down_by.entry(wave as usize).or_default() += 1;
            }
        }
        let (reports, reports_received) = unbounded_channel();
        let steps = plan.steps.len();
        let tags = plan
            .steps
            .iter()
            .filter(|step| step.id.kind == StepKind::Tag);
        Ok(Self {
            plan,
            graph: Graph::new(&plan.steps, &gate_of)?,
            node_of: plan.steps.iter().map(|step| tally.node_of(step)).collect(),
            group_of,
            gate_of,
            wave_of,
            torn_down_by,
            ended: vec![None; steps],
            begun: vec![false; steps],
            only_possibly_begun: vec![false; steps],
            decided: BTreeMap::new(),
            why_not: FxHashMap::default(),
            site_failed: None,
            halted: false,
            step_failed: false,
            undecided: BTreeMap::new(),
            lanes: (0..=plan.groups.len()).map(|_| Lane::default()).collect(),
            busy_lanes: BTreeSet::new(),
            running: BTreeMap::new(),
            unfinished: steps - tags.count(),
            messages: Vec::new(),
            began: Instant::now(),
            notes: BTreeMap::new(),
            reports,
            reports_received,
            tally,
            applied: Beside::of(work.applied),
            designed: Beside::of(work.nodes),
            work,
        })
    }

    async fn run(mut self, listener: &mut dyn RunListener) -> Result<Finished, Error> {
        let mut runners: JoinSet<(usize, End)> = JoinSet::new();
        let mut tasks: FxHashMap<Id, usize> = FxHashMap::default();
        let stop = self.work.stop.clone();
        let (mut asked, mut immediate) = (stop.clone(), stop.clone());
        let stop_after = self.work.stop_after.map(|after| self.began + after);
        // Once a stop is asked for: until when what runs is waited for.
        let mut stopping: Option<Option<Instant>> = None;
        loop {
            self.decide_ready()?;
            let starting = if stopping.is_some() || stop.is_asked() {
                Vec::new()
            } else {
                self.take_starting()?
            };
            self.work.log.commit()?;
            self.speak(listener);
            for mut runner in starting {
                let index = runner.index;
                runner.gate = listener.starting(&self.plan.steps[index].id);
                let handle = runners.spawn(runner.run());
                tasks.insert(handle.id(), index);
            }
            if self.unfinished == 0 {
                break;
            }
            let waits_for_lock =
                stopping.is_none() && !stop.is_asked() && self.has_free_place_for_waiting();
            if runners.is_empty() && !waits_for_lock && (stopping.is_some() || !stop.is_asked()) {
                break;
            }
            let grace_ends = stopping.flatten();
            tokio::select! {
                biased;
                () = immediate.immediately(), if stopping.is_some() => break,
                () = asked.asked(), if stopping.is_none() => {
                    stopping = Some(self.stop_asked(listener));
                }
                () = until(stop_after), if stopping.is_none() && stop_after.is_some() => {
                    self.work.stop.handle().stop();
                    stopping = Some(self.stop_asked(listener));
                }
                () = until(grace_ends), if grace_ends.is_some() => break,
                Some(report) = self.reports_received.recv() => self.reported(report)?,
                Some(ended) = runners.join_next_with_id(), if !runners.is_empty() => {
                    self.runner_ended(ended, &mut tasks)?;
                }
                () = tokio::time::sleep(LOCK_INTERVAL), if waits_for_lock => {}
            }
            self.gather(&mut runners, &mut tasks).await?;
        }
        runners.abort_all();
        self.work.log.commit()?;
        self.finish(listener)
    }

    /// Takes in all that has come by now. What needs nobody else to come to its end is let do so first: the
    /// more a commit carries, the fewer there are.
    async fn gather(
        &mut self,
        runners: &mut JoinSet<(usize, End)>,
        tasks: &mut FxHashMap<Id, usize>,
    ) -> Result<(), Error> {
        for _ in 0..GATHERINGS {
            let mut is_news = false;
            while let Ok(report) = self.reports_received.try_recv() {
                is_news = true;
                self.reported(report)?;
            }
            while let Some(ended) = runners.try_join_next_with_id() {
                is_news = true;
                self.runner_ended(ended, tasks)?;
            }
            if !is_news {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn stop_asked(&mut self, listener: &mut dyn RunListener) -> Option<Instant> {
        let running = self.running.len();
        self.say(EventKind::Stopping { running });
        self.speak(listener);
        self.work.stop_grace.map(|grace| Instant::now() + grace)
    }

    /// Decides about every step whose needs have ended, until nothing more follows.
    fn decide_ready(&mut self) -> Result<(), Error> {
        while let Some(index) = self.graph.next_ready() {
            if self.ended[index].is_some() || self.running.contains_key(&index) {
                continue;
            }
            match self.choose(index) {
                Choice::End(outcome) => self.settle(index, outcome, false, 0)?,
                Choice::Run => {
                    let lane = self.lane_of(index);
                    self.lanes[lane]
                        .waiting
                        .push(Reverse(StepIndex::from_position(index).0));
                    self.busy_lanes.insert(lane);
                }
                Choice::Aside | Choice::Leave => {}
            }
        }
        Ok(())
    }

    /// Takes what may start now, writes its intent, and says so.
    fn take_starting(&mut self) -> Result<Vec<Runner>, Error> {
        let mut starting = Vec::new();
        if !self.has_free_place_for_waiting() || !(self.work.may_start)() {
            return Ok(starting);
        }
        let limit = parallelism(self.plan);
        loop {
            let lanes: Vec<usize> = self.busy_lanes.iter().copied().collect();
            for lane in lanes {
                while self.lanes[lane].running < limit {
                    let Some(Reverse(next)) = self.lanes[lane].waiting.pop() else {
                        self.busy_lanes.remove(&lane);
                        break;
                    };
                    let index = next as usize;
                    if self.ended[index].is_some() {
                        continue;
                    }
                    // What it depends on may have changed while it waited for a place.
                    match self.choose(index) {
                        Choice::End(outcome) => self.settle(index, outcome, false, 0)?,
                        Choice::Run => {
                            if let Some(runner) = self.begin(index)? {
                                starting.push(runner);
                            }
                        }
                        Choice::Aside | Choice::Leave => {}
                    }
                }
            }
            // What ended without a runner may have made more ready.
            let before = self.busy_lanes.len();
            self.decide_ready()?;
            if self.busy_lanes.len() == before {
                return Ok(starting);
            }
        }
    }

    /// Begins a step; `None` where somebody decided that it is done.
    fn begin(&mut self, index: usize) -> Result<Option<Runner>, Error> {
        let step = &self.plan.steps[index];
        let decision = self.decided.remove(&index);
        if decision == Some(Decision::Done) {
            self.settle(index, StepOutcome::Succeeded, true, 0)?;
            return Ok(None);
        }
        self.work.log.append(&Entry::Intent {
            step: step.id.to_string().into(),
        })?;
        let kind = step.id.kind;
        if let Some(node) = self.node_of(index) {
            self.tally.nodes[node].busy = true;
            self.tally.nodes[node].sent.add(kind);
        }
        let lane = self.lane_of(index);
        self.lanes[lane].running += 1;
        self.running.insert(index, Instant::now());
        self.say_started(index, 1);
        let (applied, designed) = (&mut self.applied, &mut self.designed);
        let node = step.id.node.as_ref().and_then(|name| {
            let (first, second) = match kind {
                StepKind::Destroy => (applied, designed),
                _ => (designed, applied),
            };
            first
                .get(name.as_str())
                .or_else(|| second.get(name.as_str()))
        });
        let mut notes = self.taken_before(index);
        notes.extend(self.notes.get(&index).into_iter().flatten().cloned());
        Ok(Some(Runner {
            index,
            ear: StepListener::new(index, self.reports.clone(), notes.clone()),
            order: Order {
                notes,
                reporter: Reporter::default(),
                run: self.work.run.clone(),
                step: Arc::new(step.clone()),
                node: node.cloned(),
            },
            probe_first: self.begun[index] && decision.is_none(),
            timeout: (step.timeout > 0).then(|| Duration::from_secs(step.timeout)),
            hardware: self.work.hardware.clone(),
            preconditions: self.work.preconditions.clone(),
            stop: self.work.stop.clone(),
            fence: self.work.fence.clone(),
            reports: self.reports.clone(),
            gate: None,
            attempted: false,
        }))
    }

    /// What clear-labels noted of the node that a step waits for: what is put back when it is there again.
    fn taken_before(&self, index: usize) -> Vec<Arc<str>> {
        let step = &self.plan.steps[index].id;
        if step.kind != StepKind::AwaitReady {
            return Vec::new();
        }
        let notes = self.notes.range(..index).filter(|(other, _)| {
            let other = &self.plan.steps[**other].id;
            other.kind == StepKind::ClearLabels && other.node == step.node
        });
        notes.flat_map(|(_, notes)| notes.iter().cloned()).collect()
    }

    fn reported(&mut self, report: Report) -> Result<(), Error> {
        match report {
            Report::Retry {
                index,
                message,
                delay,
            } => self.say(EventKind::StepRetried {
                step: self.plan.steps[index].id.clone(),
                message,
                delay_ms: milliseconds(delay),
            }),
            Report::Attempt { index, attempt } => self.say_started(index, attempt),
            Report::Progress { index, text } => self.say(EventKind::StepProgress {
                step: self.plan.steps[index].id.clone(),
                message: text,
            }),
            Report::Note {
                index,
                text,
                durable,
            } => {
                self.work.log.append(&Entry::Note {
                    step: self.plan.steps[index].id.to_string().into(),
                    text: text.clone(),
                })?;
                self.notes.entry(index).or_default().push(text.clone());
                self.messages.push(Message::Note(index, text, durable));
            }
        }
        Ok(())
    }

    fn say_started(&mut self, index: usize, attempt: u32) {
        let step = &self.plan.steps[index].id;
        self.say(EventKind::StepStarted {
            step: step.clone(),
            kind: step.kind,
            node: step.node.clone(),
            attempt,
        });
    }

    fn runner_ended(
        &mut self,
        ended: Result<(Id, (usize, End)), tokio::task::JoinError>,
        tasks: &mut FxHashMap<Id, usize>,
    ) -> Result<(), Error> {
        let (index, end) = match ended {
            Ok((id, ended)) => {
                tasks.remove(&id);
                ended
            }
            Err(error) => {
                let Some(index) = tasks.remove(&error.id()) else {
                    return Ok(());
                };
                let message = "the backend broke off; what was asked for may still go on".into();
                (index, End::Outcome(StepOutcome::Unknown { message }, true))
            }
        };
        let began = self.running.remove(&index);
        let lane = self.lane_of(index);
        self.lanes[lane].running -= 1;
        if let Some(node) = self.node_of(index) {
            let node = &mut self.tally.nodes[node];
            node.busy = false;
            let parked = std::mem::take(&mut node.parked);
            self.wake(parked);
        }
        match end {
            End::Outcome(outcome, attempted) => {
                let duration = began.map_or(0, |began| milliseconds(began.elapsed()));
                self.settle(index, outcome, attempted, duration)
            }
            End::Undecided(evidence) => {
                let step = &self.plan.steps[index].id;
                let message = format!("`{step}` waits for a decision: {evidence}");
                self.undecided.insert(index, evidence);
                self.say(EventKind::Warning {
                    message: message.into(),
                });
                Ok(())
            }
            End::Stopped => {
                self.begun[index] = true;
                Ok(())
            }
            End::Fenced => {
                // It is looked at first once the lease is confirmed again; where that is lost, the run stops.
                self.begun[index] = true;
                self.only_possibly_begun[index] = false;
                self.lanes[lane]
                    .waiting
                    .push(Reverse(StepIndex::from_position(index).0));
                self.busy_lanes.insert(lane);
                let step = &self.plan.steps[index].id;
                let message = format!(
                    "`{step}` is cancelled before its next request: the lock of the site could not be confirmed in time"
                );
                self.say(EventKind::Warning {
                    message: message.into(),
                });
                Ok(())
            }
        }
    }

    /// Writes down how a step ended, takes it in, and says so.
    fn settle(
        &mut self,
        index: usize,
        outcome: StepOutcome,
        attempted: bool,
        duration_ms: u64,
    ) -> Result<(), Error> {
        let step = &self.plan.steps[index];
        self.work.log.append(&Entry::Ended {
            step: step.id.to_string().into(),
            outcome: outcome.clone(),
            attempted,
            duration_ms,
        })?;
        self.take_in(index, &outcome, attempted, duration_ms);
        if let StepOutcome::Failed { message } | StepOutcome::Unknown { message } = &outcome
            && self.is_tolerated(index)
        {
            let message = format!(
                "`{}` failed, which holds nothing up, since its machine is torn down: {message}",
                step.id
            );
            self.say(EventKind::Warning {
                message: message.into(),
            });
        }
        let notes = self.notes.get(&index).map_or(&[][..], |notes| notes);
        if let Some(node) = NodeOutcome::of(&step.id, &outcome, attempted, notes) {
            self.messages.push(Message::Node(node));
        }
        self.say(EventKind::StepFinished {
            step: step.id.clone(),
            kind: step.id.kind,
            node: step.id.node.clone(),
            outcome,
            duration_ms,
        });
        if step.id.kind == StepKind::GateDeployed
            && let Some(group) = self.group_of(index)
        {
            let result = self.tally.result(group);
            self.say(EventKind::GroupFinished { result });
        }
        Ok(())
    }

    /// The group of a step, by its position.
    pub(super) fn group_of(&self, index: usize) -> Option<usize> {
        self.group_of[index].map(|group| group as usize)
    }

    /// The node of a step, by its position.
    pub(super) fn node_of(&self, index: usize) -> Option<usize> {
        self.node_of[index].map(|node| node as usize)
    }

    fn lane_of(&self, index: usize) -> usize {
        self.group_of(index).unwrap_or(self.plan.groups.len())
    }

    fn has_free_place_for_waiting(&self) -> bool {
        let limit = parallelism(self.plan);
        self.busy_lanes.iter().any(|lane| {
            let lane = &self.lanes[*lane];
            lane.running < limit && !lane.waiting.is_empty()
        })
    }

    /// The critical groups that ended without success.
    pub(super) fn critical_failures(&self) -> impl Iterator<Item = &'a PlannedGroup> + '_ {
        self.plan
            .groups
            .iter()
            .zip(&self.tally.group_tallies)
            .filter(|(group, tally)| group.critical && tally.ended == Some(false))
            .map(|(group, _)| group)
    }

    /// Keeps an event until the journal is durable.
    pub(super) fn say(&mut self, kind: EventKind) {
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

/// Waits until an instant; for ever where there is none.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
