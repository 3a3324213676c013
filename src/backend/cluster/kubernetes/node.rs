//! Levels of a node: cordoned or not, and its labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::NODES;
use super::errand::Errand;
use super::labels::applied_labels;
use super::object::Node;
use super::owed::{give_back, is_owed};
use super::shutdown::{is_marked, retire};
use crate::backend::api_server::Trouble;
use crate::backend::{ActError, Probe};

/// Under which annotation a node carries the run that cordoned it.
pub(super) const CORDONED_BY: &str = "trueup.dev/cordoned-by";

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
        set(errand, &node, &errand.parameters.set_labels).await?;
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
    set(errand, &node, &errand.parameters.set_labels).await?;
    give_back(errand).await
}

/// Applies labels; those that are to go are the step's.
pub(super) async fn set(
    errand: &Errand<'_>,
    node: &Node,
    labels: &[(Arc<str>, Arc<str>)],
) -> Result<(), ActError> {
    let ours = applied_labels(node).into_iter();
    let mut wanted: BTreeMap<&str, &str> = ours
        .filter_map(|key| node.metadata.labels.get_key_value(key))
        .map(|(key, value)| (&**key, &**value))
        .collect();
    wanted.retain(|key, _| {
        !errand
            .parameters
            .remove_labels
            .iter()
            .any(|gone| **gone == **key)
    });
    let labels = labels.iter();
    wanted.extend(labels.map(|(key, value)| (&**key, &**value)));
    // Without the UID, applying would make a node where there is none.
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": errand.node, "uid": node.metadata.uid, "labels": wanted},
    });
    let applied: Result<Node, _> = errand.server.apply(NODES, &errand.node, &object).await;
    applied.map(drop).map_err(|trouble| errand.trouble(trouble))
}
