//! Takes labels off a node, and waits until its pods have settled.
//!
//! Settled means, for some seconds: no pod of the node is going, none came or went, and no DaemonSet has
//! a pod there whose node selector the node no longer meets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::labels::labels_to_clear;
use super::node_step::{NodeStep, Outage, PACE, count};
use super::object::{Node, Pod};
use super::owed::save;
use super::pods::{Fate, fate};
use crate::backend::api_server::ApiError;
use crate::backend::{ActError, Probe};

/// How long nothing may change before pods count as settled.
const QUIET: Duration = Duration::from_secs(6);

/// Attempts to take the labels off, if another actor changes the node at the same time.
const ATTEMPTS: u32 = 10;

/// Whether the labels are off; whether pods have settled is a matter of time, and waited for again.
pub(super) async fn probe(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    let node = match step.meant_or_gone().await? {
        Ok(node) => node,
        Err(probe) => return Ok(probe),
    };
    if !labels_to_clear(&node).is_empty() {
        return Ok(Probe::NotBegun);
    }
    let (pods, _) = step.pods().await?;
    let going = unsettled(&node, &pods).next().is_some();
    Ok(if going { Probe::UnderWay } else { Probe::Done })
}

/// Takes the labels off, and waits for the pods.
pub(super) async fn act(step: &NodeStep<'_>) -> Result<(), ActError> {
    let node = clear(step).await?;
    if *step.given.node_is_gone() {
        return Ok(());
    }
    settle(step, &node).await
}

async fn clear(step: &NodeStep<'_>) -> Result<Node, ActError> {
    let mut attempt = 1;
    loop {
        let node = step.present().await?;
        let labels = labels_to_clear(&node);
        if labels.is_empty() {
            if attempt == 1 {
                // Its taints go with it.
                save(step).await?;
            }
            return Ok(node);
        }
        if attempt == 1 {
            save(step).await?;
        }
        step.progress(format!("taking off {}", labels.join(", ")));
        let gone: Map<String, Value> = labels
            .iter()
            .map(|key| (key.to_string(), Value::Null))
            .collect();
        // The version prevents taking off a label that came after its manager was read.
        let version = &node.metadata.resource_version;
        let patch = json!({"metadata": {"labels": gone, "resourceVersion": version}});
        match step.change(&node, patch).await {
            Err(error) if error.code() == Some(409) && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(step.act_error(error)),
            // Observed once more: another actor may set a label as soon as it is off.
            Ok(_) if attempt < ATTEMPTS => attempt += 1,
            Ok(_) => {
                let labels = labels.join(", ");
                return Err(step.failure(format!("another actor sets {labels} again and again; find it by the managers in `kubectl get node --show-managed-fields -o yaml`")));
            }
        }
    }
}

async fn settle(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    let mut outage = Outage::none();
    let mut last: Option<(Instant, BTreeSet<Arc<str>>)> = None;
    loop {
        match step.pods().await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok((pods, _)) => {
                outage.ends();
                let names: Vec<String> = unsettled(node, &pods)
                    .map(|pod| format!("{}/{}", pod.metadata.namespace, pod.metadata.name))
                    .collect();
                let now = Instant::now();
                let here = pods.into_iter().map(|pod| pod.metadata.uid).collect();
                match &last {
                    _ if !names.is_empty() => last = None,
                    Some((since, same)) if *same == here => {
                        if now - *since >= QUIET {
                            return Ok(());
                        }
                    }
                    _ => last = Some((now, here)),
                }
                if step.is_over() {
                    let text = match &*names {
                        [] => "pods still come and go".to_owned(),
                        names => format!("pods have not gone: {}", names.join(", ")),
                    };
                    return Err(step.failure(format!("{text}, after {} s", step.timeout())));
                }
                step.progress(match names.len() {
                    0 => "waiting whether pods come or go".to_owned(),
                    number => format!("{} still to go", count(number, "pod")),
                });
                step.pause(PACE / 2).await;
            }
        }
    }
}

/// The pods that are going or will have to go.
fn unsettled<'a>(node: &'a Node, pods: &'a [Pod]) -> impl Iterator<Item = &'a Pod> {
    pods.iter().filter(|pod| match fate(pod) {
        Fate::Mirror => false,
        _ if pod.metadata.deletion_timestamp.is_some() => true,
        Fate::DaemonSet => {
            let mut selector = pod.spec.node_selector.iter();
            !selector.all(|(key, value)| node.metadata.labels.get(key) == Some(value))
        }
        Fate::Evicted | Fate::Finished => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_go_and_pods_of_daemon_sets_that_no_longer_fit_are_waited_for() {
        let node = json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}});
        let node: Node = serde_json::from_value(node).unwrap();
        let pod = |name: &str, owner: &str, going: bool, selector: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": name,
                "deletionTimestamp": going.then_some("2026-01-01T00:00:00Z"),
                "ownerReferences": [{"kind": owner, "name": "x", "controller": true}]},
                "spec": {"nodeSelector": selector}}))
            .unwrap()
        };
        let pods = [
            pod(
                "stays",
                "DaemonSet",
                false,
                json!({"kubernetes.io/os": "linux"}),
            ),
            pod("unfit", "DaemonSet", false, json!({"role": "compute"})),
            pod("tolerates", "ReplicaSet", false, json!({"role": "compute"})),
            pod("going", "ReplicaSet", true, Value::Null),
        ];
        let names: Vec<_> = unsettled(&node, &pods)
            .map(|pod| &*pod.metadata.name)
            .collect();
        assert_eq!(names, ["unfit", "going"]);
    }
}
