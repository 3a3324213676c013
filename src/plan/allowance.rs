//! Which nodes a flag that allows something names.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::GlobMatcher;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::design::NodeName;
use crate::guard::{Machines, WordError, glob, in_list, is_glob};

/// Which nodes a flag names: `all`, or words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// All nodes.
    pub all: bool,
    /// The words; in a plan names and globs only.
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

    /// The nodes that it names in a site.
    pub(super) fn resolve<'a>(&self, machines: Machines<'a>) -> Result<Allowed<'a>, WordError> {
        Ok(Allowed {
            all: self.all,
            nodes: machines.select(&self.nodes)?,
        })
    }

    /// The same, each node by its name or a glob.
    pub(super) fn by_name(&self, machines: Machines<'_>) -> Result<Self, WordError> {
        Ok(Self {
            all: self.all,
            nodes: machines.by_name(&self.nodes)?,
        })
    }

    /// This one, where `given` covers it; otherwise what was given.
    pub(super) fn allowed_by(&self, given: &Self) -> Self {
        match given.covers(self) {
            true => self.clone(),
            false => given.clone(),
        }
    }
}

impl std::fmt::Display for Allowance {
    /// As behind the flag.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.all {
            return f.write_str("all");
        }
        let names: Vec<String> = self.nodes.iter().map(|name| in_list(name)).collect();
        f.write_str(&names.join(","))
    }
}

/// The patterns of an `--allow-…` or `--adopt` by themselves, if no design is at hand.
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

/// The nodes that a flag allows something for.
pub(super) struct Allowed<'a> {
    all: bool,
    nodes: FxHashSet<&'a NodeName>,
}

impl<'a> Allowed<'a> {
    /// The nodes that are named one by one.
    pub(super) fn named(
        words: &BTreeSet<Arc<str>>,
        machines: Machines<'a>,
    ) -> Result<Self, WordError> {
        Ok(Self {
            all: false,
            nodes: machines.select(words)?,
        })
    }

    pub(super) fn contains(&self, node: &NodeName) -> bool {
        self.all || self.nodes.contains(node)
    }
}
