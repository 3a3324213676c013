//! What differs between two revisions of a site, and why a node is not what it was.
//!
//! Everything here compares values, never text: the order of keys, comments, and where a document
//! is kept do not count. Secrets are told apart, and are never shown.

mod reason;

pub use reason::{FieldChange, Link, Reasons};
