//! The way back to a revision of the past that a plan goes, with what does not return.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{NodeName, RunId};

/// The way back to a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayBack {
    /// The commit.
    pub target: Arc<str>,
    /// Whether some run applied that commit: otherwise all runs count as later.
    pub was_applied: bool,
    /// The runs since, the oldest first.
    pub undone: Vec<RunId>,
    /// Losses of the runs since, and those of going back.
    pub losses: Vec<WayBackLoss>,
    /// Files that differ and stay, since they guard the site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Arc<str>>,
    /// The other sites that have any of the files that go back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<Arc<str>>,
}

/// Something that does not return.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayBackLoss {
    /// The machine.
    pub node: NodeName,
    /// Its data or identities that are gone.
    pub what: Arc<str>,
    /// The run that did it; absent: going back will do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When that run ended, or began where it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Arc<str>>,
}
