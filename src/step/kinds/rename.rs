//! Give the record of a machine that had another name its new one; touches no machine.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

parameters!(RenameParameters: Rename { renamed_from });

pub(super) const FACTS: Facts = Facts {
    name: "rename",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Claim,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
