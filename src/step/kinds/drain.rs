//! Cordon, and evict all pods that a drain evicts.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;
use crate::step::FailureReason;

parameters!(DrainParameters: Drain { grace_period, on_drain_timeout, etcd_given_up, node_uid, node_is_gone });

pub(super) const FACTS: Facts = Facts {
    name: "drain",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 180,
    subject: KindSubject::Node,
    stage: KindStage::TearDown,
    reaches: None,
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::Guards,
    notes: Notes::LeftPods,
    failure: Some(FailureReason::DrainNodeError),
    record: unchanged,
};
