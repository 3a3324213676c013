//! Set the retired flag.

use std::sync::Arc;

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::NodeRecord;

parameters!(SetRetiredParameters: SetRetired { reason });

pub(super) const FACTS: Facts = Facts {
    name: "set-retired",
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

fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    let untold = || Arc::from("retired by the design");
    record.retired = Some(of.reason.cloned().unwrap_or_else(untold));
    Some(record)
}
