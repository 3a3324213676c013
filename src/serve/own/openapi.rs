//! The OpenAPI document of the service's own resources, generated of their types.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::{OpenApi, ToResponse, ToSchema};

use super::view::PhaseWord;
use super::{admit, head};
use crate::serve::answer::{Refusal, json};
use crate::serve::listen::Peer;
use crate::serve::policy::Operation;
use crate::serve::shared::Shared;

/// The service's own resources. Roles: viewers read, operators make plans and observe, admins apply plans.
#[derive(OpenApi)]
#[openapi(
    info(title = "trueup", version = "1", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    paths(
        openapi,
        super::actions::actions,
        super::actions::action,
        super::site::sites,
        super::site::status,
        super::site::nodes,
        super::site::node,
        super::drift::drift,
        super::plans::plans,
        super::plans::create,
        super::plans::plan,
        super::plans::apply,
        super::runs::runs,
        super::runs::run,
        super::runs::progress,
        super::runs::events,
    ),
    components(schemas(PhaseWord), responses(Refused)),
    security((), ("keystone" = []), ("bearer" = [])),
    modifiers(&Security),
)]
struct Document;

struct Security;

impl utoipa::Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{
            ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme,
        };
        let components = document.components.get_or_insert_default();
        let keystone = ApiKey::Header(ApiKeyValue::new("X-Auth-Token"));
        components.add_security_scheme("keystone", SecurityScheme::ApiKey(keystone));
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

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
    /// Its node, where it is an operation on one.
    node: Option<String>,
    /// Its plan, where it applies one.
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

/// The document as JSON.
pub(super) fn document() -> String {
    Document::openapi().to_pretty_json().unwrap_or_default() + "\n"
}

/// This document.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "service", responses(
    (status = 200, description = "The document, OpenAPI 3.1.", body = serde_json::Value),
    (status = "default", response = Refused),
))]
pub(super) async fn openapi(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadSite, &[]).await?;
    Ok(json(StatusCode::OK, document()))
}
