//! How far a run is, by its plan and the events so far.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::view::{GroupProgress, NodeProgress, RunProgress};
use crate::design::{GroupName, NodeName, RunId};
use crate::journal::StepOutcome;
use crate::plan::Plan;
use crate::record::Outcome;
use crate::report::{Palette, run::line};
use crate::run::{EventKind, RunEvent};
use crate::step::StepId;

/// The newest lines that are kept for those who begin to follow.
const LINES: usize = 200;

/// The steps of a node in a group that have not ended, and whether one has failed.
#[derive(Debug, Default)]
struct Left {
    steps: usize,
    failed: bool,
}

#[derive(Debug)]
struct Group {
    progress: GroupProgress,
    left: FxHashMap<NodeName, Left>,
}

/// How far a run is.
#[derive(Debug)]
pub(super) struct Tally {
    progress: RunProgress,
    groups: Vec<Group>,
    positions: FxHashMap<GroupName, usize>,
    in_work: BTreeMap<NodeName, NodeProgress>,
    failed: BTreeMap<NodeName, NodeProgress>,
    lines: VecDeque<String>,
    /// Those at their end that belong to events without an id.
    passing: usize,
}

impl Tally {
    /// Of a run that begins.
    pub(super) fn new(run: &RunId, plan: &Plan) -> Self {
        let mut groups: Vec<Group> = Vec::with_capacity(plan.groups.len());
        let mut positions = FxHashMap::default();
        for group in &plan.groups {
            positions.insert(group.name.clone(), groups.len());
            groups.push(Group {
                progress: GroupProgress {
                    name: group.name.to_string(),
                    state: "waiting".to_owned(),
                    nodes: 0,
                    done: 0,
                    failed: 0,
                    reason: None,
                },
                left: FxHashMap::default(),
            });
        }
        for step in &plan.steps {
            let position = step
                .id
                .group
                .as_ref()
                .and_then(|group| positions.get(group));
            if let (Some(position), Some(node)) = (position, &step.id.node) {
                let group = &mut groups[*position];
                group.left.entry(node.clone()).or_default().steps += 1;
            }
        }
        for group in &mut groups {
            group.progress.nodes = group.left.len();
        }
        Self {
            progress: RunProgress {
                run: run.to_string(),
                outcome: Outcome::Running.to_string(),
                elapsed_ms: 0,
                remaining_ms: None,
                steps: plan.steps.len(),
                steps_ended: 0,
                groups: Vec::new(),
                in_work: Vec::new(),
                failed: Vec::new(),
            },
            groups,
            positions,
            in_work: BTreeMap::new(),
            failed: BTreeMap::new(),
            lines: VecDeque::new(),
            passing: 0,
        }
    }

    /// Takes an event in, which has an id if it `is_numbered`; its line, as `trueup apply` prints it.
    pub(super) fn on_event(&mut self, event: &RunEvent, is_numbered: bool) -> String {
        self.progress.elapsed_ms = event.elapsed_ms;
        self.progress.remaining_ms = event.remaining_ms.or(self.progress.remaining_ms);
        match &event.kind {
            EventKind::GroupStarted { group, .. } => self.group(group, "running", None),
            EventKind::GroupFinished { result } => {
                let state = if result.succeeded {
                    "succeeded"
                } else {
                    "failed"
                };
                self.group(&result.group, state, result.reason.as_deref());
            }
            EventKind::StepStarted { step, .. } => self.started(step, &event.time),
            EventKind::StepRetried { step, message, .. }
            | EventKind::StepProgress { step, message } => {
                let node = step
                    .node
                    .as_ref()
                    .and_then(|node| self.in_work.get_mut(node));
                if let Some(node) = node {
                    node.message = Some(message.to_string());
                }
            }
            EventKind::StepFinished { step, outcome, .. } => {
                self.finished(step, outcome, &event.time);
            }
            EventKind::RunFinished { report } => {
                self.progress.outcome = report.outcome.to_string();
                self.progress.remaining_ms = None;
            }
            _ => {}
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = line(&mut text, event, Palette::Plain);
        text.truncate(text.trim_end().len());
        if !matches!(event.kind, EventKind::StepProgress { .. }) {
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(text.clone());
            self.passing = if is_numbered { 0 } else { self.passing + 1 };
        }
        text
    }

    fn group(&mut self, group: &GroupName, state: &str, reason: Option<&str>) {
        if let Some(position) = self.positions.get(group) {
            let progress = &mut self.groups[*position].progress;
            progress.state = state.to_owned();
            progress.reason = reason.map(str::to_owned);
        }
    }

    fn started(&mut self, step: &StepId, time: &str) {
        if let Some(node) = &step.node {
            let progress = NodeProgress {
                node: node.to_string(),
                step: step.kind.as_str().to_owned(),
                since: time.to_owned(),
                message: None,
            };
            self.in_work.insert(node.clone(), progress);
        }
    }

    fn finished(&mut self, step: &StepId, outcome: &StepOutcome, time: &str) {
        self.progress.steps_ended += 1;
        let Some(node) = &step.node else { return };
        let message = match outcome {
            StepOutcome::Failed { message } | StepOutcome::Unknown { message } => Some(message),
            _ => None,
        };
        let worked = self.in_work.remove(node);
        if let Some(message) = message {
            let since = worked.map_or_else(|| time.to_owned(), |worked| worked.since);
            let progress = NodeProgress {
                node: node.to_string(),
                step: step.kind.as_str().to_owned(),
                since,
                message: Some(message.to_string()),
            };
            self.failed.insert(node.clone(), progress);
        }
        let position = step
            .group
            .as_ref()
            .and_then(|group| self.positions.get(group));
        let Some(group) = position.map(|position| &mut self.groups[*position]) else {
            return;
        };
        if let Some(left) = group.left.get_mut(node) {
            group.progress.failed += usize::from(message.is_some() && !left.failed);
            left.failed |= message.is_some();
            left.steps = left.steps.saturating_sub(1);
            group.progress.done += usize::from(left.steps == 0);
            if left.steps == 0 {
                group.left.remove(node);
            }
        }
    }

    /// Notes the end of the run as the records have it.
    pub(super) fn ended(&mut self, outcome: Outcome) {
        self.progress.outcome = outcome.to_string();
        self.progress.remaining_ms = None;
    }

    /// The outcome so far.
    pub(super) fn outcome(&self) -> &str {
        &self.progress.outcome
    }

    /// How far the run is.
    pub(super) fn progress(&self) -> RunProgress {
        RunProgress {
            groups: self
                .groups
                .iter()
                .map(|group| group.progress.clone())
                .collect(),
            in_work: self.in_work.values().cloned().collect(),
            failed: self.failed.values().cloned().collect(),
            ..self.progress.clone()
        }
    }

    /// The newest lines, the oldest of them first, up to the newest event that has an id: a listener behind that id
    /// hears the others. Once nothing comes any more, all of them.
    pub(super) fn lines(&self, is_over: bool) -> Vec<String> {
        let passing = if is_over { 0 } else { self.passing };
        let until = self.lines.len().saturating_sub(passing);
        self.lines.iter().take(until).cloned().collect()
    }
}
