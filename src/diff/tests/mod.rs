//! Differences of sites written as YAML.

mod documents;
mod reasons;

use std::sync::Arc;

use crate::diagnostic::Sources;
use crate::document::{Document, LoadSettings, load};

/// Loads one file of documents in the short form of a flat site.
fn documents_of(sources: &mut Sources, path: &str, text: &str) -> Vec<Arc<Document>> {
    let id = sources.add(path, text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let file = load(id, text, &settings);
    assert!(!file.diagnostics.has_errors(), "{:#?}", file.diagnostics);
    file.documents
}

/// A document in the short form; `metadata` is more of it in flow style.
fn document(schema: &str, name: &str, metadata: &str, data: &str) -> String {
    let data = data.trim().replace('\n', "\n  ");
    format!("---\nschema: {schema}\nmetadata: {{name: {name}{metadata}}}\ndata:\n  {data}\n")
}
