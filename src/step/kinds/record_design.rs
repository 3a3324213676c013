//! Bring the record up to date; touches no machine.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, as_designed,
};
use crate::design::Rung;
use crate::record::Phase;

parameters!(RecordParameters: Record { verified });

pub(super) const FACTS: Facts = Facts {
    name: "record",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: Some(Phase::Deployed),
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: as_designed,
};
