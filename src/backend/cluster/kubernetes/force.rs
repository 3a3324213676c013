//! Deletes the pods of a node, if no kubelet is left to end them or a person chose so.
//!
//! The one way around a budget: a drain after its timeout with `on_timeout: force`, a machine that is
//! off, or one that is gone for good. A node that is Ready has a kubelet, so that its machine is neither
//! of the last two: nothing is forced then.

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, timeout};

use super::NODES;
use super::discovery;
use super::labels::OUT_OF_SERVICE;
use super::node::cordon;
use super::node_step::{NAMED, NodeStep, Outage, PACE, PARALLEL, conflict, count};
use super::object::{Node, Pod};
use super::pods::{delete, fate, name};
use super::volumes::release;
use crate::backend::ActError;
use crate::backend::api_server::ApiError;
use crate::observed::PodName;
use crate::step::StepKind;

/// The version since which clusters know the taint; it does no harm in those if it is switched off.
const KNOWS_OUT_OF_SERVICE: (u32, u32) = (1, 24);

/// How long a machine that was switched off may still count as Ready.
const SILENCE: Duration = Duration::from_secs(120);

/// How long the cluster may take to detach the volumes of a machine that is gone.
const RELEASE: Duration = Duration::from_secs(60);

/// Takes everything off a node whose machine is gone for good: nothing of it is waited for.
pub(super) async fn abandon(step: &NodeStep<'_>, node: &Node) -> Result<(), ActError> {
    silent(step).await?;
    cordon(step, node)
        .await
        .map_err(|error| step.act_error(error))?;
    out_of_service(step, node)
        .await
        .map_err(|error| step.act_error(error))?;
    force(step).await?;
    // A volume that the cluster has not detached by then may stay forever: no controller would.
    let _ = timeout(RELEASE, release(step)).await;
    Ok(())
}

/// Waits until the node is not Ready: what was switched off a moment ago still counts as Ready.
pub(super) async fn silent(step: &NodeStep<'_>) -> Result<(), ActError> {
    let began = Instant::now();
    let mut outage = Outage::none();
    loop {
        match step.meant().await {
            Err(error) => outage.retry_after(step, error).await?,
            Ok(None) => return Ok(()),
            Ok(Some(node)) if !node.status.is_ready() => return Ok(()),
            Ok(Some(_)) => {
                outage.ends();
                if step.is_over() || began.elapsed() >= SILENCE {
                    let why = "it is Ready: its kubelet reports, so that its machine is not off";
                    return Err(conflict(step, why));
                }
                step.progress("waiting until the kubelet is silent");
                step.pause(PACE).await;
            }
        }
    }
}

/// Marks the machine as off for good, if the cluster supports that.
async fn out_of_service(step: &NodeStep<'_>, node: &Node) -> Result<(), ApiError> {
    let version = discovery::version(&step.server).await?;
    if numbers(&version).is_none_or(|version| version < KNOWS_OUT_OF_SERVICE) {
        return Ok(());
    }
    // The whole object, since taints are a list that a patch replaces.
    let Some(whole) = step.server.get::<Value>(NODES, &step.node).await? else {
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
    step.change(node, patch).await.map(drop)
}

/// Major and minor of a version such as `v1.33.2`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Deletes what a drain evicts, at once and without regard to budgets, and waits until it is gone.
///
/// Only if a person chose so, or the machine is off: a pod that is deleted in this way may still
/// run. The drain of a machine that runs spares what its rules leave.
pub(super) async fn force(step: &NodeStep<'_>) -> Result<(), ActError> {
    let is_off = *step.given.node_is_gone() || step.order.step.id.kind != StepKind::Drain;
    let goes = |pod: &&Pod| match is_off {
        true => fate(pod).leaves(),
        false => step.course(pod).leaves(),
    };
    let mut outage = Outage::none();
    loop {
        let pods = match step.pods().await {
            Ok((pods, _)) => pods,
            Err(error) => {
                outage.retry_after(step, error).await?;
                continue;
            }
        };
        outage.ends();
        let left: Vec<PodName> = pods.iter().filter(goes).map(name).collect();
        if left.is_empty() {
            return Ok(());
        }
        if step.is_over() {
            let names: Vec<String> = left
                .iter()
                .take(NAMED)
                .map(|pod| format!("{}/{}", pod.namespace, pod.name))
                .collect();
            let names = names.join(", ");
            let pods = count(left.len(), "pod");
            return Err(step.failure(format!("{pods} deleted and still there: {names}")));
        }
        let mut deletions: FuturesUnordered<_> = FuturesUnordered::new();
        let mut waiting = left.into_iter();
        loop {
            let free = PARALLEL - deletions.len();
            for pod in waiting.by_ref().take(free) {
                let server = step.server.clone();
                deletions.push(async move { delete(&server, &pod).await });
            }
            match deletions.next().await {
                None => break,
                Some(Ok(())) => {}
                Some(Err(error)) => outage.note(step, error)?,
            }
        }
        // A finalizer may keep them for a while.
        step.pause(PACE / 4).await;
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
