//! How a run ended: what the dispatcher returns, and the report.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::view::{Completion, Left};
use crate::design::{GroupName, NodeName, RunId};
use crate::journal::Entry;
use crate::plan::{Action, Plan, Standing};
use crate::record::{Counts, Error, Outcome, Packed, RunFile, RunRecord, State, Store, Unproven};
use crate::step::{LeftPods, Notes, StepId};

/// The pods that drains left on their nodes.
pub type PodsLeft = BTreeMap<StepId, LeftPods>;

/// The pods that drains have noted to be left.
pub fn pods_left(entries: &[Entry]) -> PodsLeft {
    let notes = entries.iter().filter_map(|entry| match entry {
        Entry::Note { step, text } if step.kind.facts().notes == Notes::LeftPods => {
            Some((step.clone(), LeftPods::of_note(text)?))
        }
        Entry::Opened { .. } | Entry::Intent { .. } | Entry::Ended { .. } | Entry::Note { .. } => {
            None
        }
    });
    notes.collect()
}

/// How a run stands when the dispatcher returns.
///
/// The tag step is not carried out here: it is the only one that waits for everything else, and what
/// is tagged depends on `outcome`. The caller does it next, when `interrupted` is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended: `Interrupted` where steps are left that may still run.
    pub outcome: Outcome,
    /// The groups, in the order in which they ran.
    pub groups: Vec<GroupResult>,
    /// The nodes that the plan changes, sorted.
    pub nodes: Vec<NodeResult>,
    /// Counts of those nodes.
    pub counts: Counts,
    /// How every node stands that is in a group or changes.
    pub standings: BTreeMap<NodeName, Standing>,
    /// Whether steps are left that may still run.
    pub interrupted: bool,
    /// Whether a critical group failed.
    pub critical_failed: bool,
    /// Why it was halted, where too many nodes failed.
    pub halted: Option<Arc<str>>,
    /// Steps that had begun and whose end is not known.
    pub under_way: Vec<StepId>,
    /// Steps whose state could not be observed, with the evidence to check. They and the steps that
    /// depends on them wait for a [`Decision`](crate::journal::Decision).
    pub undecided: Vec<(StepId, Arc<str>)>,
    /// Nodes that were taken out of service and whose steps after that did not all succeed, though their machines
    /// are what they were; sorted.
    pub left: Vec<(NodeName, Left)>,
    /// How long it took, in milliseconds; the part before an interruption is not in it.
    pub duration_ms: u64,
}

/// How a group ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupResult {
    /// Which.
    pub group: GroupName,
    /// Whether it is critical.
    pub critical: bool,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Whether the run stopped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Why not.
    pub reason: Option<Arc<str>>,
    /// Its nodes by standing.
    pub standings: BTreeMap<Standing, usize>,
}

/// How a node ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeResult {
    /// Which.
    pub node: NodeName,
    /// How it stands.
    pub standing: Standing,
    /// The step that failed, if one did.
    pub failed_step: Option<Arc<str>>,
    /// Why.
    pub message: Option<Arc<str>>,
    /// The step that had begun when the run stopped, and whose end is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unended_step: Option<Arc<str>>,
    /// Whether all is done that was planned for it.
    #[serde(default)]
    pub complete: bool,
    /// Whether something was done to it, or has begun on it.
    #[serde(default)]
    pub begun: bool,
    /// Whether a process whose journal is in another clone may have begun something on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_begun: bool,
    /// Time spent on it, in milliseconds.
    pub duration_ms: u64,
}

/// Why it is not known here how far a node is.
const NOT_PUBLISHED: &str =
    "it may have begun: the process of the run has not published all that it did";

impl NodeResult {
    /// How far it came.
    #[must_use]
    pub fn completion(&self) -> Completion {
        match () {
            () if self.complete => Completion::Complete,
            () if self.message.is_some() => Completion::Failed,
            () if self.begun => Completion::HalfDone,
            () => Completion::NotStarted,
        }
    }

    /// The step that failed, or whose end is not known.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        let step = self.failed_step.as_ref().or(self.unended_step.as_ref());
        step.map(|step| &**step)
    }

    /// Why it is not as it was to be.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let doubt = self.may_be_begun.then_some(NOT_PUBLISHED);
        let unended = self.unended_step.as_ref();
        let unended = unended.map(|_| "it has begun, and its end is not known yet");
        self.message.as_deref().or(doubt).or(unended)
    }
}

impl RunReport {
    /// The same, where a process whose journal is not here may have begun what is not begun otherwise.
    #[must_use]
    pub fn in_doubt(mut self) -> Self {
        let is_unbegun = |node: &NodeResult| node.completion() == Completion::NotStarted;
        for node in self.nodes.iter_mut().filter(|node| is_unbegun(node)) {
            (node.may_be_begun, node.standing) = (true, Standing::Unknown);
        }
        for group in &mut self.groups {
            if let Some(count) = group.standings.remove(&Standing::NotStarted) {
                *group.standings.entry(Standing::Unknown).or_default() += count;
            }
        }
        self.counts.may_be_begun += std::mem::take(&mut self.counts.not_started);
        self
    }

