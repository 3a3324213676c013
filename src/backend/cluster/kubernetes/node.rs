//! Levels of a node: cordoned or not, and its labels.

use serde_json::json;

use super::conditions::{self, Maintenance};
use super::eviction_request;
use super::labels::{CORDONED_BY, applied_labels, apply_labels};
use super::lease;
use super::node_step::NodeStep;
use super::object::Node;
use super::owed::{give_back, is_owed};
use super::shutdown::{is_marked, retire};
use crate::backend::api_server::ApiError;
use crate::backend::{ActError, Probe};
use crate::step::FailureReason;

/// Cordons a node, and marks it with the run; a cordon of another actor stays.
pub(super) async fn cordon(step: &NodeStep<'_>, node: &Node) -> Result<(), ApiError> {
    let run = step.order.run.as_str();
    let is_of_another_run = node.cordoned_by().is_some_and(|by| **by != *run);
    if node.spec.unschedulable && !is_of_another_run {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"annotations": {CORDONED_BY: run}},
        "spec": {"unschedulable": true},
    });
    step.change(node, patch).await.map(drop)
}

/// Whether pods can be scheduled to the node.
pub(super) async fn probe_uncordon(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    let node = step.meant().await?;
    Ok(match node {
        Some(node)
            if !node.spec.unschedulable
                && !conditions::are_left(&node.status)
                && !is_owed(step).await? =>
        {
            Probe::Done
        }
        _ => Probe::NotBegun,
    })
}

/// Lets pods be scheduled to the node again, if it was trueup that forbade it. Its labels and taints
/// are put back before that, by which pods are scheduled.
pub(super) async fn uncordon(step: &NodeStep<'_>) -> Result<(), ActError> {
    let node = step.present().await?;
    if node.spec.unschedulable && node.cordoned_by().is_none() {
        let text = format_args!(
            "node `{node}` was not cordoned by trueup, which therefore leaves it so; \
             `kubectl uncordon {node}` undoes it",
            node = step.node
        );
        return Err(ActError::Permanent(FailureReason::Conflict.message(text)));
    }
    if is_marked(&node) {
        // Its kubelet was to be stopped, and is not to be any more.
        retire(step).await?;
    }
    if !step.given.set_labels().is_empty() {
        apply_labels(step, &node, step.given.set_labels()).await?;
    }
    give_back(step).await?;
    // Before the cordon: a step that is interrupted between the two finds the node cordoned, and does both again.
    conditions::set(step, &node, Maintenance::Over).await;
    lease::release(step).await;
    let patch = json!({
        "metadata": {"annotations": {CORDONED_BY: null}},
        "spec": {"unschedulable": null},
    });
    let changed = step.change(&node, patch).await;
    changed.map(drop).map_err(|error| step.act_error(error))
}

/// Leaves a node that was drained to others: nothing tells any more that trueup is at work on it.
pub(super) async fn leave_cordoned(step: &NodeStep<'_>) {
    if let Ok(Some(node)) = step.meant().await {
        let maintenance = match node.spec.unschedulable {
            true => Maintenance::Left,
            false => Maintenance::Over,
        };
        conditions::set(step, &node, maintenance).await;
    }
    eviction_request::withdraw(step).await;
    lease::release(step).await;
}

/// Whether the labels are as wanted.
pub(super) async fn probe_relabel(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    let Some(node) = step.meant().await? else {
        return Ok(Probe::NotBegun);
    };
    let labels = &node.metadata.labels;
    let ours = applied_labels(&node);
    let mut set = step.given.set_labels().iter();
    let mut removed = step.given.remove_labels().iter();
    let done = set.all(|(key, value)| labels.get(key) == Some(value))
        && removed.all(|key| !labels.contains_key(key) || !ours.contains(&**key));
    Ok(match done && !is_owed(step).await? {
        true => Probe::Done,
        false => Probe::NotBegun,
    })
}

/// Sets labels, and takes off those that trueup has set itself; all others stay.
///
/// Server-side apply takes off what its manager no longer names, so that all its labels are named: those
/// that it has and those that are to be set, without those that are to go.
pub(super) async fn relabel(step: &NodeStep<'_>) -> Result<(), ActError> {
    let node = step.present().await?;
    if is_marked(&node) && node.status.is_ready() {
        retire(step).await?;
    }
    apply_labels(step, &node, step.given.set_labels()).await?;
    give_back(step).await
}
