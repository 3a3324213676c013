//! The fate of a pod in a drain, its controller, and its kind.
//!
//! As `kubectl drain --force --ignore-daemonsets --delete-emptydir-data`, which the specification
//! names: mirrors of static pods and pods of DaemonSets stay, all others are evicted; a pod that has
//! ended is evicted also if a DaemonSet made it.

use std::sync::Arc;

use kube::api::{DeleteParams, Preconditions};

use super::object::{Container, Owner, Pod};
use super::pods_in;
use crate::backend::api_server::{ApiError, Server};
use crate::observed::PodName;

/// The fate of a pod in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is evicted.
    Evicted,
    /// It has ended, and is evicted without waiting.
    Finished,
    /// It is a DaemonSet's, and stays.
    DaemonSet,
    /// It mirrors a static pod, and stays.
    Mirror,
}

impl Fate {
    /// Whether a drain gets it off its node.
    pub(super) fn leaves(self) -> bool {
        matches!(self, Self::Evicted | Self::Finished)
    }
}

/// Returns the fate of a pod in a drain.
pub(super) fn fate(pod: &Pod) -> Fate {
    if pod.metadata.annotations.mirror.is_some() {
        Fate::Mirror
    } else if matches!(&*pod.status.phase, "Succeeded" | "Failed") {
        Fate::Finished
    } else if controller(pod).is_some_and(|owner| &*owner.kind == "DaemonSet") {
        Fate::DaemonSet
    } else {
        Fate::Evicted
    }
}

/// A pod by name.
pub(super) fn name(pod: &Pod) -> PodName {
    PodName {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    }
}

/// The controller that starts the pod again when it is gone.
pub(super) fn controller(pod: &Pod) -> Option<&Owner> {
    pod.metadata
        .owner_references
        .iter()
        .find(|owner| owner.controller)
}

/// The controller at the top (`Deployment web/front`), or the pod itself if it has none (`Pod web/a`).
///
/// Told from the pod alone, without a call for each: a Deployment names its ReplicaSets after itself and
/// the hash that their pods have as a label, a CronJob its Jobs after itself and the minute.
pub(super) fn top_owner(pod: &Pod) -> Arc<str> {
    let Some(owner) = controller(pod) else {
        return format!("Pod {}/{}", pod.metadata.namespace, pod.metadata.name).into();
    };
    let (kind, name) = above(pod, owner).unwrap_or((&owner.kind, &owner.name));
    format!("{kind} {}/{name}", pod.metadata.namespace).into()
}

fn above<'a>(pod: &Pod, owner: &'a Owner) -> Option<(&'static str, &'a str)> {
    let (name, last) = owner.name.rsplit_once('-')?;
    match &*owner.kind {
        "ReplicaSet" => {
            let hash = pod.metadata.labels.get("pod-template-hash")?;
            (hash == last).then_some(("Deployment", name))
        }
        "Job" => {
            // Minutes since 1970, from 2010 to 2060; a date such as 20260401 is none.
            let minute = (last.len() == 8).then(|| last.parse::<u32>().ok())??;
            (21_000_000..48_000_000)
                .contains(&minute)
                .then_some(("CronJob", name))
        }
        _ => None,
    }
}

/// The claims behind the volumes of a pod, by namespace and name.
pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    pod.spec.volumes.iter().filter_map(|volume| {
        let claim = match &volume.persistent_volume_claim {
            Some(claim) => claim.claim_name.clone(),
            None if volume.ephemeral.is_some() => {
                Arc::from(format!("{}-{}", pod.metadata.name, volume.name))
            }
            None => return None,
        };
        Some((pod.metadata.namespace.clone(), claim))
    })
}

