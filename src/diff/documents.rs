//! Which documents came, went or changed between two sets of them, and in which fields.
//!
//! A document is known by schema, layer and name before rendering, and by schema and name after it. Files, their order
//! and that of keys, comments and the style of scalars do not count; every value of metadata and data does.
//! Documents that both sides share, as revisions do that share a file, are not looked into.

use std::cmp::Ordering;
use std::sync::Arc;

use super::compare::compare;
use super::text::shown;
use crate::document::{Document, DocumentId, Node, SecretOrigin};
use crate::render::Rendered;

/// The differences between two sets of documents. All lists are sorted by schema, name and layer.
#[derive(Clone, Debug, Default)]
pub struct DocumentDiff {
    /// Only after.
    pub added: Vec<PresentDocument>,
    /// Only before.
    pub removed: Vec<PresentDocument>,
    /// On both sides, and not the same.
    pub changed: Vec<ChangedDocument>,
    /// How many are the same.
    pub unchanged: usize,
}

impl DocumentDiff {
    /// Whether both sides are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// A document that is on one side only.
#[derive(Clone, Debug)]
pub struct PresentDocument {
    /// The document as it was written; its mark and layer are here.
    pub document: Arc<Document>,
    /// Its data: as it was written, or rendered where rendered documents are compared.
    pub data: Node,
}

/// A document that is on both sides and not the same.
#[derive(Clone, Debug)]
pub struct ChangedDocument {
    /// Schema and name.
    pub id: DocumentId,
    /// The layer after.
    pub layer: Option<Arc<str>>,
    /// The document before, as it was written.
    pub before: Arc<Document>,
    /// The document after, as it was written.
    pub after: Arc<Document>,
    /// Which fields differ, metadata after data, in the order of keys and items; never empty.
    pub fields: Vec<FieldDiff>,
}

/// A field that differs.
#[derive(Clone, Debug)]
pub struct FieldDiff {
    /// Where: `.data.groups[2].name`, `.metadata.labels['a/b']`. Items count from 0 as they stand after, those
    /// that were removed as they stood before.
    pub path: Arc<str>,
    /// The value before, its mark being its place; absent: not there. Secret where either side is, or holds
    /// secrets: to be written with secrets hidden.
    pub before: Option<Node>,
    /// The value after; absent: not there.
    pub after: Option<Node>,
    /// Where an item of a list stood, if it now stands elsewhere. What else differs in it is told by
    /// fields of their own.
    pub moved_from: Option<Arc<str>>,
}

impl FieldDiff {
    /// Both sides on one line each, short and without secrets.
    #[must_use]
    pub fn shown(&self) -> [Option<Arc<str>>; 2] {
        shown(self.before.as_ref(), self.after.as_ref())
    }
}

/// Compares documents as they were written.
#[must_use]
pub fn documents(before: &[Arc<Document>], after: &[Arc<Document>]) -> DocumentDiff {
    let sides = |documents: &[Arc<Document>]| {
        let entry = |document: &Arc<Document>| Entry {
            document: document.clone(),
            data: document.data.clone(),
            layer: document.layer.clone(),
        };
        documents.iter().map(entry).collect()
    };
    compare_sets(sides(before), sides(after))
}

/// Compares rendered documents.
#[must_use]
pub fn rendered(before: &[Rendered], after: &[Rendered]) -> DocumentDiff {
    let sides = |documents: &[Rendered]| {
        let entry = |rendered: &Rendered| Entry {
            document: rendered.document.clone(),
            data: rendered.data.clone(),
            layer: None,
        };
        documents.iter().map(entry).collect()
    };
    compare_sets(sides(before), sides(after))
}

struct Entry {
    document: Arc<Document>,
    data: Node,
    /// The layer as far as it is part of the identity.
    layer: Option<Arc<str>>,
}

impl Entry {
    fn order(&self, other: &Self) -> Ordering {
        let (one, two) = (&self.document.id, &other.document.id);
        (&one.schema, &one.name, &self.layer).cmp(&(&two.schema, &two.name, &other.layer))
    }
}

/// Goes along both sides at once; of documents with one identity, which are an error of validation, the
/// first is compared with the first.
fn compare_sets(mut before: Vec<Entry>, mut after: Vec<Entry>) -> DocumentDiff {
    for side in [&mut before, &mut after] {
        side.sort_by(|one, two| {
            one.order(two)
                .then_with(|| one.document.mark.cmp(&two.document.mark))
        });
    }
    let mut found = DocumentDiff::default();
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(old), Some(new)) => old.order(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return found,
        };
        let old = before.next_if(|_| order.is_le());
        let new = after.next_if(|_| order.is_ge());
        match (old, new) {
            (Some(old), Some(new)) => match changed(&old, &new) {
                Some(changed) => found.changed.push(changed),
                None => found.unchanged += 1,
            },
            (Some(old), None) => found.removed.push(present(old)),
            (None, Some(new)) => found.added.push(present(new)),
            (None, None) => return found,
        }
    }
}

fn present(entry: Entry) -> PresentDocument {
    PresentDocument {
        document: entry.document,
        data: entry.data,
    }
}

fn changed(before: &Entry, after: &Entry) -> Option<ChangedDocument> {
    let (old, new) = (&before.document, &after.document);
    let data = compare(".data", &before.data, &after.data);
    let metadata = if Arc::ptr_eq(old, new) {
        Vec::new()
    } else {
        compare(".metadata", &old.metadata, &new.metadata)
    };
    if data.is_empty() && metadata.is_empty() {
        return None;
    }
    let fields = data.into_iter().chain(metadata).map(|difference| {
        let side = |node: Option<&Node>| {
            node.map(|node| {
                let mut node = node.clone();
                if difference.is_secret && !node.is_secret() {
                    node.secret = Some(SecretOrigin::in_file(None));
                }
                node
            })
        };
        FieldDiff {
            before: side(difference.before),
            after: side(difference.after),
            path: difference.path,
            moved_from: difference.moved_from,
        }
    });
    Some(ChangedDocument {
        id: new.id.clone(),
        layer: new.layer.clone(),
        before: old.clone(),
        after: new.clone(),
        fields: fields.collect(),
    })
}
