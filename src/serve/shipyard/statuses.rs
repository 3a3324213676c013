//! The states of a site's machines: as the records have them, and whether they are on.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::answer::{ApiError, with};
use super::caller::{Query, caller};
use crate::design::NodeName;
use crate::lifecycle::PowerState;
use crate::plan;
use crate::record::{NodeRecord, Phase};
use crate::serve::listen::Peer;
use crate::serve::policy::Operation;
use crate::serve::shared::Shared;
use crate::site::At;
use crate::workflow::{Failure, Observed, PlanRequest, Planner};

/// The filters, and the keys of their answers.
const PROVISION: (&str, &str) = ("nodes-provision-status", "nodes_provision_status");
const POWER: (&str, &str) = ("machines-power-state", "machines_powerstate");

pub(super) async fn site_statuses(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    caller(
        &shared,
        &peer,
        request.headers(),
        Operation::GetSiteStatuses,
    )
    .await?;
    let query = Query::parse(&request, &["filters"])?;
    let filters: Vec<&str> = match query.text("filters") {
        None | Some("") => vec![PROVISION.0, POWER.0],
        Some(text) => text.split(',').map(str::trim).collect(),
    };
    if let Some(unknown) = filters
        .iter()
        .find(|name| ![PROVISION.0, POWER.0].contains(*name))
    {
        let unknown = crate::report::Visible(unknown);
        let text = format!("{unknown} is none of {}, {}", PROVISION.0, POWER.0);
        return Err(ApiError::new(400, "Not a valid status filter", text));
    }
    let (provision, power) = (filters.contains(&PROVISION.0), filters.contains(&POWER.0));
    let asking = shared.clone();
    let statuses = shared
        .ask(move || statuses(&asking, provision, power))
        .await?;
    let statuses = statuses.map_err(|failure| ApiError::failure(&failure))?;
    Ok(with(200, &Value::Object(statuses)))
}

fn statuses(shared: &Shared, provision: bool, power: bool) -> Result<Map<String, Value>, Failure> {
    let host = &*shared.host;
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let connection = host.connection(&repository)?;
    let observed = match power {
        true => Observed::Now,
        false => Observed::Nothing,
    };
    let plan_request = PlanRequest {
        observed,
        without_forecast: true,
        only_looks: true,
        ..host.plan_request()
    };
    let planned = Planner {
        client: host.client(),
        checkout: &checkout,
        at: At::Commit(checkout.head()?),
        connection: &connection,
        request: &plan::Request::default(),
        plan_request: &plan_request,
    }
    .plan()?;
    let names: Vec<&NodeName> = planned.guarded.nodes.keys().collect();
    let mut statuses = Map::new();
    if provision {
        let listed = names.iter().map(|name| {
            json!({"hostname": name.as_str(), "status": provision_status(&planned.records, name)})
        });
        statuses.insert(PROVISION.1.to_owned(), Value::Array(listed.collect()));
    }
    if power {
        let state = |name: &NodeName| {
            let seen = planned.observations.as_ref()?.node(name.as_str())?;
            match seen.power.known()? {
                PowerState::On => Some("on"),
                PowerState::Off => Some("off"),
            }
        };
        let listed = names.iter().map(|name| {
            json!({"hostname": name.as_str(), "power_state": state(name).unwrap_or("unknown")})
        });
        statuses.insert(POWER.1.to_owned(), Value::Array(listed.collect()));
    }
    Ok(statuses)
}

/// The state of a node, by the words of Drydock's provisioner.
fn provision_status(records: &BTreeMap<NodeName, NodeRecord>, name: &NodeName) -> &'static str {
    match records.get(name).map(|record| record.phase) {
        None | Some(Phase::NotStarted) => "New",
        Some(Phase::Prepared) => "Ready",
        Some(Phase::Deployed) => "Deployed",
        Some(Phase::Failed) => "Failed deployment",
        Some(Phase::Unknown) => "Unknown",
    }
}
