//! Bring firmware and settings of a machine true while it runs, and read them a second time.

use super::facts::{Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes};
use super::service;
use crate::design::Rung;

parameters!(ServiceLiveParameters: ServiceLive { settings });

pub(super) const FACTS: Facts = Facts {
    name: "service-live",
    effect: Effect::Reversible,
    rung: Rung::Live,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 120,
    subject: KindSubject::Node,
    stage: KindStage::Other,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: service::record,
};
