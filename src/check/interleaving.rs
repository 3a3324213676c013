//! Every interleaving in which steps succeed keeps the limits on machines that are away together.

use rustc_hash::FxHashSet;

use super::antichain::{self, MOST, Pair};
use super::away::{self, most_by_series};
use super::interval::Away;
use super::limits::{self, Limit};
use super::rule::Found;
use super::view::View;
use crate::design::NodeName;
use crate::plan::Action;

/// One machine of the control plane at a time, if no number is given for the site.
pub(super) fn control_plane(view: &View<'_>, found: &mut Found<'_, '_>) {
    each(view, found, |limit| limit.is_control_plane);
}

/// Per site, group, rack and tag no more machines than the guards allow.
pub(super) fn within_limits(view: &View<'_>, found: &mut Found<'_, '_>) {
    each(view, found, |limit| !limit.is_control_plane);
}

/// Machines that are away together are in one failure domain of each kind. What only brings back machines that are down
/// takes none away.
pub(super) fn in_one_domain(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let is_given = !guards.policy.failure_domains.by.is_empty();
    if !is_given || view.plan.request.action == Action::Remediate {
        return;
    }
    let mut machines = Vec::new();
    for machine in away::of(view).iter().filter(|away| !away.has_left) {
        let name = machine.node.as_str();
        if let Some(node) = view.designed(name).or(view.applied(name)) {
            machines.push((machine, limits::domains_of(guards, node)));
        }
    }
    if machines
        .iter()
        .all(|(_, domains)| *domains == machines[0].1)
    {
        return;
    }
    machines.sort_by_key(|(away, _)| away.from);
    if are_apart_by_series(&machines) {
        return;
    }
    let all: Vec<&Away<'_>> = machines.iter().map(|(away, _)| *away).collect();
    let Some(pair) = antichain::pair(view, &all, |one, other| {
        machines[one].1 != machines[other].1
    }) else {
        return;
    };
    match pair {
        Pair::NotProven => {
            let what = format!(
                "more than {MOST} machines of several failure domains are away: not proven"
            );
            found.add([], what);
        }
        Pair::Together(one, other) => {
            let (one, other) = (all[one], all[other]);
            let what = format!(
                "`{}` and `{}` are in different failure domains and can be away at the same time",
                one.node, other.node
            );
            found.add(one.firsts.iter().chain(&other.firsts).copied(), what);
        }
    }
}

/// Whether the series of barriers keeps machines of different domains apart; the machines in the order in which they are
/// taken away.
fn are_apart_by_series<D: PartialEq>(machines: &[(&Away<'_>, D)]) -> bool {
    // The latest end of all before, and the latest of those of another domain than that one.
    let (mut latest, mut other): (Option<(usize, &D)>, Option<usize>) = (None, None);
    for (away, domain) in machines {
        let of_others = match latest {
            Some((end, of)) if of != domain => Some(end),
            _ => other,
        };
        if of_others.is_some_and(|end| end > away.from) {
            return false;
        }
        match latest {
            Some((end, of)) if of == domain => latest = Some((end.max(away.to), of)),
            Some((end, _)) if end >= away.to => other = other.max(Some(away.to)),
            Some((end, _)) => {
                other = other.max(Some(end));
                latest = Some((away.to, domain));
            }
            None => latest = Some((away.to, domain)),
        }
    }
    true
}

/// Whether the run of a plan holds a limit too, under which not all of its machines have a place.
fn is_held_in_run(view: &View<'_>, limit: &Limit<'_, '_>, held: usize, found: &mut Found<'_, '_>) {
    let come_and_go = limit.machines.iter().filter(|away| !away.goes_down);
    let machines: FxHashSet<&NodeName> = come_and_go.map(|away| away.node).collect();
    let left = limit.left(held, view.world.is_some());
    let is_remediation = view.plan.request.action == Action::Remediate;
    if limit.is_at_least_one || is_remediation || machines.len() <= left {
        return;
    }
    let mut places = view.plan.guards.places.iter();
    let of_run = places.find(|places| *places.of == *limit.what);
    let is_held = of_run.is_some_and(|of_run| {
        let nodes: FxHashSet<&NodeName> = of_run.nodes.iter().collect();
        let is_default = limit.is_control_plane || limit.is_parallelism;
        (of_run.is_given || is_default) && of_run.places <= left && machines.is_subset(&nodes)
    });
    if !is_held {
        let what = format!(
            "a machine {} that does not come back keeps no place in the run",
            limit.what
        );
        found.add([], what);
    }
}

fn each(view: &View<'_>, found: &mut Found<'_, '_>, is_meant: impl Fn(&Limit<'_, '_>) -> bool) {
    let Some(guards) = view.guards() else { return };
    let away = away::with_down(view);
    if away.is_empty() {
        return;
    }
    let held = limits::held(view, &away);
    for limit in limits::all(view, guards, &away)
        .iter()
        .filter(|limit| is_meant(limit))
    {
        let held = limits::holding(view, guards, limit, &held);
        is_held_in_run(view, limit, held, found);
        let exceeds = |set: &[&Away<'_>]| set.len() > limit.left(held, view.world.is_some());
        // What is down already takes no place that it does not have, and what is back before all others takes none from them.
        let is_up = |away: &&Away<'_>| !away.was_down;
        let up = limit.machines.iter().copied().filter(is_up);
        let Some(first) = up.map(|away| away.from).min() else {
            continue;
        };
        let is_beside = |away: &&Away<'_>| !away.was_down || away.to > first;
        let machines: Vec<&Away<'_>> = limit.machines.iter().copied().filter(is_beside).collect();
        let for_good = !limit.is_at_least_one;
        if !exceeds(&most_by_series(&machines, for_good)) {
            continue;
        }
        let what = &limit.what;
        // If no document gives the number, one may go though others are down.
        let is_alone = || {
            let up: Vec<&Away<'_>> = machines.iter().copied().filter(is_up).collect();
            antichain::most(view, &up, for_good).is_some_and(|up| up.len() < 2)
        };
        match antichain::most(view, &machines, for_good) {
            Some(_) if limit.is_at_least_one && is_alone() => {}
            None => {
                let what = format!("more than {MOST} machines {what} are away: not proven");
                found.add([], what);
            }
            Some(set) if exceeds(&set) => {
                let (count, most) = (set.len() + held, limit.most);
                let what = format!(
                    "{count} machines {what} can be away at the same time, and {most} may be"
                );
                found.add(
                    set.iter().flat_map(|away| away.firsts.iter().copied()),
                    what,
                );
            }
            Some(_) => {}
        }
    }
}
