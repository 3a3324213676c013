//! How nodes are called in the cluster, and back: a bijection.
//!
//! A node is called in Kubernetes as in the design, unless `names.NODE.kubernetes` of the site's
//! `trueup/Backends/v1` says otherwise. A Kubernetes node whose name belongs to a node that is called
//! otherwise is not in the design, and has no name there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::design::{Guards, NodeName};

/// The system under which the names stand in the document.
const SYSTEM: &str = "kubernetes";

/// The names of nodes, both ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    outside: BTreeMap<NodeName, Arc<str>>,
    inside: BTreeMap<Arc<str>, NodeName>,
}

impl Names {
    /// The names that a design gives.
    pub(super) fn new(guards: &Guards) -> Self {
        let other = guards.backends.names.iter();
        Self::of(other.filter_map(|(node, names)| Some((node.clone(), names.get(SYSTEM)?.clone()))))
    }

    fn of(names: impl Iterator<Item = (NodeName, Arc<str>)>) -> Self {
        let mut both = Self::default();
        for (inside, outside) in names {
            // Two nodes of one name are an error of the document; here the first has it.
            if !both.inside.contains_key(&outside) {
                both.inside.insert(outside.clone(), inside.clone());
                both.outside.insert(inside, outside);
            }
        }
        both
    }

    /// The name of a node of the design in the cluster.
    pub(super) fn outside(&self, node: &NodeName) -> Arc<str> {
        match self.outside.get(node) {
            Some(name) => name.clone(),
            None => Arc::from(node.as_str()),
        }
    }

    /// The node of the design that is called so in the cluster; a name that no document mentions is its own.
    pub(super) fn inside(&self, name: &str) -> Option<NodeName> {
        match self.inside.get(name) {
            Some(node) => Some(node.clone()),
            None if self.outside.contains_key(name) => None,
            None => Some(NodeName::from(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_bijection_and_no_node_takes_the_name_of_another() {
        let pairs = [("n1", "worker-a"), ("n2", "n3"), ("n4", "worker-a")];
        let names = Names::of(
            pairs
                .into_iter()
                .map(|(node, name)| (NodeName::from(node), Arc::from(name))),
        );
        for (node, name) in [("n1", "worker-a"), ("n2", "n3"), ("n4", "n4"), ("n5", "n5")] {
            let node = NodeName::from(node);
            assert_eq!(&*names.outside(&node), name);
            assert_eq!(names.inside(name), Some(node));
        }
        assert_eq!(names.inside("n1"), None);
        assert_eq!(names.inside("n2"), None);
    }
}
