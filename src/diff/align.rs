//! Which item of one list is which item of another.
//!
//! Items with equal keys are pairs, the first with the first, the second with the second. The longest run of pairs that
//! is in the same order on both sides is kept, all other pairs have moved. It takes n log n steps, whatever the lists hold.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The pairs of two lists.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    /// Pairs (before, after) that are in order, from the first to the last.
    pub(super) kept: Vec<(usize, usize)>,
    /// For each item after, the item before that it was, if it has moved.
    pub(super) partner: Vec<Option<usize>>,
    /// For each item before, whether it has a pair.
    pub(super) is_before_paired: Vec<bool>,
}

/// Pairs two lists by their keys.
pub(super) fn align<K: Hash + Eq>(before: &[K], after: &[K]) -> Alignment {
    let mut places: FxHashMap<&K, VecDeque<usize>> = FxHashMap::default();
    for (at, key) in before.iter().enumerate() {
        places.entry(key).or_default().push_back(at);
    }
    let mut is_before_paired = vec![false; before.len()];
    let mut partner: Vec<Option<usize>> = Vec::with_capacity(after.len());
    for key in after {
        let found = places.get_mut(key).and_then(VecDeque::pop_front);
        if let Some(found) = found {
            is_before_paired[found] = true;
        }
        partner.push(found);
    }
    let kept = longest_rise(&partner);
    for (_, at) in &kept {
        partner[*at] = None;
    }
    Alignment {
        kept,
        partner,
        is_before_paired,
    }
}

/// The longest run of rising values, as (value, position).
fn longest_rise(values: &[Option<usize>]) -> Vec<(usize, usize)> {
    // For each length, the run with the lowest last value; each entry knows the one before it.
    let mut best: Vec<(usize, usize)> = Vec::new();
    let mut previous: Vec<Option<usize>> = vec![None; values.len()];
    for (at, value) in values.iter().enumerate() {
        let Some(value) = *value else { continue };
        let length = best.partition_point(|(last, _)| *last < value);
        previous[at] = length
            .checked_sub(1)
            .and_then(|shorter| best.get(shorter))
            .map(|(_, at)| *at);
        match best.get_mut(length) {
            Some(entry) => *entry = (value, at),
            None => best.push((value, at)),
        }
    }
    let mut run = Vec::with_capacity(best.len());
    let mut next = best.last().map(|(_, at)| *at);
    while let Some(at) = next {
        run.extend(values[at].map(|value| (value, at)));
        next = previous[at];
    }
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn aligned(before: &str, after: &str) -> (usize, usize) {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        let found = align(&letters(before), &letters(after));
        let moved = found.partner.iter().flatten().count();
        (found.kept.len(), moved)
    }

    #[test]
    fn what_keeps_its_order_is_kept_and_all_else_has_moved() {
        let table = [
            ("abc", "abc", (3, 0)),
            ("abc", "xabc", (3, 0)),
            ("abc", "ac", (2, 0)),
            ("abc", "cab", (2, 1)),
            ("abc", "", (0, 0)),
            ("aab", "aba", (2, 1)),
            ("abcd", "dcba", (1, 3)),
        ];
        for (before, after, expected) in table {
            assert_eq!(aligned(before, after), expected, "{before} {after}");
        }
    }

    proptest! {
        #[test]
        fn each_item_has_at_most_one_pair_of_the_same_key(
            before in proptest::collection::vec(0_u8..6, 0..20),
            after in proptest::collection::vec(0_u8..6, 0..20),
        ) {
            let found = align(&before, &after);
            let moved = found.partner.iter().enumerate().filter_map(|(at, old)| Some(((*old)?, at)));
            let pairs: Vec<_> = found.kept.iter().copied().chain(moved).collect();
            let lefts: std::collections::BTreeSet<_> = pairs.iter().map(|(left, _)| *left).collect();
            let rights: std::collections::BTreeSet<_> = pairs.iter().map(|(_, right)| *right).collect();
            prop_assert_eq!((lefts.len(), rights.len()), (pairs.len(), pairs.len()));
            prop_assert!(pairs.iter().all(|(left, right)| before[*left] == after[*right]));
            prop_assert!(found.kept.is_sorted_by(|one, two| one.0 < two.0 && one.1 < two.1));
            let paired = found.is_before_paired.iter().filter(|is_paired| **is_paired).count();
            prop_assert_eq!(paired, pairs.len());
        }
    }
}
