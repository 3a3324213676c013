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
use axum::routing::{get, post};

use super::call::on;
use super::policy::Operation;
use super::shared::Shared;
use crate::report::airship::Reason;

pub(super) use feed::{Feed, Feeds};
pub(super) use plan_folder::plan_folder;
pub(super) use plans::views as plan_views;
pub(super) use runs::{follow, named_run, recorded_run, recorded_runs};
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

/// The routes: what each is, by whom it may be asked for, and with which parameters.
pub(super) fn routes() -> Router<Arc<Shared>> {
    use Operation as O;
    let plans = get(on(O::ReadPlan, &[], plans::plans));
    let explained_plan = on(O::ReadPlan, &[explanations::OF], explanations::of_plan);
    let explained_run = on(O::ReadRun, &[explanations::OF], explanations::of_run);
    let at = |path: &str| format!("/api/v1{path}");
    Router::new()
        .route(
            &at("/openapi.json"),
            get(on(O::ReadSite, &[], openapi::openapi)),
        )
        .route(
            &at("/actions"),
            get(on(O::ReadAction, &[], actions::actions)),
        )
        .route(
            &at("/actions/{id}"),
            get(on(O::ReadAction, &[], actions::action)),
        )
        .route(&at("/sites"), get(on(O::ReadSite, &[], site::sites)))
        .route(&at("/status"), get(on(O::ReadSite, &[], site::status)))
        .route(&at("/nodes"), get(on(O::ReadSite, &[], site::nodes)))
        .route(&at("/nodes/{node}"), get(on(O::ReadSite, &[], site::node)))
        .route(
            &at("/drift"),
            get(on(O::ReadSite, &["observed"], drift::drift)),
        )
        .route(
            &at("/plans"),
            plans.post(on(O::CreatePlan, &[], plans::create)),
        )
        .route(&at("/plans/{id}"), get(on(O::ReadPlan, &[], plans::plan)))
        .route(
            &at("/plans/{id}/apply"),
            post(on(O::ApplyPlan, &[], plans::apply)),
        )
        .route(&at("/plans/{id}/explanation"), get(explained_plan))
        .route(&at("/runs"), get(on(O::ReadRun, &["limit"], runs::runs)))
        .route(&at("/runs/{id}"), get(on(O::ReadRun, &[], runs::run)))
        .route(&at("/runs/{id}/explanation"), get(explained_run))
        .route(
            &at("/runs/{id}/progress"),
            get(on(O::ReadRun, &[], runs::progress)),
        )
        .route(
            &at("/runs/{id}/events"),
            get(on(O::ReadRun, &["after"], runs::events)),
        )
        .route("/metrics", get(on(O::ReadMetrics, &[], actions::metrics)))
}

/// Whether a text is an id: no other part of a path ever names a file.
fn is_id(text: &str) -> bool {
    text.len() == ID && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
