//! The documents while they are checked: which are still sound, and their problems.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics, Mark};
use crate::document::{Document, DocumentId};

/// The order of documents: identity first, so that the order of the input does not count.
pub(super) fn sort_key(document: &Document) -> (&DocumentId, Option<&str>, Mark) {
    (&document.id, document.layer.as_deref(), document.mark)
}

/// The sorted input, and what is known of it so far.
pub(super) struct Survey<'a> {
    pub(super) documents: &'a [Arc<Document>],
    pub(super) diagnostics: Diagnostics,
    is_sound: Vec<bool>,
}

impl<'a> Survey<'a> {
    pub(super) fn new(documents: &'a [Arc<Document>]) -> Self {
        Self {
            documents,
            diagnostics: Diagnostics::new(),
            is_sound: vec![true; documents.len()],
        }
    }

    /// Whether nothing wrong was found about a document.
    pub(super) fn is_sound(&self, at: usize) -> bool {
        self.is_sound.get(at).copied().unwrap_or_default()
    }

    /// Something is wrong with a document.
    pub(super) fn fail(&mut self, at: usize, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
        self.fail_silently(at);
    }

    /// Something is wrong with a document that was reported elsewhere.
    pub(super) fn fail_silently(&mut self, at: usize) {
        if let Some(is_sound) = self.is_sound.get_mut(at) {
            *is_sound = false;
        }
    }

    /// The first of several documents with the same schema, layer and name stays, the others fail.
    pub(super) fn check_duplicates(&mut self) {
        let mut first = 0;
        for at in 1..self.documents.len() {
            let documents = self.documents;
            let (earlier, document) = (&documents[first], &documents[at]);
            if earlier.id != document.id || earlier.layer != document.layer {
                first = at;
                continue;
            }
            let id = &document.id;
            let message = match &document.layer {
                Some(layer) => format!("`{id}` is already defined in layer `{layer}`"),
                None => format!("`{id}` is already defined"),
            };
            self.fail(
                at,
                Diagnostic::error("render-duplicate", document.name_mark, message)
                    .related(earlier.name_mark, "first defined here"),
            );
        }
    }
}

/// Where something within the metadata was written; the document's name where it was not.
pub(super) fn metadata_mark(document: &Document, keys: &[&str]) -> Mark {
    document
        .metadata
        .at(keys)
        .map_or(document.name_mark, |node| node.mark)
}

/// Where the parent selector of a document was written.
pub(super) fn selector_mark(document: &Document) -> Mark {
    metadata_mark(document, &["layeringDefinition", "parentSelector"])
}
