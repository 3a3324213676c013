//! What a run keeps while it goes on: its lock, its records, and their copy at the remote.
//!
//! A [`Session`] is shared between the thread that dispatches, which tells it what happens, and one that
//! does all that takes git: it renews the lock, writes checkpoints and publishes them, when it is time and
//! when it is asked ([`with_heartbeat`](super::with_heartbeat)). The dispatcher never waits for it; only a step that others have to
//! know of before it acts does. Whoever lost the lock, or finds that somebody else wrote the records, starts
//! nothing more.

use std::collections::{BTreeMap, hash_map};
use std::io::Write as _;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::error::{self, Error};
use super::files::RunFiles;
use super::helper::{Errand, Gate};
use super::node::{self, NodeInRun};
use super::publish::Publication;
use super::site_repository::{Actor, Held, SiteRepository};
use super::time::Timekeeper;
use crate::backend::Fence;
use crate::design::{Beside, NodeDesign, NodeName, RunId};
use crate::diagnostic::chain;
use crate::identity;
use crate::journal::{Entry, Replay, StepOutcome};
use crate::plan::{ChangeKind, Plan};
use crate::record::{
    self, Checkpoint, JournalMark, NodeRecord, Packed, Packing, Phase, RunRecord, SiteState, State,
    Store,
};
use crate::remediation::Note;
use crate::repository::{self, CommitId, PushOutcome};
use crate::run::{EventKind, NodeOutcome, RunEvent, StopHandle};
use crate::step::{Effect, Parameters, Step, StepId, StepKind};

/// How often the lock is renewed.
const RENEWAL: Duration = Duration::from_secs(60);
/// How long nothing is tried after the remote did not answer.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// The age of the last renewal at which no step starts any more, and none sends a request that changes
/// something.
const BOUND: Duration = Duration::from_secs(5 * 60);
/// How often the records are written and published while something changes.
const CHECKPOINT: Duration = Duration::from_secs(30);
/// The part of a run's time that checkpoints at the ends of groups may take: one in so many. What they
/// leave out is in the journal, and in the next checkpoint.
const CHECKPOINT_SHARE: u32 = 16;

/// A run that holds the lock of its site.
pub struct Session<'a> {
    pub(super) site: &'a SiteRepository<'a>,
    pub(super) actor: &'a Actor,
    pub(super) time: &'a dyn Timekeeper,
    pub(super) plan: &'a Plan,
    pub(super) plan_file: &'a Packed,
    pub(super) commit: CommitId,
    pub(super) run: RunId,
    pub(super) store: Store<'a>,
    pub(super) files: RunFiles,
    /// Steps that destroy what was there, and those that somebody said more of than their kind.
    pub(super) steps: FxHashMap<&'a StepId, &'a Step>,
    changes: FxHashMap<&'a NodeName, ChangeKind>,
    /// Nodes that the plan takes out of the cluster.
    leaving: FxHashSet<&'a NodeName>,
    /// The records before the run, as the whole site counts them.
    pub(super) before: SiteState,
    pub(super) held: Mutex<Renewal>,
    fence: Fence,
    /// The id of the journal.
    journal: Arc<str>,
    pub(super) records: Mutex<Records<'a>>,
    pub(super) published: Mutex<Published>,
    /// Held while a checkpoint is written.
    writing: Mutex<()>,
    /// The thread that does what takes git; without one it is done at once.
    pub(super) helper: Mutex<Option<mpsc::Sender<Errand>>>,
    pub(super) gate: Mutex<Gate>,
    notices: Mutex<Vec<EventKind>>,
    stop: Mutex<Option<StopHandle>>,
    /// How far the end is published; `None` before the end.
    pub(super) publication: Mutex<Option<Publication>>,
}

/// The lock, and when it is to be renewed.
pub(super) struct Renewal {
    pub(super) held: Held,
    next: Duration,
}

impl Renewal {
    /// The lock is not renewed any more.
    pub(super) fn stop(&mut self) {
        self.next = Duration::MAX;
    }
}

