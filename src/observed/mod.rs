//! The observed state of machines and clusters: values only, each known or unknown.
//!
//! A backend makes these, a plan is made from them, and a file can carry them from one to the other
//! (`--observed FILE`), so that a plan never needs the network.

mod built;
mod capability;
mod cluster;
mod hardware;
mod inventory;
mod labels;
mod remediation;
mod snapshot;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::design::{ClusterName, NodeName, Section};
use crate::identity::{Identity, Proof};
use crate::lifecycle::{OfferedStep, PowerState, ProvisionState};

pub use remediation::RemediationSeen;

pub use built::Built;
pub use capability::{Capabilities, Capability};
pub use cluster::{
    Attachment, BlockedBudget, ClusterFacts, ClusterNode, EtcdAlarm, EtcdAnswer, EtcdMemberSeen,
    EtcdSeen, LocalData, MissingRight, NodePods, PodName,
};
pub use hardware::{HardwareSeen, LearnedHardware, shows};
pub use inventory::{Inventory, InventoryMachine, ListedMachine};
pub use labels::Labels;
pub use snapshot::{Error, LARGEST, read, write};

/// Something that was asked for: seen, or not and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact<T> {
    /// The observed value.
    Known(T),
    /// Why it could not be observed.
    Unknown(Arc<str>),
}

impl<T> Fact<T> {
    /// The value, if it was observed.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

/// A disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Device name or address.
    #[serde(deserialize_with = "shared")]
    pub name: Arc<str>,
    /// Serial number.
    pub serial: Arc<str>,
    /// Size in bytes.
    pub size: u64,
    /// Whether a partition table was observed on it; also set if it cannot be observed.
    pub partitioned: bool,
}

/// A text that many machines have.
fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    let text = Cow::<'_, str>::deserialize(deserializer)?;
    Ok(labels::shared_text(&text))
}

/// A part of a deployed machine that is otherwise than its design, as its provisioner shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartDrift {
    /// The section of the design that has the part.
    pub section: Section,
    /// The part: "size of the file system `/var`".
    pub field: Arc<str>,
    /// Its observed value.
    pub observed: Arc<str>,
    /// The value that the design has.
    pub designed: Arc<str>,
}

/// A value of firmware or settings that the controller of a machine cannot change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedValue {
    /// Its name (`bios.ProcVirtualization`).
    pub name: Arc<str>,
    /// Why not.
    pub reason: Arc<str>,
}

impl std::fmt::Display for PartDrift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            field,
            observed,
            designed,
            ..
        } = self;
        write!(f, "{field}: {observed}, designed {designed}")
    }
}

/// The observed state of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedNode {
    /// Provision state; unknown too where [`Self::kept_by_records`].
    pub provision: Fact<ProvisionState>,
    /// Power.
    pub power: Fact<PowerState>,
    /// The reason, if the machine is retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Arc<str>>,
    /// The reason, if the machine is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Arc<str>>,
    /// Whether the provisioner protects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// The last error that the provisioner remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Arc<str>>,
    /// The clean step that runs or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_step: Option<Arc<str>>,
    /// Disks, sorted by name.
    pub disks: Fact<Vec<Disk>>,
    /// The Kubernetes node; known and `None` if it has none.
    pub cluster: Fact<Option<ClusterNode>>,
    /// Its capabilities.
    #[serde(default, skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
    /// Its backend keeps neither provision state nor flags (a plain management controller): the records
    /// are the authority for both, and what is on without a record counts as deployed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_by_records: bool,
    /// The clean steps that it offers; empty if its provisioner does not say before it cleans.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub clean_steps: Arc<[OfferedStep]>,
    /// Its provisioner chooses its clean steps and their order itself: those above are the ones that it last ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleans_itself: bool,
    /// Nothing tells that what a deploy installs has come up: the deploy ends unverified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deploys_unverified: bool,
    /// The source from which its firmware is set to boot next, if that may install it, and for how long that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boots_from: Option<Arc<str>>,
    /// Parts of its design that its backend cannot do: it is not deployed.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub unsupported: Arc<[Arc<str>]>,
    /// Parts of its design that its backend leaves as they are.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub left_out: Arc<[Arc<str>]>,
    /// Parts of it that are otherwise than its design, if it is deployed; only a redeploy repairs them.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub drift: Arc<[PartDrift]>,
    /// Values of its firmware and settings that are not as its design enforces, and that its controller cannot change.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub fixed: Arc<[FixedValue]>,
    /// Why parts that its design expects could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_parts: Option<Arc<str>>,
    /// The runbook of its provisioner that services it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<Arc<str>>,
    /// The sections of its design that it was compared with, if it is deployed: what differs in them is in `drift`.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub compared: Arc<[Section]>,
    /// It is deployed, its provisioner locks such machines against deletion, and it is not locked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlocked: bool,
    /// Its maker and its firmware, if its backend shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<Box<Built>>,
    /// The way out of a state that is not driven from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<Arc<str>>,
    /// Its identity, as far as it shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<Identity>>,
    /// Whether it was proven to be the machine that the document means.
    #[serde(default, skip_serializing_if = "Proof::is_proven")]
    pub proof: Proof,
}

