//! Part of a remediation: mark a node as out of service, and wait until nothing of it is left.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

parameters!(SetOutOfServiceParameters: SetOutOfService { node_uid, machine_is_off });

pub(super) const FACTS: Facts = Facts {
    name: "set-out-of-service",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Cluster,
    typical: 60,
    subject: KindSubject::Node,
    stage: KindStage::TakeOff,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
