//! Identify, boot check, inspect.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, as_designed,
};
use crate::design::Rung;
use crate::record::Phase;

parameters!(PrepareParameters: Prepare { disks, refused, preserve_local_storage, clean_steps });

pub(super) const FACTS: Facts = Facts {
    name: "prepare",
    effect: Effect::Reversible,
    rung: Rung::Restart,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 600,
    subject: KindSubject::Node,
    stage: KindStage::Prepare,
    reaches: Some(Phase::Prepared),
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: as_designed,
};
