//! How much a rendering may make of its input.
//!
//! Documents that take each other's values twice over double at each step, a nest of them may be deeper than any
//! stack, and a thousand children of one large parent are a thousand large documents. Sharing makes some of that cheap here, but
//! not for readers of the result, so that all values are counted as if nothing were shared: those that a document has, inherits,
//! stands for by an alias or takes from another one. What is done on the way, such as a search for a pattern, is paid from the same budget.

use crate::document::{Node, Value};

use super::pattern::Effort;

/// How many values the documents of a rendering may have together: of any, for each document, and at most.
const VALUES: u64 = 5_000_000;
const VALUES_PER_DOCUMENT: u64 = 300;
const MOST_VALUES: u64 = 40_000_000;

/// How many bytes of a text count as one value more.
const BYTES_PER_VALUE: usize = 64;

/// The same of texts that are made by replacing patterns, of which none is shared.
const MADE_BYTES_PER_VALUE: usize = 16;

/// The cost of a pattern that is compiled, for each of its places, and of one that cannot be used.
const COMPILED_PLACE: u64 = 256;
const UNUSABLE_PATTERN: u64 = 20_000;

/// How many bytes one text that is made by replacing patterns may have.
pub(super) const MAX_TEXT: usize = 16 << 20;

/// How deep values may be nested.
pub(super) const MAX_DEPTH: usize = 256;

/// Nothing is left, or a value is too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    Size,
    Depth,
}

/// The rest of the budget.
#[derive(Debug)]
pub(super) struct Budget {
    values: u64,
    /// The whole budget.
    whole: u64,
}

impl Budget {
    /// For a rendering of so many documents.
    pub(super) fn of(documents: usize) -> Self {
        let more = VALUES_PER_DOCUMENT.saturating_mul(documents as u64);
        let whole = VALUES.saturating_add(more).min(MOST_VALUES);
        Self {
            values: whole,
            whole,
        }
    }

    /// The whole budget.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    /// The spent part.
    pub(super) fn spent(&self) -> u64 {
        self.whole - self.values
    }

    /// Takes so many values.
    pub(super) fn spend(&mut self, values: u64) -> Result<(), Exceeded> {
        self.values = self.values.checked_sub(values).ok_or_else(|| {
            self.values = 0;
            Exceeded::Size
        })?;
        Ok(())
    }

    /// Takes a text that was made.
    pub(super) fn spend_text(&mut self, text: &str) -> Result<(), Exceeded> {
        self.spend(1 + (text.len() / MADE_BYTES_PER_VALUE) as u64)
    }

    /// Takes a pattern that was compiled: its size, if it can be used.
    pub(super) fn spend_pattern(&mut self, size: Option<u64>) -> Result<(), Exceeded> {
        self.spend(size.map_or(UNUSABLE_PATTERN, |size| size.saturating_mul(COMPILED_PLACE)))
    }

    /// Takes what replacing a pattern in a text takes.
    pub(super) fn spend_effort(&mut self, effort: Effort) -> Result<(), Exceeded> {
        match effort {
            Effort::Search(cost) => self.spend(cost),
            Effort::Written(bytes) if bytes > MAX_TEXT => Err(Exceeded::Size),
            Effort::Written(_) => Ok(()),
        }
    }

    /// Takes a value and all below it, which will be `above` deep.
    pub(super) fn spend_tree(&mut self, node: &Node, above: usize) -> Result<(), Exceeded> {
        if above > MAX_DEPTH {
            return Err(Exceeded::Depth);
        }
        match &node.value {
            Value::Map(map) => {
                self.spend(1)?;
                map.iter()
                    .try_for_each(|(_, field)| self.spend_tree(&field.node, above + 1))
            }
            Value::List(list) => {
                self.spend(1)?;
                list.iter()
                    .try_for_each(|below| self.spend_tree(below, above + 1))
            }
            Value::String(text) => self.spend(text_size(text)),
            _ => self.spend(1),
        }
    }
}

/// How many values a text counts as.
pub(super) fn text_size(text: &str) -> u64 {
    1 + (text.len() / BYTES_PER_VALUE) as u64
}

/// How deep a value is: a scalar is 0.
pub(super) fn depth(node: &Node) -> usize {
    match &node.value {
        Value::Map(map) => map
            .iter()
            .map(|(_, field)| 1 + depth(&field.node))
            .max()
            .unwrap_or(1),
        Value::List(list) => list.iter().map(|below| 1 + depth(below)).max().unwrap_or(1),
        _ => 0,
    }
}
