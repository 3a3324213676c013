//! Which nodes a flag that allows something names.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use crate::design::NodeName;

/// Which nodes a flag names: `all`, or node names and globs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// All nodes.
    pub all: bool,
    /// Names and globs.
    pub nodes: BTreeSet<Arc<str>>,
}

impl Allowance {
    /// Whether it names a node, by its name or a glob.
    #[must_use]
    pub fn names(&self, node: &NodeName) -> bool {
        Patterns::of(self).match_name(node.as_str())
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it names everything that another one names, word for word.
    fn covers(&self, other: &Self) -> bool {
        self.all || (!other.all && other.nodes.is_subset(&self.nodes))
    }

    /// This one, where `given` covers it; otherwise what was given.
    pub(super) fn allowed_by(&self, given: &Self) -> Self {
        match given.covers(self) {
            true => self.clone(),
            false => given.clone(),
        }
    }
}

/// The patterns of an `--allow-…` or `--adopt` by themselves, where no design is at hand.
pub(super) struct Patterns<'a> {
    allowance: &'a Allowance,
    globs: Vec<GlobMatcher>,
}

impl<'a> Patterns<'a> {
    pub(super) fn of(allowance: &'a Allowance) -> Self {
        let globs = allowance.nodes.iter().filter(|pattern| is_glob(pattern));
        Self {
            allowance,
            globs: globs.filter_map(|pattern| glob(pattern).ok()).collect(),
        }
    }

    pub(super) fn match_name(&self, node: &str) -> bool {
        let Allowance { all, nodes } = self.allowance;
        *all || nodes.contains(node) || self.globs.iter().any(|glob| glob.is_match(node))
    }
}

pub(super) fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

/// A glob, or why a pattern is none.
pub(super) fn glob(pattern: &str) -> Result<GlobMatcher, Arc<str>> {
    let glob = GlobBuilder::new(pattern).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| Arc::from(error.kind().to_string()))
}