/// The records, and what is not in a checkpoint yet.
pub(super) struct Records<'a> {
    /// A place in the designs to be reached: the machines of a group follow each other.
    designs: Beside<'a, Arc<NodeDesign>>,
    pub(super) state: State,
    pub(super) run: RunRecord,
    /// As they are now, with what is not in a checkpoint yet.
    pub(super) nodes: FxHashMap<NodeName, NodeRecord>,
    changed: FxHashSet<NodeName>,
    /// Nodes that are being rebuilt or torn down just now.
    begun: FxHashMap<NodeName, StepId>,
    /// How many entries the journal has at least.
    pub(super) entries: usize,
    /// What happened since the last checkpoint, packed as it comes.
    events: Option<Packing>,
    /// What a checkpoint was to have, and was not written.
    parts: Vec<Packed>,
    written: Duration,
    /// How long the last checkpoint took.
    cost: Duration,
    /// Whether the next destructive step is the first one of its wave.
    pub(super) is_new_wave: bool,
    pub(super) past_verification: bool,
}

/// What goes into a checkpoint.
struct Taken {
    state: State,
    run: RunRecord,
    nodes: Vec<NodeRecord>,
    forgotten: Vec<NodeName>,
    changed: FxHashSet<NodeName>,
    parts: Vec<Packed>,
}

/// What the remote has of the records.
pub(super) struct Published {
    pub(super) tip: Option<CommitId>,
    next: Duration,
}

/// Whether what a step of this kind notes stands in the record of its node.
pub(super) fn is_recorded(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::Remediate
            | StepKind::ClearLabels
            | StepKind::Uncordon
            | StepKind::Relabel
            | StepKind::AwaitReady
    )
}

/// What a session is made of.
pub(super) struct Parts<'a> {
    pub(super) site: &'a SiteRepository<'a>,
    pub(super) actor: &'a Actor,
    pub(super) time: &'a dyn Timekeeper,
    pub(super) plan: &'a Plan,
    pub(super) plan_file: &'a Packed,
    pub(super) commit: CommitId,
    pub(super) nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    pub(super) store: Store<'a>,
    pub(super) files: RunFiles,
    pub(super) state: State,
    pub(super) remote_tip: Option<CommitId>,
    pub(super) run: RunRecord,
    pub(super) held: Held,
    /// The id of the journal, and how many entries it has.
    pub(super) journal: Arc<str>,
    pub(super) entries: usize,
}

