//! Take the machine's members out of their etcd clusters.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;
use crate::step::FailureReason;

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
    parameters: &["etcd_members", "node_is_gone", "node_uid"],
    record: unchanged,
};
