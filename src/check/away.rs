//! When machines are away: from the step that takes a machine out of service to the last one of its way back.
//!
//! Which machines can be away at the same time follows from the needs of steps alone, and never from the waves that a plan
//! names. One machine is away before another one if the last step of the first is waited for by the first of the other.
//! Barriers that follow each other divide most plans into a series; there an interval between two barriers is all that has to
//! be known of a machine, and machines whose intervals meet are taken for being away together, which they are at most. Only
//! where that is too many are the ways between steps followed one by one ([`super::antichain`]).

use rustc_hash::FxHashMap;

use super::interval::Away;
use super::kinds::{Place, facts_of};
use super::limits;
use super::view::View;
use crate::plan::{Action, ChangeKind};
use crate::step::StepKind;

/// Kinds of step that bring a machine back.
const BUILD: [StepKind; 3] = [StepKind::Deploy, StepKind::Service, StepKind::Remediate];
/// Kinds of step that leave a machine down, if no other follows.
const GO_DOWN: [StepKind; 3] = [
    StepKind::PowerOff,
    StepKind::Drain,
    StepKind::ShutdownKubelet,
];
/// Kinds of step that take a machine away for good.
const LEAVE: [StepKind; 2] = [StepKind::Destroy, StepKind::RemoveFromCluster];

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
            // Waves follow each other in the whole site, also if groups run in parallel.
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
    view.away.get_or_init(|| all(view, |_| false))
}

/// The same as limits count them: what was down before is away from the begin on, also if it is only built, and what leaves for
/// good is not missed, unless it stays down.
pub(super) fn with_down<'a>(view: &View<'a>) -> Vec<Away<'a>> {
    let mut result = all(view, |node| limits::is_down(view, node));
    result.retain(|away| !limits::is_of_resumed_run(view, away.node.as_str()));
    let retired = limits::Retired::of(view);
    for away in &mut result {
        // What was never deployed is not missed, nor what is retired. If neither is known, it is held to its wave.
        let is_missed =
            limits::is_deployed(view, away.node.as_str()) && !retired.contains(away.node);
        away.has_left |= away.goes_down && !is_missed && view.world.is_some();
        away.comes_back = !(away.goes_down && is_missed);
    }
    result
}

fn all<'a>(view: &View<'a>, is_down: impl Fn(&str) -> bool) -> Vec<Away<'a>> {
    let takes = |kind: StepKind| facts_of(kind).takes_away || kind == StepKind::Deploy;
    let takes_any = view.steps().any(|(_, step)| takes(step.id.kind));
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
        let has = |kinds: &[StepKind]| {
            let mut kinds = kinds.iter();
            kinds.any(|kind| view.has(change.node.as_str(), *kind))
        };
        let was_down = is_down(change.node.as_str());
        if was_down {
            // It is away from the begin on, and its first group brings it back, if any does.
            lists.truncate(1);
        }
        for own in lists {
            let takes = |position: &usize| {
                let kind = view.kind(*position);
                facts_of(kind).takes_away || was_down && kind == StepKind::Deploy
            };
            let Some(first) = own.iter().position(takes) else {
                continue;
            };
            let own = &own[first..];
            let waits_for_own = |position: usize| {
                let mut needs = view.step(position).needs.iter();
                needs.any(|need| own.contains(&(need.step.0 as usize)))
            };
            let firsts = own.iter().copied().filter(|at| !waits_for_own(*at));
            let firsts: Vec<usize> = firsts.filter(|_| !was_down).collect();
            let is_last = |at: &usize| {
                !own.iter()
                    .any(|other| view.waits(*other, *at, crate::step::Wait::Done))
            };
            let lasts: Vec<usize> = own.iter().copied().filter(is_last).collect();
            let comes_back = own.iter().any(|at| BUILD.contains(&view.kind(*at)));
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
                comes_back,
                firsts,
                lasts,
                was_down,
                goes_down: !comes_back && has(&GO_DOWN) && !has(&LEAVE),
                has_left: view.plan.request.action == Action::Update
                    && change.kind == ChangeKind::Destroy,
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