    /// The report of a run whose steps stand as was summed up.
    pub fn new(run: &RunRecord, plan: &Plan, finished: &Finished, left: &PodsLeft) -> Self {
        let touched = finished.nodes.iter().filter(|node| node.begun);
        let touched: FxHashSet<&NodeName> = touched.map(|node| &node.node).collect();
        let unverified = plan.unverified().filter(|node| touched.contains(node));
        let undrained = left.iter().filter_map(|(step, left)| {
            Some(Undrained {
                node: step.node.clone()?,
                left: left.clone(),
            })
        });
        Self {
            run: run.run.clone(),
            outcome: run.outcome,
            groups: finished.groups.clone(),
            nodes: finished.nodes.clone(),
            counts: finished.counts,
            unverified: unverified.cloned().collect(),
            drifted: plan.left_differing(),
            left_out: plan.left_out(),
            undrained: undrained.collect(),
            unproven: run.unproven,
            tag: run.tag.clone(),
            halted: finished.halted.clone(),
            undecided: finished
                .undecided
                .iter()
                .map(|(step, evidence)| Undecided {
                    step: step.clone(),
                    evidence: evidence.clone(),
                })
                .collect(),
            undelivered: Vec::new(),
            next: next(run, plan.request.action, finished),
            duration_ms: finished.duration_ms,
        }
    }

    /// It as a file of the records.
    pub(super) fn packed(&self) -> Result<Packed, super::Error> {
        let packed = Packed::new(|out| Ok(serde_json::to_writer(out, self)?));
        let (packed, ()) = packed.map_err(|error| super::Error::Broken {
            what: "the report of the run".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(packed)
    }

    /// The nodes of which not all is done.
    pub fn unfinished(&self) -> impl Iterator<Item = &NodeResult> {
        self.nodes.iter().filter(|node| !node.complete)
    }

    /// The report of a run, where it has one that can be read. One that was interrupted and then aborted by an earlier
    /// version is as its record has it.
    ///
    /// # Errors
    ///
    /// The records cannot be read.
    pub fn of(store: &Store<'_>, state: &State, run: &RunRecord) -> Result<Option<Self>, Error> {
        let bytes = store.run_file(state, &run.run, RunFile::Report)?;
        let report = bytes.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        Ok(report.map(|mut report| {
            if report.outcome != run.outcome {
                (report.outcome, report.counts) = (run.outcome, run.counts);
                report.tag.clone_from(&run.tag);
                report.next.clear();
            }
            report
        }))
    }
}

/// A step that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// The step.
    pub step: StepId,
    /// The evidence to check.
    pub evidence: Arc<str>,
}

impl Undecided {
    /// The decision in a sentence, with the command that makes it.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { step, evidence } = self;
        format!(
            "The state of `{step}` is unknown: {evidence}; then `trueup apply --resume --decide {step}=done` or `={}`.",
            "not-begun"
        )
    }
}

/// A node with the pods that its drain left on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undrained {
    /// The node.
    pub node: NodeName,
    /// The pods.
    #[serde(flatten)]
    pub left: LeftPods,
}

/// The report at the end of a run, by group and node (airship-deployment-grouping, process step 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// Which run.
    pub run: RunId,
    /// How it ended.
    pub outcome: Outcome,
    /// The groups, in the order in which they ran.
    pub groups: Vec<GroupResult>,
    /// The nodes that the plan was about, sorted.
    pub nodes: Vec<NodeResult>,
    /// Counts.
    pub counts: Counts,
    /// Nodes whose machines it changes though nothing proves that they are the ones that are meant, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<NodeName>,
    /// Machines that are not as designed or as applied, and that it left so, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifted: Vec<NodeName>,
    /// Machines that its plan would change, and that its flags left out, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<NodeName>,
    /// Drains that ended with pods on their nodes, as `--on-drain-timeout continue` allows, by node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undrained: Vec<Undrained>,
    /// How many machines of the site are not known to be as designed, if it made a tag.
    #[serde(default, skip_serializing_if = "Unproven::is_none")]
    pub unproven: Unproven,
    /// The tag, if one was made.
    pub tag: Option<Arc<str>>,
    /// Why it was halted, where too many nodes failed: nothing more was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<Arc<str>>,
    /// Steps whose state could not be observed, each with the evidence to check: they wait for a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<Undecided>,
    /// Notifications that could not be delivered, a line for each destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<Arc<str>>,
    /// The next steps, one sentence each.
    pub next: Vec<Arc<str>>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The next steps, one sentence each.
fn next(record: &RunRecord, action: Action, finished: &Finished) -> Vec<Arc<str>> {
    let (run, outcome) = (&record.run, record.outcome);
    let mut next: Vec<String> = Vec::new();
    for (step, evidence) in &finished.undecided {
        let (step, evidence) = (step.clone(), evidence.clone());
        next.push(Undecided { step, evidence }.words());
    }
    // The site is locked for a run that was interrupted, and what it has cordoned is its business.
    let is_over = outcome != Outcome::Interrupted;
    for (node, left) in finished.left.iter().filter(|_| is_over) {
        next.push(left.next(node));
    }
    match outcome {
        Outcome::Interrupted => next.push(format!(
            "`trueup apply --resume` resumes run {run}, `trueup abort {run}` aborts it."
        )),
        // The plan of the site does not repeat what only an action asks for.
        Outcome::Failed | Outcome::SucceededWithFailures if action.is_targeted() => {
            next.push(format!(
                "`trueup plan` shows where the site differs from its design; it does not repeat `{action}`."
            ));
        }
        Outcome::Failed | Outcome::SucceededWithFailures => {
            next.push("`trueup plan` shows the remaining changes.".to_owned());
        }
        Outcome::Succeeded | Outcome::Running | Outcome::Abandoned => {}
    }
    next.into_iter().map(Arc::from).collect()
}
