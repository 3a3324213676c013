//! The parameters of steps beyond their nodes' designs: each kind has those that its file names, and no others can be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{ClusterName, NodeName};

/// Writes, from one list of names with their types, what each kind may take of it and how it is read.
macro_rules! known {
    ($($(#[$meaning:meta])+ $name:ident: $type:ty = $none:expr;)+) => {
        /// The parameters of a step by name; a kind without one has its empty value.
        pub trait Given: std::fmt::Debug + Sync {
            $($(#[$meaning])+ fn $name(&self) -> &$type {
                const { &$none }
            })+
        }

        /// The type of a parameter.
        macro_rules! type_of {
            $(($name) => { $type };)+
        }
    };
}

known! {
    /// Labels to set, for relabel.
    set_labels: Vec<(std::sync::Arc<str>, std::sync::Arc<str>)> = Vec::new();
    /// Labels to take off, for relabel.
    remove_labels: Vec<std::sync::Arc<str>> = Vec::new();
    /// Disks that are erased or written, by name.
    disks: Vec<std::sync::Arc<str>> = Vec::new();
    /// The reason, for set-retired.
    reason: Option<std::sync::Arc<str>> = None;
    /// The observed identity of the machine, for adopt and accept-identity.
    identity: Option<Box<crate::identity::Identity>> = None;
    /// The sections of its design that were compared with the machine and are equal, for adopt.
    verified: Vec<crate::design::Section> = Vec::new();
    /// The fields that no document fills, for adopt.
    open: Vec<crate::design::OpenField> = Vec::new();
    /// The name that the machine had before, for rename.
    renamed_from: Option<crate::design::NodeName> = None;
    /// The differences that are accepted, for accept-differences.
    accepted: Option<Box<crate::design::AcceptedDesign>> = None;
    /// Why it must not be attempted: it fails at once, with this as its message.
    refused: Option<std::sync::Arc<str>> = None;
    /// Seconds that pods are given to end, for drain.
    grace_period: Option<u64> = None;
    /// The handling of pods that are left at the timeout, for drain and remove-from-cluster; absent: fail.
    on_drain_timeout: Option<crate::step::OnDrainTimeout> = None;
    /// Members to remove, for remove-etcd.
    etcd_members: Vec<crate::step::EtcdRemoval> = Vec::new();
    /// Only its members of etcd clusters are waited for, for await-ready: it was no node of Kubernetes.
    members_only: bool = false;
    /// Etcd clusters that may end with this machine: check-etcd does not ask for them.
    etcd_given_up: Vec<crate::design::ClusterName> = Vec::new();
    /// The UID of the Kubernetes node that is meant, for the steps on it.
    node_uid: Option<std::sync::Arc<str>> = None;
    /// The machine is gone for good: nothing of it is waited for.
    node_is_gone: bool = false;
    /// The machine is off and fenced: its node is deleted as it is, for remove-from-cluster.
    machine_is_off: bool = false;
    /// Labels, annotations and taints of the node before, for restore-node.
    backup: Option<Box<crate::remediation::Backup>> = None;
    /// How often and how long, for remediate.
    remediation: Option<crate::remediation::RemediationLimits> = None;
    /// The memory of a remediation that another run began, for remediate.
    remembered: Option<Box<crate::remediation::Memory>> = None;
    /// The machine is in service, and no one but who names it asks for it, for remediate.
    in_service: bool = false;
    /// Only the disk of the operating system may be erased or written.
    preserve_local_storage: bool = false;
    /// The image of the design, for deploy.
    image: Option<std::sync::Arc<str>> = None;
    /// The machine is to join its clusters afterwards, for deploy.
    joins: bool = false;
    /// When an earlier run deployed the machine, in seconds since 1970, for await-ready: its time runs from then on.
    deployed_at: Option<i64> = None;
    /// The nodes that the plan deploys, for verify-site.
    deploys: Vec<crate::design::NodeName> = Vec::new();
    /// The provisioner deletes the machine when it is torn down.
    forget: bool = false;
    /// The steps to run, in order: for clean, if none are named what moves the machine chooses its
    /// automated ones; for destroy, prepare and provide on the way to available.
    clean_steps: Vec<crate::step::CleanStep> = Vec::new();
    /// The steps of a deploy besides its own, for deploy.
    deploy_steps: Vec<crate::step::DeployStep> = Vec::new();
    /// The values to be set: of firmware and settings for service, of RAID for deploy.
    settings: Vec<crate::design::HardwareSetting> = Vec::new();
    /// The parts that the machine has as expected, and is to have after its restart, for service.
    kept_parts: Vec<crate::design::HardwareSetting> = Vec::new();
    /// The runbook of its provisioner that sets them, for service.
    runbook: Option<std::sync::Arc<str>> = None;
    /// How long and what has to stay healthy, for soak.
    soak: Option<Box<crate::step::SoakTerms>> = None;
}

/// The parameters of a kind without any.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParameters {}

impl Given for NoParameters {}

/// Whether a parameter has the value that it has if nothing is given.
pub(super) fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes the parameters of a kind of step from their names, in the order in which they are written to a file.
macro_rules! parameters {
    ($own:ident: $kind:ident { $($name:ident),+ $(,)? }) => {
        #[doc = concat!("The parameters of `", stringify!($kind), "`.")]
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $own {
            $(
                #[doc = concat!("See [`Given::", stringify!($name), "`](crate::step::Given).")]
                #[serde(skip_serializing_if = "crate::step::parameters::is_empty")]
                pub $name: type_of!($name),
            )+
        }

        impl crate::step::Given for $own {
            $(fn $name(&self) -> &type_of!($name) {
                &self.$name
            })+
        }

        impl $own {
            /// Takes a parameter away.
            pub(super) fn clear(&mut self, name: &str) {
                $(if name == stringify!($name) {
                    self.$name = Default::default();
                })+
            }
        }

        impl From<$own> for crate::step::Parameters {
            fn from(own: $own) -> Self {
                Self::$kind(own)
            }
        }
    };
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
    /// Whether the machines of its nodes have to have the parts that are expected of them, as it begins and as it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parts: bool,
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

#[cfg(test)]
impl super::Parameters {
    /// Those of a kind, as a file has them.
    pub(crate) fn of(kind: super::StepKind, json: &serde_json::Value) -> Option<Arc<Self>> {
        let read = Self::read(kind, &json.to_string());
        read.unwrap().map(Arc::new)
    }
}

#[cfg(test)]
impl super::Step {
    /// Changes one of its parameters, as in a file.
    pub(crate) fn give(&mut self, name: &str, value: impl Serialize) {
        let given = self.parameters.as_deref();
        let mut json = given.map_or_else(
            || serde_json::json!({}),
            |given| serde_json::to_value(given).unwrap(),
        );
        json[name] = serde_json::to_value(value).unwrap();
        self.parameters = super::Parameters::of(self.id.kind, &json);
    }
}

/// Those of a service that wants these values.
#[cfg(test)]
pub(crate) fn of_settings(values: &[(&str, &str)]) -> serde_json::Value {
    let settings = values
        .iter()
        .map(|(name, value)| serde_json::json!({"name": name, "before": null, "value": value}));
    serde_json::json!({"settings": settings.collect::<Vec<_>>()})
}
