//! Record differences from the design that are accepted; touches no machine.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::{DIGEST_VERSION, Rung};
use crate::record::{Accepted, AcceptedDifference, NodeRecord, Phase};

parameters!(AcceptDifferencesParameters: AcceptDifferences { accepted });

pub(super) const FACTS: Facts = Facts {
    name: "accept-differences",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Dispatcher,
    typical: 0,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Doubt,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

/// The sections on the machine stay as they were. In a plan of the whole site all others are as designed now.
fn record(mut record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    let Some((accepted, by)) = of.accepted else {
        return Some(record);
    };
    let known = record.accepted.take();
    let mut known = known.map_or_else(Vec::new, |known| known.differences);
    let differences = accepted.differences.iter().map(|acceptance| {
        let is_known = |each: &AcceptedDifference| each.acceptance == *acceptance;
        match known.iter().position(is_known) {
            Some(at) => known.swap_remove(at),
            None => AcceptedDifference {
                acceptance: acceptance.clone(),
                by: by.clone(),
                run: of.run.clone(),
            },
        }
    });
    record.accepted = Some(Box::new(Accepted {
        revision: accepted.revision.clone(),
        differences: differences.collect(),
    }));
    record.digests.clone_from(&accepted.digests);
    record.digest_version = DIGEST_VERSION;
    if !of.is_operation {
        record.phase = Phase::Deployed;
        record.revision = Some(of.revision.clone());
    }
    Some(record)
}
