//! How a session takes in what the dispatcher reports: events, notes of steps, and what becomes of nodes.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use super::effects::take_note;
use super::event::{EventKind, RunEvent};
use super::lease::{GitTask, Lease, LeaseHolder};
use super::outcome::NodeOutcome;
use super::session::Session;
use crate::journal::{Entry, Replay, StepOutcome};
use crate::record::Phase;
use crate::remediation::Note;
use crate::step::{Effect, LeftPods, Notes, StepId, StepKind};
use crate::threads::lock;

/// The part of a run's time that checkpoints at the ends of groups may take: one in so many. What they
/// leave out is in the journal, and in the next checkpoint.
const CHECKPOINT_SHARE: u32 = 16;

impl LeaseHolder for Session<'_> {
    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn earlier_ms(&self) -> u64 {
        lock(&self.records).earlier_ms
    }

    fn tick(&self) {
        self.renew_and_write();
    }

    fn run_task(&self, task: GitTask) {
        self.write_checkpoint();
        match task {
            GitTask::Checkpoint => {}
            GitTask::Publish => {
                self.publish_records();
                // Whether it could be published or not: what was to be found is in this clone at least.
                self.lease.git.open_gate();
            }
        }
    }

    fn on_event(&self, event: &RunEvent) {
        if matches!(event.kind, EventKind::StepProgress { .. }) {
            // Of interest while it lasts only.
            return;
        }
        let mut records = lock(&self.records);
        records.add_event(&self.journal, event);
        match &event.kind {
            EventKind::StepStarted { step, .. } => {
                records.step_started(step, self.effects.keeps_disks(step));
            }
            EventKind::GroupStarted { .. } => records.is_new_wave = true,
            EventKind::StepFinished {
                step,
                outcome,
                duration_ms,
                ..
            } => {
                records.step_finished(step, outcome);
                if *outcome == StepOutcome::Succeeded {
                    records.step_timed(step, *duration_ms);
                }
            }
            EventKind::GroupFinished { .. } => {
                let age = self
                    .process
                    .time
                    .monotonic()
                    .saturating_sub(records.written);
                let is_worth_it = age >= records.cost * CHECKPOINT_SHARE;
                drop(records);
                if is_worth_it {
                    self.lease.git.ask(self, GitTask::Checkpoint);
                }
            }
            EventKind::Stopping { .. } => {
                drop(records);
                self.lease.git.ask(self, GitTask::Publish);
            }
            _ => {}
        }
    }

    fn noted(&self, step: &StepId, text: &Arc<str>) {
        // What is noted is an entry of the journal by now.
        lock(&self.records).entries += 1;
        self.recall_note(step, text);
    }

    /// The first step that destroys something in a wave waits until the remote shows it as begun, and those after it
    /// until then, too.
    fn starting(&self, step: &StepId) -> Option<oneshot::Receiver<()>> {
        if !step.kind.rebuilds() || step.node.is_none() {
            return None;
        }
        let step = self.effects.step(step)?;
        if step.effect != Effect::Destructive {
            return None;
        }
        let is_first = std::mem::take(&mut lock(&self.records).is_new_wave);
        if !is_first {
            return self.lease.git.place();
        }
        let (go_on, gate) = oneshot::channel();
        self.lease.git.when_published(self, go_on);
        Some(gate)
    }

    fn node_changed(&self, outcome: &NodeOutcome) {
        let mut guard = lock(&self.records);
        let records = &mut *guard;
        let design = records.designs.get(outcome.node.as_str());
        let renamed = self.effects.apply(
            &mut records.nodes,
            outcome,
            &records.run,
            design.map(|node| &node.digests),
            self.process.time.seconds(),
        );
        records.changed.extend(renamed);
        records.changed.insert(outcome.node.clone());
    }
}

impl Session<'_> {
    fn recall_note(&self, step: &StepId, text: &Arc<str>) {
        let mut guard = lock(&self.records);
        let records = &mut *guard;
        if step.kind.facts().notes == Notes::LeftPods {
            let left = LeftPods::of_note(text).map(|left| (step.clone(), left));
            records.left_pods.extend(left);
        } else if take_note(&mut records.nodes, step, text, &records.run) {
            records.changed.extend(step.node.clone());
        }
    }

    /// Restores from the journal of a run which steps it began.
    pub(super) fn recall(&self, replay: &Replay) {
        let begun = replay.entries.iter().filter_map(|entry| match entry {
            Entry::Intent { step } => Some(step.clone()),
            _ => None,
        });
        lock(&self.records).begun_before = match replay.all_possibly_begun {
            true => None,
            false => Some(begun.collect()),
        };
    }

    /// Restores the notes of those steps whose kinds have some, from what is known of a run.
    pub(super) fn recall_notes(&self, replay: &Replay, has: impl Fn(Notes) -> bool) {
        let steps = self.approved.plan.steps.iter().map(|step| &step.id);
        let noting = steps.filter(|step| has(step.kind.facts().notes));
        let noting: FxHashSet<&StepId> = noting.collect();
        for entry in &replay.entries {
            if let Entry::Note { step, text } = entry
                && noting.contains(step)
            {
                self.recall_note(step, text);
            }
        }
    }

    /// The remediations of this run in the records, as notes of its steps.
    pub(super) fn remembered(&self) -> Vec<Entry> {
        let records = lock(&self.records);
        let steps = self.approved.plan.steps.iter();
        let of_node = steps.filter_map(|step| {
            let record = records.nodes.get(step.id.node.as_ref()?)?;
            let note = match step.id.kind.facts().notes {
                Notes::Remediation => Note::Recalled(record.remediation.clone()?),
                Notes::Carried if step.id.kind == StepKind::ClearLabels => Note::BackedUp {
                    uid: Arc::from(""),
                    backup: (**record.owed.as_ref()?).clone(),
                },
                Notes::Carried | Notes::None | Notes::LeftPods => return None,
            };
            (record.run == self.run).then(|| Entry::Note {
                step: step.id.clone(),
                text: note.to_text(),
            })
        });
        of_node.collect()
    }

    /// Whether the record of a node lacks the deploy by this run that an outcome has.
    pub(super) fn is_behind(&self, outcome: &NodeOutcome) -> bool {
        let records = lock(&self.records);
        let record = records.nodes.get(&outcome.node);
        let is_deployed = record.is_some_and(|record| record.is_deployed_by(&self.run));
        outcome.phase == Some(Phase::Deployed) && !is_deployed
    }
}
