//! Bring a machine under management (Ironic's `manage`).

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, manageable,
};
use crate::design::Rung;

pub(super) const FACTS: Facts = Facts {
    name: "manage",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 60,
    subject: KindSubject::Node,
    stage: KindStage::Provision,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: manageable,
};
