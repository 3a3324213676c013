//! Make a machine available (Ironic's `provide`).

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::NodeRecord;

parameters!(ProvideParameters: Provide { disks, clean_steps });

pub(super) const FACTS: Facts = Facts {
    name: "provide",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 600,
    subject: KindSubject::Node,
    stage: KindStage::Provision,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

/// The machine is available, and no clean step holds it any more.
fn record(mut record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    record.clean_step = None;
    record.manageable = false;
    Some(record)
}
