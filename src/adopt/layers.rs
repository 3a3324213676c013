//! Profiles of machines that are alike, by description length: the fewest bytes that say everything.
//!
//! A fact that several machines share is written once if that is shorter than writing it with each machine: in a
//! profile, which costs a document. Profiles are sets of machines that never cross, since a machine inherits from one
//! chain of profiles. The largest sets of facts are placed first, and a set that crosses a profile is divided by it.

use std::collections::{BTreeMap, BTreeSet};

/// The length of a profile without facts, in bytes.
const PROFILE: usize = 95;

/// A profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer<F> {
    /// The profile that it inherits from, by position.
    pub(super) parent: Option<usize>,
    /// How many machines have it, directly or through another one.
    pub(super) machines: usize,
    /// Its facts, sorted.
    pub(super) facts: Vec<F>,
}

/// Machines in profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layers<F> {
    /// A parent stands before its children.
    pub(super) layers: Vec<Layer<F>>,
    /// The profile of each machine, and the facts that are its own, sorted.
    pub(super) machines: Vec<(Option<usize>, Vec<F>)>,
}

/// Finds the profiles of machines, given the facts of each; `length`: how long a fact is where it is written.
pub(super) fn layers<F: Ord + Clone>(
    machines: &[Vec<F>],
    length: impl Fn(&F) -> usize,
) -> Layers<F> {
    let mut having: BTreeMap<&F, Vec<usize>> = BTreeMap::new();
    for (machine, facts) in machines.iter().enumerate() {
        for fact in facts {
            let all = having.entry(fact).or_default();
            if all.last() != Some(&machine) {
                all.push(machine);
            }
        }
    }
    let mut sets: BTreeMap<Vec<usize>, Vec<&F>> = BTreeMap::new();
    for (fact, having) in having {
        sets.entry(having).or_default().push(fact);
    }
    let mut sets: Vec<(Vec<usize>, Vec<&F>)> = sets.into_iter().collect();
    // Of equal sizes the longest facts first, then the machines' order: the same input gives the same profiles.
    sets.sort_by_cached_key(|(having, facts)| {
        let bytes: usize = facts.iter().map(|fact| length(fact)).sum();
        (std::cmp::Reverse((having.len(), bytes)), having.clone())
    });
    let mut found = Layers {
        layers: Vec::<Layer<F>>::new(),
        machines: vec![(None, Vec::new()); machines.len()],
    };
    let mut left = Vec::new();
    for (having, facts) in sets {
        let without = found.place(&having, &facts, &length);
        if !without.is_empty() {
            left.push((without, facts));
        }
    }
    // If profiles are for other reasons, a fact of all their machines costs nothing but its own line.
    for (having, facts) in left {
        found.place_in_known(&having, &facts);
    }
    for (_, own) in &mut found.machines {
        own.sort();
    }
    for layer in &mut found.layers {
        layer.facts.sort();
    }
    found
}

impl<F: Ord + Clone> Layers<F> {
    /// Places facts that the same machines have, if that makes a profile worthwhile; the machines without one for them.
    fn place(
        &mut self,
        having: &[usize],
        facts: &[&F],
        length: impl Fn(&F) -> usize,
    ) -> Vec<usize> {
        let mut without = Vec::new();
        let mut pieces: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for machine in having {
            let innermost = self.machines[*machine].0;
            pieces.entry(innermost).or_default().push(*machine);
        }
        let bytes: usize = facts.iter().map(|fact| length(fact)).sum();
        let owned = || facts.iter().copied().cloned();
        for (innermost, piece) in pieces {
            if let Some(layer) = innermost
                && self.layers[layer].machines == piece.len()
            {
                self.layers[layer].facts.extend(owned());
            } else if (piece.len() - 1) * bytes > PROFILE {
                for machine in &piece {
                    self.machines[*machine].0 = Some(self.layers.len());
                }
                self.layers.push(Layer {
                    parent: innermost,
                    machines: piece.len(),
                    facts: owned().collect(),
                });
            } else {
                without.extend(piece);
            }
        }
        without
    }

