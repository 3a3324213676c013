//! Takes a node out of the cluster: refused unless nothing of it is left, deleted by its UID.
//!
//! A node whose machine was seen off, or is gone for good, may still have pods: where a person chose so,
//! they are deleted first, since nobody is left to end them. A node that is Ready has a kubelet, so that
//! its machine is neither: nothing is forced then.

use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::call::{NODES, Trouble};
use super::discovery;
use super::drain::{force, release};
use super::errand::{Errand, Outage, PACE, count};
use super::labels::labels_to_clear;
use super::node::cordon;
use super::object::Node;
use super::pods::fate;
use crate::backend::{ActError, Probe};
use crate::step::OnDrainTimeout;

/// The taint that says that a machine is off for good: pods that do not tolerate it are deleted and their
/// volumes detached at once.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The version since which clusters know the taint; it does no harm in those where it is switched off.
const KNOWS_OUT_OF_SERVICE: (u32, u32) = (1, 24);

/// How long a machine that was switched off may still count as Ready.
const SILENCE: Duration = Duration::from_secs(120);

/// How long the cluster may take to let go of the volumes of a machine that is gone.
const RELEASE: Duration = Duration::from_secs(60);

/// Whether the UID that is meant is gone.
pub(super) async fn probe(errand: &Errand<'_>) -> Result<Probe, Trouble> {
    Ok(match errand.meant().await? {
        None => Probe::Done,
        Some(node) if node.metadata.deletion_timestamp.is_some() => Probe::UnderWay,
        Some(_) => Probe::NotBegun,
    })
}

/// Checks the node, and deletes it.
pub(super) async fn act(errand: &Errand<'_>) -> Result<(), ActError> {
    let trouble = |trouble| errand.trouble(trouble);
    let Some(node) = errand.meant().await.map_err(trouble)? else {
        return Ok(());
    };
    if node.metadata.deletion_timestamp.is_none() {
        if errand.parameters.node_is_gone {
            silent(errand).await?;
            cordon(errand, &node).await.map_err(trouble)?;
            out_of_service(errand, &node).await.map_err(trouble)?;
            force(errand).await?;
            let _ = tokio::time::timeout(RELEASE, release(errand)).await;
        } else {
            check(errand, &node).await?;
        }
        delete(errand, &node).await?;
    }
    gone(errand, &node).await
}

/// Holds the node against what has to be done before.
async fn check(errand: &Errand<'_>, node: &Node) -> Result<(), ActError> {
    let mut missing = Vec::new();
    if !node.spec.unschedulable {
        missing.push("it is not cordoned".to_owned());
    }
    let labels = labels_to_clear(node);
    if !labels.is_empty() {
        missing.push(format!("it has the labels {}", labels.join(", ")));
    }
    let (pods, _) = errand
        .pods()
        .await
        .map_err(|trouble| errand.trouble(trouble))?;
    let left = pods.iter().filter(|pod| fate(pod).leaves()).count();
    let forced = errand.on_timeout() == OnDrainTimeout::Continue;
    if left > 0 && !forced {
        missing.push(format!("it is not drained: {} left", count(left, "pod")));
    }
    if !missing.is_empty() {
        return Err(conflict(errand, &missing.join("; ")));
    }
    if left > 0 {
        silent(errand).await?;
        errand.progress(format!(
            "deleting pods: {} left by the drain",
            count(left, "pod")
        ));
        force(errand).await?;
    }
    Ok(())
}

fn conflict(errand: &Errand<'_>, why: &str) -> ActError {
    let text = format!("Conflict: node `{}` cannot be removed: {why}", errand.node);
    ActError::Permanent(text.into())
}

/// Waits until the node is not Ready: what was switched off a moment ago still counts as Ready.
async fn silent(errand: &Errand<'_>) -> Result<(), ActError> {
    let began = Instant::now();
    let mut outage = Outage::none();
    loop {
        match errand.meant().await {
            Err(trouble) => outage.bear(errand, trouble).await?,
            Ok(None) => return Ok(()),
            Ok(Some(node)) if !node.status.is_ready() => return Ok(()),
            Ok(Some(_)) => {
                outage.ends();
                if errand.is_over() || began.elapsed() >= SILENCE {
                    let why = "it is Ready: its kubelet reports, so that its machine is not off";
                    return Err(conflict(errand, why));
                }
                errand.progress("waiting until the kubelet is silent");
                errand.pause(PACE).await;
            }
        }
    }
}

/// Says that the machine is off for good, where the cluster knows how that is said.
async fn out_of_service(errand: &Errand<'_>, node: &Node) -> Result<(), Trouble> {
    let version = discovery::version(&errand.server).await?;
    if numbers(&version).is_none_or(|version| version < KNOWS_OUT_OF_SERVICE) {
        return Ok(());
    }
    // The whole object, since taints are a list that a patch replaces.
    let Some(whole) = errand.server.get::<Value>(NODES, &errand.node).await? else {
        return Ok(());
    };
    let mut taints = whole["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let there = taints
        .iter()
        .any(|taint| taint["key"] == OUT_OF_SERVICE && taint["effect"] == "NoExecute");
    if there {
        return Ok(());
    }
    taints.push(json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}));
    let version = &whole["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
    errand.change(node, patch).await.map(drop)
}

/// Major and minor of a version such as `v1.33.2`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

async fn delete(errand: &Errand<'_>, node: &Node) -> Result<(), ActError> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(node.metadata.uid.to_string()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match errand.server.delete(NODES, &errand.node, &parameters).await {
        Ok(_) => Ok(()),
        // Another node has the name: the one that was meant is gone.
        Err(trouble) if trouble.code() == Some(409) => Ok(()),
        Err(trouble) => Err(errand.trouble(trouble)),
    }
}

/// Waits until the node is gone: a finalizer may keep it for a while.
async fn gone(errand: &Errand<'_>, node: &Node) -> Result<(), ActError> {
    let mut outage = Outage::none();
    loop {
        match errand.look().await {
            Err(trouble) => outage.bear(errand, trouble).await?,
            Ok(now)
                if now
                    .as_ref()
                    .is_none_or(|now| now.metadata.uid != node.metadata.uid) =>
            {
                return Ok(());
            }
            Ok(_) => {
                outage.ends();
                if errand.is_over() {
                    let text = "it is deleted, and a finalizer keeps it";
                    return Err(errand.failure(text));
                }
                errand.progress("waiting until the node is gone");
                errand.pause(PACE / 2).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(numbers("v1.33.2"), Some((1, 33)));
        assert_eq!(numbers("v1.20.2-dirty"), Some((1, 20)));
        assert_eq!(numbers("1.20"), None);
        assert!(numbers("v1.9.0").unwrap() < KNOWS_OUT_OF_SERVICE);
        assert!(numbers("v2.0.0").unwrap() >= KNOWS_OUT_OF_SERVICE);
    }
}
