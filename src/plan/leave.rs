//! The steps of a node that leaves its clusters, before and after its machine is taken away.

use std::sync::Arc;

use super::subject::Membership;
use crate::design::ClusterName;
use crate::observed::ClusterNode;
use crate::step::{EtcdRemoval, OnDrainTimeout, StepKind};

/// The steps before and after a machine is taken away.
#[derive(Clone, Debug, Default)]
pub(super) struct Leave {
    /// It is a node of the Kubernetes cluster, with this UID.
    pub(super) node_uid: Option<Arc<str>>,
    /// Its etcd members, by cluster.
    pub(super) etcd: Vec<EtcdRemoval>,
    /// It is, by the design, a member of some etcd cluster.
    pub(super) is_member: bool,
    /// Etcd has to be healthy without it also if it has no member: it is decommissioned, as the specification has it.
    pub(super) awaits_etcd: bool,
    /// Etcd clusters that may end with it.
    pub(super) given_up: Vec<ClusterName>,
    /// It is gone for good: nothing of it is waited for.
    pub(super) is_gone: bool,
    /// Its Kubernetes node is deleted at the end.
    pub(super) delete: bool,
    /// Only one step of all was asked for.
    pub(super) only: Option<StepKind>,
    /// It is only away while its machine is serviced: its members stay, and no more than its pods leave.
    pub(super) serviced: bool,
    /// It takes no step, and is judged as if its members went.
    pub(super) only_judged: bool,
    /// It is no node of the cluster yet, and its deploy makes it one.
    pub(super) joins: bool,
    /// The handling of pods that are left at the drain's timeout.
    pub(super) on_drain_timeout: Option<OnDrainTimeout>,
}

impl Leave {
    /// The leftovers of a machine that was torn down already.
    pub(super) fn of_a_torn_down(node: &ClusterNode) -> Self {
        Self {
            node_uid: Some(node.uid.clone()),
            is_gone: true,
            delete: true,
            on_drain_timeout: Some(OnDrainTimeout::Continue),
            ..Self::default()
        }
    }

    /// A node that only takes pods again.
    pub(super) fn of_a_cordoned(membership: Membership<'_>) -> Self {
        let node_uid = match membership {
            Membership::In(node) => Some(node.uid.clone()),
            Membership::NotAsked
            | Membership::NoCluster
            | Membership::Unseen(_)
            | Membership::Out => None,
        };
        Self {
            node_uid,
            ..Self::default()
        }
    }

    /// The kinds of step before the machine is taken away, in order.
    pub(super) fn before_machine(&self) -> impl Iterator<Item = StepKind> + use<> {
        let in_cluster = self.node_uid.is_some();
        let leaves = in_cluster && !self.serviced;
        let removes = !self.etcd.is_empty();
        let checks = (self.is_member || self.awaits_etcd) && (removes || self.given_up.is_empty());
        [
            (in_cluster, StepKind::Drain),
            (leaves, StepKind::ClearLabels),
            (removes, StepKind::RemoveEtcd),
            (checks && !self.serviced, StepKind::CheckEtcd),
            (leaves && !self.is_gone, StepKind::ShutdownKubelet),
        ]
        .into_iter()
        .filter_map(|(wanted, kind)| wanted.then_some(kind))
    }

    /// Whether its Kubernetes node is deleted behind that.
    pub(super) const fn deletes_node(&self) -> bool {
        self.node_uid.is_some() && self.delete
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

    /// Whether a later step waits for it to come back.
    pub(super) fn comes_back(&self) -> bool {
        self.node_uid.is_some() || self.is_member || self.joins
    }
}