/// Whether a pod runs a member of some etcd.
pub(super) fn runs_etcd(pod: &Pod) -> bool {
    let is_etcd = |container: &Container| {
        let image = container.image.rsplit('/').next().unwrap_or_default();
        let image = image.split([':', '@']).next().unwrap_or_default();
        &*container.name == "etcd" || image == "etcd"
    };
    fate(pod) != Fate::Finished && pod.spec.containers.iter().any(is_etcd)
}

/// Deletes a pod at once, if it is still the one that is meant.
pub(super) async fn delete(server: &Server, pod: &PodName) -> Result<(), ApiError> {
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(pod.uid.to_string()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match server
        .delete(&pods_in(&pod.namespace), &pod.name, &parameters)
        .await
    {
        Err(error) if error.code() == Some(409) => Ok(()),
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_drain_treats_pods_as_kubectl_does() {
        let daemon_set = json!([{"kind": "DaemonSet", "name": "net", "controller": true}]);
        let mirror = json!({"kubernetes.io/config.mirror": "5f2"});
        let node = json!([{"kind": "Node", "name": "n1", "controller": true}]);
        let table = [
            (json!({}), Fate::Evicted),
            (
                json!({"metadata": {"ownerReferences": null, "annotations": null}}),
                Fate::Evicted,
            ),
            (
                json!({"metadata": {"ownerReferences": daemon_set}}),
                Fate::DaemonSet,
            ),
            (
                json!({"metadata": {"ownerReferences": daemon_set}, "status": {"phase": "Failed"}}),
                Fate::Finished,
            ),
            (json!({"status": {"phase": "Succeeded"}}), Fate::Finished),
            (
                json!({"metadata": {"ownerReferences": node, "annotations": mirror}}),
                Fate::Mirror,
            ),
            (
                json!({"metadata": {"annotations": mirror}, "status": {"phase": "Failed"}}),
                Fate::Mirror,
            ),
            (
                json!({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "net"}]}}),
                Fate::Evicted,
            ),
        ];
        for (value, expected) in table {
            assert_eq!(fate(&pod(value.clone())), expected, "{value}");
        }
    }

    #[test]
    fn the_controller_at_the_top_is_told_from_the_pod() {
        let table = [
            (
                "ReplicaSet",
                "front-5d9c",
                Some("5d9c"),
                "Deployment web/front",
            ),
            (
                "ReplicaSet",
                "front-5d9c",
                Some("other"),
                "ReplicaSet web/front-5d9c",
            ),
            ("ReplicaSet", "front", None, "ReplicaSet web/front"),
            ("StatefulSet", "db", None, "StatefulSet web/db"),
            ("Job", "report-29380015", None, "CronJob web/report"),
            ("Job", "import-20260401", None, "Job web/import-20260401"),
            ("Job", "import-1", None, "Job web/import-1"),
        ];
        for (kind, name, hash, expected) in table {
            let labels = hash.map(|hash| json!({"pod-template-hash": hash}));
            let pod = pod(
                json!({"metadata": {"name": "p", "namespace": "web", "uid": "u", "labels": labels,
                "ownerReferences": [{"kind": kind, "name": name, "controller": true}]}}),
            );
            assert_eq!(&*top_owner(&pod), expected);
        }
        assert_eq!(
            &*top_owner(&pod(
                json!({"metadata": {"name": "p", "namespace": "web", "uid": "u-1"}})
            )),
            "Pod web/p"
        );
    }

    #[test]
    fn etcd_is_known_by_the_name_of_its_container_or_image() {
        let table = [
            (json!({"name": "etcd", "image": "x"}), true),
            (
                json!({"name": "member", "image": "example.org:5000/infra/etcd:3.5.9-0"}),
                true,
            ),
            (json!({"name": "member", "image": "etcd@sha256:12"}), true),
            (
                json!({"name": "backup", "image": "example.org/etcd-backup:1"}),
                false,
            ),
        ];
        for (container, expected) in table {
            let pod = pod(json!({"spec": {"containers": [container]}}));
            assert_eq!(runs_etcd(&pod), expected, "{container}");
        }
    }
}
