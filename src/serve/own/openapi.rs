//! The OpenAPI document of the service's own resources, generated of their types.

use axum::response::Response;
use http::StatusCode;
use utoipa::OpenApi;

use super::objects::Refused;
use super::view::PhaseWord;
use crate::serve::answer::{Refusal, json};
use crate::serve::call::Call;

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
        super::explanations::of_plan,
        super::runs::runs,
        super::runs::run,
        super::explanations::of_run,
        super::runs::progress,
        super::runs::events,
    ),
    components(schemas(PhaseWord), responses(Refused)),
    security((), ("keystone" = []), ("bearer" = [])),
    modifiers(&Security, &OptionalBodies),
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

/// Bodies that need not be given: the macro has all of them required.
struct OptionalBodies;

impl utoipa::Modify for OptionalBodies {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let plans = document.paths.paths.get_mut("/api/v1/plans");
        let body = plans
            .and_then(|path| path.post.as_mut())
            .and_then(|post| post.request_body.as_mut());
        if let Some(utoipa::openapi::RefOr::T(body)) = body {
            body.required = Some(utoipa::openapi::Required::False);
        }
    }
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
pub(super) async fn openapi(_: Call) -> Result<Response, Refusal> {
    Ok(json(StatusCode::OK, document()))
}
