//! Which site is loaded, how, and what of its files.

use std::sync::Arc;

use super::{At, Location, Settings, SiteFile};
use crate::design;
use crate::diagnostic::Diagnostic;
use crate::document::{DUPLICATE_KEY, Document, LoadSettings, LoadedFile, Node};
use crate::render;
use crate::repository::{BlobId, Tree};

/// Which site is loaded, and how.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) location: &'a Location,
    pub(super) at: At,
    pub(super) settings: Settings,
}

/// The files of a site at a revision.
pub(super) struct Listing {
    pub(super) tree: Arc<Tree>,
    /// The ids of their bytes, if they are known without reading them.
    pub(super) ids: Vec<Option<BlobId>>,
}

/// How files are read.
pub(super) fn load_settings(location: &Location) -> LoadSettings {
    LoadSettings {
        flat: location.is_flat,
        ..LoadSettings::default()
    }
}

/// How documents are rendered.
pub(super) fn options(location: &Location, settings: Settings) -> render::RenderOptions {
    render::RenderOptions {
        allow_missing_sources: settings.accept.missing_sources,
        default_layers: location.is_flat.then(|| vec![Arc::from("site")]),
    }
}

/// The documents of a site. The one that marks it as a site is none of them; all else in that file is.
pub(super) fn own_documents(
    location: &Location,
    files: &[SiteFile],
    loaded: &[Arc<LoadedFile>],
) -> Vec<Arc<Document>> {
    let mut documents = Vec::new();
    for (file, content) in files.iter().zip(loaded) {
        let is_definition = *file.path == *location.definition;
        let own = content
            .documents
            .iter()
            .filter(|document| !is_definition || *document.id.schema != *design::SITE_DEFINITION);
        documents.extend(own.cloned());
    }
    documents
}

/// Whether a file is none of a site's documents though it lies among them, as Pegleg has it.
pub(super) fn is_tool(is_flat: bool, path: &str) -> bool {
    !is_flat && path.split('/').any(|part| part == "tools")
}

/// Whether keys that are twice in a map are accepted: by the settings, or by a policy among the documents.
pub(super) fn accepts_duplicates(settings: Settings, documents: &[Arc<Document>]) -> bool {
    let mut policies = documents
        .iter()
        .filter(|document| *document.id.schema == *design::POLICY);
    settings.accept.duplicate_keys
        || policies.any(|policy| {
            let field = policy.data.get("allow_duplicate_keys");
            field.and_then(Node::as_bool) == Some(true)
        })
}

/// The problems in the text of a file; accepted duplicate keys are warnings.
pub(super) fn problems(
    content: &LoadedFile,
    accepts_duplicates: bool,
) -> impl Iterator<Item = Diagnostic> {
    let found = content.diagnostics.iter().cloned();
    found.map(move |each| match each.code.0 == DUPLICATE_KEY {
        true if accepts_duplicates => each.as_warning(),
        _ => each,
    })
}
