//! Tag the revision.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

pub(super) const FACTS: Facts = Facts {
    name: "tag",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Site,
    stage: KindStage::Tag,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
