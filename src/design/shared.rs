//! Interned values: those that machines have in common, each in its own file, are held once for all of them.
//!
//! Each file is parsed by itself, so that a hundred thousand machines come with as many texts that name
//! the same racks, networks, profiles and tags.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::read::text_of;
use crate::document::{DocumentId, Node, Value};

/// Interned values that machines have in common, each in its own file.
#[derive(Default)]
pub(super) struct Shared {
    texts: FxHashSet<Arc<str>>,
    tags: FxHashSet<Arc<BTreeSet<Arc<str>>>>,
}

impl Shared {
    /// The text, as it was met first.
    pub(super) fn text(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(&text) {
            return known.clone();
        }
        self.texts.insert(text.clone());
        text
    }

    /// Interns a text.
    pub(super) fn text_of(&mut self, text: &str) -> Arc<str> {
        match self.texts.get(text) {
            Some(known) => known.clone(),
            None => self.text(Arc::from(text)),
        }
    }

    fn texts_of(&mut self, list: &Node) -> BTreeSet<Arc<str>> {
        let items = list.as_list().unwrap_or_default().iter();
        let texts = items.filter_map(text_of);
        texts.map(|text| self.text(text)).collect()
    }

    /// The set of the texts in a list.
    pub(super) fn tags(&mut self, list: &Node) -> Arc<BTreeSet<Arc<str>>> {
        let tags = self.texts_of(list);
        if let Some(known) = self.tags.get(&tags) {
            return known.clone();
        }
        let tags = Arc::new(tags);
        self.tags.insert(tags.clone());
        tags
    }

    /// The same value, its text being held once.
    pub(super) fn node(&mut self, node: &Node) -> Node {
        let mut node = node.clone();
        if let Value::String(text) = &mut node.value {
            *text = self.text(text.clone());
        }
        node
    }

    /// The same identity; only its schema is what others have too.
    pub(super) fn id(&mut self, id: &DocumentId) -> DocumentId {
        DocumentId {
            schema: self.text(id.schema.clone()),
            name: id.name.clone(),
        }
    }
}
