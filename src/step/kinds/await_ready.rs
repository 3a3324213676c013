//! Wait until the Kubernetes node is there and Ready, put back what the one before carried, and wait until
//! its etcd members vote again.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::{Join, NodeRecord, Phase};

parameters!(AwaitReadyParameters: AwaitReady { remove_labels, etcd_members, members_only, node_uid, backup, deployed_at });

pub(super) const FACTS: Facts = Facts {
    name: "await-ready",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 300,
    subject: KindSubject::Node,
    stage: KindStage::Deploy,
    reaches: None,
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::Guards,
    notes: Notes::Carried,
    failure: None,
    record,
};

/// The machine has joined its clusters.
fn record(mut record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    record.join = Some(Join::Joined);
    if !record.digests.is_empty() {
        record.phase = Phase::Deployed;
    }
    Some(record)
}