    /// The profiles of a machine, the innermost first.
    fn above(&self, machine: usize) -> impl Iterator<Item = usize> {
        let innermost = self.machines[machine].0;
        std::iter::successors(innermost, |layer| self.layers[*layer].parent)
    }

    /// Places facts in the outermost profiles all of whose machines have them, else with each machine.
    fn place_in_known(&mut self, having: &[usize], facts: &[&F]) {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for machine in having {
            for layer in self.above(*machine) {
                *counts.entry(layer).or_default() += 1;
            }
        }
        counts.retain(|layer, count| self.layers[*layer].machines == *count);
        let mut used = BTreeSet::new();
        for machine in having {
            let outermost = self
                .above(*machine)
                .filter(|layer| counts.contains_key(layer));
            match outermost.last() {
                Some(layer) => drop(used.insert(layer)),
                None => {
                    let facts = facts.iter().copied().cloned();
                    self.machines[*machine].1.extend(facts);
                }
            }
        }
        for layer in used {
            let facts = facts.iter().copied().cloned();
            self.layers[layer].facts.extend(facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: fn(&(u8, u8)) -> usize = |_| 40;

    fn of(facts: &[(u8, u8)]) -> Vec<(u8, u8)> {
        facts.to_vec()
    }

    #[test]
    fn what_all_have_is_above_what_some_have_and_an_exception_is_a_machines_own() {
        let (all, control, worker, odd) = ((0, 0), (1, 0), (1, 1), (2, 7));
        let mut machines = vec![of(&[all, control]); 6];
        machines.extend(vec![of(&[all, worker]); 9]);
        machines.push(of(&[all, worker, odd]));
        let found = layers(&machines, LONG);
        let shown: Vec<_> = found
            .layers
            .iter()
            .map(|layer| (layer.parent, layer.machines, layer.facts.clone()))
            .collect();
        assert_eq!(
            shown,
            [
                (None, 16, vec![all]),
                (Some(0), 10, vec![worker]),
                (Some(0), 6, vec![control])
            ]
        );
        assert_eq!(found.machines[0], (Some(2), vec![]));
        assert_eq!(found.machines[6], (Some(1), vec![]));
        assert_eq!(found.machines[15], (Some(1), vec![odd]));
    }

    #[test]
    fn two_machines_with_one_short_fact_have_no_profile() {
        let found = layers(&[of(&[(0, 0)]), of(&[(0, 0)])], |_| 10);
        assert!(found.layers.is_empty());
        assert_eq!(found.machines[1], (None, vec![(0, 0)]));
    }

    proptest! {
        #[test]
        fn each_machine_has_its_facts_and_no_other_and_they_are_no_longer_than_without_profiles(
            machines in proptest::collection::vec(proptest::collection::btree_set((0u8..4, 0u8..3), 0..5), 0..40),
        ) {
            let machines: Vec<Vec<(u8, u8)>> =
                machines.into_iter().map(|facts| facts.into_iter().collect()).collect();
            let found = layers(&machines, LONG);
            let mut length = 0;
            for layer in &found.layers {
                length += PROFILE + layer.facts.len() * 40;
            }
            for ((layer, own), facts) in found.machines.iter().zip(&machines) {
                length += own.len() * 40;
                let mut all: Vec<(u8, u8)> = own.clone();
                let mut at = *layer;
                while let Some(layer) = at {
                    all.extend(&found.layers[layer].facts);
                    prop_assert!(found.layers[layer].parent.is_none_or(|parent| parent < layer));
                    at = found.layers[layer].parent;
                }
                let distinct: BTreeSet<_> = all.iter().copied().collect();
                prop_assert_eq!(distinct.len(), all.len());
                prop_assert_eq!(distinct, facts.iter().copied().collect::<BTreeSet<_>>());
            }
            let without: usize = machines.iter().map(|facts| facts.len() * 40).sum();
            prop_assert!(length <= without);
            prop_assert_eq!(layers(&machines, LONG), found);
        }
    }
}
