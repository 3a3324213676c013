//! The rendered documents by schema and name, so that a reference is one look-up.
//!
//! Only what is concrete gets here. If two documents have the same identity, which is an error
//! of rendering, the first counts.

use std::collections::BTreeMap;

use crate::document::{Document, Node};

/// A rendered document: its envelope, and its data after rendering.
pub type Input<'a> = (&'a Document, &'a Node);

/// All rendered documents of a site.
#[derive(Debug, Default)]
pub(super) struct Catalog<'a> {
    kinds: BTreeMap<&'a str, BTreeMap<&'a str, Input<'a>>>,
}

impl<'a> Catalog<'a> {
    /// Sorts documents by schema and name.
    pub(super) fn new(documents: &[Input<'a>]) -> Self {
        let mut kinds: BTreeMap<&'a str, BTreeMap<&'a str, Input<'a>>> = BTreeMap::new();
        for &(document, data) in documents {
            kinds
                .entry(&document.id.schema)
                .or_default()
                .entry(&document.id.name)
                .or_insert((document, data));
        }
        Self { kinds }
    }

    /// The schemas that occur.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        self.kinds.keys().copied()
    }

    /// All documents of a schema, by name.
    pub(super) fn of(&self, schema: &str) -> impl Iterator<Item = Input<'a>> + use<'a, '_> {
        self.kinds
            .get(schema)
            .into_iter()
            .flat_map(|named| named.values().copied())
    }

    /// One document.
    pub(super) fn get(&self, schema: &str, name: &str) -> Option<Input<'a>> {
        self.kinds.get(schema)?.get(name).copied()
    }

    /// The names of all documents of a schema.
    pub(super) fn names(&self, schema: &str) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        self.of(schema).map(|(document, _)| &*document.id.name)
    }
}
