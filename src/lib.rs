//! trueup brings a bare-metal site true to its design.
//!
//! The rooms of the house, in the order in which data flows:
//!
//! - [`diagnostic`]: problems in documents, and the texts they point into.
//! - [`document`]: YAML to documents with identity and provenance.

pub mod diagnostic;
pub mod document;
