//! Which nodes a flag names: names, globs, and for `--target` and `--exclude` also groups, racks and tags.
//!
//! A pattern that names nothing is an error: a typing mistake must not turn into "nothing to do", or
//! into everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::PlannedGroup;
use super::allowance::{Allowance, glob, is_glob};
use super::input::Error;
use crate::design::{Design, NodeName};
use crate::diagnostic::nearest;
use crate::record::NodeRecord;

/// The names that flags can be about.
pub(super) struct Names<'a> {
    design: &'a Design,
    records: &'a BTreeMap<NodeName, NodeRecord>,
    groups: BTreeMap<&'a str, &'a PlannedGroup>,
    racks: BTreeMap<&'a str, Vec<&'a NodeName>>,
    tags: BTreeMap<&'a str, Vec<&'a NodeName>>,
}

impl<'a> Names<'a> {
    /// Reads the names; racks and tags only where a flag could name one.
    pub(super) fn new(
        design: &'a Design,
        records: &'a BTreeMap<NodeName, NodeRecord>,
        groups: &'a [PlannedGroup],
        narrowed: bool,
    ) -> Self {
        let mut names = Self {
            design,
            records,
            groups: BTreeMap::new(),
            racks: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        if !narrowed {
            return names;
        }
        names.groups = groups
            .iter()
            .map(|group| (group.name.as_str(), group))
            .collect();
        for (name, node) in &design.nodes {
            if let Some(rack) = &node.rack {
                names.racks.entry(rack).or_default().push(name);
            }
            for tag in node.tags.iter() {
                names.tags.entry(tag).or_default().push(name);
            }
        }
        names
    }

    /// Designed nodes, and those that only records know, sorted.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a NodeName> + use<'a> {
        let mut designed = self.design.nodes.keys().peekable();
        let mut recorded = self.records.keys().peekable();
        std::iter::from_fn(move || match (designed.peek(), recorded.peek()) {
            (Some(one), Some(other)) if other < one => recorded.next(),
            (Some(one), other) => {
                if other == Some(one) {
                    recorded.next();
                }
                designed.next()
            }
            (None, _) => recorded.next(),
        })
    }

    fn find(&self, name: &str) -> Option<&'a NodeName> {
        let designed = self.design.nodes.get_key_value(name).map(|(name, _)| name);
        designed.or_else(|| self.records.get_key_value(name).map(|(name, _)| name))
    }

    /// The nodes that the patterns of `--target` or `--exclude` name.
    pub(super) fn select(
        &self,
        flag: &'static str,
        patterns: &BTreeSet<Arc<str>>,
    ) -> Result<FxHashSet<&'a NodeName>, Error> {
        let mut selected = FxHashSet::default();
        for pattern in patterns {
            let nodes = self.matching(flag, pattern)?;
            let mut found = !nodes.is_empty();
            selected.extend(nodes);
            if let Some(group) = self.groups.get(&**pattern) {
                let of_group = group.nodes.iter();
                selected.extend(of_group.filter_map(|name| self.find(name.as_str())));
                found = true;
            }
            for list in [&self.racks, &self.tags] {
                if let Some(nodes) = list.get(&**pattern) {
                    selected.extend(nodes.iter().copied());
                    found = true;
                }
            }
            if !found {
                let known = self.all().map(NodeName::as_str);
                let known = known
                    .chain(self.groups.keys().copied())
                    .chain(self.racks.keys().copied())
                    .chain(self.tags.keys().copied());
                return Err(no_match(flag, pattern, "node, group, rack or tag", known));
            }
        }
        Ok(selected)
    }

    /// The nodes that an action was asked for.
    pub(super) fn asked(
        &self,
        patterns: &BTreeSet<Arc<str>>,
    ) -> Result<FxHashSet<&'a NodeName>, Error> {
        self.select("NODE", patterns).map_err(|error| match error {
            Error::NoMatch { pattern, near, .. } => Error::UnknownNode { pattern, near },
            other => other,
        })
    }

    /// The nodes that an `--allow-…` or `--adopt` names.
    pub(super) fn allow(
        &self,
        flag: &'static str,
        allowance: &Allowance,
    ) -> Result<Allowed<'a>, Error> {
        let mut allowed = Allowed {
            all: allowance.all,
            nodes: FxHashSet::default(),
        };
        for pattern in &allowance.nodes {
            let found = self.matching(flag, pattern)?;
            if found.is_empty() {
                let known = self.all().map(NodeName::as_str);
                return Err(no_match(flag, pattern, "node", known));
            }
            allowed.nodes.extend(found);
        }
        Ok(allowed)
    }

    /// The nodes that a flag names one by one.
    pub(super) fn named(
        &self,
        flag: &'static str,
        patterns: &BTreeSet<Arc<str>>,
    ) -> Result<Allowed<'a>, Error> {
        let allowance = Allowance {
            all: false,
            nodes: patterns.clone(),
        };
        self.allow(flag, &allowance)
    }

    /// The nodes of a name or a glob.
    fn matching(&self, flag: &'static str, pattern: &Arc<str>) -> Result<Vec<&'a NodeName>, Error> {
        if let Some(node) = self.find(pattern) {
            return Ok(vec![node]);
        }
        if !is_glob(pattern) {
            return Ok(Vec::new());
        }
        let glob = glob(pattern).map_err(|reason| Error::Pattern {
            flag,
            pattern: pattern.clone(),
            reason,
        })?;
        let matching = self.all().filter(|name| glob.is_match(name.as_str()));
        Ok(matching.collect())
    }
}

/// The nodes that a flag allows something for.
pub(super) struct Allowed<'a> {
    all: bool,
    nodes: FxHashSet<&'a NodeName>,
}

impl Allowed<'_> {
    pub(super) fn contains(&self, node: &NodeName) -> bool {
        self.all || self.nodes.contains(node)
    }
}

fn no_match<'n>(
    flag: &'static str,
    pattern: &Arc<str>,
    what: &'static str,
    known: impl Iterator<Item = &'n str>,
) -> Error {
    Error::NoMatch {
        flag,
        pattern: pattern.clone(),
        what,
        near: nearest(pattern, known).map(Arc::from),
    }
}
