//! A merge join over nodes: lookups in the order of names cost a step each, not a search.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::ops::Bound;

use super::NodeName;

/// A cursor in a map of nodes, for loops over all nodes of a large site in their order. In another order each
/// name is searched for.
#[derive(Clone, Debug)]
pub struct MergeJoin<'a, V> {
    map: &'a BTreeMap<NodeName, V>,
    entries: Peekable<btree_map::Range<'a, NodeName, V>>,
}

impl<'a, V> MergeJoin<'a, V> {
    /// The beginning of a map.
    #[must_use]
    pub fn of(map: &'a BTreeMap<NodeName, V>) -> Self {
        Self {
            map,
            entries: map.range::<NodeName, _>(..).peekable(),
        }
    }

    /// The value of a name.
    pub fn get(&mut self, name: &str) -> Option<&'a V> {
        self.entry(name).map(|(_, value)| value)
    }

    /// The value of a name, with the name as the map has it.
    pub fn entry(&mut self, name: &str) -> Option<(&'a NodeName, &'a V)> {
        if self.order(name) == Some(Ordering::Less) {
            self.entries.next();
        }
        if self.order(name) != Some(Ordering::Equal) {
            let rest = (Bound::Included(name), Bound::Unbounded);
            self.entries = self.map.range::<str, _>(rest).peekable();
            self.entries
                .peek()
                .filter(|(next, _)| next.as_str() == name)?;
        }
        self.entries.peek().copied()
    }

    /// How the next entry stands to a name.
    fn order(&mut self, name: &str) -> Option<Ordering> {
        let (next, _) = self.entries.peek()?;
        Some(next.as_str().cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lookups_in_any_order_agree_with_the_map(
            map in proptest::collection::btree_map("[a-c]{1,3}", 0u8.., 0..20),
            asked in proptest::collection::vec("[a-c]{1,3}", 0..20),
        ) {
            let map: BTreeMap<NodeName, u8> =
                map.into_iter().map(|(name, value)| (NodeName::from(name), value)).collect();
            let mut joined = MergeJoin::of(&map);
            let mut sorted = asked.clone();
            sorted.sort();
            for name in asked.iter().chain(&sorted) {
                let name = name.as_str();
                prop_assert_eq!(joined.get(name), map.get(name));
                prop_assert_eq!(joined.entry(name), map.get_key_value(name), "the same again");
            }
        }
    }
}
