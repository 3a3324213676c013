//! Run clean steps.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, manageable,
};
use crate::design::Rung;

parameters!(CleanParameters: Clean { disks, clean_steps });

pub(super) const FACTS: Facts = Facts {
    name: "clean",
    effect: Effect::Destructive,
    rung: Rung::Wipe,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 1800,
    subject: KindSubject::Node,
    stage: KindStage::Provision,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Machine,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: manageable,
};
