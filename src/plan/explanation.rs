//! The explanation of a thing of a plan or a run, as a value: what becomes of it, the minimal causes, and the ways out.

use std::sync::Arc;

use serde::Serialize;

use super::{Block, Change, PlannedGroup, StepTimes, Unblocking, UnfinishedRun};
use crate::design::{NodeName, RunId, SiteName};
use crate::record::Outcome;
use crate::step::StepId;

/// The kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A node.
    Node,
    /// A step.
    Step,
    /// A deployment group.
    Group,
    /// A run.
    Run,
}

/// The thing that is explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedSubject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its name.
    pub name: Arc<str>,
}

/// The plan or run by which it is explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExplanationBasis {
    /// A plan that was made now.
    Plan,
    /// A saved plan.
    File {
        /// The file.
        path: Arc<str>,
    },
    /// A plan that the service keeps.
    ServicePlan {
        /// Its path there.
        path: Arc<str>,
    },
    /// A run.
    Run {
        /// Its id.
        run: RunId,
        /// Its outcome; absent while it has not ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// Why it began nothing more, if it was halted.
        #[serde(skip_serializing_if = "Option::is_none")]
        halted: Option<Arc<str>>,
        /// Its process, where it has not ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        unfinished: Option<UnfinishedRun>,
        /// Whether a process whose journal is in another clone may have begun more.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        may_be_begun: bool,
    },
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepStanding {
    /// Its run has not begun.
    Planned,
    /// It waits for other steps.
    Waiting,
    /// It has all that it waited for, and begins next.
    Ready,
    /// It runs, or had begun when its run stopped.
    Begun,
    /// It succeeded.
    Succeeded,
    /// Another group has sent its node.
    NotNeeded,
    /// It failed.
    Failed,
    /// It was not answered: its request may still be running.
    Unknown,
    /// It was not attempted.
    Skipped,
    /// Its run has ended before it was reached.
    NotReached,
}

/// A step that is a cause, with the message of its failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepCause {
    /// The step.
    pub step: StepId,
    /// How it stands.
    pub standing: StepStanding,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

/// How many of the causes have to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CausesNeeded {
    /// All of them.
    All,
    /// Any one of them.
    AnyOne,
}

/// The usual duration of a step, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepTiming {
    /// Nine of ten took longer, in seconds, on this hardware profile.
    pub usual_least: u64,
    /// Nine of ten took less.
    pub usual_most: u64,
    /// How many durations are recorded.
    pub recorded: usize,
    /// How long it has run, if it runs, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// It runs longer than any that was recorded.
    pub overdue: bool,
}

/// A step, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepExplanation {
    /// The step.
    pub step: StepId,
    /// How it stands.
    pub standing: StepStanding,
    /// Why it failed or was skipped, in the words of its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// The nodes that it watches, if it is a soak.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watches: Vec<NodeName>,
    /// The minimal causes.
    pub causes: Vec<StepCause>,
    /// How many of these have to be removed.
    pub needed: CausesNeeded,
    /// No cause can be left out; `false`: the search was stopped at its bound.
    pub minimal: bool,
    /// The steps that run or begin next, on which the causes depend.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<StepCause>,
    /// Why it has no place, where steps of its group are at the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Arc<str>>,
    /// When it is expected to begin and end, in seconds after the start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<StepTimes>,
    /// Its usual duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<StepTiming>,
}

impl StepExplanation {
    /// Whether it has begun to no success, or did not begin at all in a run that has ended.
    #[must_use]
    pub fn is_unsuccessful(&self) -> bool {
        matches!(
            self.standing,
            StepStanding::Failed | StepStanding::Unknown | StepStanding::Skipped
        )
    }
}

/// Why a plan as a whole is not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanRefusal {
    /// The reason.
    pub reason: String,
    /// The person or act that can end it.
    pub who: &'static str,
    /// The command, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WayOut {
    /// The act.
    pub what: String,
    /// The command that works now, if one does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The explanation of a thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The thing.
    pub subject: ExplainedSubject,
    /// The site.
    pub site: SiteName,
    /// By which plan or run.
    pub basis: ExplanationBasis,
    /// The change of the node, with why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// Nothing is done to it; why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<String>,
    /// Why the machine of the node could not be observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unobserved: Option<Arc<str>>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<PlannedGroup>,
    /// The flags that its change needs, or the fact that no flag changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unblocking: Option<Unblocking>,
    /// Changes of the group that are blocked, each with its block.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedNode>,
    /// Why the plan as a whole is not applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<PlanRefusal>,
    /// Its steps.
    pub steps: Vec<StepExplanation>,
    /// Steps that are left out here.
    pub more_steps: usize,
    /// The acts that change something, with their commands.
    pub ways_out: Vec<WayOut>,
}

/// A node of a group whose change is blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedNode {
    /// The node.
    pub node: NodeName,
    /// Why.
    pub block: Block,
}
