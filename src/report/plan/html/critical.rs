//! The critical path: the steps that a run waits for from its beginning to its end.

use rustc_hash::FxHashMap;

use crate::plan::{Plan, StepTimes};
use crate::step::StepKind;

/// The steps of the critical path that take time, in order; empty if the plan has no schedule.
///
/// A step begins when the last of its needs has ended, or, if its group works on as many nodes as it may, when
/// another step of the group makes place.
pub(super) fn path(plan: &Plan) -> Vec<usize> {
    let times = &plan.forecast.schedule;
    if times.len() != plan.steps.len() {
        return Vec::new();
    }
    let ends_at = by_end(plan);
    let tags = (0..times.len()).rev();
    let last = tags
        .filter(|step| plan.steps[*step].id.kind != StepKind::Tag)
        .max_by_key(|step| times[*step].1);
    let mut path = Vec::new();
    let mut current = last;
    // A schedule out of a file may lead in a circle.
    for _ in 0..plan.steps.len() {
        let Some(step) = current else {
            break;
        };
        let StepTimes(start, end) = times[step];
        if end > start {
            path.push(step);
        }
        let needs = plan.steps[step].needs.iter();
        let needs = needs.map(|need| need.step.0 as usize);
        let needed = needs
            .filter(|need| *need < step)
            .max_by_key(|need| times[*need].1);
        let makes_place = || {
            ends_at
                .get(&(plan.steps[step].id.group.as_ref(), start))
                .copied()
        };
        current = match needed {
            Some(need) if times[need].1 >= start => Some(need),
            _ if end > start => makes_place().filter(|other| *other != step).or(needed),
            _ => needed,
        };
    }
    path.reverse();
    path
}

/// The steps that take time, by their group and their end.
fn by_end(plan: &Plan) -> FxHashMap<(Option<&crate::design::GroupName>, u32), usize> {
    let steps = plan.steps.iter().zip(&plan.forecast.schedule).enumerate();
    steps
        .filter(|(_, (_, times))| times.1 > times.0)
        .map(|(index, (step, times))| ((step.id.group.as_ref(), times.1), index))
        .collect()
}
