//! The cluster's objects: a few fields of each, decoded straight from the answer.
//!
//! A list of fifty thousand pods is some hundred megabytes; what is not named here is passed over while
//! it is read. Every field can be missing, since servers leave out what is empty, or send null.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::backend::api_server::{MANAGER, or_empty};
use crate::observed::ClusterNode;

/// The metadata of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) namespace: Arc<str>,
}

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: NodeMetadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: NodeSpec,
    #[serde(deserialize_with = "or_empty")]
    pub(super) status: Status,
}

/// How long a new node may take to be Ready for the first time, in seconds.
const FIRST_READY: i64 = 600;

impl Node {
    /// How many seconds ago it became Ready again, as [`ClusterNode::returned`] tells it.
    pub(super) fn returned(&self, now: Timestamp) -> Option<u64> {
        let ready = self.status.readiness().filter(|_| self.status.is_ready())?;
        let at = |text: &Option<Arc<str>>| text.as_deref()?.parse::<Timestamp>().ok();
        let since = at(&ready.last_transition_time)?;
        let created = at(&self.metadata.creation_timestamp);
        if created.is_some_and(|created| since.duration_since(created).as_secs() <= FIRST_READY) {
            return None;
        }
        // A clock of the server that is ahead of this one: just now.
        let ago = u64::try_from(now.duration_since(since).as_secs()).unwrap_or(0);
        (ago <= ClusterNode::REMEMBERED).then_some(ago)
    }

    /// The run that cordoned it; `None` if it is not cordoned, or another actor cordoned it.
    ///
    /// The annotation of the run stays where another actor lifts the cordon of trueup: one that is set afterwards is told by the
    /// manager of the field, as far as the server keeps managers.
    pub(super) fn cordoned_by(&self) -> Option<&Arc<str>> {
        let by = self.metadata.annotations.cordoned_by.as_ref()?;
        let managers = self.metadata.managed_fields.iter();
        let mut managers = managers
            .filter(|managed| managed.fields.spec.unschedulable.is_some())
            .map(|managed| &*managed.manager)
            .peekable();
        let is_ours = managers.peek().is_none() || managers.any(|manager| manager == MANAGER);
        (self.spec.unschedulable && is_ours).then_some(by)
    }
}

/// A node of which nothing counts but whether it is Ready.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::backend) struct Readiness {
    #[serde(deserialize_with = "or_empty")]
    metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    status: Status,
}

impl Readiness {
    /// Whether it is Ready.
    pub(in crate::backend) fn is_ready(&self) -> bool {
        self.status.is_ready()
    }

    /// The name of the node.
    pub(in crate::backend) fn into_name(self) -> Arc<str> {
        self.metadata.name
    }
}

/// The metadata of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeMetadata {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) uid: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) resource_version: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) annotations: NodeAnnotations,
    #[serde(deserialize_with = "or_empty")]
    pub(super) managed_fields: Vec<ManagedFields>,
    pub(super) creation_timestamp: Option<Arc<str>>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
}

/// The annotations of a node that count here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeAnnotations {
    #[serde(rename = "trueup.dev/cordoned-by")]
    pub(super) cordoned_by: Option<Arc<str>>,
}

/// The managers of the labels of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedFields {
    #[serde(deserialize_with = "or_empty")]
    pub(super) manager: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) operation: Arc<str>,
    #[serde(rename = "fieldsV1", deserialize_with = "or_empty")]
    pub(super) fields: ManagedObject,
}

/// The managed fields that count here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ManagedObject {
    #[serde(rename = "f:metadata", deserialize_with = "or_empty")]
    pub(super) metadata: ManagedMetadata,
    #[serde(rename = "f:spec", deserialize_with = "or_empty")]
    pub(super) spec: ManagedSpec,
}

/// The managed fields of the spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ManagedSpec {
    #[serde(rename = "f:unschedulable")]
    pub(super) unschedulable: Option<IgnoredAny>,
}

/// The managed fields of the metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ManagedMetadata {
    /// By key, with `f:` before it.
    #[serde(rename = "f:labels", deserialize_with = "or_empty")]
    pub(super) labels: BTreeMap<Arc<str>, IgnoredAny>,
}

impl ManagedFields {
    /// The keys of the labels.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.fields
            .metadata
            .labels
            .keys()
            .filter_map(|key| key.strip_prefix("f:"))
    }
}

/// The spec of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSpec {
    #[serde(deserialize_with = "or_empty")]
    pub(super) unschedulable: bool,
}

/// The status of a node or pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(deserialize_with = "or_empty")]
    pub(super) phase: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) addresses: Vec<Address>,
}

/// Where a node is reached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Address {
    #[serde(deserialize_with = "or_empty")]
    pub(super) address: Arc<str>,
}

/// The state of a container of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerStatus {
    #[serde(deserialize_with = "or_empty")]
    pub(super) state: ContainerState,
}

/// Why a container does not run, if it does not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<Waiting>,
}

/// The reason why a container waits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    #[serde(deserialize_with = "or_empty")]
    pub(super) reason: Arc<str>,
}

/// A condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub(super) kind: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) status: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) message: Arc<str>,
    /// A word for why it is so; of trueup's own conditions [`super::conditions::OURS`].
    #[serde(deserialize_with = "or_empty")]
    pub(super) reason: Arc<str>,
    /// When its status became another one, by the server's clock.
    pub(super) last_transition_time: Option<Arc<str>>,
}

