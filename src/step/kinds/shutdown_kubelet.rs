//! Stop and disable the kubelet, through a DaemonSet.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;
use crate::step::FailureReason;

parameters!(ShutdownKubeletParameters: ShutdownKubelet { etcd_given_up, node_uid, node_is_gone });

pub(super) const FACTS: Facts = Facts {
    name: "shutdown-kubelet",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 60,
    subject: KindSubject::Node,
    stage: KindStage::TearDown,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::Takes,
    notes: Notes::None,
    failure: Some(FailureReason::ShutdownKubeletError),
    record: unchanged,
};
