//! Reading typed values out of data whose schema was checked elsewhere.
//!
//! Nothing here reports: what has the wrong type is passed over, since [`super::schema`] has an error
//! for it, with the place. So one mistake is one diagnostic.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::diagnostic::{Diagnostic, Diagnostics, Mark};
use crate::document::{Node, Seconds, Value};

/// A scalar as shared text; `None` for null, lists and maps.
pub(super) fn text_of(node: &Node) -> Option<Arc<str>> {
    match &node.value {
        Value::String(text) | Value::Timestamp(text) | Value::BigInteger(text) => {
            Some(text.clone())
        }
        Value::Null | Value::List(_) | Value::Map(_) => None,
        Value::Bool(truth) => Some(Arc::from(if *truth { "true" } else { "false" })),
        other => other.scalar_text().map(Arc::from),
    }
}

/// The text under a key.
pub(super) fn text(node: &Node, key: &str) -> Option<Arc<str>> {
    node.get(key).and_then(text_of)
}

/// The items of the list under a key; none if there is no list.
pub(super) fn items<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).and_then(Node::as_list).unwrap_or_default()
}

/// The texts of the list under a key.
pub(super) fn texts(node: &Node, key: &str) -> impl Iterator<Item = Arc<str>> {
    items(node, key).iter().filter_map(text_of)
}

/// The set of texts of the list under a key.
pub(super) fn text_set(node: &Node, key: &str) -> BTreeSet<Arc<str>> {
    texts(node, key).collect()
}

/// The number under a key, if it is a whole one and not negative.
pub(super) fn number(node: &Node, key: &str) -> Option<u64> {
    node.get(key)?.whole_number()?.try_into().ok()
}

/// The duration under a key, in whole seconds; one that is too long is the longest, so that no limit is lost.
pub(super) fn duration(node: &Node, key: &str) -> Option<u64> {
    let written = text(node, key)?.parse::<Seconds>().ok();
    Some(
        written
            .and_then(Seconds::whole)
            .unwrap_or(Seconds::MOST_WHOLE),
    )
}

/// A number as one of 32 bits, or the largest of these.
pub(super) fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether a value is blank: null, an empty list or map, an empty string.
pub(super) fn is_blank(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The findings, each problem at a place once, however many nodes share the line.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Diagnostics,
    seen: FxHashSet<(&'static str, Mark)>,
}

impl Findings {
    /// Adds a problem, unless there is one with this code at this place.
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        let new = diagnostic
            .mark
            .is_none_or(|mark| self.seen.insert((diagnostic.code.0, mark)));
        if new {
            self.list.push(diagnostic);
        }
    }

    /// Adds what was found in something that machines use, or in something spare, which may name what is absent.
    pub(super) fn take(&mut self, found: Self, is_used: bool) {
        for finding in found.list {
            let is_reference = finding.code.0.starts_with("reference-");
            self.push(match is_reference && !is_used {
                true => finding.as_warning(),
                false => finding,
            });
        }
    }

    /// All of them.
    pub(super) fn into_diagnostics(self) -> Diagnostics {
        self.list
    }
}