/// Whether a list is empty.
fn is_empty<T>(list: &Arc<[T]>) -> bool {
    list.is_empty()
}

impl ObservedNode {
    /// Why it could not be observed; what its backend leaves to the records was not missed.
    #[must_use]
    pub fn unobserved(&self) -> Option<&Arc<str>> {
        match &self.provision {
            Fact::Unknown(why) if !self.kept_by_records => Some(why),
            Fact::Unknown(_) | Fact::Known(_) => None,
        }
    }

    /// A machine that could not be observed.
    #[must_use]
    pub fn unknown(reason: &str) -> Self {
        let reason: Arc<str> = Arc::from(reason);
        Self {
            provision: Fact::Unknown(reason.clone()),
            power: Fact::Unknown(reason.clone()),
            retired: None,
            maintenance: None,
            protected: false,
            last_error: None,
            clean_step: None,
            disks: Fact::Unknown(reason.clone()),
            cluster: Fact::Unknown(reason),
            capabilities: Capabilities::default(),
            kept_by_records: false,
            clean_steps: Arc::default(),
            cleans_itself: false,
            deploys_unverified: false,
            boots_from: None,
            built: None,
            unsupported: Arc::default(),
            left_out: Arc::default(),
            drift: Arc::default(),
            fixed: Arc::default(),
            unread_parts: None,
            runbook: None,
            compared: Arc::default(),
            unlocked: false,
            way_out: None,
            identity: None,
            proof: Proof::Proven,
        }
    }

    /// A machine that is not the one that the document means: nothing that it shows counts.
    #[must_use]
    pub fn refused(reason: &str) -> Self {
        Self {
            proof: Proof::Refused(Arc::from(reason)),
            ..Self::unknown(reason)
        }
    }
}

/// Machines by name, in boxes, so that a map of a hundred thousand of them has no unused places.
pub type ObservedNodes = BTreeMap<NodeName, Box<ObservedNode>>;

/// The pods of nodes by name; nodes that are alike share them.
pub type ObservedPods = BTreeMap<NodeName, Arc<NodePods>>;

/// The pods of nodes, shared if one is like the one before.
pub fn pods_by_node(nodes: impl IntoIterator<Item = (NodeName, NodePods)>) -> ObservedPods {
    let mut last: Arc<NodePods> = Arc::default();
    let shared = nodes.into_iter().map(|(node, pods)| {
        if *last != pods {
            last = Arc::new(pods);
        }
        (node, last.clone())
    });
    shared.collect()
}

/// The observed state of a site, at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// Every machine that was asked for.
    pub nodes: ObservedNodes,
    /// The facts of the Kubernetes cluster, if the site has one and it answered.
    pub cluster: Option<ClusterFacts>,
    /// The pods of each node, of those that were observed.
    pub pods: ObservedPods,
    /// The requests for remediation of machines, or the marks of running ones, of those that have any.
    pub remediation: BTreeMap<NodeName, RemediationSeen>,
    /// The etcd clusters of the design.
    pub etcd: BTreeMap<ClusterName, EtcdSeen>,
}

impl Observations {
    /// The observed state of a machine, if it was requested.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&ObservedNode> {
        self.nodes.get(name).map(|node| &**node)
    }
}
