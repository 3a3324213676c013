//! How a node leaves its clusters before its machine is taken away (airship-node-teardown).
//!
//! What is left out and why is a reason of the change; what nobody can be sure of blocks it: a machine
//! is never taken away from under a cluster that could not be asked.

use std::sync::Arc;

use super::change::{Item, Rules};
use super::subject::{Membership, Seen};
use crate::design::ClusterName;
use crate::lifecycle::PowerState;
use crate::observed::{ClusterNode, Fact};
use crate::step::{EtcdRemoval, OnDrainTimeout, Parameters, StepKind};

/// What is done before and after a machine is taken away.
#[derive(Clone, Debug, Default)]
pub(super) struct Leave {
    /// It is a node of the Kubernetes cluster, with this UID.
    pub(super) node_uid: Option<Arc<str>>,
    /// Its etcd members, by cluster.
    pub(super) etcd: Vec<EtcdRemoval>,
    /// It is, by the design, a member of some etcd cluster.
    pub(super) is_member: bool,
    /// Etcd clusters that may end with it.
    pub(super) given_up: Vec<ClusterName>,
    /// It is gone for good: nothing of it is waited for.
    pub(super) is_gone: bool,
    /// Its Kubernetes node is deleted at the end.
    pub(super) delete: bool,
    /// Only one step of all was asked for.
    pub(super) only: Option<StepKind>,
    /// It takes no step, and is judged as if its members went.
    pub(super) only_judged: bool,
    /// It is no node of the cluster yet, and its deploy makes it one.
    pub(super) joins: bool,
    /// What happens to pods that are left when the drain's time is up.
    pub(super) on_drain_timeout: Option<OnDrainTimeout>,
}

impl Leave {
    /// What is left of a machine that was torn down already.
    pub(super) fn of_a_torn_down(node: &ClusterNode) -> Self {
        Self {
            node_uid: Some(node.uid.clone()),
            is_gone: true,
            delete: true,
            on_drain_timeout: Some(OnDrainTimeout::Continue),
            ..Self::default()
        }
    }

    /// What all its steps have to know.
    pub(super) fn parameters(&self) -> Parameters {
        Parameters {
            node_uid: self.node_uid.clone(),
            node_is_gone: self.is_gone,
            ..Parameters::default()
        }
    }

    /// Whether the node is out of service after it.
    pub(super) fn takes_out(&self) -> bool {
        match self.only {
            None => true,
            Some(kind) => matches!(
                kind,
                StepKind::Drain | StepKind::ShutdownKubelet | StepKind::RemoveEtcd
            ),
        }
    }

    /// Whether its etcd members are taken out of their clusters, or stop with it.
    pub(super) fn is_about_etcd(&self) -> bool {
        self.only.is_none_or(|kind| kind == StepKind::RemoveEtcd)
    }

    /// Whether somebody waits for it to come back.
    pub(super) fn comes_back(&self) -> bool {
        self.node_uid.is_some() || self.is_member || self.joins
    }
}

impl<'a> Rules<'a> {
    /// Says how a node that is torn down leaves its clusters, or blocks it where that is not known.
    pub(super) fn leave(&self, item: &mut Item<'a>) {
        let subject = item.subject;
        let mut leave = Leave {
            on_drain_timeout: self.leaving.on_drain_timeout,
            delete: true,
            ..Leave::default()
        };
        if self.gone.contains(subject.name) {
            match self.is_gone(item) {
                Ok(()) => leave.is_gone = true,
                Err(why) => item.block(&why, Some("--i-have-checked --node-is-gone")),
            }
        }
        match subject.membership {
            Membership::NotAsked | Membership::NoCluster => {}
            Membership::Unseen(why) => {
                let reason =
                    format!("whether it is a node of the cluster could not be read: {why}");
                item.block_unreadable(&reason, None);
            }
            Membership::Out => item.because("is no node of the cluster: there is nothing to drain"),
            Membership::In(node) => {
                leave.node_uid = Some(node.uid.clone());
            }
        }
        // Which etcd clusters it is in is settled when all nodes are judged.
        item.work.leave = Some(Box::new(leave));
    }

    /// Whether a machine that is said to be gone may be taken for gone.
    pub(super) fn is_gone(&self, item: &Item<'a>) -> Result<(), String> {
        if self.leaving.checked_gone {
            return Ok(());
        }
        match item.subject.seen {
            Seen::Known(node, _) => match &node.power {
                Fact::Known(PowerState::Off) => Ok(()),
                Fact::Known(PowerState::On) => {
                    Err("it is said to be gone, and it is on".to_owned())
                }
                Fact::Unknown(why) => Err(format!(
                    "it is said to be gone, and whether it is off could not be seen: {why}"
                )),
            },
            Seen::Unknown(why) => Err(format!(
                "it is said to be gone, and it could not be seen off: {why}"
            )),
            Seen::NotAsked => Err("it is said to be gone, and nobody looked".to_owned()),
        }
    }
}
