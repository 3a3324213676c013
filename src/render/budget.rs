//! How much a rendering may make of its input.
//!
//! Documents that take each other's values twice over double at each step, and a nest of them may be deeper than
//! any stack. Sharing makes both cheap here, but not for whoever reads the result, so both end in an error.

use crate::document::{Node, Value};

/// How many values all substitutions of a rendering may write, counted as if nothing were shared.
const MAX_VALUES: u64 = 30_000_000;

/// How many bytes of texts that are made by replacing patterns count as one value.
const BYTES_PER_VALUE: usize = 16;

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

/// What is left.
#[derive(Debug)]
pub(super) struct Budget {
    values: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { values: MAX_VALUES }
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
        self.spend(1 + (text.len() / BYTES_PER_VALUE) as u64)
    }

    /// Takes a value and all below it, which will be `above` deep.
    pub(super) fn spend_tree(&mut self, node: &Node, above: usize) -> Result<(), Exceeded> {
        if above > MAX_DEPTH {
            return Err(Exceeded::Depth);
        }
        self.spend(1)?;
        match &node.value {
            Value::Map(map) => map
                .iter()
                .try_for_each(|(_, field)| self.spend_tree(&field.node, above + 1)),
            Value::List(list) => list
                .iter()
                .try_for_each(|below| self.spend_tree(below, above + 1)),
            _ => Ok(()),
        }
    }
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
