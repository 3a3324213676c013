//! What a node is owed: the labels and taints that were taken off it, or off the node of its name before.
//!
//! Clear-labels notes them before it takes them, and a remediation before it deletes the node; the record
//! keeps them until they are back. They are put back by uncordon, by relabel, and when the node has
//! registered again. What the node carries by then wins; labels that the design has are the design's to set.

use std::sync::Arc;

use super::errand::Errand;
use super::labels::{CORDONED_BY, applied_labels, apply_labels, labels_to_clear};
use super::remedy::{Whole, put_back, whole};
use crate::backend::ActError;
use crate::backend::api_server::Trouble;
use crate::remediation::{Backup, Memory, Note};
use crate::step::StepKind;

/// What clear-labels takes off a node and the design does not set again, and the taints that go with the
/// node when it is deleted.
fn taken(errand: &Errand<'_>, whole: &Whole) -> Backup {
    let node = &whole.node;
    let designed = errand.order.node.as_ref().map(|node| &node.labels);
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
pub(super) async fn save(errand: &Errand<'_>) -> Result<(), ActError> {
    let trouble = |trouble| errand.trouble(trouble);
    let found = whole(&errand.server, &errand.node).await.map_err(trouble)?;
    let Some(whole) = found else {
        return Ok(());
    };
    let backup = taken(errand, &whole);
    if backup.is_empty() {
        return Ok(());
    }
    let uid = whole.node.metadata.uid.clone();
    let note = Note::BackedUp { uid, backup };
    errand.order.reporter.note(note.to_text()).await
}

/// What the node is owed, by the plan and by what was noted in this run; `None`: nothing.
fn owed(errand: &Errand<'_>) -> Option<Backup> {
    let planned = errand.parameters.backup.as_deref().cloned();
    let noted = Memory::default().with(errand.order.notes.iter().map(|note| &**note));
    let mut owed = planned.unwrap_or_default();
    if let Some(noted) = &noted.backup {
        owed = owed.with(noted);
    }
    let designed = errand.order.node.as_ref().map(|node| &node.labels);
    let removed = &errand.parameters.remove_labels;
    owed.labels.retain(|key, _| {
        designed.is_none_or(|designed| !designed.contains_key(key)) && !removed.contains(key)
    });
    if errand.order.step.id.kind == StepKind::Uncordon {
        owed.unschedulable = false;
        owed.annotations.remove(CORDONED_BY);
    }
    (!owed.is_empty()).then_some(owed)
}

/// Whether the node lacks any of what it is owed.
pub(super) async fn is_owed(errand: &Errand<'_>) -> Result<bool, Trouble> {
    let Some(owed) = owed(errand) else {
        return Ok(false);
    };
    let now = whole(&errand.server, &errand.node).await?;
    Ok(now.is_none_or(|now| !owed.missing_on(&now.backup()).is_empty()))
}

/// Puts back what the node is owed, and notes that it is back.
pub(super) async fn give_back(errand: &Errand<'_>) -> Result<(), ActError> {
    let had_any = errand.parameters.backup.is_some() || !errand.order.notes.is_empty();
    if let Some(owed) = owed(errand) {
        errand.progress("putting back the labels and taints that were taken off it");
        put_back(errand, &owed).await?;
    }
    match had_any {
        true => errand.order.reporter.note(Note::Restored.to_text()).await,
        false => Ok(()),
    }
}

/// Sets the labels of the design that the node has not got, now that it has registered again.
pub(super) async fn set_designed(errand: &Errand<'_>) -> Result<(), ActError> {
    let Some(design) = &errand.order.node else {
        return Ok(());
    };
    let node = errand
        .look()
        .await
        .map_err(|trouble| errand.trouble(trouble))?;
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
        false => apply_labels(errand, &node, &missing).await,
    }
}
