//! The edits between two revisions, document by document: the places at which a chain of reasons begins.

use std::sync::{Arc, Mutex, OnceLock};

use rustc_hash::{FxHashMap, FxHashSet};

use super::compare::compare;
use crate::diagnostic::Mark;
use crate::document::{Document, DocumentId, Node, Value};
use crate::render::{DocumentIndex, Rendering};
use crate::threads::lock;

/// One of the two revisions that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Which {
    /// The old one.
    Before,
    /// The new one.
    After,
}

impl Which {
    fn other(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

/// The parts of a document that are missing on the other side.
#[derive(Debug)]
pub(super) enum Edits {
    /// All of it: the document was added or removed.
    Whole,
    /// The values at these marks, and the first of them.
    Some(FxHashSet<Mark>, Option<Mark>),
}

impl Edits {
    /// Whether the value at a mark is not on the other side.
    pub(super) fn has(&self, mark: Mark) -> bool {
        match self {
            Self::Whole => true,
            Self::Some(marks, _) => marks.contains(&mark),
        }
    }

    /// The first place below a value that is not on the other side.
    pub(super) fn first_in(&self, node: &Node) -> Option<Mark> {
        if let Self::Some(marks, _) = self
            && marks.is_empty()
        {
            return None;
        }
        let mut found = None;
        visit(node, &mut |mark| {
            if found.is_none() && self.has(mark) {
                found = Some(mark);
            }
        });
        found
    }

    /// The first place of the document that is not on the other side.
    pub(super) fn first(&self) -> Option<Mark> {
        match self {
            Self::Whole => None,
            Self::Some(_, first) => *first,
        }
    }
}

type Identities<'a> = FxHashMap<(&'a DocumentId, Option<&'a Arc<str>>), &'a Arc<Document>>;

/// The edits between two revisions, each document compared when first asked for.
pub(super) struct EditLog<'a> {
    before: &'a Rendering,
    after: &'a Rendering,
    identities: [OnceLock<Identities<'a>>; 2],
    known: Mutex<FxHashMap<(Which, DocumentIndex), Arc<Edits>>>,
}

impl<'a> EditLog<'a> {
    pub(super) fn new(before: &'a Rendering, after: &'a Rendering) -> Self {
        Self {
            before,
            after,
            identities: Default::default(),
            known: Mutex::default(),
        }
    }

    /// The parts of a document that are missing on the other side.
    pub(super) fn of(&self, which: Which, document: DocumentIndex) -> Arc<Edits> {
        if let Some(known) = lock(&self.known).get(&(which, document)) {
            return known.clone();
        }
        let edits = Arc::new(self.find(which, document));
        let mut known = lock(&self.known);
        known.insert((which, document), edits.clone());
        edits
    }

    fn find(&self, which: Which, index: DocumentIndex) -> Edits {
        let Some(document) = self.rendering(which).input(index) else {
            return Edits::Some(FxHashSet::default(), None);
        };
        let identity = (&document.id, document.layer.as_ref());
        let Some(other) = self.identities(which.other()).get(&identity) else {
            return Edits::Whole;
        };
        let mut marks = FxHashSet::default();
        let mut first: Option<Mark> = None;
        if Arc::ptr_eq(document, other) {
            return Edits::Some(marks, first);
        }
        for (own, theirs) in [
            (&document.data, &other.data),
            (&document.metadata, &other.metadata),
        ] {
            for difference in compare("", theirs, own) {
                let Some(node) = difference.after else {
                    continue;
                };
                first = first.or(Some(node.mark));
                if difference.moved_from.is_some() {
                    marks.insert(node.mark);
                    continue;
                }
                visit(node, &mut |mark| {
                    marks.insert(mark);
                });
            }
        }
        Edits::Some(marks, first)
    }

    fn rendering(&self, which: Which) -> &'a Rendering {
        match which {
            Which::Before => self.before,
            Which::After => self.after,
        }
    }

    fn identities(&self, which: Which) -> &Identities<'a> {
        self.identities[usize::from(which == Which::After)].get_or_init(|| {
            let inputs = self.rendering(which).inputs.iter();
            inputs
                .map(|document| ((&document.id, document.layer.as_ref()), document))
                .collect()
        })
    }
}

/// Visits the marks of a value, its keys and all below it, in order.
fn visit(node: &Node, found: &mut dyn FnMut(Mark)) {
    found(node.mark);
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| visit(item, found)),
        Value::Map(map) => {
            for (_, field) in map.iter() {
                found(field.key_mark);
                visit(&field.node, found);
            }
        }
        _ => {}
    }
}
