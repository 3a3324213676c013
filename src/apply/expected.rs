//! The durations that the steps of a plan may have: recorded ones, declared ones, or typical ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::design::{NodeDesign, NodeName};
use crate::plan::Plan;
use crate::run::Durations;
use crate::step::{SOAK_SLACK, StepKind};

/// The values that a typical duration stands for, in percent of it: it says as little as five recorded ones.
const SPREAD: [u64; 5] = [60, 80, 100, 130, 180];
/// The durations that the steps of a plan may have.
#[derive(Clone, Debug, Default)]
pub struct ExpectedDurations {
    /// For each step, if its values are.
    pub(super) of_step: Vec<u32>,
    /// In milliseconds, sorted; none is empty.
    pub(super) values: Vec<Box<[u64]>>,
}

impl ExpectedDurations {
    /// The recorded durations of each step if there are enough, else its `declared` one, else the typical ones of
    /// its kind.
    #[must_use]
    pub fn of(
        plan: &Plan,
        nodes: &BTreeMap<NodeName, Arc<NodeDesign>>,
        recorded: &Durations,
        declared: &dyn Fn(StepKind) -> Option<Duration>,
    ) -> Self {
        let mut known: FxHashMap<(StepKind, &str, u64), u32> = FxHashMap::default();
        let mut all = Self::default();
        for step in &plan.steps {
            let node = step.id.node.as_ref().and_then(|node| nodes.get(node));
            let profile = node.and_then(|node| node.hardware_profile.as_deref());
            let key = (step.id.kind, profile.unwrap_or_default(), step.timeout);
            let position = *known.entry(key).or_insert_with(|| {
                let values = values(key, recorded, declared(key.0));
                all.values.push(values);
                u32::try_from(all.values.len() - 1).unwrap_or(u32::MAX)
            });
            all.of_step.push(position);
        }
        all
    }

    pub(super) fn of_step(&self, index: usize) -> &[u64] {
        let position = self.of_step.get(index);
        let values = position.and_then(|position| self.values.get(*position as usize));
        values.map_or(&[0], |values| values)
    }
}

/// The sorted durations of a kind of step on machines of a profile; none is longer than the timeout.
fn values(
    (kind, profile, timeout): (StepKind, &str, u64),
    recorded: &Durations,
    declared: Option<Duration>,
) -> Box<[u64]> {
    let facts = kind.facts();
    let mut values = match (recorded.of(kind, profile), declared) {
        _ if !facts.touches_world() => vec![0],
        _ if kind == StepKind::Soak => vec![timeout.saturating_sub(SOAK_SLACK) * 1000],
        (Some(recorded), _) => recorded.to_vec(),
        (None, Some(declared)) => vec![declared.as_millis().try_into().unwrap_or(u64::MAX)],
        (None, None) => SPREAD.map(|percent| facts.typical * 10 * percent).to_vec(),
    };
    values.sort_unstable();
    values.extend(longer(&values));
    if timeout > 0 {
        let limit = timeout.saturating_mul(1000);
        values
            .iter_mut()
            .for_each(|value| *value = (*value).min(limit));
    }
    values.into()
}

/// The duration of a step that takes longer than any before, in whose place the largest of `sorted` would be too short:
/// where values fall off exponentially, they reach about so far beyond.
fn longer(sorted: &[u64]) -> Option<u64> {
    let (largest, middle) = (sorted.last()?, sorted.get(sorted.len() / 2)?);
    let doublings = u64::from(sorted.len().checked_ilog2()?);
    (doublings > 0).then(|| largest + (largest - middle) / 12 / doublings)
}
