//! Which nodes a document reaches: those whose design differs because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{NodeReasons, Reasons, Revision};
use crate::design::{NodeDesign, NodeName, Section};
use crate::diagnostic::Sources;
use crate::document::DocumentId;

/// The links of a chain of reasons that count as reaching its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// The document that was edited.
    Edited,
    /// Every document on the way, since each is rendered to something else.
    Rendered,
}

/// The nodes that documents reach.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// By schema and name of the document.
    nodes: BTreeMap<Arc<str>, BTreeSet<NodeName>>,
}

impl Reached {
    /// The nodes whose design differs between two revisions, by the documents that are why.
    #[must_use]
    pub fn between(
        sources: &Sources,
        before: Revision<'_>,
        after: Revision<'_>,
        along: Along,
    ) -> Self {
        let (old, new) = (before.design, after.design);
        let reasons = NodeReasons::new(sources, &[before], after);
        let mut reached = Self::default();
        for (name, node) in &new.nodes {
            match old.nodes.get(name) {
                Some(old) if old.digests == node.digests => {}
                Some(old) => reached.of_node(&reasons, name, [old, node], along),
                None => reached.own(name),
            }
        }
        let gone = old
            .nodes
            .keys()
            .filter(|name| !new.nodes.contains_key(*name));
        gone.for_each(|name| reached.own(name));
        reached
    }

    fn of_node(
        &mut self,
        reasons: &NodeReasons<'_>,
        name: &NodeName,
        [old, node]: [&NodeDesign; 2],
        along: Along,
    ) {
        for field in reasons.fields(name, Some(old), node, &Section::ALL) {
            let links = match along {
                Along::Edited => field.chain.get(..1),
                Along::Rendered => field.chain.get(..),
            };
            for link in links.unwrap_or_default() {
                let nodes = self.nodes.entry(link.document.clone()).or_default();
                nodes.insert(name.clone());
            }
        }
    }

    /// A node that came or went is reached by its own document.
    fn own(&mut self, name: &NodeName) {
        let document = format!("drydock/BaremetalNode/v1/{name}");
        let nodes = self.nodes.entry(document.into()).or_default();
        nodes.insert(name.clone());
    }

    /// The nodes that a document reaches, sorted.
    pub fn by(&self, document: &DocumentId) -> impl ExactSizeIterator<Item = &NodeName> {
        let nodes = self.nodes.get(document.to_string().as_str());
        nodes.map(BTreeSet::iter).unwrap_or_default()
    }
}
