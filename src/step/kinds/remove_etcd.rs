//! Take the machine's members out of their etcd clusters.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;
use crate::step::FailureReason;

parameters!(RemoveEtcdParameters: RemoveEtcd { etcd_members, node_uid, node_is_gone });

pub(super) const FACTS: Facts = Facts {
    name: "remove-etcd",
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
    leaving: LeavingRole::Guards,
    notes: Notes::None,
    failure: Some(FailureReason::RemoveEtcdError),
    record: unchanged,
};
