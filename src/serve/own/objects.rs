//! Objects that are answered by writers of their own, as the OpenAPI document describes them.

use serde::Serialize;
use utoipa::{ToResponse, ToSchema};

/// The request was refused, or failed.
#[derive(ToResponse)]
#[expect(dead_code, reason = "for the schema alone")]
pub(super) struct Refused(StatusObject);

/// Airship's status object.
#[derive(Serialize, ToSchema)]
pub(super) struct StatusObject {
    /// `Status`.
    kind: String,
    /// `v1.0`.
    #[serde(rename = "apiVersion")]
    api_version: String,
    /// Nothing.
    #[schema(value_type = Object)]
    metadata: (),
    /// `Success` or `Failure`.
    status: String,
    /// A word.
    reason: String,
    /// One sentence.
    message: String,
    /// The code of the answer, or of the action.
    code: u16,
    /// The parts of the message.
    details: StatusDetails,
}

/// The parts of a status object's message.
#[derive(Serialize, ToSchema)]
pub(super) struct StatusDetails {
    /// How many of the messages are errors.
    #[serde(rename = "errorCount")]
    error_count: usize,
    /// The messages.
    #[serde(rename = "messageList")]
    message_list: Vec<StatusMessage>,
}

/// A message of a status object.
#[derive(Serialize, ToSchema)]
pub(super) struct StatusMessage {
    /// The text.
    message: String,
    /// Whether it is an error.
    error: bool,
    /// `SimpleMessage` or `HealthMessage`.
    kind: String,
    /// Its subject.
    name: Option<String>,
}

/// An action that was asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Action)]
pub(super) struct ActionObject {
    /// Its id.
    id: String,
    /// Its address.
    url: String,
    /// `update`, `drain` …
    action: String,
    /// Its node, if it is an operation on one.
    node: Option<String>,
    /// Its plan, if it applies one.
    plan: Option<String>,
    /// `running`, `succeeded`, `failed` or `interrupted`.
    state: String,
    /// The caller.
    subject: String,
    /// The means of authentication.
    authenticated_by: String,
    /// The caller's own id.
    context_marker: Option<String>,
    /// When it was asked for.
    accepted: String,
    /// Its run, once one has begun.
    run: Option<String>,
    /// When it ended.
    ended: Option<String>,
    /// How it ended.
    status: Option<StatusObject>,
}

/// A run with its report, as `trueup show --format json` prints it.
#[derive(Serialize, ToSchema)]
pub(super) struct RunDetail {
    /// The version of the format.
    format_version: u32,
    /// Its record.
    #[schema(value_type = Object)]
    run: (),
    /// Its report, once it has ended.
    #[schema(value_type = Option<Object>)]
    report: Option<()>,
}

/// An explanation, as `explanation.json` among the schemas has it.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(super) struct ExplanationObject {
    /// The version of the format.
    format_version: u32,
    /// `thing`.
    kind: String,
    /// The node, step, group or run.
    #[schema(value_type = Object)]
    subject: (),
    /// Its steps, each with how it stands and the smallest causes.
    #[schema(value_type = Vec<Object>)]
    steps: Vec<()>,
    /// The ways out, each with its command.
    #[schema(value_type = Vec<Object>)]
    ways_out: Vec<()>,
}
