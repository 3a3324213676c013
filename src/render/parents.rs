//! Which document each document is layered on.
//!
//! A parent carries all labels that the selector asks for, has the same schema, and is in a more general layer;
//! of several the one in the nearest layer counts. That a selector also matches something that cannot be a
//! parent is an error, even if there is a better one (Deckhand). Documents are found by label, and documents with
//! the same selector are answered once, so that ten thousand children of one parent cost no more than a walk.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::diagnostic::Diagnostic;
use crate::document::{Document, Key, Node};

use super::python;
use super::survey::{Survey, selector_mark};

/// A label: key, kind and text of the value.
type Label<'a> = (&'a Key, &'static str, Cow<'a, str>);

fn label<'a>(key: &'a Key, value: &'a Node) -> Label<'a> {
    let text = match value.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(python::text(value)),
    };
    (key, value.value.type_name(), text)
}

/// The documents that a selector matches, for children of one schema and layer.
#[derive(Default)]
struct Match {
    /// Documents of another schema.
    other_schema: Vec<usize>,
    /// Documents of the same or a more specific layer, at most two (one may be the child itself).
    not_above: Vec<usize>,
    /// Documents of the nearest layer.
    nearest: Vec<usize>,
    /// Whether a document that already failed might have been the parent.
    is_uncertain: bool,
}

/// The parent of each document; a document whose selector is wrong fails.
pub(super) fn find(
    survey: &mut Survey<'_>,
    layers: &[Option<usize>],
    order: &[Arc<str>],
) -> Vec<Option<usize>> {
    let documents = survey.documents;
    let mut by_label: FxHashMap<Label<'_>, Vec<usize>> = FxHashMap::default();
    for (at, document) in documents.iter().enumerate() {
        for (key, field) in document.labels.iter() {
            by_label
                .entry(label(key, &field.node))
                .or_default()
                .push(at);
        }
    }
    // What fails on the way is still a parent: its children fail with it.
    let is_sound: Vec<_> = (0..documents.len()).map(|at| survey.is_sound(at)).collect();
    let mut answers = HashMap::new();
    let mut parents = vec![None; documents.len()];
    for (at, document) in documents.iter().enumerate() {
        let (Some(selector), Some(layer)) = (&document.parent_selector, layers[at]) else {
            continue;
        };
        if selector.is_empty() || !is_sound[at] {
            continue;
        }
        let mut labels: Vec<_> = selector
            .iter()
            .map(|(key, field)| label(key, &field.node))
            .collect();
        labels.sort_unstable();
        let answer = answers
            .entry((labels, &*document.id.schema, layer))
            .or_insert_with_key(|(labels, schema, layer)| {
                let candidates = matching(labels, &by_label);
                sort_out(documents, &is_sound, &candidates, schema, *layer, layers)
            });
        parents[at] = choose(survey, at, document, answer, layers, order);
    }
    parents
}

/// The documents that carry all labels.
fn matching(labels: &[Label<'_>], by_label: &FxHashMap<Label<'_>, Vec<usize>>) -> Vec<usize> {
    let mut lists = Vec::with_capacity(labels.len());
    for label in labels {
        match by_label.get(label) {
            Some(list) => lists.push(list),
            None => return Vec::new(),
        }
    }
    lists.sort_by_key(|list| list.len());
    let Some((shortest, others)) = lists.split_first() else {
        return Vec::new();
    };
    shortest
        .iter()
        .copied()
        .filter(|at| others.iter().all(|list| list.binary_search(at).is_ok()))
        .collect()
}

fn sort_out(
    documents: &[Arc<Document>],
    is_sound: &[bool],
    candidates: &[usize],
    schema: &str,
    layer: usize,
    layers: &[Option<usize>],
) -> Match {
    let mut found = Match::default();
    let mut nearest = None;
    for candidate in candidates.iter().copied() {
        let document = &documents[candidate];
        if !is_sound[candidate] {
            found.is_uncertain |= layers[candidate].is_none();
        } else if *document.id.schema != *schema {
            found.other_schema.push(candidate);
        } else if let Some(theirs) = layers[candidate] {
            if theirs >= layer {
                if found.not_above.len() < 2 {
                    found.not_above.push(candidate);
                }
            } else if nearest < Some(theirs) {
                nearest = Some(theirs);
                found.nearest = vec![candidate];
            } else if nearest == Some(theirs) {
                found.nearest.push(candidate);
            }
        }
    }
    found
}

fn choose(
    survey: &mut Survey<'_>,
    at: usize,
    document: &Document,
    found: &Match,
    layers: &[Option<usize>],
    order: &[Arc<str>],
) -> Option<usize> {
    let documents = survey.documents;
    let mark = selector_mark(document);
    let error = |code, message| Diagnostic::error(code, mark, message);
    let mut is_wrong = false;
    if let Some(first) = found.other_schema.first() {
        let other = &documents[*first];
        let message = format!(
            "the parent selector matches `{}`, which has another schema than `{}`",
            other.id, document.id
        );
        let diagnostic = error("render-parent-schema", message)
            .related(other.schema_mark, "the schema of the parent");
        survey.fail(at, diagnostic);
        is_wrong = true;
    }
    if let Some(first) = found.not_above.iter().find(|candidate| **candidate != at) {
        let other = &documents[*first];
        let message = format!(
            "the parent selector matches `{}` in layer `{}`, which is not above layer `{}`",
            other.id,
            other.layer.as_deref().unwrap_or_default(),
            document.layer.as_deref().unwrap_or_default(),
        );
        let diagnostic =
            error("render-parent-layer", message).related(other.name_mark, "the parent");
        survey.fail(at, diagnostic);
        is_wrong = true;
    }
    match found.nearest[..] {
        _ if is_wrong => None,
        [] if found.is_uncertain => {
            survey.fail_silently(at);
            None
        }
        [] => {
            let message = "no document carries the labels that the parent selector asks for, so the actions are left out";
            let diagnostic = Diagnostic::warning("render-parent-missing", mark, message);
            survey.diagnostics.push(diagnostic);
            None
        }
        [parent] => Some(parent),
        [first, second, ..] => {
            let layer = layers[first].and_then(|layer| order.get(layer));
            let message = format!(
                "the parent selector matches {} documents in layer `{}`, so the parent is uncertain",
                found.nearest.len(),
                layer.map_or("", |layer| layer),
            );
            let diagnostic = error("render-parent-ambiguous", message)
                .related(documents[first].name_mark, "one parent")
                .related(documents[second].name_mark, "another parent");
            survey.fail(at, diagnostic);
            None
        }
    }
}
