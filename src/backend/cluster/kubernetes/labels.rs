//! Labels of a node: which are not trueup's to take off, which it has set, and how it sets them.
//!
//! Clear-labels and remove-from-cluster both go by [`kept_labels`]. Who manages a label is told by the
//! managed fields that the server keeps; a few labels that every kubelet sets again are known by key,
//! since fields that were written long ago can be without a manager.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::NODES;
use super::node_step::NodeStep;
use super::object::{ManagedFields, Node};
use crate::backend::ActError;
use crate::backend::api_server::MANAGER;

/// The label that makes a node's kubelet shut down, spelled as the specification spells it.
pub(super) const DECOMMISSION: &str = "promenade-decomission";

/// The annotation under which a node carries the run that cordoned it.
pub(super) const CORDONED_BY: &str = "trueup.dev/cordoned-by";

/// The taint of a machine that is off for good: pods that do not tolerate it are deleted and their
/// volumes detached at once.
pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The value of [`DECOMMISSION`].
pub(super) const ENABLED: &str = "enabled";

/// Labels that every kubelet sets on its node.
const OF_THE_KUBELET: [&str; 6] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/windows-build",
];

/// The keys of the labels that the kubelet or a cloud controller manages.
pub(super) fn kept_labels(node: &Node) -> BTreeSet<Arc<str>> {
    let managed: BTreeSet<&str> = node
        .metadata
        .managed_fields
        .iter()
        .filter(|fields| is_of_the_platform(&fields.manager))
        .flat_map(ManagedFields::labels)
        .collect();
    node.metadata
        .labels
        .keys()
        .filter(|key| managed.contains(&***key) || OF_THE_KUBELET.contains(&&***key))
        .cloned()
        .collect()
}

/// The keys of the labels that have to go before the node may: neither kept nor the one that shuts the
/// kubelet down.
pub(super) fn labels_to_clear(node: &Node) -> Vec<Arc<str>> {
    let kept = kept_labels(node);
    let labels = node.metadata.labels.keys();
    labels
        .filter(|key| !kept.contains(*key) && &***key != DECOMMISSION)
        .cloned()
        .collect()
}

/// The keys of the labels that trueup has applied.
pub(super) fn applied_labels(node: &Node) -> BTreeSet<&str> {
    node.metadata
        .managed_fields
        .iter()
        .filter(|fields| &*fields.manager == MANAGER && &*fields.operation == "Apply")
        .flat_map(ManagedFields::labels)
        .collect()
}

/// Applies labels to a node, and takes off those that the step names.
pub(super) async fn apply_labels(
    step: &NodeStep<'_>,
    node: &Node,
    labels: &[(Arc<str>, Arc<str>)],
) -> Result<(), ActError> {
    let ours = applied_labels(node).into_iter();
    let mut wanted: BTreeMap<&str, &str> = ours
        .filter_map(|key| node.metadata.labels.get_key_value(key))
        .map(|(key, value)| (&**key, &**value))
        .collect();
    wanted.retain(|key, _| {
        !step
            .given
            .remove_labels()
            .iter()
            .any(|gone| **gone == **key)
    });
    let labels = labels.iter();
    wanted.extend(labels.map(|(key, value)| (&**key, &**value)));
    // Without the UID, applying would create a missing node.
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": step.node, "uid": node.metadata.uid, "labels": wanted},
    });
    let applied: Result<Node, _> = step.server.apply(NODES, &step.node, &object).await;
    applied.map(drop).map_err(|error| step.act_error(error))
}

/// The kubelet, or a cloud controller under the names that the clouds give theirs.
fn is_of_the_platform(manager: &str) -> bool {
    manager == "kubelet"
        || manager == "cloud-node-manager"
        || manager.ends_with("cloud-controller-manager")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(managers: &[(&str, &str, &[&str])], labels: &[&str]) -> Node {
        let fields = |keys: &[&str]| -> serde_json::Map<_, _> {
            let keys = keys.iter().map(|key| (format!("f:{key}"), json!({})));
            keys.chain([(".".to_owned(), json!({}))]).collect()
        };
        let managed: Vec<_> = managers
            .iter()
            .map(|(manager, operation, keys)| {
                json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": null,
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": fields(keys)}}})
            })
            .chain([json!({"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": {}}}})])
            .collect();
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|key| ((*key).to_owned(), json!("v")))
            .collect();
        let node = json!({"metadata": {"name": "n1", "labels": labels, "managedFields": managed}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn labels_of_the_kubelet_and_of_cloud_controllers_are_kept_by_their_manager() {
        let node = node(
            &[
                (
                    "kubelet",
                    "Update",
                    &["kubernetes.io/hostname", "rack", "gone"],
                ),
                (
                    "openstack-cloud-controller-manager",
                    "Update",
                    &["topology.kubernetes.io/zone"],
                ),
                ("kubectl-label", "Update", &["tier"]),
                ("trueup", "Apply", &["role"]),
            ],
            &[
                "kubernetes.io/hostname",
                "rack",
                "role",
                "tier",
                "topology.kubernetes.io/zone",
                "promenade-decomission",
            ],
        );
        let kept: Vec<_> = kept_labels(&node).into_iter().collect();
        let expected = [
            "kubernetes.io/hostname",
            "rack",
            "topology.kubernetes.io/zone",
        ];
        assert_eq!(kept.iter().map(|key| &**key).collect::<Vec<_>>(), expected);
        let clear: Vec<_> = labels_to_clear(&node);
        assert_eq!(
            clear.iter().map(|key| &**key).collect::<Vec<_>>(),
            ["role", "tier"]
        );
        assert_eq!(
            applied_labels(&node).into_iter().collect::<Vec<_>>(),
            ["role"]
        );
    }

    #[test]
    fn labels_that_every_kubelet_sets_stay_also_without_a_known_manager() {
        let node = node(
            &[],
            &["kubernetes.io/os", "beta.kubernetes.io/arch", "role"],
        );
        let clear: Vec<_> = labels_to_clear(&node);
        assert_eq!(clear.iter().map(|key| &**key).collect::<Vec<_>>(), ["role"]);
    }
}
