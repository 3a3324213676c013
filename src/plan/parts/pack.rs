//! How many nodes a part has: stages are cut into parts, or whole waves and groups put together.

use std::ops::Range;

use super::stage::{PartStage, Stages, StepPlace};

/// Up to here the number bounds only the nodes of one stage of a part, in a plan of fewer nodes, too.
const MOST_NODES_OF_A_STAGE: usize = 1_000;

/// Which parts each stage is.
pub(super) struct Cut {
    /// The first part of each stage.
    first: Vec<u32>,
    /// How many nodes of a stage a part has at most.
    nodes: u32,
    pub(super) count: u32,
}

impl Cut {
    pub(super) fn new(stages: &Stages<'_>, nodes_per_part: usize) -> Self {
        let bound = bound(stages);
        match nodes_per_part.checked_sub(bound) {
            Some(capacity) if capacity > 0 => Self::packed(stages, capacity),
            _ => Self::by_nodes(stages, nodes_per_part),
        }
    }

    fn by_nodes(stages: &Stages<'_>, nodes_per_part: usize) -> Self {
        let nodes = u32::try_from(nodes_per_part).unwrap_or(u32::MAX).max(1);
        let mut count = 0;
        let first = stages.all.iter().map(|stage| {
            let first = count;
            count += stage.nodes.div_ceil(nodes).max(1);
            first
        });
        Self {
            first: first.collect(),
            nodes,
            count,
        }
    }

    fn packed(stages: &Stages<'_>, capacity: usize) -> Self {
        let (first, count) = bins(&stages.all, capacity);
        Self {
            first,
            nodes: u32::MAX,
            count,
        }
    }

    /// The part of a step.
    pub(super) fn part_of(&self, place: StepPlace) -> u32 {
        self.first[place.stage as usize] + place.node / self.nodes
    }

    /// The parts of a stage.
    pub(super) fn parts_of(&self, stage: usize, nodes: u32) -> Range<u32> {
        let first = self.first[stage];
        first..first + nodes.div_ceil(self.nodes).max(1)
    }
}

/// The smallest number that makes no more parts than `most`.
pub(super) fn smallest(stages: &Stages<'_>, most: usize) -> usize {
    // More never makes more parts, and the last makes one.
    let (mut low, mut high) = (1, bound(stages) + total(stages).max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        match Cut::new(stages, middle).count as usize <= most {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

/// The number above which whole waves and groups are put together.
fn bound(stages: &Stages<'_>) -> usize {
    total(stages).max(MOST_NODES_OF_A_STAGE)
}

fn total(stages: &Stages<'_>) -> usize {
    weight(&stages.all)
}

/// The nodes of stages: at least those of all waves and of what is outside them.
fn weight(stages: &[PartStage<'_>]) -> usize {
    let runs = runs(stages, |stage| (stage.group, stage.wave));
    let most = |run: Range<usize>| stages[run].iter().map(|stage| stage.nodes).max();
    let weights = runs.map(|run| most(run).unwrap_or_default().max(1) as usize);
    weights.sum()
}

/// Neighbours that have a key in common.
fn runs<'s, 'p, K: PartialEq>(
    stages: &'s [PartStage<'p>],
    key: impl Fn(&PartStage<'p>) -> K + 's,
) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let runs = stages.chunk_by(move |one, other| key(one) == key(other));
    runs.map(move |run| {
        let range = start..start + run.len();
        start = range.end;
        range
    })
}

/// Where a run of stages goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Not into one part.
    Apart,
    /// Whole into a part of its own, or the first of several.
    Opens,
    /// Whole into the part of the one before.
    Joins,
}

/// Puts neighbours together as long as they have no more nodes than `capacity`. If no two of them fit, all stay
/// apart. `None`: nothing that is put together.
fn fits(weights: &[Option<usize>], capacity: usize) -> Vec<Fit> {
    let two_fit = weights
        .windows(2)
        .any(|two| matches!(two, [Some(one), Some(other)] if one + other <= capacity));
    let mut filled: Option<usize> = None;
    let fit = |weight: &Option<usize>| {
        let Some(weight) = weight.filter(|weight| two_fit && *weight <= capacity) else {
            filled = None;
            return Fit::Apart;
        };
        match filled.filter(|filled| filled + weight <= capacity) {
            Some(before) => {
                filled = Some(before + weight);
                Fit::Joins
            }
            None => {
                filled = Some(weight);
                Fit::Opens
            }
        }
    };
    weights.iter().map(fit).collect()
}

/// The part of each stage, and how many parts there are: groups, then the waves of those that are too large.
fn bins(stages: &[PartStage<'_>], capacity: usize) -> (Vec<u32>, u32) {
    let mut first = Vec::with_capacity(stages.len());
    if weight(stages) <= capacity {
        first.resize(stages.len(), 0);
        return (first, 1);
    }
    let mut count = 0;
    let groups: Vec<_> = runs(stages, |stage| stage.group).collect();
    let weights: Vec<_> = groups
        .iter()
        .map(|run| {
            let stages = &stages[run.clone()];
            stages[0].group.is_some().then(|| weight(stages))
        })
        .collect();
    for (run, fit) in groups.into_iter().zip(fits(&weights, capacity)) {
        if fit == Fit::Apart {
            bins_of_waves(&stages[run], capacity, &mut first, &mut count);
        } else {
            count += u32::from(fit == Fit::Opens);
            first.resize(run.end, count - 1);
        }
    }
    (first, count)
}

fn bins_of_waves(stages: &[PartStage<'_>], capacity: usize, first: &mut Vec<u32>, count: &mut u32) {
    let waves: Vec<_> = runs(stages, |stage| stage.wave).collect();
    let weights: Vec<_> = waves
        .iter()
        .map(|run| {
            let stages = &stages[run.clone()];
            stages[0].wave.is_some().then(|| weight(stages))
        })
        .collect();
    for (run, fit) in waves.into_iter().zip(fits(&weights, capacity)) {
        for number in 0..run.len() {
            *count += u32::from(fit == Fit::Apart || (fit == Fit::Opens && number == 0));
            first.push(*count - 1);
        }
    }
}
