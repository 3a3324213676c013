//! The states of a site's machines: as the records have them, and whether they are on.

use std::collections::BTreeMap;

use axum::response::Response;
use serde_json::{Map, Value, json};

use super::answer::{ApiError, Call, with};
use crate::design::NodeName;
use crate::journal::{Entry, StepOutcome};
use crate::lifecycle::PowerState;
use crate::plan::{self, RunState};
use crate::record::{NodeRecord, Phase};
use crate::run::{Connection, known_steps, unfinished_run};
use crate::serve::shared::Shared;
use crate::site::At;
use crate::step::{Actor, Effect, KindStage};
use crate::workflow::{Checkout, Failure, Observed, PlanRequest, Planner};

/// The filters, and the keys of their answers.
const PROVISION: (&str, &str) = ("nodes-provision-status", "nodes_provision_status");
const POWER: (&str, &str) = ("machines-power-state", "machines_powerstate");

pub(super) async fn site_statuses(call: Call) -> Result<Response, ApiError> {
    let filters: Vec<&str> = match call.query.text("filters") {
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
    let statuses = call.ask(move |shared| statuses(shared, provision, power));
    let statuses = statuses.await?;
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
        by_checkpoints: false,
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
        let working = in_work(&checkout, connection)?;
        let listed = names.iter().map(|name| {
            let status = match working.get(*name) {
                Some(status) => status,
                None => provision_status(&planned.records, name),
            };
            json!({"hostname": name.as_str(), "status": status})
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

/// The machines that the run at work has taken out of service and not built yet: their records have them as they were.
fn in_work(
    checkout: &Checkout<'_>,
    connection: Connection,
) -> Result<BTreeMap<NodeName, &'static str>, Failure> {
    let site = checkout.site(connection)?;
    let Some(unfinished) = unfinished_run(&site)? else {
        return Ok(BTreeMap::new());
    };
    let store = site.store()?;
    let state = store.read()?;
    let Some(record) = store.run(&state, &unfinished.run)? else {
        return Ok(BTreeMap::new());
    };
    let known = known_steps(&site, (&store, &state), &record)?;
    Ok(by_steps(
        &known.entries,
        unfinished.state == RunState::Running,
    ))
}

/// The states of the machines that steps have begun to change, and have neither built nor failed at.
fn by_steps(entries: &[Entry], is_at_work: bool) -> BTreeMap<NodeName, &'static str> {
    let mut working = BTreeMap::new();
    for entry in entries {
        let Some((step, node)) = entry
            .step()
            .and_then(|step| Some((step, step.node.as_ref()?)))
        else {
            continue;
        };
        let facts = step.kind.facts();
        let status = match facts.stage {
            // A machine that is awaited in its cluster has been built.
            _ if facts.actor == Actor::Cluster => continue,
            KindStage::TearDown if facts.effect == Effect::Destructive => "Releasing",
            KindStage::Provision => "Commissioning",
            KindStage::Prepare | KindStage::Deploy => "Deploying",
            KindStage::TearDown
            | KindStage::Site
            | KindStage::TakeOff
            | KindStage::Other
            | KindStage::Barrier
            | KindStage::Tag => continue,
        };
        let is_over = match entry {
            Entry::Intent { .. } => false,
            Entry::Ended { outcome, .. } => match outcome {
                StepOutcome::Succeeded => facts.reaches == Some(Phase::Deployed),
                StepOutcome::Failed { .. } => true,
                StepOutcome::Unknown { .. } => false,
                StepOutcome::Skipped { .. } | StepOutcome::NotNeeded => continue,
            },
            Entry::Note { .. } | Entry::Opened { .. } => continue,
        };
        match is_over {
            true => working.remove(node),
            false if is_at_work => working.insert(node.clone(), status),
            false => working.insert(node.clone(), "Unknown"),
        };
    }
    working
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{StepId, StepKind};

    #[test]
    fn a_machine_that_is_being_redeployed_is_not_deployed() {
        let step = |kind| StepId {
            kind,
            group: None,
            node: Some(NodeName::from("n1")),
            wave: None,
        };
        let intent = |kind| Entry::Intent { step: step(kind) };
        let ended = |kind, outcome| Entry::Ended {
            step: step(kind),
            outcome,
            attempted: true,
            duration_ms: 1,
        };
        let failed = StepOutcome::Failed {
            message: "no".into(),
        };
        let skipped = StepOutcome::Skipped {
            reason: "no".into(),
        };
        let done = StepOutcome::Succeeded;
        for (entry, expected) in [
            (intent(StepKind::Drain), None),
            (intent(StepKind::Destroy), Some("Releasing")),
            (ended(StepKind::Destroy, done.clone()), Some("Releasing")),
            (intent(StepKind::Manage), Some("Commissioning")),
            (intent(StepKind::Prepare), Some("Deploying")),
            (ended(StepKind::Prepare, done.clone()), Some("Deploying")),
            (intent(StepKind::Deploy), Some("Deploying")),
            (ended(StepKind::Deploy, done), None),
            (intent(StepKind::AwaitReady), None),
            (ended(StepKind::Deploy, failed), None),
            (ended(StepKind::Deploy, skipped), None),
        ]
        .iter()
        .scan(Vec::new(), |entries, (entry, expected)| {
            entries.push(entry.clone());
            Some((entries.clone(), *expected))
        }) {
            let status = |is_at_work| by_steps(&entry, is_at_work).get("n1").copied();
            assert_eq!(status(true), expected, "{:?}", entry.last());
            assert_eq!(status(false), expected.map(|_| "Unknown"));
        }
    }
}
