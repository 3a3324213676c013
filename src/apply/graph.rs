//! Which steps wait for which, counted down as they end: constant work for each edge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::Error;
use crate::step::{Step, Wait};

/// The edges of a plan, turned round, and what each step still waits for.
#[derive(Clone)]
pub(super) struct Graph {
    /// For each step, how many needs have not ended.
    pending: Vec<u32>,
    /// For each step, the lowest need that had to succeed and did not.
    cause: Vec<Option<u32>>,
    /// Where each step's dependents begin in `dependents`, and one more for the end.
    offsets: Arc<[u32]>,
    dependents: Arc<[(u32, Wait)]>,
    /// Steps whose needs have all ended, the first of the plan on top.
    ready: BinaryHeap<Reverse<u32>>,
}

impl Graph {
    /// Turns the needs round. If `replaced` names a need of a step, that one is not waited for here.
    pub(super) fn new(steps: &[Step], replaced: &[Option<u32>]) -> Result<Self, Error> {
        let kept = |index: usize| {
            steps[index]
                .needs
                .iter()
                .filter(move |need| replaced[index] != Some(need.step.0))
        };
        let mut offsets = vec![0u32; steps.len() + 1];
        let mut pending = vec![0u32; steps.len()];
        for index in 0..steps.len() {
            for need in kept(index) {
                let other = need.step.0 as usize;
                if other >= index {
                    let message = format!("`{}` waits for a later step", steps[index].id);
                    return Err(Error::Plan(message.into()));
                }
                offsets[other + 1] += 1;
                pending[index] += 1;
            }
        }
        for index in 0..steps.len() {
            offsets[index + 1] += offsets[index];
        }
        let mut next = offsets.clone();
        let mut dependents = vec![(0, Wait::Done); offsets[steps.len()] as usize];
        for (number, index) in (0..steps.len()).zip(0u32..) {
            for need in kept(number) {
                let slot = &mut next[need.step.0 as usize];
                dependents[*slot as usize] = (index, need.wait);
                *slot += 1;
            }
        }
        let ready = (0u32..)
            .zip(&pending)
            .filter(|(_, pending)| **pending == 0)
            .map(|(index, _)| Reverse(index))
            .collect();
        Ok(Self {
            cause: vec![None; steps.len()],
            pending,
            offsets: offsets.into(),
            dependents: dependents.into(),
            ready,
        })
    }

    /// Tells that a step ended.
    pub(super) fn end(&mut self, index: usize, succeeded: bool) {
        let range = self.offsets[index] as usize..self.offsets[index + 1] as usize;
        for &(dependent, wait) in &self.dependents[range] {
            let slot = dependent as usize;
            if wait == Wait::Success && !succeeded {
                let cause = self.cause[slot].unwrap_or(u32::MAX);
                self.cause[slot] = u32::try_from(index).ok().map(|index| index.min(cause));
            }
            self.pending[slot] -= 1;
            if self.pending[slot] == 0 {
                self.ready.push(Reverse(dependent));
            }
        }
    }

    /// The next step, in the order of the plan, whose needs have all ended.
    pub(super) fn next_ready(&mut self) -> Option<usize> {
        self.ready.pop().map(|Reverse(index)| index as usize)
    }

    /// Makes a step ready once more, which was put aside.
    pub(super) fn again(&mut self, index: u32) {
        self.ready.push(Reverse(index));
    }

    /// The need that had to succeed and did not.
    pub(super) fn cause(&self, index: usize) -> Option<usize> {
        self.cause[index].map(|cause| cause as usize)
    }

    /// The steps that wait for this one.
    pub(super) fn dependents(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let range = self.offsets[index] as usize..self.offsets[index + 1] as usize;
        self.dependents[range]
            .iter()
            .map(|(step, _)| *step as usize)
    }
}
