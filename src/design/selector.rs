//! Which nodes a selector means, without asking every node for every selector.
//!
//! [`NodeIndex`] knows the nodes of each name, tag, rack and label. A selector starts from the
//! criterion that leaves the fewest candidates, and only those are checked against the others, so a
//! thousand groups over ten thousand nodes cost what they select.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::read::{items, text_of, text_set};
use super::{Design, Group, NodeDesign, NodeName, Selector};
use crate::document::{Node, Value};

impl Selector {
    /// Whether it has no criteria, and so means all nodes.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.node_names.is_empty()
            && self.node_tags.is_empty()
            && self.node_labels.is_empty()
            && self.rack_names.is_empty()
    }

    /// Whether it means this node: every criterion given holds, by any of its values.
    #[must_use]
    pub fn matches(&self, node: &NodeDesign) -> bool {
        let named = self.node_names.is_empty() || self.node_names.contains(node.name.as_str());
        let racked = self.rack_names.is_empty()
            || node
                .rack
                .as_ref()
                .is_some_and(|rack| self.rack_names.contains(rack));
        let tagged = || {
            self.node_tags.is_empty() || self.node_tags.iter().any(|tag| node.tags.contains(tag))
        };
        let labelled = || {
            self.node_labels.is_empty()
                || self
                    .node_labels
                    .iter()
                    .any(|(key, value)| node.labels.get(key) == Some(value))
        };
        named && racked && tagged() && labelled()
    }

    /// The nodes that it means, by name.
    #[must_use]
    pub fn nodes<'a>(&self, design: &'a Design) -> Vec<&'a NodeName> {
        let index = design.index();
        index.names(&index.select(self, design))
    }

    /// Reads a selector; what has the wrong type is passed over.
    pub(super) fn read(node: &Node) -> Self {
        Self {
            node_names: text_set(node, "node_names"),
            node_tags: text_set(node, "node_tags"),
            node_labels: labels(node),
            rack_names: text_set(node, "rack_names"),
        }
    }

    /// Reads the selectors in a list.
    pub(super) fn read_all(node: &Node, key: &str) -> Vec<Self> {
        items(node, key).iter().map(Self::read).collect()
    }
}

/// The labels of a selector, each with its place: `key: value` as a string or as a map of one entry, in a list; or a map.
pub(super) fn label_entries(node: &Node) -> Vec<(&Node, Arc<str>, Arc<str>)> {
    let Some(given) = node.get("node_labels") else {
        return Vec::new();
    };
    let mut result: Vec<_> = of_map(given).collect();
    for entry in given.as_list().unwrap_or_default() {
        match &entry.value {
            Value::String(text) => {
                let label = text.split_once(':');
                result.extend(
                    label.map(|(key, value)| {
                        (entry, Arc::from(key.trim()), Arc::from(value.trim()))
                    }),
                );
            }
            _ => result.extend(of_map(entry)),
        }
    }
    result
}

fn of_map(node: &Node) -> impl Iterator<Item = (&Node, Arc<str>, Arc<str>)> {
    let fields = node.as_map().into_iter().flat_map(|map| map.iter());
    fields.filter_map(|(key, field)| Some((&field.node, key.text.clone(), text_of(&field.node)?)))
}

fn labels(node: &Node) -> BTreeSet<(Arc<str>, Arc<str>)> {
    let entries = label_entries(node).into_iter();
    entries.map(|(_, key, value)| (key, value)).collect()
}

impl Group {
    /// Whether it selects a node.
    #[must_use]
    pub fn selects(&self, node: &NodeDesign) -> bool {
        let mut selectors = self.selectors.iter();
        self.selectors.is_empty() || selectors.any(|each| each.is_all() || each.matches(node))
    }

    /// The nodes of this group, by name: the union of its selectors; all, without selectors or if one
    /// of them has no criteria. Retired nodes are among them.
    #[must_use]
    pub fn nodes<'a>(&self, design: &'a Design) -> Vec<&'a NodeName> {
        let index = design.index();
        if self.selectors.is_empty() {
            return design.nodes.keys().collect();
        }
        index.names(&index.select_any(&self.selectors, design))
    }
}

/// A criterion of a selector whose values are plain texts that nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Criterion {
    Tag,
    Rack,
}

/// Positions of nodes, in the order of their names.
type Positions = Vec<u32>;

