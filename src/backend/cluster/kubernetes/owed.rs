//! Labels and taints to restore on a node: those taken off it, or off the node of its name before.
//!
//! Clear-labels notes them before it takes them, and a remediation before it deletes the node; the record
//! keeps them until they are back. They are put back by uncordon, by relabel, and when the node has
//! registered again. What the node carries by then wins; labels that the design has are the design's to set.

use std::sync::Arc;

use super::labels::{CORDONED_BY, applied_labels, apply_labels, labels_to_clear};
use super::node_step::NodeStep;
use super::remedy::{Whole, put_back, whole};
use crate::backend::ActError;
use crate::backend::api_server::ApiError;
use crate::remediation::{Backup, Memory, Note};
use crate::step::StepKind;

/// The labels that clear-labels removes from a node and the design does not set again, and the taints that are lost
/// when the node is deleted.
fn taken(step: &NodeStep<'_>, whole: &Whole) -> Backup {
    let node = &whole.node;
    let designed = step.order.node.as_ref().map(|node| &node.labels);
    let applied = applied_labels(node);
    let is_foreign = |key: &Arc<str>| {
        !applied.contains(&**key) && designed.is_none_or(|designed| !designed.contains_key(key))
    };
    let labels = labels_to_clear(node).into_iter().filter(is_foreign);
    let labels = labels.filter_map(|key| {
        let value = node.metadata.labels.get(&key)?.clone();
        Some((key, value))
    });
    Backup {
        labels: labels.collect(),
        taints: whole.backup().taints,
        ..Backup::default()
    }
}

/// Notes what is about to be taken off the node; durable when this returns.
pub(super) async fn save(step: &NodeStep<'_>) -> Result<(), ActError> {
    let error = |error| step.act_error(error);
    let found = whole(&step.server, &step.node).await.map_err(error)?;
    let Some(whole) = found else {
        return Ok(());
    };
    let backup = taken(step, &whole);
    if backup.is_empty() {
        return Ok(());
    }
    let uid = whole.node.metadata.uid.clone();
    let note = Note::BackedUp { uid, backup };
    step.order.reporter.note(note.to_text()).await
}

/// The labels and taints to restore, by the plan and by the notes of this run; `None`: nothing.
fn owed(step: &NodeStep<'_>) -> Option<Backup> {
    let planned = step.given.backup().as_deref().cloned();
    let noted = Memory::default().with(step.order.notes.iter().map(|note| &**note));
    let mut owed = planned.unwrap_or_default();
    if let Some(noted) = &noted.backup {
        owed = owed.with(noted);
    }
    let designed = step.order.node.as_ref().map(|node| &node.labels);
    let removed = step.given.remove_labels();
    owed.labels.retain(|key, _| {
        designed.is_none_or(|designed| !designed.contains_key(key)) && !removed.contains(key)
    });
    if step.order.step.id.kind == StepKind::Uncordon {
        owed.unschedulable = false;
        owed.annotations.remove(CORDONED_BY);
    }
    (!owed.is_empty()).then_some(owed)
}

/// Whether the node lacks any of what it is owed.
pub(super) async fn is_owed(step: &NodeStep<'_>) -> Result<bool, ApiError> {
    let Some(owed) = owed(step) else {
        return Ok(false);
    };
    let now = whole(&step.server, &step.node).await?;
    Ok(now.is_none_or(|now| !owed.missing_on(&now.backup()).is_empty()))
}

/// Puts back what the node is owed, and notes that it is back.
pub(super) async fn give_back(step: &NodeStep<'_>) -> Result<(), ActError> {
    let had_any = step.given.backup().is_some() || !step.order.notes.is_empty();
    if let Some(owed) = owed(step) {
        step.progress("putting back the labels and taints that were taken off it");
        put_back(step, &owed).await?;
    }
    match had_any {
        true => step.order.reporter.note(Note::Restored.to_text()).await,
        false => Ok(()),
    }
}

/// Sets the labels of the design that the node has not got, now that it has registered again.
pub(super) async fn set_designed(step: &NodeStep<'_>) -> Result<(), ActError> {
    let Some(design) = &step.order.node else {
        return Ok(());
    };
    let node = step.look().await.map_err(|error| step.act_error(error))?;
    let Some(node) = node else {
        return Ok(());
    };
    let labels = &node.metadata.labels;
    let missing = design.labels.iter();
    let missing: Vec<(Arc<str>, Arc<str>)> = missing
        .filter(|(key, value)| labels.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => apply_labels(step, &node, &missing).await,
    }
}
