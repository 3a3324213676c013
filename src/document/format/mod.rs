//! The layout of documents: the order of their keys, and their indentation.
//!
//! Comments and the texts of scalars stay as they are written. A text is read line by line into a tree of fields
//! ([`read`]), which is written anew ([`write`]). The reader of documents is asked whether both texts have the same
//! values; if they have not, or if a text has what the tree has no place for, nothing of it is changed.

mod flow;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use super::positions::is_old_line_break;
use super::{Limits, Node, load_values};
use crate::diagnostic::SourceId;

/// Blanks of a level.
const LEVEL: usize = 2;

/// The step of a path from a list to its entries.
pub const ENTRY: &str = "[]";

/// The names of the fields at a path of a document, in their order: of a kind (`drydock/Rack/v1`) in its `data`, and
/// without one in its envelope.
pub type KeyOrder<'o> = dyn Fn(Option<&str>, &[&str]) -> Vec<Arc<str>> + 'o;

/// Why a text is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unformatted {
    /// The line, from 1 on, if it is one.
    pub line: Option<usize>,
    /// The reason, as the rest of a sentence about the file.
    pub why: &'static str,
    /// Whether it cannot be read at all.
    pub is_broken: bool,
}

impl Unformatted {
    fn at(line: usize, why: &'static str) -> Self {
        Self {
            line: Some(line),
            why,
            is_broken: false,
        }
    }

    pub(crate) fn whole(why: &'static str) -> Self {
        Self {
            line: None,
            why,
            is_broken: false,
        }
    }
}

/// Returns a text of documents in its layout, which is its own if it has it already.
///
/// # Errors
///
/// It cannot be read, or not written anew without a risk for its values or comments.
pub fn format(text: &str, limits: &Limits, order: &KeyOrder<'_>) -> Result<String, Unformatted> {
    if text.contains(is_old_line_break) {
        return Err(Unformatted::whole("it has line breaks of another kind"));
    }
    let has_returns = text.contains('\r');
    let plain = match has_returns {
        true => text.replace("\r\n", "\n"),
        false => text.to_owned(),
    };
    if has_returns && (plain.contains('\r') || plain.replace('\n', "\r\n") != text) {
        return Err(Unformatted::whole("its lines end in different ways"));
    }
    let source = SourceId(u32::MAX);
    let (values, problems) = load_values(source, &plain, limits);
    if problems.has_errors() {
        return Err(Unformatted {
            is_broken: true,
            ..Unformatted::whole("it has errors, which `trueup validate` names")
        });
    }
    let is_document = |node: &Node| {
        node.is_null() || (node.get("schema").is_some() && node.get("metadata").is_some())
    };
    if !values.iter().all(is_document) {
        return Err(Unformatted::whole(
            "it holds something else than the documents of a site",
        ));
    }
    let tree = read::read(&plain)?;
    let formatted = write::write(&tree, order);
    let (after, problems) = load_values(source, &formatted, limits);
    let again = read::read(&formatted);
    let is_same = !problems.has_errors()
        && values == after
        && again.is_ok_and(|again| {
            again.comments() == tree.comments() && write::write(&again, order) == formatted
        });
    if !is_same {
        return Err(Unformatted::whole(
            "it is written in a way that the layout might change the meaning of",
        ));
    }
    Ok(match has_returns {
        true => formatted.replace('\n', "\r\n"),
        false => formatted,
    })
}
