//! Record what a machine shows of itself; touches no machine.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

parameters!(AcceptIdentityParameters: AcceptIdentity { identity });

pub(super) const FACTS: Facts = Facts {
    name: "accept-identity",
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
    record: unchanged,
};
