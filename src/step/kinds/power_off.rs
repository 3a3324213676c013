//! Switch a machine off.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

pub(super) const FACTS: Facts = Facts {
    name: "power-off",
    effect: Effect::Reversible,
    rung: Rung::Restart,
    attempts: 3,
    actor: Actor::Hardware,
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
