//! Bring a failed machine back: off, its node released, on, its node as it was (metal3-remediation).

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::NodeRecord;

parameters!(RemediateParameters: Remediate { remediation, remembered, in_service });

pub(super) const FACTS: Facts = Facts {
    name: "remediate",
    effect: Effect::Destructive,
    rung: Rung::Restart,
    attempts: 5,
    actor: Actor::Both,
    typical: 900,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::Remediation,
    failure: None,
    record,
};

fn record(mut record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    record.remediation = None;
    Some(record)
}
