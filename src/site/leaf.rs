//! Leaves: machines that nothing depends on.

use std::net::IpAddr;

use crate::design::{MACHINE, NodeDesign};
use crate::document::{Document, MetadataKind, Node};
use crate::render::Rendering;

/// Whether a document is a machine that no other document depends on, and that depends on no machine.
pub(super) fn is_leaf(document: &Document, rendering: &Rendering) -> bool {
    let is_plain = &*document.id.schema == MACHINE
        && document.kind == MetadataKind::Document
        && !document.is_abstract
        && !document.is_replacement
        && !document.is_encrypted
        && document.labels.is_empty()
        && document.parent_selector.is_none();
    let takes_from_none = || {
        let mut sources = document.substitutions.iter();
        sources.all(|each| &*each.source.document.schema != MACHINE)
    };
    let is_alone = || {
        let index = rendering.origin(document.mark);
        index.is_some_and(|index| {
            rendering.dependencies.on(index).is_empty()
                && rendering
                    .get(&document.id.schema, &document.id.name)
                    .is_some_and(|rendered| rendered.index == index && !rendered.encrypted)
        })
    };
    is_plain && takes_from_none() && is_alone()
}

/// Whether a text seems to be of a file that holds machines only, none of which another document could build on.
/// A file of which that seems wrongly is found out when it is parsed.
pub(super) fn seems_leaf(text: &str) -> bool {
    let mut holds_any = false;
    for line in text.lines() {
        if let Some(schema) = line.strip_prefix("schema:") {
            if schema.trim().trim_matches(['"', '\'']) != MACHINE {
                return false;
            }
            holds_any = true;
        }
        let line = line.trim_start();
        if [
            "labels:",
            "parentSelector:",
            "abstract: true",
            "replacement: true",
        ]
        .iter()
        .any(|sign| line.starts_with(sign))
        {
            return false;
        }
    }
    holds_any
}

/// The static addresses of a machine.
pub(super) fn addresses(node: &NodeDesign) -> impl Iterator<Item = IpAddr> {
    let own = node.sections.addresses().into_iter();
    let nodes = own.flat_map(|own| own.inside().map(|(_, node)| node).chain(own.controller()));
    nodes
        .filter_map(Node::as_str)
        .filter_map(|text| text.parse().ok())
}
