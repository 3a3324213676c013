//! The parameters of a step beyond its node's design.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CleanStep, DeployStep};
use crate::design::{AcceptedDesign, ClusterName, HardwareSetting, NodeName, OpenField, Section};
use crate::identity::Identity;
use crate::remediation::{Backup, Memory, RemediationLimits};

/// The parameters of a step beyond its node's design.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Labels to set, for relabel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_labels: Vec<(Arc<str>, Arc<str>)>,
    /// Labels to take off, for relabel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_labels: Vec<Arc<str>>,
    /// Disks that are erased or written, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Arc<str>>,
    /// The reason, for set-retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The observed identity of the machine, for adopt and accept-identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<Identity>>,
    /// The sections of its design that were compared with the machine and are equal, for adopt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Section>,
    /// The fields that no document fills, for adopt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenField>,
    /// The name that the machine had before, for rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<NodeName>,
    /// The differences that are accepted, for accept-differences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Box<AcceptedDesign>>,
    /// Why it must not be attempted: it fails at once, with this as its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Arc<str>>,
    /// Seconds that pods are given to end, for drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<u64>,
    /// The handling of pods that are left at the timeout, for drain and remove-from-cluster; absent: fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_drain_timeout: Option<OnDrainTimeout>,
    /// Members to remove, for remove-etcd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd_members: Vec<EtcdRemoval>,
    /// Only its members of etcd clusters are waited for, for await-ready: it was no node of Kubernetes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub members_only: bool,
    /// Etcd clusters that may end with this machine: check-etcd does not ask for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd_given_up: Vec<ClusterName>,
    /// The UID of the Kubernetes node that is meant, for the steps on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<Arc<str>>,
    /// The machine is gone for good: nothing of it is waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_is_gone: bool,
    /// The machine is off and fenced: its node is deleted as it is, for remove-from-cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machine_is_off: bool,
    /// Labels, annotations and taints of the node before, for restore-node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Box<Backup>>,
    /// How often and how long, for remediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationLimits>,
    /// The memory of a remediation that another run began, for remediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Box<Memory>>,
    /// Only the disk of the operating system may be erased or written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_local_storage: bool,
    /// The image of the design, for deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<str>>,
    /// The machine is to join its clusters afterwards, for deploy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joins: bool,
    /// When an earlier run deployed the machine, in seconds since 1970, for await-ready: its time runs from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_at: Option<i64>,
    /// The nodes that the plan deploys, for verify-site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deploys: Vec<NodeName>,
    /// The provisioner deletes the machine when it is torn down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
    /// The steps to run, in order: for clean, if none are named what moves the machine chooses its
    /// automated ones; for destroy, prepare and provide on the way to available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clean_steps: Vec<CleanStep>,
    /// The steps of a deploy besides its own, for deploy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deploy_steps: Vec<DeployStep>,
    /// The values of firmware and settings to be set, for service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<HardwareSetting>,
    /// The runbook of its provisioner that sets them, for service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<Arc<str>>,
    /// How long and what has to stay healthy, for soak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Box<SoakTerms>>,
}

#[cfg(test)]
impl Parameters {
    /// Those of a service that wants these values.
    pub(crate) fn of_settings(values: &[(&str, &str)]) -> Self {
        let settings = values.iter().map(|(name, value)| HardwareSetting {
            name: Arc::from(*name),
            before: None,
            value: Arc::from(*value),
        });
        Self {
            settings: settings.collect(),
            ..Self::default()
        }
    }
}

impl Parameters {
    /// The names of those that are given.
    pub fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
        // Whole, so that a new one cannot be left out.
        let Self {
            set_labels,
            remove_labels,
            disks,
            reason,
            identity,
            verified,
            open,
            renamed_from,
            accepted,
            refused,
            grace_period,
            on_drain_timeout,
            etcd_members,
            members_only,
            etcd_given_up,
            node_uid,
            node_is_gone,
            machine_is_off,
            backup,
            remediation,
            remembered,
            preserve_local_storage,
            image,
            joins,
            deployed_at,
            deploys,
            forget,
            clean_steps,
            deploy_steps,
            settings,
            runbook,
            soak,
        } = self;
        let rows = [
            ("set_labels", !set_labels.is_empty()),
            ("remove_labels", !remove_labels.is_empty()),
            ("disks", !disks.is_empty()),
            ("reason", reason.is_some()),
            ("identity", identity.is_some()),
            ("verified", !verified.is_empty()),
            ("open", !open.is_empty()),
            ("renamed_from", renamed_from.is_some()),
            ("accepted", accepted.is_some()),
            ("refused", refused.is_some()),
            ("grace_period", grace_period.is_some()),
            ("on_drain_timeout", on_drain_timeout.is_some()),
            ("etcd_members", !etcd_members.is_empty()),
            ("members_only", *members_only),
            ("etcd_given_up", !etcd_given_up.is_empty()),
            ("node_uid", node_uid.is_some()),
            ("node_is_gone", *node_is_gone),
            ("machine_is_off", *machine_is_off),
            ("backup", backup.is_some()),
            ("remediation", remediation.is_some()),
            ("remembered", remembered.is_some()),
            ("preserve_local_storage", *preserve_local_storage),
            ("image", image.is_some()),
            ("joins", *joins),
            ("deployed_at", deployed_at.is_some()),
            ("deploys", !deploys.is_empty()),
            ("forget", *forget),
            ("clean_steps", !clean_steps.is_empty()),
            ("deploy_steps", !deploy_steps.is_empty()),
            ("settings", !settings.is_empty()),
            ("runbook", runbook.is_some()),
            ("soak", soak.is_some()),
        ];
        let given = rows.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name)
    }
}

/// The nodes, pods and etcd clusters that have to stay healthy behind a wave, and how long.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoakTerms {
    /// Its seconds.
    pub seconds: u64,
    /// The namespaces in which no pod may crash again and again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Arc<str>>,
    /// The nodes of its wave, of which those have to be Ready that have come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// Those of them that an earlier run has built and that have joined their cluster: they have to be Ready, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<NodeName>,
    /// How many members of etcd clusters have to be healthy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub etcd: BTreeMap<ClusterName, usize>,
}

/// The handling of pods that a drain could not evict in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDrainTimeout {
    /// The drain fails, and nothing more is done to the node.
    Fail,
    /// They are deleted without regard to their budgets.
    ForceDelete,
    /// The drain succeeds; they are deleted when the machine is off.
    Continue,
}

/// A member of an etcd cluster that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdRemoval {
    /// Which cluster.
    pub cluster: ClusterName,
    /// The cluster's own id, in hexadecimal digits.
    pub cluster_id: Arc<str>,
    /// The member's id, in hexadecimal digits; never used again once it was removed.
    pub member_id: Arc<str>,
    /// The member's name.
    pub name: Arc<str>,
}
