//! Wait behind a wave while its nodes, pods and etcd stay healthy.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::{Join, NodeRecord, Phase};

/// The seconds that a soak may take beyond its own time, for the last look.
pub const SOAK_SLACK: u64 = 120;

parameters!(SoakParameters: Soak { soak });

pub(super) const FACTS: Facts = Facts {
    name: "soak",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Cluster,
    typical: 600,
    subject: KindSubject::Group,
    stage: KindStage::Barrier,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record,
};

/// A machine that is back has been healthy for its soak; any other is soaked once it is back.
fn record(mut record: NodeRecord, _: &RecordContext<'_>) -> Option<NodeRecord> {
    let is_awaited = matches!(record.join, Some(Join::Awaited { .. }));
    if record.phase == Phase::Deployed && !is_awaited {
        record.soaking = None;
    }
    Some(record)
}
