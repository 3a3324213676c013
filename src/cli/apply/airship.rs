//! How an action on nodes ended, as Airship's status object (airship-node-teardown, "Responses").

use crate::journal::StepOutcome;
use crate::plan::{Action, Plan};
use crate::record::Outcome;
use crate::report;
use crate::report::airship::{Message, MessageKind, Status};
use crate::run::{EventKind, RunEvent, RunReport};
use crate::step::FailureReason;

use super::super::{Failure, FailureKind};

/// The reason of a step that failed, by the action whose part it was: a composite has one for all. Etcd
/// clusters that answer, and are not healthy, are a step that failed, and not inaccessible.
fn failed(action: Option<Action>) -> FailureReason {
    match action {
        Some(Action::Drain) => FailureReason::DrainNodeError,
        Some(Action::ClearLabels) => FailureReason::ClearLabelsError,
        Some(Action::RemoveEtcd) => FailureReason::RemoveEtcdError,
        Some(Action::ShutdownKubelet) => FailureReason::ShutdownKubeletError,
        Some(Action::RemoveFromCluster) => FailureReason::DeleteNodeError,
        _ => FailureReason::DisassociateStepFailure,
    }
}

/// Whether an action is one step of the specification or its like, so that the step's own reason counts.
fn is_single(action: Action) -> bool {
    !matches!(
        action,
        Action::Update | Action::Redeploy | Action::Teardown | Action::Decommission
    )
}

/// The status of a failure before or beside the run. `action`: `None` where the request names no action.
pub(in crate::cli) fn of_failure(action: Option<Action>, failure: &Failure) -> Status {
    let reason = match failure.kind {
        FailureKind::Usage | FailureKind::Error => FailureReason::BadRequest,
        FailureKind::NotFound => FailureReason::NotFound,
        FailureKind::Guard | FailureKind::Stale | FailureKind::Locked => FailureReason::Conflict,
        FailureKind::Failed | FailureKind::Interrupted | FailureKind::Unpublished => failed(action),
    };
    let messages = failure
        .hints
        .iter()
        .map(|hint| simple(hint.clone(), false, None));
    let error = simple(failure.message.clone(), true, None);
    Status {
        reason,
        message: failure.message.clone(),
        messages: std::iter::once(error).chain(messages).collect(),
    }
}

fn simple(message: String, error: bool, name: Option<String>) -> Message {
    Message {
        message,
        error,
        kind: MessageKind::SimpleMessage,
        name,
    }
}

/// That there was nothing to do, and why for each node.
pub(super) fn of_nothing(action: Action, plan: &Plan) -> Status {
    let messages = plan.changes.iter().map(|change| {
        let reasons: Vec<&str> = change.reasons.iter().map(|reason| &**reason).collect();
        simple(reasons.join("; "), false, Some(change.node.to_string()))
    });
    Status {
        reason: FailureReason::Success,
        message: format!("`{action}` has nothing to do"),
        messages: messages.collect(),
    }
}

/// The results of the steps of a run.
#[derive(Debug, Default)]
pub(super) struct Heard {
    messages: Vec<Message>,
    /// The reason that the first step that failed gave.
    reason: Option<FailureReason>,
}

impl Heard {
    /// Takes an event in.
    pub(super) fn hear(&mut self, event: &RunEvent) {
        let EventKind::StepFinished {
            step,
            node,
            outcome,
            kind,
            ..
        } = &event.kind
        else {
            return;
        };
        if !kind.facts().touches_world() {
            return;
        }
        let (text, error) = match outcome {
            StepOutcome::Succeeded => (format!("{step} succeeded"), false),
            StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
                self.reason = self.reason.or_else(|| FailureReason::of_message(message));
                (format!("{step} failed: {message}"), true)
            }
            StepOutcome::Skipped { reason } => (format!("{step} was skipped: {reason}"), false),
            StepOutcome::NotNeeded => return,
        };
        let name = node.as_ref().map(ToString::to_string);
        self.messages.push(simple(text, error, name));
    }

    /// Why an action ended as it did.
    pub(super) fn reason(&self, action: Action, outcome: Outcome) -> FailureReason {
        match outcome {
            Outcome::Succeeded => FailureReason::Success,
            Outcome::Interrupted | Outcome::Running => failed(Some(action)),
            _ => {
                let own = self.reason.filter(|_| is_single(action));
                own.unwrap_or_else(|| failed(Some(action)))
            }
        }
    }

    /// The status of a run.
    pub(super) fn into_status(self, action: Action, report: &RunReport) -> Status {
        let reason = self.reason(action, report.outcome);
        let message = match report.outcome {
            Outcome::Succeeded => format!("`{action}` is done"),
            Outcome::Interrupted | Outcome::Running => format!("`{action}` was interrupted"),
            _ => format!("`{action}` failed"),
        };
        Status {
            reason,
            message,
            messages: self.messages,
        }
    }
}

/// A status object in one line.
pub(in crate::cli) fn line(status: &Status) -> String {
    report::json::line(status).unwrap_or_default() + "\n"
}