impl Status {
    /// The condition that says whether it is ready.
    pub(super) fn readiness(&self) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| &*condition.kind == "Ready")
    }

    /// The reason why the first container that does not run waits (`ImagePullBackOff`).
    pub(super) fn waiting(&self) -> Option<&str> {
        let mut waiting = self
            .container_statuses
            .iter()
            .filter_map(|each| each.state.waiting.as_ref());
        waiting.next().map(|waiting| &*waiting.reason)
    }

    /// Whether its kubelet has not reported for so long that the cluster does not know how it is.
    pub(super) fn is_silent(&self) -> bool {
        self.readiness()
            .is_some_and(|condition| &*condition.status == "Unknown")
    }

    /// Whether it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.readiness()
            .is_some_and(|condition| &*condition.status == "True")
    }
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: PodMetadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: PodSpec,
    #[serde(deserialize_with = "or_empty")]
    pub(super) status: Status,
}

/// The metadata of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodMetadata {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) namespace: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) uid: Arc<str>,
    /// As the selectors of budgets want them.
    #[serde(deserialize_with = "or_empty")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) annotations: PodAnnotations,
    #[serde(deserialize_with = "or_empty")]
    pub(super) owner_references: Vec<Owner>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
}

/// The annotations of a pod that count here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodAnnotations {
    /// The pod is only shown by the server; a kubelet runs it from a file of its own.
    #[serde(rename = "kubernetes.io/config.mirror")]
    pub(super) mirror: Option<IgnoredAny>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    #[serde(deserialize_with = "or_empty")]
    pub(super) kind: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) controller: bool,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    #[serde(deserialize_with = "or_empty")]
    pub(super) node_name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) node_selector: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) containers: Vec<Container>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) volumes: Vec<Volume>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) image: Arc<str>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Volume {
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    pub(super) empty_dir: Option<IgnoredAny>,
    pub(super) persistent_volume_claim: Option<Claim>,
    /// Its claim is called like pod and volume.
    pub(super) ephemeral: Option<IgnoredAny>,
}

/// The claim behind a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Claim {
    #[serde(deserialize_with = "or_empty")]
    pub(super) claim_name: Arc<str>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Budget {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: BudgetSpec,
    #[serde(deserialize_with = "or_empty")]
    pub(super) status: BudgetStatus,
}

/// The spec of a budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetSpec {
    pub(super) selector: Option<LabelSelector>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) unhealthy_pod_eviction_policy: Arc<str>,
}

/// The status of a budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetStatus {
    #[serde(deserialize_with = "or_empty")]
    pub(super) disruptions_allowed: i64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) current_healthy: i64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) desired_healthy: i64,
}

/// A volume that is or shall be attached to a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeAttachment {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: VolumeAttachmentSpec,
}

/// Which volume on which node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeAttachmentSpec {
    #[serde(deserialize_with = "or_empty")]
    pub(super) node_name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) source: AttachmentSource,
}

/// The volume of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AttachmentSource {
    #[serde(deserialize_with = "or_empty")]
    pub(super) persistent_volume_name: Arc<str>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PersistentVolume {
    #[serde(deserialize_with = "or_empty")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "or_empty")]
    pub(super) spec: PersistentVolumeSpec,
}

/// Whose a volume is, and whether it lies on one node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PersistentVolumeSpec {
    #[serde(deserialize_with = "or_empty")]
    pub(super) claim_ref: ClaimReference,
    pub(super) local: Option<IgnoredAny>,
    pub(super) host_path: Option<IgnoredAny>,
}

/// The claim that a volume is bound to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimReference {
    #[serde(deserialize_with = "or_empty")]
    pub(super) namespace: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_ready_for_the_first_time_did_not_return() {
        let now: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
        let returned = |created: &str, since: &str, status: &str| {
            let node: Node = serde_json::from_value(serde_json::json!({
                "metadata": {"name": "n1", "creationTimestamp": created},
                "status": {"conditions": [
                    {"type": "MemoryPressure", "status": "False", "lastTransitionTime": "2026-11-29T11:59:59Z"},
                    {"type": "Ready", "status": status, "lastTransitionTime": since},
                ]},
            }))
            .unwrap();
            node.returned(now)
        };
        let old = "2026-01-01T00:00:00Z";
        let minutes_ago = "2026-11-29T11:55:00Z";
        assert_eq!(returned(old, minutes_ago, "True"), Some(300));
        assert_eq!(returned(old, minutes_ago, "False"), None);
        assert_eq!(returned(old, minutes_ago, "Unknown"), None);
        assert_eq!(returned(old, "2026-11-29T10:59:59Z", "True"), None);
        // Its server's clock is ahead.
        assert_eq!(returned(old, "2026-11-29T12:00:09Z", "True"), Some(0));
        assert_eq!(returned("2026-11-29T11:50:00Z", minutes_ago, "True"), None);
        assert_eq!(
            returned("2026-11-29T11:40:00Z", minutes_ago, "True"),
            Some(300)
        );
        // What no server sends shows nothing.
        assert_eq!(returned(old, "yesterday", "True"), None);
    }
}