/// The nodes of each name, tag, rack and label.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeIndex {
    /// Sorted.
    by_position: Vec<NodeName>,
    by_tag: FxHashMap<Arc<str>, Positions>,
    by_rack: FxHashMap<Arc<str>, Positions>,
    /// The tags and the racks, sorted, made when first asked for.
    sorted: [OnceLock<Vec<Arc<str>>>; 2],
    /// Key, then value, to the sets of labels that have it.
    by_label: FxHashMap<Arc<str>, FxHashMap<Arc<str>, Vec<u32>>>,
    /// The nodes of each set of labels.
    label_sets: Vec<Positions>,
}

impl NodeIndex {
    /// Reads all nodes.
    pub(super) fn new(nodes: &BTreeMap<NodeName, Arc<NodeDesign>>) -> Self {
        let mut index = Self::default();
        let mut sets = FxHashMap::default();
        for (position, (name, node)) in nodes.iter().enumerate() {
            let position = position as u32;
            index.by_position.push(name.clone());
            for tag in node.tags.iter() {
                index.by_tag.entry(tag.clone()).or_default().push(position);
            }
            if let Some(rack) = &node.rack {
                index
                    .by_rack
                    .entry(rack.clone())
                    .or_default()
                    .push(position);
            }
            let set = *sets.entry(Arc::as_ptr(&node.labels)).or_insert_with(|| {
                let set = index.label_sets.len() as u32;
                index.label_sets.push(Vec::new());
                for (key, value) in node.labels.iter() {
                    let values = index.by_label.entry(key.clone()).or_default();
                    values.entry(value.clone()).or_default().push(set);
                }
                set
            });
            index.label_sets[set as usize].push(position);
        }
        index
    }

    /// The position of a node.
    pub(super) fn position(&self, name: &str) -> Option<u32> {
        let found = self
            .by_position
            .binary_search_by(|each| each.as_str().cmp(name));
        found.ok().map(|position| position as u32)
    }

    /// Whether a node has a value.
    pub(super) fn has(&self, criterion: Criterion, value: &str) -> bool {
        self.by(criterion).contains_key(value)
    }

    /// The values that nodes have, sorted.
    pub(super) fn values(&self, criterion: Criterion) -> &[Arc<str>] {
        self.sorted[criterion as usize].get_or_init(|| {
            let mut values: Vec<_> = self.by(criterion).keys().cloned().collect();
            values.sort_unstable();
            values
        })
    }

    fn by(&self, criterion: Criterion) -> &FxHashMap<Arc<str>, Positions> {
        match criterion {
            Criterion::Tag => &self.by_tag,
            Criterion::Rack => &self.by_rack,
        }
    }

    /// Whether a node has a label.
    pub(super) fn has_label(&self, key: &str, value: &str) -> bool {
        let values = self.by_label.get(key);
        values.is_some_and(|values| values.contains_key(value))
    }

    /// The keys of all labels, in no order.
    pub(super) fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.by_label.keys().map(|key| &**key)
    }

    /// The values that a label has, in no order.
    pub(super) fn values_of_label(&self, key: &str) -> impl Iterator<Item = &str> {
        let values = self.by_label.get(key).into_iter();
        values
            .flat_map(|values| values.keys())
            .map(|value| &**value)
    }

    /// The names at some positions.
    pub(super) fn names(&self, positions: &[u32]) -> Vec<&NodeName> {
        let positions = positions.iter();
        positions
            .filter_map(|position| self.by_position.get(*position as usize))
            .collect()
    }

    /// The nodes that any of some selectors means, sorted.
    pub(super) fn select_any(&self, selectors: &[Selector], design: &Design) -> Positions {
        if selectors.iter().any(Selector::is_all) {
            return (0..self.by_position.len() as u32).collect();
        }
        let lists = selectors.iter().map(|each| self.select(each, design));
        sorted(lists.flatten().collect())
    }

    /// The nodes that a selector means, sorted.
    pub(super) fn select(&self, selector: &Selector, design: &Design) -> Positions {
        let mut criteria: Vec<Vec<&[u32]>> = Vec::new();
        if !selector.node_tags.is_empty() {
            criteria.push(self.lists(&self.by_tag, &selector.node_tags));
        }
        if !selector.rack_names.is_empty() {
            criteria.push(self.lists(&self.by_rack, &selector.rack_names));
        }
        if !selector.node_labels.is_empty() {
            let sets = selector
                .node_labels
                .iter()
                .filter_map(|(key, value)| self.by_label.get(key)?.get(value))
                .flatten();
            criteria.push(sets.map(|set| &*self.label_sets[*set as usize]).collect());
        }
        let named: Vec<u32> = selector
            .node_names
            .iter()
            .filter_map(|name| self.position(name))
            .collect();
        if !selector.node_names.is_empty() {
            criteria.push(vec![&named]);
        }
        let size = |lists: &Vec<&[u32]>| lists.iter().map(|list| list.len()).sum::<usize>();
        let only_one = criteria.len() == 1;
        let Some(fewest) = criteria.into_iter().min_by_key(size) else {
            return (0..self.by_position.len() as u32).collect();
        };
        let candidates = sorted(fewest.concat());
        if only_one {
            return candidates;
        }
        let keeps = |position: &u32| {
            self.by_position
                .get(*position as usize)
                .and_then(|name| design.nodes.get(name))
                .is_some_and(|node| selector.matches(node))
        };
        candidates.into_iter().filter(keeps).collect()
    }

    fn lists<'a>(
        &self,
        index: &'a FxHashMap<Arc<str>, Positions>,
        values: &BTreeSet<Arc<str>>,
    ) -> Vec<&'a [u32]> {
        values
            .iter()
            .filter_map(|value| index.get(value).map(Vec::as_slice))
            .collect()
    }
}

