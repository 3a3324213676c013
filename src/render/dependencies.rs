//! Dependencies between documents: which document takes values from which others.
//!
//! Documents are indexes into [`Rendering::inputs`](super::Rendering::inputs), so that abstract parents and replaced
//! documents, which are not part of the result, are there as well. Edges go from a document to what it depends
//! on; the other direction is kept too, for "who is affected if this one changes".

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::document::{Document, DocumentId};

/// A document, by its position in [`Rendering::inputs`](super::Rendering::inputs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentIndex(u32);

impl DocumentIndex {
    pub(super) fn new(position: usize) -> Self {
        Self(position as u32)
    }

    /// The position.
    #[must_use]
    pub fn position(self) -> usize {
        self.0 as usize
    }
}

/// Why a document depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyKind {
    /// It is layered on the other one: its parent, or what replaced its parent.
    Parent,
    /// It is layered on the other one and replaces it.
    Replaces,
    /// It takes a value from the other one, with the entry of `Document::substitutions` of this position;
    /// paths and marks of source and destinations are there.
    Substitution(u32),
}

/// One thing that a document depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// The document that it depends on.
    pub target: DocumentIndex,
    /// Why.
    pub kind: DependencyKind,
}

/// One step of a route: a document and what it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteStep {
    /// The document that depends.
    pub from: DocumentIndex,
    /// On what, and why.
    pub dependency: Dependency,
}

/// All dependencies between the documents that went into a rendering.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// Forward edges; the parent first, then substitutions in their order.
    forward: Vec<Vec<Dependency>>,
    /// Backward edges, sorted, each document once.
    backward: Vec<Vec<DocumentIndex>>,
}

impl Dependencies {
    /// So many documents that do not depend on each other.
    pub(super) fn none(documents: usize) -> Self {
        Self {
            forward: vec![Vec::new(); documents],
            backward: vec![Vec::new(); documents],
        }
    }

    /// The dependencies that parents, replacements and sources make.
    pub(super) fn collect(
        documents: &[Arc<Document>],
        parents: &[Option<usize>],
        replaced_by: &[Option<usize>],
        sources: &FxHashMap<&DocumentId, usize>,
    ) -> Self {
        let mut all = Self::none(documents.len());
        for (at, document) in documents.iter().enumerate() {
            if let Some(parent) = parents[at] {
                let (target, kind) = match replaced_by[parent] {
                    Some(replacement) if replacement == at => (parent, DependencyKind::Replaces),
                    Some(replacement) => (replacement, DependencyKind::Parent),
                    None => (parent, DependencyKind::Parent),
                };
                all.add(at, target, kind);
            }
            for (position, substitution) in document.substitutions.iter().enumerate() {
                if let Some(source) = sources.get(&substitution.source.document) {
                    let kind = DependencyKind::Substitution(position as u32);
                    all.add(at, *source, kind);
                }
            }
        }
        all
    }

    fn add(&mut self, from: usize, target: usize, kind: DependencyKind) {
        let dependency = Dependency {
            target: DocumentIndex::new(target),
            kind,
        };
        self.forward[from].push(dependency);
        // Documents come in order, so the last entry tells whether this one is there already.
        let backward = &mut self.backward[target];
        let from = DocumentIndex::new(from);
        if backward.last() != Some(&from) {
            backward.push(from);
        }
    }

    /// How many documents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.forward.len()
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forward.is_empty()
    }

    /// The direct dependencies of a document: the parent first, then its substitutions in their order. A
    /// substitution without a source is not in it.
    #[must_use]
    pub fn of(&self, document: DocumentIndex) -> &[Dependency] {
        self.forward
            .get(document.position())
            .map_or(&[], Vec::as_slice)
    }

    /// The documents that depend on a document directly, sorted.
    #[must_use]
    pub fn on(&self, document: DocumentIndex) -> &[DocumentIndex] {
        self.backward
            .get(document.position())
            .map_or(&[], Vec::as_slice)
    }

    /// The document that a document is layered on.
    #[must_use]
    pub fn parent(&self, document: DocumentIndex) -> Option<DocumentIndex> {
        let first = self.of(document).first()?;
        match first.kind {
            DependencyKind::Parent | DependencyKind::Replaces => Some(first.target),
            DependencyKind::Substitution(_) => None,
        }
    }

    /// All that a document depends on, directly or not, sorted; without itself.
    #[must_use]
    pub fn all_of(&self, document: DocumentIndex) -> Vec<DocumentIndex> {
        self.reach(document, |at, visit| {
            for dependency in self.of(at) {
                visit(dependency.target);
            }
        })
    }

    /// All that depends on a document, directly or not, sorted; without itself.
    #[must_use]
    pub fn all_on(&self, document: DocumentIndex) -> Vec<DocumentIndex> {
        self.reach(document, |at, visit| {
            for dependent in self.on(at) {
                visit(*dependent);
            }
        })
    }

    fn reach(
        &self,
        start: DocumentIndex,
        neighbours: impl Fn(DocumentIndex, &mut dyn FnMut(DocumentIndex)),
    ) -> Vec<DocumentIndex> {
        let mut is_seen = vec![false; self.len()];
        let mut waiting = vec![start];
        let mut all = Vec::new();
        while let Some(at) = waiting.pop() {
            neighbours(at, &mut |next| {
                if let Some(is_seen) = is_seen.get_mut(next.position())
                    && !std::mem::replace(is_seen, true)
                    && next != start
                {
                    waiting.push(next);
                    all.push(next);
                }
            });
        }
        all.sort_unstable();
        all
    }

    /// The shortest way by which something of `to` gets into `from`; empty if both are the same, `None` if
    /// there is no way.
    ///
    /// Of ways that are equally short, that by the parent comes first, then that by the earliest substitution.
    #[must_use]
    pub fn route(&self, from: DocumentIndex, to: DocumentIndex) -> Option<Vec<RouteStep>> {
        let mut reached: Vec<Option<RouteStep>> = vec![None; self.len()];
        let mut waiting = VecDeque::from([from]);
        while let Some(at) = waiting.pop_front() {
            if at == to {
                break;
            }
            for dependency in self.of(at) {
                let target = dependency.target;
                let entry = reached.get_mut(target.position())?;
                if entry.is_none() && target != from {
                    *entry = Some(RouteStep {
                        from: at,
                        dependency: *dependency,
                    });
                    waiting.push_back(target);
                }
            }
        }
        let mut route = Vec::new();
        let mut at = to;
        while at != from {
            let step = (*reached.get(at.position())?)?;
            at = step.from;
            route.push(step);
        }
        route.reverse();
        Some(route)
    }
}
