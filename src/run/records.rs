//! The records of a running run, with changes that are in no checkpoint yet.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::durations::Durations;
use super::error::Error;
use super::event::{EventKind, RunEvent};
use super::node;
use crate::design::{Digests, MergeJoin, NodeDesign, NodeName};
use crate::journal::StepOutcome;
use crate::record::{JournalMark, NodeRecord, Packed, Packing, RunRecord, State};
use crate::step::{LeftPods, StepId, StepKind};

/// The records, and what is not in a checkpoint yet.
pub(super) struct LiveRecords<'a> {
    /// A place in the designs to be reached: the machines of a group follow each other.
    pub(super) designs: MergeJoin<'a, Arc<NodeDesign>>,
    pub(super) state: State,
    pub(super) run: RunRecord,
    /// As they are now, with what is not in a checkpoint yet.
    pub(super) nodes: FxHashMap<NodeName, NodeRecord>,
    pub(super) changed: FxHashSet<NodeName>,
    /// Nodes that are being rebuilt or torn down just now.
    pub(super) begun: FxHashMap<NodeName, (StepId, bool)>,
    /// How many entries the journal has at least.
    pub(super) entries: usize,
    /// The events since the last checkpoint, packed as they come.
    pub(super) events: Option<Packing>,
    /// The parts of a checkpoint that was not written.
    pub(super) parts: Vec<Packed>,
    pub(super) written: Duration,
    /// How long the last checkpoint took.
    pub(super) cost: Duration,
    /// Whether the next destructive step is the first one of its wave.
    pub(super) is_new_wave: bool,
    pub(super) past_verification: bool,
    /// For how long processes before this one carried the run out, in milliseconds, as far as its events tell.
    pub(super) earlier_ms: u64,
    /// How long steps took in this process.
    pub(super) timed: Durations,
    /// Steps that an earlier process of the run began, or may have begun if there is no list of them: how long they
    /// took is not known.
    pub(super) begun_before: Option<FxHashSet<StepId>>,
    /// Pods that drains have left on their nodes, by the drains.
    pub(super) left_pods: BTreeMap<StepId, LeftPods>,
}

/// The content of a checkpoint.
pub(super) struct Taken {
    pub(super) state: State,
    pub(super) run: RunRecord,
    pub(super) nodes: Vec<NodeRecord>,
    pub(super) forgotten: Vec<NodeName>,
    pub(super) changed: FxHashSet<NodeName>,
    pub(super) parts: Vec<Packed>,
}

/// The first line of each part of the events of a run: whose they are.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The journal of the process that wrote them.
    pub(super) journal: Arc<str>,
}

impl<'a> LiveRecords<'a> {
    /// The records of a run that begins or is resumed now.
    pub(super) fn new(
        designs: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
        nodes: impl IntoIterator<Item = (NodeName, NodeRecord)>,
        (state, run): (State, RunRecord),
        entries: usize,
        now: Duration,
    ) -> Self {
        Self {
            designs: MergeJoin::of(designs),
            state,
            run,
            nodes: nodes.into_iter().collect(),
            changed: FxHashSet::default(),
            begun: FxHashMap::default(),
            entries,
            events: None,
            parts: Vec::new(),
            written: now,
            cost: Duration::ZERO,
            is_new_wave: true,
            past_verification: false,
            earlier_ms: 0,
            timed: Durations::default(),
            begun_before: Some(FxHashSet::default()),
            left_pods: BTreeMap::new(),
        }
    }

    /// Adds an event to those of the next checkpoint, which begin with the id of the journal.
    pub(super) fn add_event(&mut self, journal: &Arc<str>, event: &RunEvent) {
        self.add_late(journal, event);
        // Each of these is behind an entry of the journal.
        self.entries += usize::from(matches!(
            event.kind,
            EventKind::StepStarted { attempt: 1, .. } | EventKind::StepFinished { .. }
        ));
    }

    /// The same of an event that is told late: its entry of the journal is counted already.
    pub(super) fn add_late(&mut self, journal: &Arc<str>, event: &RunEvent) {
        if self.events.is_none() {
            let part = Part {
                journal: journal.clone(),
            };
            self.note(&part);
        }
        self.note(event);
    }

