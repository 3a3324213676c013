//! Takes a node out of the cluster: refused unless nothing of it is left, deleted by its UID.
//!
//! A node whose machine was seen off, or is gone for good, may still have pods: where a person chose so,
//! they are deleted first, since nobody is left to end them. A node that is Ready has a kubelet, so that
//! its machine is neither: nothing is forced then.

use kube::api::{DeleteParams, Preconditions};

use super::NODES;
use super::errand::{Errand, Outage, PACE, conflict, count};
use super::force::{force, give_up, silent};
use super::labels::labels_to_clear;
use super::object::Node;
use super::pods::fate;
use super::shutdown::{is_marked, retire};
use crate::backend::api_server::Trouble;
use crate::backend::{ActError, Probe};
use crate::step::OnDrainTimeout;

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
        if is_marked(&node) {
            // Its kubelet was to be stopped, and nobody has seen that through.
            retire(errand).await?;
        }
        if errand.parameters.machine_is_off {
            // Seen off and held off: deleting the node is how the scheduler is told (metal3-remediation).
            errand.progress("deleting it as it is: its machine is off");
        } else if errand.parameters.node_is_gone {
            give_up(errand, &node).await?;
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
