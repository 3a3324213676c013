//! Shipyard's API, version 1.0, for its own client and command line.
//!
//! Its actions are runs: what the API tells of them is in the records, so that another process, or another service on
//! another clone, tells the same. Its documents are files of the site, and its buffer is a branch.

mod action;
mod answer;
mod caller;
mod control;
mod create;
mod documents;
mod found;
mod names;
mod read;
mod statuses;
mod steps;
mod times;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use super::shared::Shared;
use answer::ApiError;

pub(super) use action::as_uuid;
pub(super) use steps::Steps;

/// The routes.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let base = "/api/v1.0";
    let at = |path: &str| format!("{base}{path}");
    Router::new()
        .route(&at("/actions"), get(read::actions).post(create::create))
        .route(&at("/actions/{id}"), get(read::action))
        .route(
            &at("/actions/{id}/validations/{validation}"),
            get(read::validation),
        )
        .route(&at("/actions/{id}/steps/{step}"), get(read::step))
        .route(&at("/actions/{id}/steps/{step}/logs"), get(read::logs))
        .route(&at("/actions/{id}/control/{verb}"), post(control::control))
        .route(&at("/notedetails/{id}"), get(read::note))
        .route(&at("/workflows"), get(read::workflows))
        .route(&at("/workflows/{id}"), get(read::workflow))
        .route(&at("/site_statuses"), get(statuses::site_statuses))
        .route(&at("/configdocs"), get(documents::status))
        .route(
            &at("/configdocs/{collection}"),
            get(documents::collection).post(documents::put),
        )
        .route(&at("/commitconfigdocs"), post(documents::commit))
        .route(&at("/renderedconfigdocs"), get(documents::rendered))
}

/// The answer for a path that the API does not have.
pub(super) fn no_resource(path: &str) -> Response {
    let text = format!("there is no `{}` in this API", crate::report::Visible(path));
    ApiError::new(404, "Resource not found", "NotFound")
        .messages([text])
        .into_response()
}
