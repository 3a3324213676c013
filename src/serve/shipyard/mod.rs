//! Shipyard's API, version 1.0, for its own client and command line.
//!
//! Its actions are runs: what the API tells of them is in the records, so that another process, or another service on
//! another clone, tells the same. Its documents are files of the site, and its buffer is a branch.

mod action;
mod answer;
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

use super::call::on;
use super::policy::Operation;
use super::query::VERBOSITY;
use super::shared::Shared;
use answer::ApiError;

pub(super) use action::as_uuid;
pub(super) use steps::Steps;

/// The routes: what each is, by whom it may be asked for, and with which parameters.
pub(super) fn routes() -> Router<Arc<Shared>> {
    use Operation as O;
    let at = |path: &str| format!("/api/v1.0{path}");
    let actions = on(O::ListActions, &[VERBOSITY], read::actions);
    let create = &[VERBOSITY, "allow-intermediate-commits"];
    let create = on(O::CreateAction, create, create::create);
    let action = on(O::GetAction, &[VERBOSITY], read::action);
    let validation = on(O::GetActionValidation, &[VERBOSITY], read::validation);
    let step = on(O::GetActionStep, &[VERBOSITY], read::step);
    let logs = on(O::GetActionStepLogs, &[VERBOSITY, "try"], read::logs);
    let control = on(O::ControlAction, &[VERBOSITY], control::control);
    let note = on(O::GetNoteDetails, &[VERBOSITY], read::note);
    let workflows = on(O::ListWorkflows, &[VERBOSITY, "since"], read::workflows);
    let workflow = on(O::GetWorkflow, &[VERBOSITY], read::workflow);
    let statuses = &[VERBOSITY, "filters"];
    let statuses = on(O::GetSiteStatuses, statuses, statuses::site_statuses);
    let status = &[
        VERBOSITY,
        "versions",
        "version",
        "base-version",
        "diff-version",
    ];
    let status = on(O::GetConfigdocsStatus, status, documents::status);
    let version = &[VERBOSITY, "version", "cleartext-secrets"];
    let collection = on(O::GetConfigdocs, version, documents::collection);
    let rendered = on(O::GetRenderedConfigdocs, version, documents::rendered);
    let put = &[VERBOSITY, "buffermode", "empty-collection"];
    let put = on(O::CreateConfigdocs, put, documents::put);
    let commit = &[VERBOSITY, "force", "dryrun"];
    let commit = on(O::CommitConfigdocs, commit, documents::commit);
    let validations = at("/actions/{id}/validations/{validation}");
    Router::new()
        .route(&at("/actions"), get(actions).post(create))
        .route(&at("/actions/{id}"), get(action))
        .route(&validations, get(validation))
        .route(&at("/actions/{id}/steps/{step}"), get(step))
        .route(&at("/actions/{id}/steps/{step}/logs"), get(logs))
        .route(&at("/actions/{id}/control/{verb}"), post(control))
        .route(&at("/notedetails/{id}"), get(note))
        .route(&at("/workflows"), get(workflows))
        .route(&at("/workflows/{id}"), get(workflow))
        .route(&at("/site_statuses"), get(statuses))
        .route(&at("/configdocs"), get(status))
        .route(&at("/configdocs/{collection}"), get(collection).post(put))
        .route(&at("/commitconfigdocs"), post(commit))
        .route(&at("/renderedconfigdocs"), get(rendered))
}

/// The answer for a path that the API does not have.
pub(super) fn no_resource(path: &str) -> Response {
    let text = format!("there is no `{}` in this API", crate::report::Visible(path));
    ApiError::new(404, "Resource not found", "NotFound")
        .messages([text])
        .into_response()
}