impl<'a> Session<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Result<Self, Error> {
        let nodes = parts
            .store
            .nodes(&parts.state)
            .map_err(error::records("read the records of the nodes"))?;
        let now = parts.time.monotonic();
        let steps = parts.plan.steps.iter().filter(|step| {
            let said = |parameters: &Parameters| {
                parameters.reason.is_some()
                    || parameters.node_is_gone
                    || parameters.identity.is_some()
            };
            step.effect == Effect::Destructive || step.parameters.as_deref().is_some_and(said)
        });
        let changes = parts.plan.changes.iter();
        Ok(Self {
            site: parts.site,
            actor: parts.actor,
            time: parts.time,
            plan: parts.plan,
            plan_file: parts.plan_file,
            commit: parts.commit,
            run: parts.run.run.clone(),
            store: parts.store,
            files: parts.files,
            steps: steps.map(|step| (&step.id, step)).collect(),
            leaving: parts
                .plan
                .steps
                .iter()
                .filter(|step| step.id.kind == StepKind::RemoveFromCluster)
                .filter_map(|step| step.id.node.as_ref())
                .collect(),
            changes: changes.map(|change| (&change.node, change.kind)).collect(),
            before: parts.state.site.clone(),
            fence: Fence::new(parts.time.lease_clock(), BOUND, parts.held.renewed),
            journal: parts.journal,
            held: Mutex::new(Renewal {
                next: parts.held.renewed + RENEWAL,
                held: parts.held,
            }),
            records: Mutex::new(Records {
                designs: Beside::of(parts.nodes),
                state: parts.state,
                run: parts.run,
                nodes: nodes.into_iter().collect(),
                changed: FxHashSet::default(),
                begun: FxHashMap::default(),
                entries: parts.entries,
                events: None,
                parts: Vec::new(),
                written: now,
                cost: Duration::ZERO,
                is_new_wave: true,
                past_verification: false,
            }),
            published: Mutex::new(Published {
                tip: parts.remote_tip,
                next: now,
            }),
            writing: Mutex::new(()),
            helper: Mutex::new(None),
            gate: Mutex::default(),
            notices: Mutex::new(Vec::new()),
            stop: Mutex::new(None),
            publication: Mutex::new(None),
        })
    }

    /// How far the end of the run is published; `None` before its end.
    #[must_use]
    pub fn publication(&self) -> Option<Publication> {
        lock(&self.publication).clone()
    }

    /// Which run it is.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The commit that is applied.
    #[must_use]
    pub fn commit(&self) -> CommitId {
        self.commit
    }

    /// Who is asked to stop the run when its lock is lost.
    pub fn stop_when_lost(&self, stop: StopHandle) {
        *lock(&self.stop) = Some(stop);
        if self.is_lost() {
            self.ask_to_stop();
        }
    }

    /// Whether another step may start: the lock was renewed within five minutes, and is not lost.
    #[must_use]
    pub fn may_start(&self) -> bool {
        self.fence.holds()
    }

    /// Whether somebody else has the site now.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.fence.is_lost()
    }

    /// What each step asks before a request that changes something.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Renews the lock every 60 s; writes what has changed, and publishes it, every 30 s. To be called
    /// every few seconds, from a thread of its own where steps must not wait for the remote.
    pub fn tick(&self) {
        let now = self.time.monotonic();
        self.renew(now);
        let is_due = {
            let records = lock(&self.records);
            records.has_news() && now.saturating_sub(records.written) >= CHECKPOINT
        };
        if is_due {
            self.write_checkpoint();
        }
        let is_due = lock(&self.published).next <= now;
        if is_due {
            self.publish_records();
        }
    }

    fn renew(&self, now: Duration) {
        let mut renewal = lock(&self.held);
        if now < renewal.next || self.is_lost() {
            return;
        }
        let seen = Some(renewal.held.lock.id);
        let taken = self
            .site
            .take(seen, self.actor, self.time, &self.run, self.plan_file);
        match taken {
            Ok(held) => {
                renewal.next = held.renewed + RENEWAL;
                self.fence.confirm(held.renewed);
                renewal.held = held;
            }
            Err(Error::Repository {
                source: repository::Error::RefMoved { .. },
                ..
            }) => self.lose(),
            Err(error) => {
                renewal.next = now + AFTER_FAILURE;
                self.warn(format!("the lock could not be renewed: {}", chain(&error)));
            }
        }
    }

    /// Writes what has changed; a failure is a warning, and is tried again.
    pub(super) fn write_checkpoint(&self) -> bool {
        match self.checkpoint(None) {
            Ok(nodes) => {
                self.notice(EventKind::Checkpoint { nodes });
                true
            }
            Err(Error::Fenced { .. }) => false,
            Err(error) => {
                self.warn(format!(
                    "the records could not be written: {}",
                    chain(&error)
                ));
                false
            }
        }
    }

    /// Writes what has changed; gives the number of nodes in it. The records can be changed meanwhile.
    pub(super) fn checkpoint(&self, report: Option<&Packed>) -> Result<usize, Error> {
        let _writing = lock(&self.writing);
        let began = self.time.monotonic();
        let taken = lock(&self.records).take(self)?;
        let written = taken.nodes.len() + taken.forgotten.len();
        let draft = self.store.draft(
            &taken.state,
            &Checkpoint {
                run: &taken.run,
                nodes: taken.nodes.iter().collect(),
                forgotten: &taken.forgotten,
                plan: None,
                events: &taken.parts,
                report,
                author: self.actor.at(self.time.seconds()),
            },
        );
        let advanced = draft.and_then(|draft| self.store.advance(draft));
        let mut records = lock(&self.records);
        records.written = self.time.monotonic();
        records.cost = records.written.saturating_sub(began);
        log::info!("records of {written} nodes written in {:.1?}", records.cost);
        match advanced {
            Ok(state) => {
                records.state = state;
                Ok(written)
            }
            Err(error) => {
                records.give_back(taken);
                drop(records);
                if matches!(error, record::Error::LostRace { .. }) {
                    self.lose();
                    return Err(Error::Fenced {
                        run: self.run.clone(),
                    });
                }
                Err(error::records("write the records")(error))
            }
        }
    }

    /// Publishes the records that are written, as far as that is possible now.
    pub(super) fn publish_records(&self) {
        let mut published = lock(&self.published);
        published.next = self.time.monotonic() + CHECKPOINT;
        if self.site.audience().is_none() || self.is_lost() {
            return;
        }
        let (update, tip) = {
            let records = lock(&self.records);
            let update = self.store.publication(&records.state, published.tip);
            (update, records.state.tip)
        };
        let Some(update) = update else { return };
        match self.site.push(&[update]) {
            Ok(PushOutcome::Published) => published.tip = tip,
            Ok(PushOutcome::LostRace { .. }) => self.lose(),
            Err(error) => self.warn(chain(&error)),
        }
    }

    /// Takes in what happens.
    pub(super) fn hear(&self, event: &RunEvent) {
        if matches!(event.kind, EventKind::StepProgress { .. }) {
            // Of interest while it lasts only.
            return;
        }
        let mut records = lock(&self.records);
        if records.events.is_none() {
            let part = Part {
                journal: self.journal.clone(),
            };
            records.note(&part);
        }
        records.note(event);
        // Each of these is behind an entry of the journal.
        records.entries += usize::from(matches!(
            event.kind,
            EventKind::StepStarted { attempt: 1, .. } | EventKind::StepFinished { .. }
        ));
        match &event.kind {
            EventKind::StepStarted {
                step,
                kind,
                node: Some(node),
                ..
            } if node::rebuilds(*kind) => {
                records.begun.insert(node.clone(), step.clone());
                records.changed.insert(node.clone());
            }
            EventKind::StepStarted {
                kind: StepKind::StartGroup | StepKind::StartWave,
                ..
            }
            | EventKind::GroupStarted { .. } => records.is_new_wave = true,
            EventKind::StepFinished {
                step,
                kind,
                node,
                outcome,
                ..
            } => {
                if *kind == StepKind::VerifySite && *outcome == StepOutcome::Succeeded {
                    records.past_verification = true;
                }
                if *kind == StepKind::StartWave {
                    records.is_new_wave = true;
                }
                if let Some(node) = node
                    && records.begun.get(node) == Some(step)
                {
                    records.begun.remove(node);
                    records.changed.insert(node.clone());
                }
            }
            EventKind::GroupFinished { .. } => {
                let age = self.time.monotonic().saturating_sub(records.written);
                let is_worth_it = age >= records.cost * CHECKPOINT_SHARE;
                drop(records);
                if is_worth_it {
                    self.ask(Errand::Checkpoint);
                }
            }
            EventKind::Stopping { .. } => {
                drop(records);
                self.ask(Errand::Publish);
            }
            _ => {}
        }
    }

    /// Takes in what a step noted: the record holds the annotations of a remediation, and what its node
    /// carried and has not been given back.
    pub(super) fn noted(&self, step: &StepId, text: &Arc<str>) {
        let Some(node) = step.node.as_ref().filter(|_| is_recorded(step.kind)) else {
            return;
        };
        if identity::noted(std::slice::from_ref(text)).is_some() {
            return;
        }
        let mut records = lock(&self.records);
        let before = records.nodes.get(node);
        let record = match step.kind {
            StepKind::Remediate => node::noted(before, node, text, &self.run),
            _ => node::carried(before, node, text, &self.run),
        };
        records.nodes.insert(node.clone(), record);
        records.changed.insert(node.clone());
    }

    /// Takes in again what the journal of a run says that its steps noted for the records.
    pub(super) fn recall(&self, replay: &Replay) {
        let noting: FxHashMap<String, &StepId> = self
            .plan
            .steps
            .iter()
            .filter(|step| is_recorded(step.id.kind))
            .map(|step| (step.id.to_string(), &step.id))
            .collect();
        for entry in &replay.entries {
            if let Entry::Note { step, text } = entry
                && let Some(step) = noting.get(&**step)
            {
                self.noted(step, text);
            }
        }
    }

    /// What the records say of the remediations of this run, as notes of its steps.
    pub(super) fn remembered(&self) -> Vec<Entry> {
        let records = lock(&self.records);
        let steps = self.plan.steps.iter();
        let of_node = steps.filter_map(|step| {
            let record = records.nodes.get(step.id.node.as_ref()?)?;
            let note = match step.id.kind {
                StepKind::Remediate => Note::Recalled(record.remediation.clone()?),
                StepKind::ClearLabels => Note::BackedUp {
                    uid: Arc::from(""),
                    backup: (**record.owed.as_ref()?).clone(),
                },
                _ => return None,
            };
            (record.run == self.run).then(|| Entry::Note {
                step: step.id.to_string().into(),
                text: note.to_text(),
            })
        });
        of_node.collect()
    }

    /// Whether the record of a node does not say that this run has deployed it, as an outcome does.
    pub(super) fn is_behind(&self, outcome: &NodeOutcome) -> bool {
        let records = lock(&self.records);
        let record = records.nodes.get(&outcome.node);
        let is_deployed = record.is_some_and(|record| record.is_deployed_by(&self.run));
        outcome.phase == Some(Phase::Deployed) && !is_deployed
    }

    /// Takes in what a step did to the record of its node.
    pub(super) fn node_changed(&self, outcome: &NodeOutcome) {
        let mut guard = lock(&self.records);
        let records = &mut *guard;
        let step = self.steps.get(&outcome.step);
        let reason = step.and_then(|step| step.parameters.as_ref()?.reason.as_ref());
        let revision = records.run.revision.clone();
        let context = NodeInRun {
            run: &self.run,
            revision: &revision,
            design: records
                .designs
                .get(outcome.node.as_str())
                .map(|node| &**node),
            change: self.changes.get(&outcome.node).copied(),
            reason,
            leaves_cluster: self.leaving.contains(&outcome.node),
            is_gone: step
                .and_then(|step| step.parameters.as_ref())
                .is_some_and(|parameters| parameters.node_is_gone),
            identity: step.and_then(|step| step.parameters.as_ref()?.identity.as_deref()),
        };
        let entry = records.nodes.entry(outcome.node.clone());
        let before = match &entry {
            hash_map::Entry::Occupied(known) => Some(known.get()),
            hash_map::Entry::Vacant(_) => None,
        };
        match (node::after(before, outcome, context), entry) {
            (Some(record), entry) => drop(entry.insert_entry(record)),
            (None, hash_map::Entry::Occupied(known)) => drop(known.remove()),
            (None, hash_map::Entry::Vacant(_)) => {}
        }
        records.changed.insert(outcome.node.clone());
    }

    /// The checkpoints and warnings since the last call, for whoever listens.
    pub(super) fn notices(&self) -> Vec<EventKind> {
        std::mem::take(&mut *lock(&self.notices))
    }

    pub(super) fn warn(&self, message: String) {
        self.notice(EventKind::Warning {
            message: Arc::from(message),
        });
    }

    fn notice(&self, kind: EventKind) {
        lock(&self.notices).push(kind);
    }

    /// Somebody else has the site: nothing more starts, what runs is cancelled, and nothing more is written.
    fn lose(&self) {
        if self.fence.lose() {
            self.warn(format!(
                "the lock of site `{}` is another process's now: run {} is fenced here, and stops at once",
                self.site.name, self.run
            ));
            self.ask_to_stop();
        }
    }

    fn ask_to_stop(&self) {
        if let Some(stop) = &*lock(&self.stop) {
            stop.stop_at_once();
        }
    }
}

