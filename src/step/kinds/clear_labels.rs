//! Take off all labels but those that the kubelet or a cloud controller manages.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;
use crate::step::FailureReason;

parameters!(ClearLabelsParameters: ClearLabels { node_uid, node_is_gone });

pub(super) const FACTS: Facts = Facts {
    name: "clear-labels",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 5,
    subject: KindSubject::Node,
    stage: KindStage::TearDown,
    reaches: None,
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::Carried,
    failure: Some(FailureReason::ClearLabelsError),
    record: unchanged,
};
