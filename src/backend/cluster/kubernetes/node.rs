//! Levels of a node: cordoned or not, and its labels.

use serde_json::json;

use super::errand::Errand;
use super::labels::{CORDONED_BY, applied_labels, apply_labels};
use super::object::Node;
use super::owed::{give_back, is_owed};
use super::shutdown::{is_marked, retire};
use crate::backend::api_server::Trouble;
use crate::backend::{ActError, Probe};

/// Cordons a node, and marks it with the run; what somebody else cordoned stays theirs.
pub(super) async fn cordon(errand: &Errand<'_>, node: &Node) -> Result<(), Trouble> {
    let run = errand.order.run.as_str();
    let by = node.metadata.annotations.cordoned_by.as_deref();
    if node.spec.unschedulable && by.is_none_or(|by| by == run) {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"annotations": {CORDONED_BY: run}},
        "spec": {"unschedulable": true},
    });
    errand.change(node, patch).await.map(drop)
}

/// Whether pods can be scheduled to the node.
pub(super) async fn probe_uncordon(errand: &Errand<'_>) -> Result<Probe, Trouble> {
    let node = errand.meant().await?;
    Ok(match node {
        Some(node) if !node.spec.unschedulable && !is_owed(errand).await? => Probe::Done,
        _ => Probe::NotBegun,
    })
}

/// Lets pods be scheduled to the node again, where it was trueup that forbade it. Its labels and taints
/// are put back before that, by which pods are scheduled.
pub(super) async fn uncordon(errand: &Errand<'_>) -> Result<(), ActError> {
    let node = errand.present().await?;
    if node.spec.unschedulable && node.metadata.annotations.cordoned_by.is_none() {
        let text = format!(
            "Conflict: node `{node}` was not cordoned by trueup, which therefore leaves it so; \
             `kubectl uncordon {node}` undoes it",
            node = errand.node
        );
        return Err(ActError::Permanent(text.into()));
    }
    if is_marked(&node) {
        // Its kubelet was to be stopped, and is not to be any more.
        retire(errand).await?;
    }
    if !errand.parameters.set_labels.is_empty() {
        apply_labels(errand, &node, &errand.parameters.set_labels).await?;
    }
    give_back(errand).await?;
    let patch = json!({
        "metadata": {"annotations": {CORDONED_BY: null}},
        "spec": {"unschedulable": null},
    });
    let changed = errand.change(&node, patch).await;
    changed.map(drop).map_err(|trouble| errand.trouble(trouble))
}

/// Whether the labels are as wanted.
pub(super) async fn probe_relabel(errand: &Errand<'_>) -> Result<Probe, Trouble> {
    let Some(node) = errand.meant().await? else {
        return Ok(Probe::NotBegun);
    };
    let labels = &node.metadata.labels;
    let ours = applied_labels(&node);
    let mut set = errand.parameters.set_labels.iter();
    let mut removed = errand.parameters.remove_labels.iter();
    let done = set.all(|(key, value)| labels.get(key) == Some(value))
        && removed.all(|key| !labels.contains_key(key) || !ours.contains(&**key));
    Ok(match done && !is_owed(errand).await? {
        true => Probe::Done,
        false => Probe::NotBegun,
    })
}

/// Sets labels, and takes off those that trueup has set itself; all others stay.
///
/// Server-side apply takes off what its manager no longer names, so that all its labels are named: those
/// that it has and those that are to be set, without those that are to go.
pub(super) async fn relabel(errand: &Errand<'_>) -> Result<(), ActError> {
    let node = errand.present().await?;
    if is_marked(&node) && node.status.is_ready() {
        retire(errand).await?;
    }
    apply_labels(errand, &node, &errand.parameters.set_labels).await?;
    give_back(errand).await
}
