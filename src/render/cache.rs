//! The results of documents that several sites have in common, so that each is rendered once.
//!
//! The result of a document is a function of itself and of the results that it takes something from. A result is found
//! again under the document, as it was parsed, and those results; a document that anything was found wrong with, or that takes
//! something from one that is not shared, is rendered for each site.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use super::dependencies::DependencyKind;
use super::{Dependencies, DocumentIndex, Outcome};
use crate::diagnostic::SourceId;
use crate::document::Document;
use crate::threads::lock;

/// The number of a result.
type Number = u64;

/// A document, by its place in memory, and the results that it depends on.
type Key = (usize, Box<[(DependencyKind, Number)]>);

/// A result, and the document, whose place in memory so stays its own.
#[derive(Debug)]
struct CachedOutcome {
    _document: Arc<Document>,
    outcome: Outcome,
    number: Number,
}

/// The results of the documents in sources that several sites share.
#[derive(Debug, Default)]
pub struct RenderCache {
    shared: FxHashSet<SourceId>,
    kept: Mutex<FxHashMap<Key, CachedOutcome>>,
    next: AtomicU64,
}

impl RenderCache {
    /// Keeps the results of the documents of a source.
    pub fn share(&mut self, source: SourceId) {
        self.shared.insert(source);
    }
}

/// The cache in one rendering.
pub(super) struct Cached<'c> {
    cache: Option<&'c RenderCache>,
    /// The numbers of the results so far, of those that have one.
    numbers: Vec<Option<Number>>,
}

impl<'c> Cached<'c> {
    pub(super) fn new(cache: Option<&'c RenderCache>, documents: usize) -> Self {
        Self {
            cache,
            numbers: vec![None; if cache.is_some() { documents } else { 0 }],
        }
    }

    /// Where the result of a document is kept; `None` if it is that of one site.
    pub(super) fn key(
        &self,
        at: usize,
        document: &Arc<Document>,
        dependencies: &Dependencies,
    ) -> Option<Key> {
        let cache = self.cache?;
        if !cache.shared.contains(&document.mark.source) {
            return None;
        }
        let of = dependencies.of(DocumentIndex::new(at)).iter();
        // A source that was not found is no dependency, and is a problem.
        let numbers = of.map(|each| Some((each.kind, self.numbers[each.target.position()]?)));
        Some((
            Arc::as_ptr(document).addr(),
            numbers.collect::<Option<_>>()?,
        ))
    }

    /// The result that is kept under a key.
    pub(super) fn get(&mut self, at: usize, key: &Key) -> Option<Outcome> {
        let kept = &self.cache?.kept;
        let kept = lock(kept);
        let kept = kept.get(key)?;
        self.numbers[at] = Some(kept.number);
        Some(kept.outcome.clone())
    }

    /// Keeps a result.
    pub(super) fn keep(
        &mut self,
        at: usize,
        key: Key,
        document: &Arc<Document>,
        outcome: &Outcome,
    ) {
        let Some(cache) = self.cache else {
            return;
        };
        let mut kept = lock(&cache.kept);
        // Another thread may have been first.
        let kept = kept.entry(key).or_insert_with(|| CachedOutcome {
            _document: document.clone(),
            outcome: outcome.clone(),
            number: cache.next.fetch_add(1, Ordering::Relaxed),
        });
        self.numbers[at] = Some(kept.number);
    }
}
