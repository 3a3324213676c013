//! Layering actions: what a child changes of its parent's data.
//!
//! The result starts as the parent's data; only what the actions name comes from the child. A merge copies each map that both write
//! to, so that children of a large parent are paid for with its size.

use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::document::{ActionMethod, Document, LayeringAction, Map, Node, Value};

use super::Outcome;
use super::budget::{Budget, Exceeded};
use super::path::{Path, WriteError};
use super::substitution::Substituter;
use super::survey::Survey;

/// How many values of the parent an action may move that cost as much as one that is written.
const VALUES_PER_STEP: u64 = 64;

/// The data of a document that has actions, on top of its parent's.
pub(super) fn layer(
    at: usize,
    document: &Document,
    parent: &Outcome,
    survey: &mut Survey<'_>,
    substituter: &mut Substituter<'_>,
) -> Node {
    let mut data = parent.data.clone();
    data.mark = document.data.mark;
    let step = 1 + parent.size / VALUES_PER_STEP;
    for action in &document.actions {
        if !substituter.pay(at, survey, |budget| budget.spend(step)) {
            break;
        }
        let path = match substituter.path(&action.path) {
            Ok(path) => (*path).clone().without_data_prefix().anchored(),
            Err(error) => {
                survey.fail(at, error.diagnostic(action.mark, &action.path));
                continue;
            }
        };
        let is_paid = substituter.pay(at, survey, |budget| {
            pay_for(action, &path, &document.data, &data, budget)
        });
        if !is_paid {
            break;
        }
        if let Err(diagnostic) = apply(action, &path, &document.data, &mut data) {
            survey.fail(at, diagnostic);
        }
    }
    data
}

/// Pays for the writes and reads of an action beyond the first place; the first one is in the size of the child.
fn pay_for(
    action: &LayeringAction,
    path: &Path,
    child: &Node,
    data: &Node,
    budget: &mut Budget,
) -> Result<(), Exceeded> {
    if path.descends() {
        budget.spend_tree(child, 0)?;
        budget.spend_tree(data, 0)?;
    }
    if action.method == ActionMethod::Delete {
        return Ok(());
    }
    let Some(found) = path.first(child) else {
        return Ok(());
    };
    (0..path.count(data).max(1)).try_for_each(|_| budget.spend_tree(found.node, path.len()))
}

fn apply(
    action: &LayeringAction,
    path: &Path,
    child: &Node,
    data: &mut Node,
) -> Result<(), Diagnostic> {
    let missing = |message: String| Diagnostic::error("render-action", action.mark, message);
    if action.method == ActionMethod::Delete {
        return if path.remove(data) == 0 {
            Err(missing(format!(
                "`delete` finds nothing at `{path}` in the data of the parent"
            )))
        } else {
            Ok(())
        };
    }
    let method = match action.method {
        ActionMethod::Merge => "merge",
        _ => "replace",
    };
    let Some(found) = path.first(child) else {
        let mut diagnostic = missing(format!(
            "`{method}` finds nothing at `{path}` in the data of this document"
        ));
        if let Some(absence) = path.absence(child) {
            diagnostic = diagnostic.did_you_mean(absence.wanted, absence.present);
        }
        return Err(diagnostic);
    };
    if found.node.is_null() {
        let message = format!("`{method}` finds null at `{path}` in the data of this document");
        return Err(missing(message).hint("`delete` removes the parent's value there"));
    }
    let value = found.to_node();
    let write = |error: WriteError| error.diagnostic(action.mark, path);
    if action.method == ActionMethod::Merge {
        let Ok(places) = path.update(data, |node| {
            merge(node, &value);
            Ok::<(), std::convert::Infallible>(())
        });
        if places > 0 {
            return Ok(());
        }
    }
    path.set(data, value, action.mark).map_err(write)?;
    Ok(())
}

/// Maps merge deeply, the child's values counting; everything else is replaced.
fn merge(parent: &mut Node, child: &Node) {
    let (Value::Map(theirs), Value::Map(ours)) = (&mut parent.value, &child.value) else {
        *parent = child.clone();
        return;
    };
    parent.mark = child.mark;
    if child.is_secret() {
        parent.secret.clone_from(&child.secret);
    }
    if Arc::ptr_eq(theirs, ours) || ours.is_empty() {
        return;
    }
    merge_maps(Arc::make_mut(theirs), ours);
}

fn merge_maps(parent: &mut Map, child: &Map) {
    for (key, field) in child.iter() {
        match parent.get_mut(key) {
            Some(node) if node.as_map().is_some() && field.node.as_map().is_some() => {
                merge(node, &field.node);
            }
            _ => {
                parent.insert(key.clone(), field.clone());
            }
        }
    }
}
