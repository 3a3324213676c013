//! The site by its committed design and its records: sites, status and nodes.
//!
//! All of it is made of one plan that asks no machine, which is made again where the commit, the records or the day are
//! others: a request of status costs a look at two refs and the bytes of its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::drift::drifts;
use super::view::{
    NodeDetail, NodeDrift, NodeStatus, NodeView, SiteActionView, SiteListed, StatusView,
};
use super::{admit, head, part, refused};
use crate::design::NodeName;
use crate::plan::{Change, ChangeKind, Request as Asked};
use crate::record::{NodeRecord, Phase, SiteAction, SiteState, Store};
use crate::report::json::line;
use crate::report::run::{NodeRow, differences, node_rows};
use crate::run::Connection;
use crate::serve::answer::{Refusal, json};
use crate::serve::host::Host;
use crate::serve::listen::Peer;
use crate::serve::policy::Operation;
use crate::serve::promenade::node_name;
use crate::serve::shared::Shared;
use crate::site::At;
use crate::workflow::{
    Checkout, Failure, FailureKind, Observed, PlanRequest, Planned, Planner, Scope, sites as find,
};

/// How long the site is taken for what it was without a look: a burst of requests costs one.
const FRESH: Duration = Duration::from_millis(250);

/// The commit, the records and the day that a view was made of.
type Version = (String, String, Arc<str>);

/// The site by its committed design and its records.
#[derive(Debug)]
pub(in crate::serve) struct SiteView {
    pub(in crate::serve) status: StatusView,
    pub(in crate::serve) drift: Vec<NodeDrift>,
    nodes: Vec<NodeView>,
    phases: BTreeMap<&'static str, usize>,
    status_json: Bytes,
    nodes_json: Bytes,
}

impl SiteView {
    /// How many nodes the records have in a phase.
    pub(in crate::serve) fn in_phase(&self, phase: Phase) -> usize {
        self.phases.get(phase.as_str()).copied().unwrap_or_default()
    }

    /// How many nodes differ from the design.
    pub(in crate::serve) fn differing(&self) -> usize {
        self.status.differing
    }
}

#[derive(Debug)]
struct Known {
    version: Version,
    checked: Instant,
    view: Arc<SiteView>,
}

/// The newest view of the site.
#[derive(Debug, Default)]
pub(in crate::serve) struct SiteCache(Mutex<Option<Known>>);

impl SiteCache {
    /// The site as it is now.
    pub(in crate::serve) fn view(&self, host: &dyn Host) -> Result<Arc<SiteView>, Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && known.checked.elapsed() < FRESH
        {
            return Ok(known.view.clone());
        }
        let repository = host.repository()?;
        let checkout = host.checkout(&repository)?;
        let store = Store::open(&repository, &checkout.location.site)?;
        let tip = store.read()?.tip;
        let version = (
            checkout.head()?.to_string(),
            tip.map(|tip| tip.to_string()).unwrap_or_default(),
            host.today(),
        );
        let checked = Instant::now();
        if let Some(known) = &mut *known
            && known.version == version
        {
            known.checked = checked;
            return Ok(known.view.clone());
        }
        let view = Arc::new(view(host, &checkout, &version.0)?);
        *known = Some(Known {
            version,
            checked: Instant::now(),
            view: view.clone(),
        });
        Ok(view)
    }
}

/// The plan of what is committed, by what is observed.
pub(super) fn plan(
    host: &dyn Host,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    observed: Observed,
) -> Result<Planned, Failure> {
    let plan_request = PlanRequest {
        observed,
        without_forecast: true,
        only_looks: true,
        ..host.plan_request()
    };
    let planner = Planner {
        client: host.client(),
        checkout,
        at: At::Commit(checkout.head()?),
        connection,
        request: &Asked::default(),
        plan_request: &plan_request,
    };
    planner.plan()
}

