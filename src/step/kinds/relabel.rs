//! Set Kubernetes labels.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::{Class, DIGEST_VERSION, Rung};
use crate::record::NodeRecord;

parameters!(RelabelParameters: Relabel { set_labels, remove_labels, backup });

pub(super) const FACTS: Facts = Facts {
    name: "relabel",
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
    notes: Notes::Carried,
    failure: None,
    record,
};

/// Labels are as designed now, and so is what is on no machine. What the machine is made of stays as it
/// was recorded: a redeploy may be blocked.
fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    let Some(design) = of.design else {
        return Some(record);
    };
    // Then nothing but labels differs, unless the rest is accepted.
    let is_accepted = record.accepted.is_some() || of.is_accepting;
    if of.only_relabels && !is_accepted {
        of.take_digests(&mut record);
    } else if record.digest_version == DIGEST_VERSION && !record.digests.is_empty() {
        // Digests of different versions do not belong into one record.
        for (section, digest) in design.iter() {
            if !matches!(section.class(), Class::Redeploy | Class::Service) {
                record.digests.insert(section, digest);
            }
        }
    }
    Some(record)
}
