//! The fewest predecessors that say the same: a part is not told to wait for one that another of them waits for.

use rustc_hash::FxHashSet;

/// How many steps of search one edge may cost on average. Plans of this program need a few; in one that was made to cost
/// more, edges are kept that others imply.
const SEARCH_PER_EDGE: usize = 64;
/// From how many times as many predecessors on they are not walked through, but searched.
const WALKED: usize = 16;

/// For each part, the last of those before it, and a jump far back along these.
///
/// Without the jumps a plan of 4,000 machines in waves of five takes five times as long to reduce, and the bound of the search leaves
/// an eighth more edges.
#[derive(Clone, Copy)]
struct Ancestor {
    parent: usize,
    jump: usize,
    depth: usize,
}

struct Reduction {
    after: Vec<Vec<usize>>,
    ancestors: Vec<Ancestor>,
    budget: usize,
}

/// Removes from the sorted predecessors of each part those that others of them come after. Each is before its part.
pub(super) fn reduced(mut after: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let edges: usize = after.iter().map(Vec::len).sum();
    let mut reduction = Reduction {
        after: Vec::with_capacity(after.len()),
        ancestors: Vec::with_capacity(after.len()),
        budget: (edges + after.len()).saturating_mul(SEARCH_PER_EDGE),
    };
    for before in &mut after {
        let before = reduction.reduce(std::mem::take(before));
        reduction.add(before);
    }
    reduction.after
}

impl Reduction {
    fn add(&mut self, before: Vec<usize>) {
        let own = self.after.len();
        let ancestor = match before.last() {
            None => Ancestor {
                parent: own,
                jump: own,
                depth: 0,
            },
            Some(&parent) => {
                let above = self.ancestors[parent];
                let far = self.ancestors[above.jump];
                // Two jumps of one length become one of twice that length.
                let is_even = above.depth - far.depth == far.depth - self.ancestors[far.jump].depth;
                Ancestor {
                    parent,
                    jump: if is_even { far.jump } else { parent },
                    depth: above.depth + 1,
                }
            }
        };
        self.ancestors.push(ancestor);
        self.after.push(before);
    }

    /// Whether `before` is on the way back from `part` along the last predecessors.
    fn is_above(&self, before: usize, mut part: usize) -> bool {
        while part > before {
            let ancestor = self.ancestors[part];
            let next = match ancestor.jump >= before {
                true => ancestor.jump,
                false => ancestor.parent,
            };
            if next == part {
                return false;
            }
            part = next;
        }
        part == before
    }

    fn reduce(&mut self, mut before: Vec<usize>) -> Vec<usize> {
        if before.len() > 1 {
            self.drop_direct(&mut before);
        }
        // One that is far back is often on the way of the next.
        let mut behind = before.clone().into_iter().skip(1);
        before.retain(|each| behind.next().is_none_or(|next| !self.is_above(*each, next)));
        if before.len() > 1 {
            self.drop_found(&mut before);
        }
        before.shrink_to_fit();
        before
    }

    /// Drops what another of them waits for itself.
    fn drop_direct(&self, before: &mut Vec<usize>) {
        let mut found = FxHashSet::default();
        for part in &*before {
            let others = &self.after[*part];
            if others.len() > before.len().saturating_mul(WALKED) {
                let direct = before
                    .iter()
                    .filter(|each| others.binary_search(each).is_ok());
                found.extend(direct.copied());
            } else {
                let direct = others
                    .iter()
                    .filter(|each| before.binary_search(each).is_ok());
                found.extend(direct.copied());
            }
        }
        before.retain(|each| !found.contains(each));
    }

    /// Drops what is found on any way back from the others, no further than the first of them.
    fn drop_found(&mut self, before: &mut Vec<usize>) {
        let first = before[0];
        let mut open: Vec<usize> = before.clone();
        let mut found = FxHashSet::default();
        while let Some(part) = open.pop() {
            let others = &self.after[part];
            let start = others.partition_point(|other| *other < first);
            let Some(left) = self.budget.checked_sub(others.len() - start + 1) else {
                return;
            };
            self.budget = left;
            let new = others[start..].iter().filter(|other| found.insert(**other));
            open.extend(new);
        }
        before.retain(|each| !found.contains(each));
    }
}
