//! When machines are away: from the step that takes a machine out of service to the last one of its way back.
//!
//! Which machines can be away at the same time follows from the needs of steps alone, and never from the waves that a plan
//! names. One machine is away before another one where the last step of the first is waited for by the first of the other.
//! Barriers that follow each other divide most plans into a series; there an interval between two barriers is all that has to
//! be known of a machine, and machines whose intervals meet are taken for being away together, which they are at most. Only
//! where that is too many are the ways between steps followed one by one ([`super::antichain`]).

use rustc_hash::FxHashMap;

use super::interval::Away;
use super::kinds::{Place, facts_of};
use super::view::View;
use crate::plan::{Action, ChangeKind};
use crate::step::StepKind;

/// Where in the series of barriers each step stands.
struct Series {
    /// The last barrier that each step waits for; 0: none.
    after: Vec<usize>,
    /// The first barrier that waits for each step; the length of the series and one more: none.
    before: Vec<usize>,
}

impl Series {
    fn of(view: &View<'_>) -> Self {
        let count = view.plan.steps.len();
        let (mut after, mut number, mut length) = (vec![0; count], vec![0; count], 0);
        for (position, step) in view.steps() {
            let needs = step.needs.iter().map(|need| need.step.0 as usize);
            let needs = needs.filter(|need| *need < position);
            let latest = needs.map(|need| after[need].max(number[need])).max();
            after[position] = latest.unwrap_or_default();
            // Waves follow each other in the whole site, also where groups run in parallel.
            let is_barrier = facts_of(step.id.kind).place == Place::Wave;
            if is_barrier && after[position] == length {
                length += 1;
                number[position] = length;
            }
        }
        let mut before = vec![length + 1; count];
        for (position, step) in view.steps().collect::<Vec<_>>().into_iter().rev() {
            let own = match number[position] {
                0 => before[position],
                number => number,
            };
            let needs = step.needs.iter().map(|need| need.step.0 as usize);
            for need in needs.filter(|need| *need < position) {
                before[need] = before[need].min(own);
            }
        }
        Self { after, before }
    }
}

/// All machines that are away at some time, each with when.
pub(super) fn of<'v, 'a>(view: &'v View<'a>) -> &'v [Away<'a>] {
    view.away.get_or_init(|| all(view))
}

fn all<'a>(view: &View<'a>) -> Vec<Away<'a>> {
    let takes_any = view
        .steps()
        .any(|(_, step)| facts_of(step.id.kind).takes_away);
    if !takes_any {
        return Vec::new();
    }
    let series = Series::of(view);
    let mut result = Vec::new();
    for (change, steps) in view.worked_on() {
        // A node in several groups is carried out in one of them.
        let mut by_group: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for position in steps {
            let group = view.step(*position).id.group.as_ref();
            by_group.entry(group).or_default().push(*position);
        }
        let mut lists: Vec<Vec<usize>> = by_group.into_values().collect();
        lists.sort_unstable();
        for own in lists {
            let takes = |position: &usize| facts_of(view.kind(*position)).takes_away;
            let Some(first) = own.iter().position(takes) else {
                continue;
            };
            let own = &own[first..];
            let waits_for_own = |position: usize| {
                let mut needs = view.step(position).needs.iter();
                needs.any(|need| own.contains(&(need.step.0 as usize)))
            };
            let firsts: Vec<usize> = own
                .iter()
                .copied()
                .filter(|at| !waits_for_own(*at))
                .collect();
            let is_last = |at: &usize| {
                !own.iter()
                    .any(|other| view.waits(*other, *at, crate::step::Wait::Done))
            };
            let lasts: Vec<usize> = own.iter().copied().filter(is_last).collect();
            let has_left =
                view.plan.request.action == Action::Update && change.kind == ChangeKind::Destroy;
            result.push(Away {
                node: &change.node,
                from: firsts
                    .iter()
                    .map(|at| series.after[*at])
                    .min()
                    .unwrap_or_default(),
                to: lasts
                    .iter()
                    .map(|at| series.before[*at])
                    .max()
                    .unwrap_or(usize::MAX),
                comes_back: own.iter().any(|at| {
                    matches!(
                        view.kind(*at),
                        StepKind::Deploy | StepKind::Service | StepKind::Remediate
                    )
                }),
                firsts,
                lasts,
                has_left,
            });
        }
    }
    result
}

/// The most machines of some that the series of barriers lets be away at the same time, and which: at least as many as
/// really can. `for_good`: those that do not come back stay away.
pub(super) fn most_by_series<'s, 'a>(some: &[&'s Away<'a>], for_good: bool) -> Vec<&'s Away<'a>> {
    let ends = |away: &Away<'_>| match for_good && !away.comes_back {
        true => usize::MAX,
        false => away.to,
    };
    let mut sorted: Vec<&Away<'_>> = some.to_vec();
    sorted.sort_by_key(|away| away.from);
    // At the begin of one of them as many as ever are away.
    let (mut most, mut open): (Vec<&Away<'_>>, Vec<&Away<'_>>) = (Vec::new(), Vec::new());
    let mut ordered: std::collections::BinaryHeap<std::cmp::Reverse<usize>> = Default::default();
    let (mut count, mut best, mut at) = (0_usize, 0_usize, 0_usize);
    for away in &sorted {
        while ordered.peek().is_some_and(|end| end.0 <= away.from) {
            ordered.pop();
            count -= 1;
        }
        ordered.push(std::cmp::Reverse(ends(away)));
        count += 1;
        if count > best {
            (best, at) = (count, away.from);
        }
    }
    open.extend(
        sorted
            .iter()
            .filter(|away| away.from <= at && ends(away) > at),
    );
    if open.len() >= best {
        most = open;
    }
    most
}
