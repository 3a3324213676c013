//! Write the record of a machine that is already as it should be; touches no machine.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::{Rung, Section};
use crate::record::{Adopted, Known, NodeRecord, Phase};

parameters!(AdoptParameters: Adopt { reason, identity, verified, open });

pub(super) const FACTS: Facts = Facts {
    name: "adopt",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: Some(Phase::Deployed),
    leaves_doubt: true,
    loss: Loss::Claim,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

/// The record tells which sections were compared, and which were taken for equal.
fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    of.take_digests(&mut record);
    let (verified, assumed) = Section::ON_MACHINE
        .into_iter()
        .partition(|section| of.verified.contains(section));
    record.known = Some(Known::Adopted(Box::new(Adopted {
        verified,
        assumed,
        open: of.open.to_vec(),
        reason: of.reason.cloned(),
    })));
    Some(record)
}
