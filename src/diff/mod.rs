//! The differences between two revisions of a site, and why a node differs.
//!
//! Everything here compares values, never text: the order of keys, comments, and where a document
//! is kept do not count. Secrets are told apart, and are never shown.
//!
//! Marks on both sides point into the same [`Sources`](crate::diagnostic::Sources), which all revisions of a
//! process share. So a file that two revisions have in common has the same marks in both.

mod align;
mod compare;
mod documents;
mod edits;
mod node;
mod reach;
mod reason;
#[cfg(test)]
mod tests;
mod text;
mod ways;

pub use compare::path_of;
pub use documents::{
    ChangedDocument, DocumentDiff, FieldDiff, PresentDocument, documents, rendered,
};
pub use node::{NodeReasons, Revision};
pub use reach::{Along, Reached};
pub use reason::{FieldChange, Link, Reasons, ValueDifference};
pub use text::{LONGEST_TEXT, Line, LineKind, lines, shown};
