//! Barrier before a group: its dependencies succeeded, the group before it has ended.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

pub(super) const FACTS: Facts = Facts {
    name: "start",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Group,
    stage: KindStage::Barrier,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
