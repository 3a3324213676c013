//! Looks names up in their order, a step each and not a search.

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;

use super::NodeName;

/// A place in a map of nodes that only goes forward: whoever goes through all nodes of a large site in
/// their order looks into maps of others at the same time.
#[derive(Clone, Debug)]
pub struct Beside<'a, V> {
    entries: Peekable<btree_map::Iter<'a, NodeName, V>>,
}

impl<'a, V> Beside<'a, V> {
    /// The beginning of a map.
    #[must_use]
    pub fn of(map: &'a BTreeMap<NodeName, V>) -> Self {
        Self {
            entries: map.iter().peekable(),
        }
    }

    /// What the map has under a name, which must not come before one that was asked for earlier.
    pub fn get(&mut self, name: &NodeName) -> Option<&'a V> {
        while self.entries.next_if(|(next, _)| *next < name).is_some() {}
        let (next, value) = self.entries.peek()?;
        (*next == name).then_some(*value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            let asked: BTreeSet<NodeName> = asked.into_iter().map(NodeName::from).collect();
            for name in &asked {
                prop_assert_eq!(beside.get(name), map.get(name));
                prop_assert_eq!(beside.get(name), map.get(name), "the same again");
            }
        }
    }
}
