//! Install and boot the system.

use std::sync::Arc;

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
    put_digests,
};
use crate::design::{Digests, Rung, Section};
use crate::record::{Adopted, Join, Known, NodeRecord, Phase};
use crate::step::DECIDED_DONE;

parameters!(DeployParameters: Deploy { disks, preserve_local_storage, image, joins, deploy_steps, settings });

pub(super) const FACTS: Facts = Facts {
    name: "deploy",
    effect: Effect::Destructive,
    rung: Rung::Reinstall,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 1500,
    subject: KindSubject::Node,
    stage: KindStage::Deploy,
    reaches: Some(Phase::Deployed),
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

/// The record of a machine that was built by its design.
fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    if let Some(design) = of.design {
        build(&mut record, design, of.revision, of.joins_after);
        let raid = design.get(&Section::Raid);
        // What an operator decides to be done was not read again.
        if let Some(raid) = raid.filter(|_| !of.settings.is_empty() && !of.decided) {
            record.digests.insert(Section::Raid, *raid);
        }
    }
    if of.decided {
        record.known = Some(decided());
    }
    Some(record)
}

/// The machine is built by a design; `joins_after`: it is to join its clusters, from that time on.
pub fn build(
    record: &mut NodeRecord,
    digests: &Digests,
    revision: &Arc<str>,
    joins_after: Option<i64>,
) {
    put_digests(record, digests, revision);
    record.join = joins_after.map(|since| Join::Awaited { since });
    record.known = Some(Known::Applied);
    // It is another system than the one that did not come back; what its node is owed stays so.
    record.owed = record.owed().map(Box::new);
    record.remediation = None;
}

/// How a machine is known that an operator holds for built: no part of its design was compared.
#[must_use]
pub fn decided() -> Known {
    Known::Adopted(Box::new(Adopted {
        verified: Vec::new(),
        assumed: Section::ON_MACHINE.to_vec(),
        open: Vec::new(),
        reason: Some(Arc::from(DECIDED_DONE)),
    }))
}
