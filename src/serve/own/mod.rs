//! The service's own resources below `/api/v1`: sites, nodes, plans, runs with their events, and actions to be followed.
//!
//! The types of [`view`] are what they hold; the OpenAPI document is generated of them. A plan that is made here is a
//! saved plan in the git folder, and applying it is what `trueup apply PLAN --effect DIGEST` does.

mod actions;
mod drift;
mod explanations;
mod feed;
mod objects;
mod openapi;
mod order;
mod plan_folder;
mod plans;
mod runs;
mod site;
mod site_cache;
mod tally;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use http::HeaderMap;

use super::answer::Refusal;
use super::listen::Peer;
use super::policy::Operation;
use super::query::Query;
use super::shared::Shared;
use super::subject::Subject;
use crate::report::airship::Reason;
use crate::workflow::{Failure, FailureKind};

pub(super) use feed::{Feed, Feeds};
pub(super) use plan_folder::plan_folder;
pub(super) use plans::views as plan_views;
pub(super) use runs::{follow, recorded_run, recorded_runs};
pub(super) use site::{current, site_views};
pub(super) use site_cache::{SiteCache, SiteView};
pub(super) use view::{
    GroupProgress, NodeProgress, NodeStatus, PlanView, RunProgress, RunView, SiteActionView,
    SiteListed,
};

/// The reason of a run that did not succeed.
pub(super) const RUN_FAILED: Reason = Reason {
    word: "RunFailed",
    code: 500,
};

/// The length of an id.
const ID: usize = 26;

/// The OpenAPI document, as JSON.
#[must_use]
pub fn openapi() -> String {
    openapi::document()
}

/// The routes.
pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .route("/api/v1/actions", get(actions::actions))
        .route("/api/v1/actions/{id}", get(actions::action))
        .route("/api/v1/sites", get(site::sites))
        .route("/api/v1/status", get(site::status))
        .route("/api/v1/nodes", get(site::nodes))
        .route("/api/v1/nodes/{node}", get(site::node))
        .route("/api/v1/drift", get(drift::drift))
        .route("/api/v1/plans", get(plans::plans).post(plans::create))
        .route("/api/v1/plans/{id}", get(plans::plan))
        .route("/api/v1/plans/{id}/apply", post(plans::apply))
        .route("/api/v1/plans/{id}/explanation", get(explanations::of_plan))
        .route("/api/v1/runs", get(runs::runs))
        .route("/api/v1/runs/{id}", get(runs::run))
        .route("/api/v1/runs/{id}/explanation", get(explanations::of_run))
        .route("/api/v1/runs/{id}/progress", get(runs::progress))
        .route("/api/v1/runs/{id}/events", get(runs::events))
        .route("/metrics", get(actions::metrics))
}

/// The parts of a request by which it is admitted: its body is no part of them.
pub(super) struct Head<'r> {
    headers: &'r HeaderMap,
    query: Option<&'r str>,
}

/// The head of a request.
pub(super) fn head(request: &Request) -> Head<'_> {
    Head {
        headers: request.headers(),
        query: request.uri().query(),
    }
}

/// The caller of a request that may have what it asks for, and the parameters.
pub(super) async fn admit(
    shared: &Shared,
    peer: &Peer,
    head: Head<'_>,
    operation: Operation,
    parameters: &[&str],
) -> Result<(Subject, Query), Refusal> {
    let subject = shared.subject(peer, head.headers).await?;
    subject.may(operation)?;
    let query = Query::parse(head.query, parameters)?;
    Ok((subject, query))
}

/// The part of a path behind a prefix, up to the next slash.
fn part<'p>(path: &'p str, prefix: &str) -> &'p str {
    let rest = path.strip_prefix(prefix).unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

/// Whether a text is an id: no other part of a path ever names a file.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == ID && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The answer to a request that failed.
pub(super) fn refused(failure: &Failure) -> Refusal {
    let message = match failure.message.as_str() {
        "" => "the documents of the site have errors; `trueup validate` shows them",
        message => message,
    };
    let refusal = match failure.kind {
        FailureKind::Usage => Refusal::bad_request(message),
        FailureKind::NotFound => Refusal::not_found(message),
        FailureKind::Guard
        | FailureKind::Stale
        | FailureKind::Locked
        | FailureKind::Interrupted => Refusal::conflict(message),
        FailureKind::Error | FailureKind::Failed | FailureKind::Unpublished => {
            Refusal::failed(message)
        }
    };
    let notes = failure.details.iter().chain(&failure.hints);
    notes.fold(refusal, |refusal, note| refusal.and(note.clone()))
}
