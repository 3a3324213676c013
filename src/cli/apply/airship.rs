//! How an action on nodes ended, as Airship's status object (airship-node-teardown, "Responses").

use crate::apply::{Event, EventKind, RunReport, StepOutcome};
use crate::plan::Action;
use crate::record::Outcome;
use crate::report::airship::{Message, MessageKind, Reason, Status};

use super::super::{Failure, FailureKind};

/// The reason of a step that failed, by the action whose part it was: a composite has one for all.
fn failed(action: Action) -> Reason {
    match action {
        Action::Drain => Reason::DrainNodeError,
        Action::ClearLabels => Reason::ClearLabelsError,
        Action::RemoveEtcd => Reason::RemoveEtcdError,
        Action::CheckEtcd => Reason::EtcdNotAccessible,
        Action::ShutdownKubelet => Reason::ShutdownKubeletError,
        Action::RemoveFromCluster => Reason::DeleteNodeError,
        _ => Reason::DisassociateStepFailure,
    }
}

/// What a failure before the run is.
pub(super) fn of_failure(action: Action, failure: &Failure) -> Status {
    let reason = match failure.kind {
        FailureKind::Usage => Reason::BadRequest,
        FailureKind::NotFound => Reason::NotFound,
        FailureKind::Guard | FailureKind::Stale | FailureKind::Locked => Reason::Conflict,
        FailureKind::Error | FailureKind::Failed | FailureKind::Interrupted => failed(action),
    };
    let messages = failure.hints.iter().map(|hint| Message {
        message: hint.clone(),
        error: false,
        kind: MessageKind::SimpleMessage,
        name: None,
    });
    let error = Message {
        message: failure.message.clone(),
        error: true,
        kind: MessageKind::SimpleMessage,
        name: None,
    };
    Status {
        reason,
        message: failure.message.clone(),
        messages: std::iter::once(error).chain(messages).collect(),
    }
}

/// What a run came to; `messages` are those of its steps.
pub(super) fn of_report(action: Action, report: &RunReport, messages: Vec<Message>) -> Status {
    let (reason, message) = match report.outcome {
        Outcome::Succeeded => (Reason::Success, format!("`{action}` is done")),
        Outcome::Interrupted | Outcome::Running => {
            (failed(action), format!("`{action}` was interrupted"))
        }
        _ => (failed(action), format!("`{action}` failed")),
    };
    Status {
        reason,
        message,
        messages,
    }
}

/// What an event adds to the messages.
pub(super) fn message(event: &Event) -> Option<Message> {
    let EventKind::StepFinished {
        step,
        node,
        outcome,
        kind,
        ..
    } = &event.kind
    else {
        return None;
    };
    if !kind.facts().touches_world() {
        return None;
    }
    let (text, error) = match outcome {
        StepOutcome::Succeeded => (format!("{step} succeeded"), false),
        StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
            (format!("{step} failed: {message}"), true)
        }
        StepOutcome::Skipped { reason } => (format!("{step} was skipped: {reason}"), false),
        StepOutcome::NotNeeded => return None,
    };
    Some(Message {
        message: text,
        error,
        kind: MessageKind::SimpleMessage,
        name: node.as_ref().map(ToString::to_string),
    })
}

/// A status object in one line.
pub(super) fn line(status: &Status) -> String {
    serde_json::to_string(status).unwrap_or_default() + "\n"
}
