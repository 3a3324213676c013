//! Takes a node out of the cluster: refused unless nothing of it is left, deleted by its UID.
//!
//! A node whose machine is off, or gone for good, may still have pods: if a person chose so,
//! they are deleted first, since no kubelet is left to end them. A node that is Ready has a kubelet, so that
//! its machine is neither: nothing is forced then.

use kube::api::{DeleteParams, Preconditions};

use super::NODES;
use super::force::{abandon, force, silent};
use super::labels::labels_to_clear;
use super::node_step::{NodeStep, Outage, PACE, conflict, count};
use super::object::Node;
use super::shutdown::{is_marked, retire};
use crate::backend::api_server::ApiError;
use crate::backend::{ActError, Probe};
use crate::step::OnDrainTimeout;

/// Whether the UID that is meant is gone.
pub(super) async fn probe(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    Ok(match step.meant().await? {
        None => Probe::Done,
        Some(node) if node.metadata.deletion_timestamp.is_some() => Probe::UnderWay,
        Some(_) => Probe::NotBegun,
    })
}

/// Checks the node, and deletes it.
pub(super) async fn act(step: &NodeStep<'_>) -> Result<(), ActError> {
    let error = |error| step.act_error(error);
    let Some(node) = step.meant().await.map_err(error)? else {
        return Ok(());
    };
    if node.metadata.deletion_timestamp.is_none() {
        if is_marked(&node) {
            // Its kubelet was to be stopped, and that step did not end.
            retire(step).await?;
        }
        if *step.given.machine_is_off() {
            // Off and fenced: deleting the node is how the scheduler learns of it (metal3-remediation).
            step.progress("deleting it as it is: its machine is off");
        } else if *step.given.node_is_gone() {
            abandon(step, &node).await?;
        } else {
            check(step, &node).await?;
        }
        delete(step, &node).await?;
    }
    gone(step, &node).await
}

/// Holds the node against what has to be done before.
async fn check(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    let mut missing = Vec::new();
    if !node.spec.unschedulable {
        missing.push("it is not cordoned".to_owned());
    }
    let labels = labels_to_clear(node);
    if !labels.is_empty() {
        missing.push(format!("it has the labels {}", labels.join(", ")));
    }
    let (pods, _) = step.pods().await.map_err(|error| step.act_error(error))?;
    let left = pods.iter().filter(|pod| step.course(pod).leaves());
    let left = left.count();
    let forced = step.on_timeout() == OnDrainTimeout::Continue;
    if left > 0 && !forced {
        missing.push(format!("it is not drained: {} left", count(left, "pod")));
    }
    if !missing.is_empty() {
        return Err(conflict(step, &missing.join("; ")));
    }
    if left > 0 {
        silent(step).await?;
        step.progress(format!(
            "deleting pods: {} left by the drain",
            count(left, "pod")
        ));
        force(step).await?;
    }
    Ok(())
}

async fn delete(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(node.metadata.uid.to_string()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match step.server.delete(NODES, &step.node, &parameters).await {
        Ok(_) => Ok(()),
        // Another node has the name: the one that was meant is gone.
        Err(error) if error.code() == Some(409) => Ok(()),
        Err(error) => Err(step.act_error(error)),
    }
}

/// Waits until the node is gone: a finalizer may keep it for a while.
async fn gone(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    let mut outage = Outage::none();
    loop {
        match step.look().await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok(now)
                if now
                    .as_ref()
                    .is_none_or(|now| now.metadata.uid != node.metadata.uid) =>
            {
                return Ok(());
            }
            Ok(_) => {
                outage.ends();
                if step.is_over() {
                    let text = "it is deleted, and a finalizer keeps it";
                    return Err(step.failure(text));
                }
                step.progress("waiting until the node is gone");
                step.pause(PACE / 2).await;
            }
        }
    }
}
