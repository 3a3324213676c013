//! Wait until every etcd cluster meets its threshold, this machine left out.

use super::facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, unchanged,
};
use crate::design::Rung;

parameters!(CheckEtcdParameters: CheckEtcd { etcd_given_up, node_uid, node_is_gone });

pub(super) const FACTS: Facts = Facts {
    name: "check-etcd",
    effect: Effect::None,
    rung: Rung::Record,
    attempts: 1,
    actor: Actor::Cluster,
    typical: 30,
    subject: KindSubject::NodeOrSite,
    stage: KindStage::TearDown,
    reaches: None,
    leaves_doubt: true,
    loss: Loss::Nothing,
    leaving: LeavingRole::Guards,
    notes: Notes::None,
    failure: None,
    record: unchanged,
};