fn view(host: &dyn Host, checkout: &Checkout<'_>, revision: &str) -> Result<SiteView, Failure> {
    let planned = plan(host, checkout, &Connection::Alone, Observed::Nothing)?;
    let (design, records) = (&planned.site.design, &planned.records);
    let changes: BTreeMap<&NodeName, &Change> = planned
        .plan
        .changes
        .iter()
        .filter(|change| change.kind != ChangeKind::None)
        .map(|change| (&change.node, change))
        .collect();
    let names: BTreeSet<&NodeName> = design.nodes.keys().chain(records.keys()).collect();
    let today = &planned.plan.options.as_of;
    let rows: Vec<NodeRow<'_>> = node_rows(design, records, today).collect();
    let retired: BTreeMap<&NodeName, &str> = rows
        .iter()
        .filter_map(|row| Some((&row.design.name, row.retired?)))
        .collect();
    let statuses = names.into_iter().map(|name| {
        let is_designed = design.nodes.contains_key(name);
        let mut status = node_status(name, is_designed, records.get(name));
        if let Some(reason) = retired.get(name) {
            status.retired = Some((*reason).to_owned());
        }
        if let Some(change) = changes.get(name) {
            status.differs = differences(change)
                .iter()
                .map(ToString::to_string)
                .collect();
        }
        status
    });
    let nodes: Vec<NodeView> = rows.iter().map(node_view).collect();
    let drift = drifts(&planned.plan);
    let status = StatusView {
        site: checkout.location.site.to_string(),
        revision: revision.to_owned(),
        differing: drift.len(),
        nodes: statuses.collect(),
    };
    let mut phases = BTreeMap::new();
    for record in records.values() {
        *phases.entry(record.phase.as_str()).or_default() += 1;
    }
    Ok(SiteView {
        status_json: Bytes::from(line(&status)? + "\n"),
        nodes_json: Bytes::from(line(&nodes)? + "\n"),
        status,
        drift,
        nodes,
        phases,
    })
}

fn node_status(name: &NodeName, is_designed: bool, record: Option<&NodeRecord>) -> NodeStatus {
    let of = |text: fn(&NodeRecord) -> Option<&str>| record.and_then(text).map(str::to_owned);
    NodeStatus {
        node: name.to_string(),
        is_designed,
        phase: record.map(|record| record.phase.as_str()),
        revision: of(|record| record.revision.as_deref()),
        run: of(|record| Some(record.run.as_str())),
        retired: of(|record| record.retired.as_deref()),
        maintenance: of(|record| record.maintenance.as_deref()),
        last_error: of(|record| record.last_error.as_deref()),
        differs: Vec::new(),
    }
}

fn node_view(row: &NodeRow<'_>) -> NodeView {
    let design = row.design;
    NodeView {
        name: design.name.to_string(),
        rack: design.rack.as_deref().map(str::to_owned),
        groups: row.groups.iter().map(ToString::to_string).collect(),
        host_profiles: design
            .host_profiles
            .iter()
            .map(ToString::to_string)
            .collect(),
        hardware_profile: design.hardware_profile.as_deref().map(str::to_owned),
        tags: design.tags.iter().map(ToString::to_string).collect(),
        labels: design
            .labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
    }
}

/// The site as it is now, for a request.
pub(in crate::serve) async fn current(shared: &Arc<Shared>) -> Result<Arc<SiteView>, Refusal> {
    let asking = shared.clone();
    let view = shared.ask(move || asking.site.view(&*asking.host)).await?;
    view.map_err(|failure| refused(&failure))
}

fn bytes(body: Bytes) -> Response {
    (StatusCode::OK, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Lists the sites of the repository, with their last site actions.
#[utoipa::path(get, path = "/api/v1/sites", tag = "site", responses(
    (status = 200, description = "The sites, sorted by name.", body = Vec<SiteListed>),
    (status = "default", response = super::openapi::Refused),
))]
pub(super) async fn sites(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadSite, &[]).await?;
    let asking = shared.clone();
    let sites = shared.ask(move || site_views(&asking)).await?;
    let sites = sites.map_err(|failure| refused(&failure))?;
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
    let listed = find(&repository, &Scope::All, None)?
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
    (status = "default", response = super::openapi::Refused),
))]
pub(super) async fn status(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadSite, &[]).await?;
    Ok(bytes(current(&shared).await?.status_json.clone()))
}

/// Lists the nodes of the committed design.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "site", responses(
    (status = 200, description = "The nodes, sorted by name.", body = Vec<NodeView>),
    (status = "default", response = super::openapi::Refused),
))]
pub(super) async fn nodes(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadSite, &[]).await?;
    Ok(bytes(current(&shared).await?.nodes_json.clone()))
}

/// Tells the design and the state of a node.
#[utoipa::path(get, path = "/api/v1/nodes/{node}", tag = "site",
    params(("node" = String, Path, description = "Its name.")),
    responses(
        (status = 200, description = "The node.", body = NodeDetail),
        (status = "default", response = super::openapi::Refused),
    ))]
pub(super) async fn node(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadSite, &[]).await?;
    let name = node_name(part(request.uri().path(), "/api/v1/nodes/"))?;
    let view = current(&shared).await?;
    let mut statuses = view.status.nodes.iter();
    let Some(status) = statuses.find(|status| *status.node == *name) else {
        let failure = Failure::new(FailureKind::NotFound, format!("there is no node `{name}`"));
        return Err(refused(&failure));
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
