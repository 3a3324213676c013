//! Events: what a run tells its listeners.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{GroupResult, RunReport};
use crate::design::{GroupName, NodeName, RunId, SiteName};
use crate::journal::StepOutcome;
use crate::step::{StepId, StepKind};

/// Something that happens in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEvent {
    /// When, RFC 3339 in UTC with milliseconds.
    pub time: Arc<str>,
    /// Since the run began, in milliseconds.
    pub elapsed_ms: u64,
    /// The expected time from here to the end, in milliseconds, if it was just estimated: until it is estimated again,
    /// it counts down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// The event.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Which gate of a group is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateStage {
    /// That of its prepared nodes.
    Prepared,
    /// That of its deployed nodes.
    Deployed,
}

impl fmt::Display for GateStage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Prepared => "prepared",
            Self::Deployed => "deployed",
        })
    }
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum EventKind {
    /// The run begins.
    RunStarted {
        /// Which.
        run: RunId,
        /// Where.
        site: SiteName,
        /// The action.
        action: Arc<str>,
        /// The commit.
        revision: Arc<str>,
        /// Steps that may run.
        steps: usize,
        /// Whether an interrupted run is resumed.
        resumed: bool,
    },
    /// A group begins.
    GroupStarted {
        /// Which.
        group: GroupName,
        /// Its nodes.
        nodes: usize,
    },
    /// A step begins.
    StepStarted {
        /// Which.
        step: StepId,
        /// Its kind.
        kind: StepKind,
        /// Its node.
        node: Option<NodeName>,
        /// From 1.
        attempt: u32,
    },
    /// A step is retried.
    StepRetried {
        /// Which.
        step: StepId,
        /// Why.
        message: Arc<str>,
        /// After how many milliseconds.
        delay_ms: u64,
    },
    /// A step tells how far it is.
    StepProgress {
        /// Which.
        step: StepId,
        /// In words; replaces what it said before.
        message: Arc<str>,
    },
    /// A step ended.
    StepFinished {
        /// Which.
        step: StepId,
        /// Its kind.
        kind: StepKind,
        /// Its node.
        node: Option<NodeName>,
        /// How.
        #[serde(flatten)]
        outcome: StepOutcome,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A gate was evaluated.
    GateEvaluated {
        /// The group.
        group: GroupName,
        /// Which of its gates.
        stage: GateStage,
        /// Nodes that count as successful.
        successful: usize,
        /// All nodes of the group.
        nodes: usize,
        /// Whether all criteria hold.
        passed: bool,
        /// The criteria that do not, in words.
        unmet: Vec<Arc<str>>,
    },
    /// A group ended.
    GroupFinished {
        /// How.
        #[serde(flatten)]
        result: GroupResult,
    },
    /// The records were written.
    Checkpoint {
        /// Nodes in it.
        nodes: usize,
    },
    /// The run was asked to stop.
    Stopping {
        /// Steps still running.
        running: usize,
    },
    /// Something that people should know.
    Warning {
        /// The message.
        message: Arc<str>,
    },
    /// The run ended.
    RunFinished {
        /// The report.
        report: Box<RunReport>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_step_is_read_again() {
        let id = StepId {
            kind: StepKind::Prepare,
            group: Some("g".into()),
            node: Some("a".into()),
            wave: None,
        };
        let outcomes = [
            StepOutcome::Succeeded,
            StepOutcome::Failed {
                message: "no".into(),
            },
            StepOutcome::Unknown {
                message: "lost".into(),
            },
            StepOutcome::Skipped {
                reason: "halted".into(),
            },
            StepOutcome::NotNeeded,
        ];
        let is_read_again = |kind: EventKind| {
            let event = RunEvent {
                time: "2027-01-15T12:00:00.000Z".into(),
                elapsed_ms: 7,
                remaining_ms: None,
                kind,
            };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<RunEvent>(&text).unwrap(), event);
        };
        for outcome in outcomes {
            is_read_again(EventKind::StepFinished {
                step: id.clone(),
                kind: id.kind,
                node: id.node.clone(),
                outcome,
                duration_ms: 9,
            });
        }
        is_read_again(EventKind::StepStarted {
            kind: id.kind,
            node: id.node.clone(),
            step: id,
            attempt: 2,
        });
        is_read_again(EventKind::Checkpoint { nodes: 3 });
        is_read_again(EventKind::GateEvaluated {
            group: "g".into(),
            stage: GateStage::Prepared,
            successful: 1,
            nodes: 2,
            passed: false,
            unmet: vec!["too few".into()],
        });
    }
}