fn sorted(mut positions: Positions) -> Positions {
    positions.sort_unstable();
    positions.dedup();
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{document, site, value};
    use crate::design::kind;

    fn six_nodes() -> Design {
        let node = |name: &str, rack: &str, tags: &str, labels: &str| {
            let metadata =
                format!("metadata: {{rack: {rack}, tags: [{tags}], owner_data: {{{labels}}}}}");
            document(kind::NODE, name, &metadata)
        };
        let text = [
            node("n1", "r1", "control", "plane: enabled"),
            node("n2", "r1", "compute", ""),
            node("n3", "r2", "compute, ssd", "plane: disabled"),
            node("n4", "r2", "control", "plane: enabled"),
            node("n5", "r3", "", "ceph: enabled"),
            node("n6", "r3", "ssd", ""),
        ];
        site(&text.concat()).design
    }

    #[test]
    fn criteria_meet_by_intersection_and_their_values_by_union() {
        let design = six_nodes();
        let table: &[(&str, &str)] = &[
            ("{}", "n1 n2 n3 n4 n5 n6"),
            (
                "{node_names: [], node_tags: [], node_labels: [], rack_names: []}",
                "n1 n2 n3 n4 n5 n6",
            ),
            ("{node_names: [n5, n1, gone]}", "n1 n5"),
            ("{node_tags: [control, ssd]}", "n1 n3 n4 n6"),
            ("{rack_names: [r2, r3]}", "n3 n4 n5 n6"),
            (
                "{node_labels: ['plane: enabled', ceph:enabled]}",
                "n1 n4 n5",
            ),
            ("{node_labels: [{plane: enabled}]}", "n1 n4"),
            ("{node_tags: [compute], rack_names: [r2]}", "n3"),
            (
                "{node_names: [n1, n2], node_labels: ['plane: enabled'], rack_names: [r1], node_tags: [control]}",
                "n1",
            ),
            ("{node_tags: [nothing]}", ""),
            ("{node_names: [n1], node_tags: []}", "n1"),
        ];
        for (text, expected) in table {
            let selector = Selector::read(&value(text));
            let names = |nodes: Vec<&NodeName>| {
                nodes
                    .iter()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            assert_eq!(names(selector.nodes(&design)), *expected, "{text}");
            let matching = design.nodes.values().filter(|node| selector.matches(node));
            let matching = names(matching.map(|node| &node.name).collect());
            assert_eq!(matching, *expected, "{text}, node by node");
        }
    }

    #[test]
    fn a_group_is_the_union_of_its_selectors_and_all_nodes_beside_a_selector_without_criteria() {
        let design = six_nodes();
        let table: &[(&str, usize)] = &[
            ("[]", 6),
            ("[{}]", 6),
            ("[{node_names: [n1]}, {}]", 6),
            ("[{node_names: [n1]}, {node_names: [n1, n2]}]", 2),
            ("[{node_names: [gone]}]", 0),
        ];
        for (text, expected) in table {
            let mut group = site("").guards.groups.remove(0);
            group.selectors = value(text)
                .as_list()
                .unwrap()
                .iter()
                .map(Selector::read)
                .collect();
            assert_eq!(group.nodes(&design).len(), *expected, "{text}");
        }
    }
}
