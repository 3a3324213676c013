//! The observed state of the Kubernetes cluster and the etcd clusters of a site.
//!
//! Values for forecasts only (pods, budgets, sizes) and values that guards judge by (labels, members, alarms) are
//! both here; the plan decides which of them it relies on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Fact, Labels};

/// The Kubernetes node of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterNode {
    /// Its UID, which changes when the node is made anew.
    pub uid: Arc<str>,
    /// Whether it is Ready.
    pub ready: bool,
    /// How many seconds ago it became Ready again, if that was within the last hour. A node that is Ready for the first
    /// time did not return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    /// Whether it is cordoned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// The run that cordoned it, by its annotation; `None` if another actor did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_by: Option<Arc<str>>,
    /// Whether a condition of trueup tells that it is drained or worked on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_own_conditions: bool,
    /// How another maintainer tells that it is at work on it: a condition of the node, or a lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Arc<str>>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Keys of the labels that the kubelet or a cloud controller manages: clear-labels leaves them, and
    /// remove-from-cluster does not mind them.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub kept_labels: Arc<BTreeSet<Arc<str>>>,
    /// API servers on it that are ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub api_servers: usize,
    /// Volumes that are attached to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl ClusterNode {
    /// For how long it is remembered that a node came back, in seconds.
    pub const REMEMBERED: u64 = 3600;
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_empty(keys: &Arc<BTreeSet<Arc<str>>>) -> bool {
    keys.is_empty()
}

/// A volume that is attached to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The VolumeAttachment.
    pub name: Arc<str>,
    /// The persistent volume.
    pub volume: Arc<str>,
}

/// The facts of the Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFacts {
    /// The server's version, such as `v1.33.2`.
    pub version: Arc<str>,
    /// Whether the DaemonSet that shuts kubelets down is there and as it should be.
    pub shutdown_daemon_set: bool,
    /// How many API servers are ready; `None` if it has no such thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_servers: Option<Fact<usize>>,
    /// Rights that were asked for and are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_rights: Vec<MissingRight>,
}

/// A right that steps need, and that trueup does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingRight {
    /// The right (`create pods/eviction`).
    pub right: Arc<str>,
    /// The kinds of step that need it, by name.
    pub steps: BTreeSet<Arc<str>>,
    /// Only if pods are deleted without regard to budgets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}

/// A pod by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
}

/// A PodDisruptionBudget that allows no disruption now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockedBudget {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The pods of this node that it holds, by name, sorted.
    pub pods: Vec<Arc<str>>,
    /// Healthy pods now.
    pub healthy: u32,
    /// Healthy pods wanted.
    pub wanted: u32,
}

/// Data on a node that a drain loses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalData {
    /// The controller at the top (`StatefulSet ns/name`), or the pod if it has none (`Pod ns/name`).
    pub owner: Arc<str>,
    /// `emptyDir` or `local volume`.
    pub kind: Arc<str>,
    /// Pods of it on this node.
    pub pods: usize,
}

impl LocalData {
    /// The kind of a volume on a disk of the machine, which stays where its disks are not erased.
    pub const VOLUME: &str = "local volume";
}

/// The forecast of a drain of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodePods {
    /// Pods that would be evicted.
    #[serde(skip_serializing_if = "is_zero")]
    pub evicted: usize,
    /// Pods of DaemonSets, which stay.
    #[serde(skip_serializing_if = "is_zero")]
    pub daemon_set: usize,
    /// Mirrors of static pods, which stay.
    #[serde(skip_serializing_if = "is_zero")]
    pub mirror: usize,
    /// Pods that have ended, which are evicted without waiting.
    #[serde(skip_serializing_if = "is_zero")]
    pub finished: usize,
    /// Budgets that allow no disruption now, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedBudget>,
    /// Pods without a controller, which are not started again, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncontrolled: Vec<PodName>,
    /// Pods that a drain leaves by a rule or by their label, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<PodName>,
    /// Pods whose end a drain waits for by a rule or by their label, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<PodName>,
    /// Data that is lost, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local_data: Vec<LocalData>,
    /// Whether a member of some etcd runs here, by its pods.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub runs_etcd: bool,
}

/// An etcd cluster, as each of its designed members answered for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdSeen {
    /// By the member's name in the design.
    pub answers: BTreeMap<Arc<str>, Fact<EtcdAnswer>>,
    /// Members that answered, but not as etcd answers, with what they said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<Arc<str>, Arc<str>>,
}

/// The answer of one member that was asked for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdAnswer {
    /// The cluster's id, in hexadecimal digits.
    pub cluster_id: Arc<str>,
    /// Its own id, in hexadecimal digits.
    pub member_id: Arc<str>,
    /// The members as it knows them, sorted by id.
    pub members: Vec<EtcdMemberSeen>,
    /// The leader's id, if it knows one.
    pub leader: Option<Arc<str>>,
    /// Whether it is a learner.
    pub learner: bool,
    /// Whether a linearizable read through it succeeded: it takes part in a quorum.
    pub decides: bool,
    /// Alarms, sorted.
    pub alarms: Vec<EtcdAlarm>,
    /// Errors that it reports of itself.
    pub errors: Vec<Arc<str>>,
    /// The server's version.
    pub version: Arc<str>,
    /// The size of its database, in bytes.
    pub db_size: u64,
    /// Its raft index.
    pub raft_index: u64,
    /// The raft index up to which it has applied.
    pub raft_applied: u64,
    /// Its raft term.
    pub raft_term: u64,
}

/// A member as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdMemberSeen {
    /// Its id, in hexadecimal digits.
    pub id: Arc<str>,
    /// Its name; empty if it was added and never started.
    pub name: Arc<str>,
    /// Where members reach it, sorted.
    pub peer_urls: Vec<Arc<str>>,
    /// Where clients reach it, sorted.
    pub client_urls: Vec<Arc<str>>,
    /// Whether it is a learner.
    pub learner: bool,
}

/// An alarm of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdAlarm {
    /// The id of the member that raised it.
    pub member: Arc<str>,
    /// Its kind: `NOSPACE` or `CORRUPT`.
    pub kind: Arc<str>,
}
