//! Wait behind a wave while its nodes, pods and etcd stay healthy.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

/// The seconds that a soak may take beyond its own time, for the last look.
pub const SOAK_SLACK: u64 = 120;

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
    parameters: &["soak"],
    record: unchanged,
};
