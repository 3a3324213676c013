//! Backends reachable, credentials good, images known (Drydock's verify_site).

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

parameters!(VerifySiteParameters: VerifySite { deploys });

pub(super) const FACTS: Facts = Facts {
    name: "verify-site",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 3,
    actor: Actor::Hardware,
    typical: 5,
    subject: KindSubject::Site,
    stage: KindStage::Site,
    reaches: None,
    leaves_doubt: false,
    loss: Loss::Nothing,
    leaving: LeavingRole::No,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
