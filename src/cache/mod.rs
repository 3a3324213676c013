//! Recomputable data, kept in files so that it need not be computed again.
//!
//! A cache is a folder of segments. A segment never changes: it is written under a temporary name and
//! renamed, and its name identifies its content ([`Key`]), so that nothing has to list what is there and any
//! number of processes may read and write at once. Every segment, and the whole folder, may be deleted
//! at any time.
//!
//! Nothing of a cache is trusted: a segment ends with a checksum, only the program that wrote it looks for
//! it, and what does not fit is as good as not there. So reading gives an option, never an error, and so
//! does writing: a full disk costs time, not a plan.

mod numbered;
mod store;

pub use numbered::Numbered;
pub use store::{Cache, Key, Segment};
