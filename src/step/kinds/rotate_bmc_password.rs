//! Give the account of a machine's controller a new password. The machine itself is what it was.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

pub(super) const FACTS: Facts = Facts {
    name: "rotate-bmc-password",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 30,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