/// The first line of each part of the events of a run: whose they are.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The journal of the process that wrote them.
    pub(super) journal: Arc<str>,
}

impl Records<'_> {
    /// Adds a line to what happened.
    fn note(&mut self, line: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(line) {
            line.push(b'\n');
            // Packing in memory does not fail.
            let _ = self.events.get_or_insert_default().write_all(&line);
        }
    }

    /// Takes what has changed, for a checkpoint.
    fn take(&mut self, session: &Session<'_>) -> Result<Taken, Error> {
        let mut changed: Vec<&NodeName> = self.changed.iter().collect();
        changed.sort_unstable();
        let (mut nodes, mut forgotten) = (Vec::with_capacity(changed.len()), Vec::new());
        for name in changed {
            // Whatever had begun counts as unknown, should this be the last that is heard of it.
            match (self.begun.get(name), self.nodes.get(name)) {
                (Some(step), record) => {
                    let revision = &self.run.revision;
                    nodes.push(node::under_way(record, name, step, &session.run, revision));
                }
                (None, Some(record)) => nodes.push(record.clone()),
                (None, None) => forgotten.push(name.clone()),
            }
        }
        if let Some(events) = self.events.take() {
            let packed = events.finish().map_err(|error| Error::Broken {
                what: "what happened in the run".to_owned(),
                reason: error.to_string(),
            })?;
            self.parts.push(packed);
        }
        self.run.journal = Some(JournalMark {
            id: session.journal.clone(),
            entries: self.entries,
        });
        Ok(Taken {
            state: self.state.clone(),
            run: self.run.clone(),
            nodes,
            forgotten,
            changed: std::mem::take(&mut self.changed),
            parts: std::mem::take(&mut self.parts),
        })
    }

    /// Takes back what could not be written.
    fn give_back(&mut self, taken: Taken) {
        self.changed.extend(taken.changed);
        let later = std::mem::replace(&mut self.parts, taken.parts);
        self.parts.extend(later);
    }

    fn has_news(&self) -> bool {
        !self.changed.is_empty() || self.events.is_some() || !self.parts.is_empty()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
