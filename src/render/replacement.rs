//! Which document replaces which, and what a substitution finds under a schema and name.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::diagnostic::Diagnostic;
use crate::document::{Document, DocumentId, MetadataKind};

use super::survey::{Survey, metadata_mark, selector_mark};

/// The replacement of each document.
pub(super) fn check(survey: &mut Survey<'_>, parents: &[Option<usize>]) -> Vec<Option<usize>> {
    let documents = survey.documents;
    let mut replaced_by: Vec<Option<usize>> = vec![None; documents.len()];
    for (at, document) in documents.iter().enumerate() {
        if !survey.is_sound(at) {
            continue;
        }
        let parent = parents[at].map(|parent| (parent, &documents[parent]));
        if document.is_replacement {
            check_replacement(survey, at, parent, &mut replaced_by);
        } else if let Some((_, parent)) = parent.filter(|(_, parent)| parent.id == document.id) {
            let message = format!(
                "`{}` has the schema and name of its parent, but is no replacement",
                document.id
            );
            let diagnostic = Diagnostic::error(
                "render-replacement-undeclared",
                selector_mark(document),
                message,
            )
            .hint("add `replacement: true`, or give it another name")
            .related(parent.name_mark, "the parent");
            survey.fail(at, diagnostic);
        }
    }
    check_chains(survey, &replaced_by);
    check_names(survey);
    replaced_by
}

fn check_replacement(
    survey: &mut Survey<'_>,
    at: usize,
    parent: Option<(usize, &Arc<Document>)>,
    replaced_by: &mut [Option<usize>],
) {
    let document = &survey.documents[at];
    let mark = metadata_mark(document, &["replacement"]);
    let error = |code, message: &str| Diagnostic::error(code, mark, message);
    let diagnostic = match parent {
        None => error(
            "render-replacement-parent",
            "a replacement needs a parent, which it replaces",
        )
        .hint("a `parentSelector` selects the parent by its labels"),
        Some((_, parent)) if parent.id != document.id => error(
            "render-replacement-parent",
            &format!(
                "a replacement needs the schema and name of its parent, which is `{}`",
                parent.id
            ),
        )
        .related(parent.name_mark, "the parent"),
        Some((parent, replaced)) => match replaced_by[parent] {
            None => {
                replaced_by[parent] = Some(at);
                return;
            }
            Some(other) => error(
                "render-replacement-chain",
                &format!("`{}` is already replaced", replaced.id),
            )
            .related(survey.documents[other].name_mark, "replaced by this one"),
        },
    };
    survey.fail(at, diagnostic);
}

/// A concrete replacement must not be replaced itself; Deckhand lets abstract ones pass, and sites use that.
fn check_chains(survey: &mut Survey<'_>, replaced_by: &[Option<usize>]) {
    for (at, replacement) in replaced_by.iter().enumerate() {
        let documents = survey.documents;
        let document = &documents[at];
        let Some(replacement) = replacement.filter(|_| document.is_replacement) else {
            continue;
        };
        if !document.is_abstract {
            let mark = metadata_mark(&documents[replacement], &["replacement"]);
            let message = format!(
                "`{}` is a replacement itself, and cannot be replaced",
                document.id
            );
            let diagnostic = Diagnostic::error("render-replacement-chain", mark, message)
                .related(document.name_mark, "the replaced document");
            survey.fail(replacement, diagnostic);
        }
    }
}

/// Of the documents with one schema and name at most one is no replacement, whatever the layers.
fn check_names(survey: &mut Survey<'_>) {
    let documents = survey.documents;
    let mut first: Option<usize> = None;
    for (at, document) in documents.iter().enumerate() {
        if document.is_replacement || document.kind == MetadataKind::Control || !survey.is_sound(at)
        {
            continue;
        }
        let Some(earlier) = first.filter(|first| documents[*first].id == document.id) else {
            first = Some(at);
            continue;
        };
        let message = format!(
            "`{}` is also defined in layer `{}`, and neither replaces the other",
            document.id,
            documents[earlier].layer.as_deref().unwrap_or_default()
        );
        let diagnostic = Diagnostic::error("render-name", document.name_mark, message)
            .hint("a document with `replacement: true` and a `parentSelector` replaces its parent")
            .related(documents[earlier].name_mark, "also defined here");
        survey.fail(at, diagnostic);
        survey.fail_silently(earlier);
    }
}

/// The documents that a substitution finds under a schema and name: concrete documents, replaced ones by their replacement.
pub(super) fn sources<'a>(
    documents: &'a [Arc<Document>],
    replaced_by: &[Option<usize>],
) -> FxHashMap<&'a DocumentId, usize> {
    let mut sources = FxHashMap::default();
    for (at, document) in documents.iter().enumerate() {
        if document.is_abstract {
            continue;
        }
        // A replacement is in a more specific layer than what it replaces, so this ends.
        let mut last = at;
        while let Some(replacement) = replaced_by[last] {
            last = replacement;
        }
        sources.entry(&document.id).or_insert(last);
    }
    sources
}
