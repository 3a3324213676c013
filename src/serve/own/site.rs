//! The site by its committed design and its records: sites, status and nodes.

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::site_cache::SiteView;
use super::view::{NodeDetail, NodeView, SiteActionView, SiteListed, StatusView};
use crate::record::{SiteAction, SiteState, Store};
use crate::report::json::line;
use crate::serve::answer::{Refusal, json};
use crate::serve::call::Call;
use crate::serve::promenade::node_name;
use crate::serve::shared::Shared;
use crate::workflow::{Failure, Scope, sites as find};

/// The site as it is now, for a request.
pub(in crate::serve) async fn current(shared: &Arc<Shared>) -> Result<Arc<SiteView>, Refusal> {
    let asking = shared.clone();
    Ok(shared.ask(move || asking.view_of_site()).await??)
}

fn bytes(body: Bytes) -> Response {
    (StatusCode::OK, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Lists the sites of the repository, with their last site actions.
#[utoipa::path(get, path = "/api/v1/sites", tag = "site", responses(
    (status = 200, description = "The sites, sorted by name.", body = Vec<SiteListed>),
    (status = "default", response = super::objects::Refused),
))]
pub(super) async fn sites(call: Call) -> Result<Response, Refusal> {
    let sites = call.ask(|shared| site_views(shared)).await?;
    Ok(json(
        StatusCode::OK,
        line(&sites).unwrap_or_default() + "\n",
    ))
}

/// The sites of the repository.
pub(in crate::serve) fn site_views(shared: &Shared) -> Result<Vec<SiteListed>, Failure> {
    let repository = shared.host.repository()?;
    let served = shared.host.checkout(&repository)?;
    let served = &served.location.site;
    let action = |action: Option<SiteAction>| {
        action.map(|action| SiteActionView {
            run: action.run.to_string(),
            revision: action.revision.to_string(),
        })
    };
    let listed = find(&repository, &Scope::All, None, None)?
        .into_iter()
        .map(|site| {
            let state: Result<SiteState, Failure> = site.checkout.and_then(|checkout| {
                let store = Store::open(&repository, &checkout.location.site)?;
                Ok(store.read()?.site.clone())
            });
            let (state, error) = match state {
                Ok(state) => (state, None),
                Err(failure) => (SiteState::default(), Some(failure.message)),
            };
            SiteListed {
                is_served: *site.name == *served.as_str(),
                name: site.name,
                last_action: action(state.last_action),
                last_success: action(state.last_success),
                last_run: state.last_run.map(|run| run.to_string()),
                error,
            }
        });
    Ok(listed.collect())
}

/// Tells the state of every node by the committed design and the records; no machine is asked.
#[utoipa::path(get, path = "/api/v1/status", tag = "site", responses(
    (status = 200, description = "The nodes.", body = StatusView),
    (status = "default", response = super::objects::Refused),
))]
pub(super) async fn status(call: Call) -> Result<Response, Refusal> {
    Ok(bytes(current(&call.shared).await?.status_json.clone()))
}

/// Lists the nodes of the committed design.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "site", responses(
    (status = 200, description = "The nodes, sorted by name.", body = Vec<NodeView>),
    (status = "default", response = super::objects::Refused),
))]
pub(super) async fn nodes(call: Call) -> Result<Response, Refusal> {
    Ok(bytes(current(&call.shared).await?.nodes_json.clone()))
}

/// Tells the design and the state of a node.
#[utoipa::path(get, path = "/api/v1/nodes/{node}", tag = "site",
    params(("node" = String, Path, description = "Its name.")),
    responses(
        (status = 200, description = "The node.", body = NodeDetail),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn node(call: Call) -> Result<Response, Refusal> {
    let name = node_name(call.named("node"))?;
    let view = current(&call.shared).await?;
    let mut statuses = view.status.nodes.iter();
    let Some(status) = statuses.find(|status| *status.node == *name) else {
        return Err(Refusal::not_found(format!("there is no node `{name}`")));
    };
    let detail = NodeDetail {
        design: view.nodes.iter().find(|node| *node.name == *name).cloned(),
        status: status.clone(),
    };
    Ok(json(
        StatusCode::OK,
        line(&detail).unwrap_or_default() + "\n",
    ))
}
