//! Places of the limits on machines out of service, as a run goes: one that does not come back keeps its own, and one that finds
//! none is not taken out.
//!
//! Whether a machine of a wave has a place depends on the waves before, which have all ended, and on its turn within its own wave.
//! So all workers of a divided run come to the same answer, whatever they know of each other's machines.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::tally::Tally;
use crate::diagnostic::counted;
use crate::plan::Plan;
use crate::run::TAKE_OUT;

/// The limits that a run holds.
#[derive(Clone)]
pub(super) struct Places {
    fixed: Arc<Fixed>,
    /// The nodes that are out of service now.
    out: FxHashSet<usize>,
    /// How many of these are under each limit, and how many of each wave.
    counts: FxHashMap<(Option<u32>, usize), usize>,
}

/// The places as the plan has them.
struct Fixed {
    /// By node, the limits that are about it.
    limits: FxHashMap<usize, Vec<usize>>,
    /// The nodes that were down before the run.
    down: FxHashSet<usize>,
    /// By node, the wave that takes it out of service.
    waves: FxHashMap<usize, u32>,
    /// By node and limit, how many of its wave have their turn before it.
    turns: FxHashMap<(usize, usize), usize>,
}

impl Places {
    /// The places of a plan; `waves`: by step.
    pub(super) fn new(plan: &Plan, tally: &Tally<'_>, waves: &[Option<u32>]) -> Self {
        let mut limits: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut down = FxHashSet::default();
        for (number, limit) in plan.guards.places.iter().enumerate() {
            for node in limit.nodes.iter().filter_map(|name| tally.index_of(name)) {
                limits.entry(node).or_default().push(number);
            }
            down.extend(limit.down.iter().filter_map(|name| tally.index_of(name)));
        }
        let (mut of_node, mut turns) = (FxHashMap::default(), FxHashMap::default());
        let mut numbers: FxHashMap<(u32, usize), usize> = FxHashMap::default();
        for (step, wave) in plan.steps.iter().zip(waves) {
            let node = step.id.node.as_ref();
            let node = node.and_then(|name| tally.index_of(name));
            let (Some(wave), Some(node)) = (*wave, node) else {
                continue;
            };
            let is_first = TAKE_OUT.contains(&step.id.kind) && !of_node.contains_key(&node);
            if !is_first || step.standby || down.contains(&node) {
                continue;
            }
            of_node.insert(node, wave);
            for limit in limits.get(&node).into_iter().flatten() {
                let next = numbers.entry((wave, *limit)).or_default();
                turns.insert((node, *limit), *next);
                *next += 1;
            }
        }
        let mut places = Self {
            fixed: Arc::new(Fixed {
                limits,
                down: down.clone(),
                waves: of_node,
                turns,
            }),
            out: FxHashSet::default(),
            counts: FxHashMap::default(),
        };
        for node in down {
            places.set(node, true);
        }
        places
    }

    /// Takes in how far a node is now.
    pub(super) fn take_in(&mut self, node: usize, tally: &Tally<'_>) {
        if self.fixed.limits.contains_key(&node) {
            let view = &tally.nodes[node].view;
            let is_out = view.is_out_of_service(self.fixed.down.contains(&node));
            self.set(node, is_out);
        }
    }

    fn set(&mut self, node: usize, is_out: bool) {
        let changes = match is_out {
            true => self.out.insert(node),
            false => self.out.remove(&node),
        };
        if !changes {
            return;
        }
        let wave = self.fixed.waves.get(&node).map(|wave| Some(*wave));
        for limit in self.fixed.limits.get(&node).into_iter().flatten() {
            for of in wave.into_iter().chain([None]) {
                let count = self.counts.entry((of, *limit)).or_default();
                match is_out {
                    true => *count += 1,
                    false => *count = count.saturating_sub(1),
                }
            }
        }
    }

    /// How many machines take places under a limit, those of a wave left out.
    fn taken(&self, limit: usize, wave: Option<u32>) -> usize {
        let count = |of| self.counts.get(&(of, limit)).copied().unwrap_or_default();
        count(None) - wave.map_or(0, |wave| count(Some(wave)))
    }

    /// Why none of some machines of a wave that are in service finds a place; `None`: some do, or none are.
    pub(super) fn no_place_for_any(
        &self,
        nodes: impl Iterator<Item = usize>,
        plan: &Plan,
        tally: &Tally<'_>,
    ) -> Option<String> {
        let mut up = nodes.filter(|node| !self.out.contains(node)).peekable();
        let first = self.no_place_for(*up.peek()?, plan, tally)?;
        up.all(|node| self.no_place_for(node, plan, tally).is_some())
            .then_some(first)
    }

    /// Why a machine finds no place, if it is in service.
    pub(super) fn no_place_for(
        &self,
        node: usize,
        plan: &Plan,
        tally: &Tally<'_>,
    ) -> Option<String> {
        let fixed = &*self.fixed;
        let limits = |node| fixed.limits.get(node).map_or(&[][..], |limits| limits);
        if self.out.contains(&node) {
            return None;
        }
        let wave = fixed.waves.get(&node).copied();
        limits(&node).iter().find_map(|number| {
            let limit = &plan.guards.places[*number];
            let taken = self.taken(*number, wave);
            let turn = fixed.turns.get(&(node, *number)).copied();
            let before = match limit.is_given {
                true => turn.unwrap_or_default(),
                false => 0,
            };
            if taken == 0 || taken + before < limit.places {
                return None;
            }
            let others = self
                .out
                .iter()
                .filter(|other| limits(other).contains(number));
            let others =
                others.filter(|other| wave.is_none() || fixed.waves.get(other).copied() != wave);
            let first = others.map(|node| &tally.nodes[*node].name).min()?;
            let others = match taken {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let machines = counted(limit.most, "machine", "machines");
            Some(format!(
                "`{first}`{others} did not come back, and at most {machines} {} may be unavailable",
                limit.of
            ))
        })
    }
}
