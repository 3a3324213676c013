//! How an action on nodes ended, as Airship's status object (airship-node-teardown, "Responses").

use super::{Message, MessageKind, Status};
use crate::journal::StepOutcome;
use crate::plan::{Action, Plan};
use crate::record::Outcome;
use crate::report::run::undrained_words;
use crate::run::{EventKind, RunEvent, RunReport};
use crate::step::FailureReason;

/// Whether an action is one step of the specification or its like, so that the step's own reason counts.
fn is_single(action: Action) -> bool {
    !matches!(
        action,
        Action::Update | Action::Redeploy | Action::Teardown | Action::Decommission
    )
}

/// The status of a request that was refused, or failed beside its steps.
#[must_use]
pub fn of_refusal(reason: FailureReason, message: &str, hints: &[String]) -> Status {
    let error = simple(message.to_owned(), true, None);
    let hints = hints.iter().map(|hint| simple(hint.clone(), false, None));
    Status {
        reason: reason.into(),
        message: message.to_owned(),
        messages: std::iter::once(error).chain(hints).collect(),
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
#[must_use]
pub fn of_nothing(action: Action, plan: &Plan) -> Status {
    let messages = plan.changes.iter().map(|change| {
        let left_out = change.excluded.then_some("left out, as the request asks");
        let blocked = change.blocked.as_ref().map(|block| &*block.reason);
        let own = change.reasons.iter().map(|reason| &**reason);
        let mut reasons: Vec<&str> = left_out.into_iter().chain(blocked).chain(own).collect();
        if reasons.is_empty() {
            reasons.push("shown only");
        }
        simple(reasons.join("; "), false, Some(change.node.to_string()))
    });
    Status {
        reason: FailureReason::Success.into(),
        message: format!("`{action}` has nothing to do"),
        messages: messages.collect(),
    }
}

/// The results of the steps of a run.
#[derive(Debug, Default)]
pub struct Heard {
    messages: Vec<Message>,
    /// The reason that the first step that failed gave.
    reason: Option<FailureReason>,
}

impl Heard {
    /// Takes an event in.
    pub fn on_event(&mut self, event: &RunEvent) {
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
    #[must_use]
    pub fn reason(&self, action: Action, outcome: Outcome) -> FailureReason {
        match outcome {
            Outcome::Succeeded => FailureReason::Success,
            Outcome::Interrupted | Outcome::Running => action.failure_reason(),
            _ => {
                let own = self.reason.filter(|_| is_single(action));
                own.unwrap_or_else(|| action.failure_reason())
            }
        }
    }

    /// The status of a run.
    #[must_use]
    pub fn into_status(self, action: Action, report: &RunReport) -> Status {
        let reason = self.reason(action, report.outcome);
        let message = match report.outcome {
            Outcome::Succeeded => format!("`{action}` is done"),
            Outcome::Interrupted | Outcome::Running => format!("`{action}` was interrupted"),
            _ => format!("`{action}` failed"),
        };
        let left = report.undrained.iter().map(|undrained| {
            let text = undrained_words(undrained, true);
            simple(text, false, Some(undrained.node.to_string()))
        });
        Status {
            reason: reason.into(),
            message,
            messages: self.messages.into_iter().chain(left).collect(),
        }
    }
}
