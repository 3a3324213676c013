//! The facts that a plan can rely on, and what they are about.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{ClusterName, NodeName};

/// A fact, sorted by its name in saved plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactName {
    /// The alarms of an etcd cluster.
    Alarms,
    /// The id of an etcd cluster.
    ClusterId,
    /// The serials of the disks of a machine.
    Disks,
    /// How many voters of an etcd cluster are healthy.
    Healthy,
    /// The UID of the Kubernetes node of a machine.
    KubernetesNode,
    /// Labels of its Kubernetes node.
    Labels,
    /// The learners of an etcd cluster.
    Learners,
    /// The controllers, and pods without one, whose data a drain loses.
    LocalData,
    /// Why a machine is in maintenance.
    Maintenance,
    /// Whether a machine is on.
    Power,
    /// Whether the provisioner protects a machine.
    Protected,
    /// The provision state of a machine.
    Provision,
    /// Why a machine is retired.
    Retired,
    /// The voters of an etcd cluster.
    Voters,
}

impl FactName {
    /// The facts about a machine that its steps rely on.
    pub(super) const OF_MACHINE: [Self; 8] = [
        Self::Disks,
        Self::KubernetesNode,
        Self::Labels,
        Self::Maintenance,
        Self::Power,
        Self::Protected,
        Self::Provision,
        Self::Retired,
    ];

    /// The facts about an etcd cluster that loses members.
    pub(super) const OF_ETCD: [Self; 5] = [
        Self::Alarms,
        Self::ClusterId,
        Self::Healthy,
        Self::Learners,
        Self::Voters,
    ];
}

impl fmt::Display for FactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The subject of a fact; in saved plans `etcd/NAME` or `node/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "String")]
pub enum FactSubject {
    /// An etcd cluster.
    Etcd(ClusterName),
    /// A machine.
    Node(NodeName),
}

impl FactSubject {
    /// The machine that it is.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Etcd(_) => None,
            Self::Node(name) => Some(name),
        }
    }
}

impl fmt::Display for FactSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(name) => write!(f, "etcd/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
        }
    }
}

impl From<FactSubject> for String {
    fn from(subject: FactSubject) -> Self {
        subject.to_string()
    }
}

impl TryFrom<Arc<str>> for FactSubject {
    type Error = String;

    fn try_from(text: Arc<str>) -> Result<Self, String> {
        match text.split_once('/') {
            Some(("etcd", name)) => Ok(Self::Etcd(ClusterName::from(name))),
            Some(("node", name)) => Ok(Self::Node(NodeName::from(name))),
            _ => Err(format!("`{text}` is neither `etcd/NAME` nor `node/NAME`")),
        }
    }
}
