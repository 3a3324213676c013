//! The parts that several sites of a repository have in common: listed folders, and documents of shared layers.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{At, Location};
use crate::design::SchemaCache;
use crate::diagnostic::SourceId;
use crate::document::LoadedFile;
use crate::render::RenderCache;
use crate::repository::Listings;

/// The parts that sites have in common.
#[derive(Debug, Default)]
pub(super) struct Common {
    listings: Vec<(At, Listings)>,
    /// The folders that several sites have.
    folders: FxHashSet<Arc<str>>,
    /// The shared sources, and whether there is nothing secret in the documents of each.
    sources: FxHashMap<SourceId, bool>,
    pub(super) rendered: RenderCache,
    pub(super) checked: SchemaCache,
}

impl Common {
    pub(super) fn listings(&self, at: At) -> Option<&Listings> {
        let mut listings = self.listings.iter();
        listings.find_map(|(listed, each)| (*listed == at).then_some(each))
    }

    /// Takes the files that sites have at a revision.
    pub(super) fn list<'l>(
        &mut self,
        at: At,
        listings: Listings,
        sites: impl Iterator<Item = &'l Location>,
    ) {
        self.listings.retain(|(listed, _)| *listed != at);
        self.listings.push((at, listings));
        let mut sites_of: FxHashMap<&Arc<str>, usize> = FxHashMap::default();
        for folder in sites.flat_map(|site| site.selection.prefixes()) {
            *sites_of.entry(folder).or_default() += 1;
        }
        let shared = sites_of.into_iter().filter(|(_, sites)| *sites > 1);
        self.folders
            .extend(shared.map(|(folder, _)| folder.clone()));
    }

    /// Whether a file is in a folder that several sites have.
    fn has(&self, path: &str) -> bool {
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        ends.any(|end| self.folders.contains(&path[..end]))
    }

    /// Whether there is nothing secret in the documents of a source.
    pub(super) fn is_plain(&self, source: SourceId) -> bool {
        self.sources.get(&source) == Some(&true)
    }

    /// Shares what is in a file, if it is in a folder that several sites have.
    pub(super) fn share(&mut self, path: &str, content: &LoadedFile) {
        let Some(first) = content.documents.first() else {
            return;
        };
        let source = first.mark.source;
        if self.sources.contains_key(&source) || !self.has(path) {
            return;
        }
        let mut documents = content.documents.iter();
        let is_plain = !documents.any(|document| document.data.has_secret());
        self.sources.insert(source, is_plain);
        self.rendered.share(source);
        self.checked.share(source);
    }
}
