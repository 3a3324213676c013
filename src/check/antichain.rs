//! The most machines that can be away at the same time, exactly: a largest antichain of the order "is back before the other
//! is taken away".
//!
//! By Dilworth's theorem it is as large as the least number of chains that cover all machines, which is their number less
//! a maximum matching of the order (a flow of unit capacities); the machines that no minimum cover of its edges touches are
//! such an antichain (König).

use super::interval::Away;
use super::view::View;

/// Above so many machines under one constraint its antichain is not looked for: the plan is not proven.
pub(super) const MOST: usize = 2_000;

/// A set of machines, by number.
type Bits = Vec<u64>;

fn set(bits: &mut Bits, number: usize) {
    bits[number / 64] |= 1 << (number % 64);
}

fn has(bits: &Bits, number: usize) -> bool {
    bits[number / 64] & (1 << (number % 64)) != 0
}

/// Which machines are back before each of them is taken away; `for_good`: those that do not come back never are.
fn order(view: &View<'_>, some: &[&Away<'_>], for_good: bool) -> Vec<Bits> {
    let words = some.len().div_ceil(64);
    let last_step = some.iter().flat_map(|away| &away.firsts).max().copied();
    let count = last_step.map_or(0, |last| last + 1);
    // By step, the machines of which it waits for a last step; a machine with several counts if all are waited for.
    let mut behind: Vec<Option<Box<[u64]>>> = vec![None; count];
    let mut result = vec![vec![0; words]; some.len()];
    let rounds = some.iter().map(|away| away.lasts.len()).max().unwrap_or(0);
    for round in 0..rounds {
        behind.iter_mut().for_each(|bits| *bits = None);
        let mut ends: rustc_hash::FxHashMap<usize, Vec<usize>> = Default::default();
        for (number, away) in some.iter().enumerate() {
            if !for_good || away.comes_back {
                let last = away.lasts[round.min(away.lasts.len() - 1)];
                ends.entry(last).or_default().push(number);
            }
        }
        for position in 0..count {
            let mut own: Option<Box<[u64]>> = None;
            for need in &view.step(position).needs {
                let need = need.step.0 as usize;
                let before = behind.get(need).and_then(Option::as_ref);
                let ended = ends.get(&need);
                if before.is_none() && ended.is_none() {
                    continue;
                }
                let own = own.get_or_insert_with(|| vec![0; words].into());
                for (word, more) in own.iter_mut().zip(before.into_iter().flatten()) {
                    *word |= more;
                }
                for number in ended.into_iter().flatten() {
                    own[number / 64] |= 1 << (number % 64);
                }
            }
            behind[position] = own;
        }
        for (number, away) in some.iter().enumerate() {
            let of_first = |first: &usize| {
                behind[*first]
                    .clone()
                    .unwrap_or_else(|| vec![0; words].into())
            };
            let all = away.firsts.iter().map(of_first).reduce(|mut one, other| {
                one.iter_mut()
                    .zip(&other)
                    .for_each(|(word, other)| *word &= other);
                one
            });
            let all = all.unwrap_or_else(|| vec![0; words].into());
            for (word, more) in result[number].iter_mut().zip(&all) {
                *word = if round == 0 { *more } else { *word & more };
            }
        }
    }
    result
}

/// The most machines of some that can be away at the same time; `None` if they are too many to tell.
pub(super) fn most<'s, 'a>(
    view: &View<'_>,
    some: &[&'s Away<'a>],
    for_good: bool,
) -> Option<Vec<&'s Away<'a>>> {
    if some.len() > MOST {
        return None;
    }
    let before = order(view, some, for_good);
    Some(
        largest(&before)
            .into_iter()
            .map(|number| some[number])
            .collect(),
    )
}

/// Two machines that can be away at the same time though they may not.
pub(super) enum Pair {
    /// They are too many to tell.
    NotProven,
    /// These, by number.
    Together(usize, usize),
}

