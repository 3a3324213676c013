//! Drop the record of a machine; touches no machine.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::NodeRecord;

pub(super) const FACTS: Facts = Facts {
    name: "forget",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Record,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

fn record(_: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    None
}
