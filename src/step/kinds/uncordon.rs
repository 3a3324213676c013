//! Let pods be scheduled again.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

parameters!(UncordonParameters: Uncordon { set_labels, node_uid, node_is_gone, backup });

pub(super) const FACTS: Facts = Facts {
    name: "uncordon",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 5,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::Carried,
    failure: None,
    record: unchanged,
};
