//! The order of parts: each behind those that it waits for.
//!
//! The parts of a plan that this program made are in order as they are cut. A plan that was written by another hand may
//! have steps that wait for more; parts that wait for each other are then one part.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

/// The places of parts.
pub(super) struct Order {
    /// For each part as it was cut, its position.
    positions: Vec<u32>,
    /// For each position, those that must have ended before, sorted.
    pub(super) after: Vec<Vec<usize>>,
}

impl Order {
    /// Puts parts in order.
    pub(super) fn of(count: u32, edges: Vec<(u32, u32)>) -> Self {
        let in_order = edges.iter().all(|(before, part)| before < part);
        let positions = match in_order {
            true => (0..count).collect(),
            false => sorted(&joined(count, &edges), &edges),
        };
        let places = positions.iter().max().map_or(0, |last| *last as usize + 1);
        let mut after = vec![Vec::new(); places];
        for (before, part) in edges {
            let (before, part) = (positions[before as usize], positions[part as usize]);
            if before != part {
                after[part as usize].push(before as usize);
            }
        }
        for before in &mut after {
            before.sort_unstable();
            before.dedup();
            before.shrink_to_fit();
        }
        Self { positions, after }
    }

    /// The position of a part.
    pub(super) fn position(&self, part: u32) -> usize {
        self.positions[part as usize] as usize
    }

    /// How many positions there are.
    pub(super) fn len(&self) -> usize {
        self.after.len()
    }
}

/// For each part, the first of those that it waits for and that wait for it.
fn joined(count: u32, edges: &[(u32, u32)]) -> Vec<u32> {
    let mut graph = DiGraph::<(), ()>::with_capacity(count as usize, edges.len());
    graph.extend_with_edges(edges.iter().copied());
    let mut first: Vec<u32> = (0..count).collect();
    for circle in kosaraju_scc(&graph) {
        let parts = circle.iter().map(|part| part.index() as u32);
        let lowest = parts.min().unwrap_or_default();
        for part in circle {
            first[part.index()] = lowest;
        }
    }
    first
}

/// The position of each part, given the one that stands for it: the first that waits for none that is left, each time.
fn sorted(first: &[u32], edges: &[(u32, u32)]) -> Vec<u32> {
    let mut pending = vec![0_u32; first.len()];
    let mut dependents = vec![Vec::new(); first.len()];
    for (before, part) in edges {
        let (before, part) = (first[*before as usize], first[*part as usize]);
        if before != part {
            pending[part as usize] += 1;
            dependents[before as usize].push(part);
        }
    }
    let stands_for_itself = |part: &u32| first[*part as usize] == *part;
    let ready = (0..).take(first.len()).filter(stands_for_itself);
    let ready = ready.filter(|part| pending[*part as usize] == 0);
    let mut ready: BinaryHeap<_> = ready.map(Reverse).collect();
    let mut positions = vec![0; first.len()];
    let mut next = 0;
    while let Some(Reverse(part)) = ready.pop() {
        positions[part as usize] = next;
        next += 1;
        for dependent in std::mem::take(&mut dependents[part as usize]) {
            let pending = &mut pending[dependent as usize];
            *pending -= 1;
            if *pending == 0 {
                ready.push(Reverse(dependent));
            }
        }
    }
    first
        .iter()
        .map(|first| positions[*first as usize])
        .collect()
}
