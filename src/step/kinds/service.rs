//! Bring firmware and settings of a machine true, with one restart, and read them a second time. No disk is touched.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::{Rung, Section};
use crate::record::{NodeRecord, Phase, Serviced};

parameters!(ServiceParameters: Service { settings, kept_parts, runbook });

pub(super) const FACTS: Facts = Facts {
    name: "service",
    effect: Effect::Reversible,
    rung: Rung::Restart,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 900,
    subject: KindSubject::Node,
    stage: KindStage::TakeOff,
    reaches: Some(Phase::Deployed),
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

/// The machine has the firmware and the settings of its design; the values before are kept for the way back.
pub(super) fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    record.serviced = Some(Box::new(Serviced {
        run: of.run.clone(),
        settings: of.settings.to_vec(),
    }));
    if let Some(digest) = of.design.and_then(|design| design.get(&Section::Firmware)) {
        record.digests.insert(Section::Firmware, *digest);
    }
    Some(record)
}
