//! Why a node changes: the fields of it that differ, and the way from what was edited to each.
//!
//! These are the values that a plan keeps, so texts in them are short, on one line, and hold no secret.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{DesignDifference, NodeDesign, NodeName, Section};
use crate::diagnostic::Place;

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Which section of the node.
    pub section: Section,
    /// Where in the section (`platform.kernel`).
    pub path: Arc<str>,
    /// The value before, as it may be shown; `None`: not there.
    pub before: Option<Arc<str>>,
    /// The value after; `None`: not there.
    pub after: Option<Arc<str>>,
    /// From the field that was edited to this node.
    pub chain: Vec<Link>,
    /// By whom and why it is left as it is, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Arc<str>>,
}

/// A link of the chain of reasons.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// The document (`drydock/HostProfile/v1/cp_r720`).
    pub document: Arc<str>,
    /// How it is reached from the link before (`edited`, `substitution`, `layering`, `host_profile` …).
    pub by: Arc<str>,
    /// Where; file, line and column.
    pub place: Place,
}

/// A field that differs, to be accepted or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueDifference {
    /// Which, and its value after.
    pub difference: DesignDifference,
    /// Whether one of the values is secret, or holds one: then it has no digest, which would be recorded.
    pub is_secret: bool,
}

/// Tells which fields of a node differ, and why.
pub trait Reasons: Sync {
    /// The fields that differ in the sections given, sorted by section and path, each with its chain.
    ///
    /// Empty if there is no design before: then the sections are known by their digests only.
    fn fields(
        &self,
        node: &NodeName,
        before: Option<&NodeDesign>,
        after: &NodeDesign,
        sections: &[Section],
    ) -> Vec<FieldChange>;

    /// The same fields of a section, with the digests of their values after.
    fn values(
        &self,
        before: &NodeDesign,
        after: &NodeDesign,
        section: Section,
    ) -> Vec<ValueDifference>;
}
