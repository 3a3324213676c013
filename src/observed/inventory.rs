//! The machines that a backend lists, described by a document or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Disk, EtcdMemberSeen, EtcdSeen, Fact, ObservedNode};
use crate::design::{ClusterName, NodeName};
use crate::lifecycle::{PowerState, ProvisionState};

/// A machine as a backend lists it, before it is observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMachine {
    /// Its name in the backend; the address of its controller if the backend has no names.
    pub name: Arc<str>,
    /// The kind of its management controller, and its address.
    pub controller: Option<(Arc<str>, Arc<str>)>,
    /// The MAC addresses of its interfaces, if an observation does not show them.
    pub macs: BTreeSet<Arc<str>>,
    /// Its members of etcd clusters, if the backend has them.
    pub members: BTreeMap<ClusterName, EtcdMemberSeen>,
}

/// A listed machine, and its observed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryMachine {
    /// As it was listed.
    pub listed: ListedMachine,
    /// Its observed state.
    pub observed: Box<ObservedNode>,
}

impl InventoryMachine {
    /// Why it is in no use that a document can take over; `None` if it runs a system.
    #[must_use]
    pub fn not_in_use(&self) -> Option<String> {
        let observed = &self.observed;
        match (&observed.provision, &observed.power) {
            (Fact::Known(ProvisionState::Active), _) => None,
            (Fact::Known(state), _) => Some(format!("its provision state is {state}")),
            // Its records would be the authority, and it has none.
            (Fact::Unknown(_), Fact::Known(PowerState::On)) if observed.kept_by_records => None,
            (Fact::Unknown(_), Fact::Known(PowerState::Off)) if observed.kept_by_records => {
                Some("it is powered off".to_owned())
            }
            (Fact::Unknown(_), Fact::Unknown(reason)) | (Fact::Unknown(reason), _) => {
                Some(format!("it could not be observed: {reason}"))
            }
        }
    }

    /// Whether nothing of its state could be observed.
    #[must_use]
    pub fn is_unobserved(&self) -> bool {
        let observed = &self.observed;
        let is_told = observed.kept_by_records && observed.power.known().is_some();
        observed.provision.known().is_none() && !is_told
    }

    /// Whether it is known to be powered off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.observed.power == Fact::Known(PowerState::Off)
    }

    /// Its disks, as far as they are known.
    #[must_use]
    pub fn disks(&self) -> &[Disk] {
        self.observed.disks.known().map_or(&[], Vec::as_slice)
    }
}

/// All that the backends of a site list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Machines by name, each name once.
    pub machines: Vec<InventoryMachine>,
    /// Names of machines that no document can have: not valid, or twice.
    pub unusable: BTreeSet<Arc<str>>,
    /// Why the nodes of the cluster are unknown, if it has any.
    pub cluster_unknown: Option<Arc<str>>,
    /// Nodes of the cluster whose names no machine has.
    pub nodes_alone: BTreeSet<NodeName>,
    /// The etcd clusters that were asked for by the address of a member.
    pub etcd: BTreeMap<ClusterName, EtcdSeen>,
}
