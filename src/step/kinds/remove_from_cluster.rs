//! Delete the Kubernetes node.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::{NodeRecord, Phase};
use crate::step::FailureReason;

parameters!(RemoveFromClusterParameters: RemoveFromCluster { on_drain_timeout, node_uid, node_is_gone, machine_is_off });

pub(super) const FACTS: Facts = Facts {
    name: "remove-from-cluster",
    effect: Effect::Destructive,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 10,
    subject: KindSubject::Node,
    stage: KindStage::TearDown,
    reaches: None,
    leaves_doubt: true,
    loss: Loss::Machine,
    leaving: LeavingRole::Takes,
    notes: Notes::None,
    failure: Some(FailureReason::DeleteNodeError),
    record,
};

/// A machine that is gone, or was torn down before, leaves no record if it has left the design.
fn record(record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    let is_gone = of.is_gone || record.phase == Phase::NotStarted;
    (!is_gone || of.design.is_some()).then_some(record)
}
