//! Looks names up that are mostly in their order, a step each and not a search.

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::ops::Bound;

use super::NodeName;

/// A place in a map of nodes: whoever goes through all nodes of a large site in their order looks into
/// maps of others at the same time. In another order each name is searched for.
#[derive(Clone, Debug)]
pub struct Beside<'a, V> {
    map: &'a BTreeMap<NodeName, V>,
    entries: Peekable<btree_map::Range<'a, NodeName, V>>,
}

impl<'a, V> Beside<'a, V> {
    /// The beginning of a map.
    #[must_use]
    pub fn of(map: &'a BTreeMap<NodeName, V>) -> Self {
        Self {
            map,
            entries: map.range::<NodeName, _>(..).peekable(),
        }
    }

    /// What the map has under a name.
    pub fn get(&mut self, name: &str) -> Option<&'a V> {
        self.entry(name).map(|(_, value)| value)
    }

    /// The same with the name that it has there.
    pub fn entry(&mut self, name: &str) -> Option<(&'a NodeName, &'a V)> {
        self.entries.next_if(|(next, _)| next.as_str() < name);
        if self
            .entries
            .peek()
            .is_none_or(|(next, _)| next.as_str() != name)
        {
            let rest = (Bound::Included(name), Bound::Unbounded);
            self.entries = self.map.range::<str, _>(rest).peekable();
        }
        let entry = *self.entries.peek()?;
        (entry.0.as_str() == name).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_looked_up_in_order_is_what_is_there(
            map in proptest::collection::btree_map("[a-c]{1,3}", 0u8.., 0..20),
            asked in proptest::collection::vec("[a-c]{1,3}", 0..20),
        ) {
            let map: BTreeMap<NodeName, u8> =
                map.into_iter().map(|(name, value)| (NodeName::from(name), value)).collect();
            let mut beside = Beside::of(&map);
            let mut sorted = asked.clone();
            sorted.sort();
            for name in asked.iter().chain(&sorted) {
                let name = name.as_str();
                prop_assert_eq!(beside.get(name), map.get(name));
                prop_assert_eq!(beside.entry(name), map.get_key_value(name), "the same again");
            }
        }
    }
}