    /// Takes in that a step started; `keeps_disks`: it keeps the disks beside that of the system.
    pub(super) fn step_started(&mut self, step: &StepId, keeps_disks: bool) {
        match &step.node {
            Some(node) if step.kind.rebuilds() => {
                self.begun.insert(node.clone(), (step.clone(), keeps_disks));
                self.changed.insert(node.clone());
            }
            Some(_) => {}
            None => {
                let begins = [StepKind::StartGroup, StepKind::StartWave];
                self.is_new_wave |= begins.contains(&step.kind);
            }
        }
    }

    /// Takes in that a step ended.
    pub(super) fn step_finished(&mut self, step: &StepId, outcome: &StepOutcome) {
        self.past_verification |=
            step.kind == StepKind::VerifySite && *outcome == StepOutcome::Succeeded;
        self.is_new_wave |= step.kind == StepKind::StartWave;
        if let Some(node) = &step.node
            && self.begun.get(node).is_some_and(|(begun, _)| begun == step)
        {
            self.begun.remove(node);
            self.changed.insert(node.clone());
        }
    }

    /// Takes in how long a step took that succeeded.
    pub(super) fn step_timed(&mut self, step: &StepId, milliseconds: u64) {
        let begun_before = self.begun_before.as_ref();
        let is_known = begun_before.is_some_and(|begun| !begun.contains(step));
        if !is_known || !step.kind.facts().touches_world() {
            return;
        }
        let node = step.node.as_ref();
        let design = node.and_then(|node| self.designs.get(node.as_str()));
        let profile = design.and_then(|design| design.hardware_profile.clone());
        self.timed
            .add(step.kind, &profile.unwrap_or_default(), milliseconds);
    }

    /// Adds a line to what happened.
    fn note(&mut self, line: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(line) {
            line.push(b'\n');
            // Packing in memory does not fail.
            let _ = self.events.get_or_insert_default().write_all(&line);
        }
    }

    /// Takes what has changed, for a checkpoint.
    pub(super) fn take(&mut self, journal: &Arc<str>) -> Result<Taken, Error> {
        let mut changed: Vec<&NodeName> = self.changed.iter().collect();
        changed.sort_unstable();
        let (mut nodes, mut forgotten) = (Vec::with_capacity(changed.len()), Vec::new());
        for name in changed {
            // Whatever had begun counts as unknown, should this be the last that is heard of it.
            match (self.begun.get(name), self.nodes.get(name)) {
                (Some((step, keeps_disks)), record) => {
                    let (run, revision) = (&self.run.run, &self.run.revision);
                    let step = (step, *keeps_disks);
                    nodes.push(node::under_way(record, name, step, run, revision));
                }
                (None, Some(record)) => nodes.push(record.clone()),
                (None, None) => forgotten.push(name.clone()),
            }
        }
        if let Some(events) = self.events.take() {
            let packed = events.finish().map_err(|error| Error::Broken {
                what: "the events of the run".to_owned(),
                reason: error.to_string(),
            })?;
            self.parts.push(packed);
        }
        self.run.journal = Some(JournalMark {
            id: journal.clone(),
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
    pub(super) fn give_back(&mut self, taken: Taken) {
        self.changed.extend(taken.changed);
        let later = std::mem::replace(&mut self.parts, taken.parts);
        self.parts.extend(later);
    }

    /// Takes digests by the rules of now into the records of earlier rules that the run left as they were.
    pub(super) fn renew(&mut self, digests: BTreeMap<NodeName, Digests>) {
        for (name, digests) in digests {
            let record = self.nodes.get_mut(&name);
            if let Some(record) = record.filter(|record| record.is_of_earlier_rules()) {
                record.take_renewed(digests);
                self.changed.insert(name);
            }
        }
    }

    pub(super) fn has_news(&self) -> bool {
        !self.changed.is_empty() || self.events.is_some() || !self.parts.is_empty()
    }
}
