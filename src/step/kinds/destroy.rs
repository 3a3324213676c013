//! Tear a machine down: wipe, power off, remove from the provisioner.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
use crate::design::Rung;
use crate::record::{NodeRecord, Phase};

parameters!(DestroyParameters: Destroy { disks, preserve_local_storage, forget, clean_steps });

pub(super) const FACTS: Facts = Facts {
    name: "destroy",
    effect: Effect::Destructive,
    rung: Rung::Wipe,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 600,
    subject: KindSubject::Node,
    stage: KindStage::TearDown,
    reaches: Some(Phase::NotStarted),
    leaves_doubt: true,
    loss: Loss::Machine,
    leaving: LeavingRole::Takes,
    notes: Notes::None,
    failure: None,
    record,
};

/// The record of a machine that was torn down: it is dropped if the machine has left the design, and no node of it is left
/// in the cluster.
fn record(record: NodeRecord, of: &RecordContext<'_>) -> Option<NodeRecord> {
    (of.leaves_cluster || of.design.is_some()).then_some(record)
}
