//! How what one document says gets to a node: by rendering, then by the references of profiles and networks.
//!
//! The ways from one document are found once, backwards and only as far as they lead; each node then asks which of
//! the documents that make it what it is lies on them. So an edit that reaches ten thousand nodes costs a few look-ups
//! a node.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::design::{Dependence, NodeDesign};
use crate::document::DocumentId;
use crate::render::{DocumentIndex, Rendering, RouteStep};
use crate::threads::lock;

/// One step on the way from a document to a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hop<'n> {
    /// A document takes something from the one before, in rendering.
    Rendering(RouteStep),
    /// A document, or the node, refers to the one before.
    Reference(&'n Dependence),
}

/// The documents of one revision and the ways between them.
pub(super) struct Side<'a> {
    pub(super) rendering: &'a Rendering,
    ways: Mutex<FxHashMap<DocumentIndex, Arc<Ways<'a>>>>,
    names: Mutex<FxHashMap<DocumentId, Arc<str>>>,
}

/// The shortest ways from one document to all that take something of it in rendering.
struct Ways<'a> {
    origin: DocumentIndex,
    /// The last step to each document.
    steps: FxHashMap<DocumentIndex, RouteStep>,
    /// Those that came out of rendering, with the length of the way.
    rendered: FxHashMap<&'a DocumentId, (DocumentIndex, usize)>,
}

impl<'a> Side<'a> {
    pub(super) fn new(rendering: &'a Rendering) -> Self {
        Self {
            rendering,
            ways: Mutex::default(),
            names: Mutex::default(),
        }
    }

    /// How a document is named in a chain.
    pub(super) fn name(&self, id: &DocumentId) -> Arc<str> {
        let mut names = lock(&self.names);
        match names.get(id) {
            Some(name) => name.clone(),
            None => names
                .entry(id.clone())
                .or_insert_with(|| Arc::from(id.to_string()))
                .clone(),
        }
    }

    /// The shortest way from a document to a node; empty if it is the node's own, `None` if there is no way.
    pub(super) fn way<'n>(
        &self,
        origin: DocumentIndex,
        node: &'n NodeDesign,
    ) -> Option<Vec<Hop<'n>>> {
        let ways = self.ways(origin);
        let mut best: Option<(usize, DocumentIndex, Vec<&'n Dependence>)> = None;
        if let Some((own, length)) = ways.rendered.get(&node.document) {
            best = Some((*length, *own, Vec::new()));
        }
        for reference in node.dependences() {
            let Some((from, length)) = ways.rendered.get(&reference.on) else {
                continue;
            };
            let Some(climb) = climb(reference, node) else {
                continue;
            };
            let length = length + climb.len();
            if best
                .as_ref()
                .is_none_or(|(shortest, ..)| length < *shortest)
            {
                best = Some((length, *from, climb));
            }
        }
        let (_, from, climb) = best?;
        let mut hops = ways.steps_to(from);
        hops.extend(climb.into_iter().map(Hop::Reference));
        Some(hops)
    }

    fn ways(&self, origin: DocumentIndex) -> Arc<Ways<'a>> {
        let mut ways = lock(&self.ways);
        let found = ways
            .entry(origin)
            .or_insert_with(|| Arc::new(Ways::new(self.rendering, origin)));
        found.clone()
    }
}

/// From a reference up to the node, each dependent being what the next one refers to.
fn climb<'n>(reference: &'n Dependence, node: &'n NodeDesign) -> Option<Vec<&'n Dependence>> {
    let mut climb = vec![reference];
    let mut at = reference;
    while let Some(dependent) = at.dependent.as_ref().filter(|id| **id != node.document) {
        at = node.dependences().find(|next| next.on == *dependent)?;
        if climb.iter().any(|known| std::ptr::eq(*known, at)) {
            return None;
        }
        climb.push(at);
    }
    Some(climb)
}

impl<'a> Ways<'a> {
    fn new(rendering: &'a Rendering, origin: DocumentIndex) -> Self {
        let mut ways = Self {
            origin,
            steps: FxHashMap::default(),
            rendered: FxHashMap::default(),
        };
        let mut waiting = VecDeque::from([(origin, 0)]);
        while let Some((at, length)) = waiting.pop_front() {
            if let Some(input) = rendering.input(at)
                && let Some(rendered) = rendering.get(&input.id.schema, &input.id.name)
                && rendered.index == at
            {
                ways.rendered.insert(&rendered.document.id, (at, length));
            }
            for dependent in rendering.dependencies.on(at) {
                let mut all = rendering.dependencies.of(*dependent).iter();
                let Some(dependency) = all.find(|dependency| dependency.target == at) else {
                    continue;
                };
                if *dependent == origin || ways.steps.contains_key(dependent) {
                    continue;
                }
                let step = RouteStep {
                    from: *dependent,
                    dependency: *dependency,
                };
                ways.steps.insert(*dependent, step);
                waiting.push_back((*dependent, length + 1));
            }
        }
        ways
    }

    /// The steps from the origin to a document.
    fn steps_to<'n>(&self, document: DocumentIndex) -> Vec<Hop<'n>> {
        let mut hops = Vec::new();
        let mut at = document;
        while at != self.origin
            && let Some(step) = self.steps.get(&at)
        {
            hops.push(Hop::Rendering(*step));
            at = step.dependency.target;
        }
        hops.reverse();
        hops
    }
}
