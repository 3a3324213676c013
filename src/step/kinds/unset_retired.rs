//! Take the retired flag off.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::NodeRecord;

pub(super) const FACTS: Facts = Facts {
    name: "unset-retired",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 5,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

fn record(mut record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    record.retired = None;
    Some(record)
}