/// The first two of some machines that can be away at the same time and that `is_wrong` keeps apart.
pub(super) fn pair(
    view: &View<'_>,
    some: &[&Away<'_>],
    is_wrong: impl Fn(usize, usize) -> bool,
) -> Option<Pair> {
    if some.len() > MOST {
        return Some(Pair::NotProven);
    }
    let before = order(view, some, false);
    let is_ordered = |one, other| has(&before[one], other) || has(&before[other], one);
    let pairs = (0..some.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
    let mut wrong =
        pairs.filter(|(one, other)| is_wrong(*one, *other) && !is_ordered(*one, *other));
    wrong.next().map(|(one, other)| Pair::Together(one, other))
}

/// A largest antichain of an order, in which each one has those before it.
fn largest(before: &[Bits]) -> Vec<usize> {
    let count = before.len();
    let words = count.div_ceil(64);
    // A matching of machines with machines that are before them: augmented along alternating ways.
    let mut matched_to: Vec<Option<usize>> = vec![None; count];
    let mut is_matched = vec![false; count];
    for (number, is_matched) in is_matched.iter_mut().enumerate() {
        let mut tried: Bits = vec![0; words];
        *is_matched = augment(number, before, &mut tried, &mut matched_to);
    }
    // König: from what is not matched, along what is not in the matching, back along what is.
    let (mut left, mut right): (Bits, Bits) = (vec![0; words], vec![0; words]);
    let mut open: Vec<usize> = (0..count).filter(|number| !is_matched[*number]).collect();
    open.iter().for_each(|number| set(&mut left, *number));
    while let Some(number) = open.pop() {
        for other in (0..count).filter(|other| has(&before[number], *other)) {
            if has(&right, other) {
                continue;
            }
            set(&mut right, other);
            if let Some(back) = matched_to[other].filter(|back| !has(&left, *back)) {
                set(&mut left, back);
                open.push(back);
            }
        }
    }
    let is_free = |number: &usize| has(&left, *number) && !has(&right, *number);
    (0..count).filter(is_free).collect()
}

/// Finds a machine for one more, moving those that are matched.
fn augment(
    number: usize,
    before: &[Bits],
    tried: &mut Bits,
    matched_to: &mut [Option<usize>],
) -> bool {
    // A way is kept as the machines on it, and where each of them has looked.
    let mut way: Vec<(usize, usize)> = vec![(number, 0)];
    let mut taken: Vec<usize> = Vec::new();
    while let Some((at, from)) = way.last_mut() {
        let next = (*from..matched_to.len())
            .find(|other| has(&before[*at], *other) && !has(tried, *other));
        let Some(other) = next else {
            way.pop();
            taken.pop();
            continue;
        };
        *from = other + 1;
        set(tried, other);
        taken.push(other);
        match matched_to[other] {
            Some(owner) => way.push((owner, 0)),
            None => {
                for ((owner, _), other) in way.iter().zip(&taken) {
                    matched_to[*other] = Some(*owner);
                }
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The order that follows from some pairs, of which the first number is before the second.
    fn closed(count: usize, pairs: &[(usize, usize)]) -> Vec<Bits> {
        let mut before: Vec<Bits> = vec![vec![0; count.div_ceil(64)]; count];
        for later in 0..count {
            for (first, _) in pairs
                .iter()
                .filter(|(first, second)| *second == later && first < second)
            {
                let more = before[*first].clone();
                set(&mut before[later], *first);
                before[later]
                    .iter_mut()
                    .zip(more)
                    .for_each(|(word, more)| *word |= more);
            }
        }
        before
    }

    fn is_antichain(before: &[Bits], some: &[usize]) -> bool {
        let mut pairs = some
            .iter()
            .flat_map(|one| some.iter().map(move |other| (*one, *other)));
        pairs.all(|(one, other)| !has(&before[one], other))
    }

    proptest! {
        #[test]
        fn it_is_as_large_as_any_that_can_be_found_by_trying_all(
            pairs in prop::collection::vec((0..9_usize, 0..9_usize), 0..24),
        ) {
            let before = closed(9, &pairs);
            let found = largest(&before);
            prop_assert!(is_antichain(&before, &found));
            let sets = (0..1_u32 << 9).map(|set| {
                (0..9).filter(|number| set & (1 << number) != 0).collect::<Vec<usize>>()
            });
            let best = sets.filter(|set| is_antichain(&before, set)).map(|set| set.len()).max();
            prop_assert_eq!(Some(found.len()), best);
        }
    }
}
