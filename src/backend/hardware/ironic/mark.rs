//! Markers: what tells from outside that a step of a run has begun, and what it found then.
//!
//! A marker is set in `extra.trueup` of the node before anything is asked for that must happen at most
//! once. A deploy is also known by `instance_uuid`, which is made from run and step.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::node::{MARKER, Node};
use crate::backend::{Order, Probe};
use crate::design::NodeName;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::step::{StepId, StepKind};

/// Names for deploys live in a space of their own.
const SPACE: Uuid = Uuid::from_u128(0x9c2f_7a4e_51d3_5b0e_8a66_2d5f_0f7c_31b8);

/// The value of `extra.trueup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Marker {
    pub(super) run: String,
    pub(super) step: String,
    /// `provision_updated_at` when it was set.
    pub(super) before: Option<String>,
}

impl Marker {
    /// The marker of a step, for a node as it is now.
    pub(super) fn new(order: &Order, node: Option<&Node>) -> Self {
        let before = node.and_then(|node| node.provision_updated_at.as_deref());
        Self {
            run: order.run.as_str().to_owned(),
            step: order.step.id.to_string(),
            before: before.map(str::to_owned),
        }
    }

    /// The marker that a node has.
    pub(super) fn of(node: &Node) -> Option<Self> {
        serde_json::from_value(node.extra.get(MARKER)?.clone()).ok()
    }

    pub(super) fn to_json(&self) -> Value {
        json!(self)
    }

    /// The change that sets it.
    pub(super) fn operation(&self) -> Value {
        json!({"op": "add", "path": format!("/extra/{MARKER}"), "value": self})
    }
}

/// Whether a node was made by a prepare of trueup's that has not ended: it was never managed since. What it lacks is added by the
/// next one, which sets its controller anew.
pub(super) fn is_being_enrolled(node: &Node, name: &NodeName) -> bool {
    let step = Marker::of(node).and_then(|marker| marker.step.parse::<StepId>().ok());
    node.state() == ProvisionState::Enroll
        && step
            .is_some_and(|step| step.kind == StepKind::Prepare && step.node.as_ref() == Some(name))
}

/// The identity of what a deploy makes.
pub(super) fn instance(order: &Order) -> String {
    let name = format!("{}\n{}", order.run, order.step.id);
    Uuid::new_v5(&SPACE, name.as_bytes()).to_string()
}

/// Whether the node was marked by this very step.
pub(super) fn is_ours(order: &Order, node: &Node) -> bool {
    Marker::of(node).is_some_and(|marker| {
        marker.run == order.run.as_str() && marker.step == order.step.id.to_string()
    })
}

/// Whether something has happened to the node since this step marked it.
pub(super) fn has_moved(order: &Order, node: &Node) -> bool {
    is_ours(order, node)
        && Marker::of(node)
            .is_some_and(|marker| marker.before.as_deref() != node.provision_updated_at.as_deref())
}

/// How far a step is that leaves a marker; `leaves`: whether a teardown ends with the node's removal.
pub(super) fn probe(order: &Order, node: &Node, leaves: bool) -> Probe {
    let state = node.state();
    if !is_ours(order, node) {
        return Probe::NotBegun;
    }
    // Ironic's own flags of a running operation count only after our marker is set.
    if !node.is_idle() {
        return Probe::UnderWay;
    }
    match (order.step.id.kind, state) {
        (StepKind::Deploy, ProvisionState::Active) if node.power() == Some(PowerState::Off) => {
            Probe::UnderWay
        }
        (StepKind::Deploy, ProvisionState::Active) => {
            if node.instance_uuid.as_deref() == Some(&*instance(order)) {
                Probe::Done
            } else {
                Probe::Ambiguous(
                    "it is active, and marked by this step, but carries another instance".into(),
                )
            }
        }
        (StepKind::Prepare, ProvisionState::Available) => Probe::Done,
        // It is on its way, and what held when it was planned has been changed by itself.
        (StepKind::Prepare, _) if has_moved(order, node) => Probe::UnderWay,
        (StepKind::Clean, ProvisionState::Manageable) if has_moved(order, node) => Probe::Done,
        (StepKind::Clean, ProvisionState::CleanFailed) if has_moved(order, node) => {
            Probe::Ambiguous(format!("it was begun, and the machine is {}", node.failed()).into())
        }
        (StepKind::Destroy, ProvisionState::Available) if node.retired => Probe::NotBegun,
        (StepKind::Destroy, ProvisionState::Available | ProvisionState::Manageable)
            if has_moved(order, node) && !leaves && node.power() == Some(PowerState::Off) =>
        {
            Probe::Done
        }
        _ => Probe::NotBegun,
    }
}
