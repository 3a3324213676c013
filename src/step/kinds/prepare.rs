//! Identify, boot check, inspect.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::record::{NodeRecord, Phase};

pub(super) const FACTS: Facts = Facts {
    name: "prepare",
    effect: Effect::Reversible,
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
    parameters: &["clean_steps", "disks", "preserve_local_storage", "refused"],
    record,
};

/// The record has the design that the machine is to get.
fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    of.take_digests(&mut record);
    Some(record)
}
