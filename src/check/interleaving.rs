//! Every interleaving in which steps succeed keeps the limits on machines that are away together.

use super::antichain::{self, MOST, Pair};
use super::away::{self, most_by_series};
use super::interval::Away;
use super::limits::{self, Limit};
use super::rule::Found;
use super::view::View;
use crate::plan::Action;

/// One machine of the control plane at a time, where no number is given for the site.
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

fn each(view: &View<'_>, found: &mut Found<'_, '_>, is_meant: impl Fn(&Limit<'_, '_>) -> bool) {
    let Some(guards) = view.guards() else { return };
    let away = away::of(view);
    if away.is_empty() {
        return;
    }
    let held = limits::held(view, away);
    for limit in limits::all(view, guards, away)
        .iter()
        .filter(|limit| is_meant(limit))
    {
        let held = limits::holding(view, guards, limit, &held);
        let exceeds = |set: &[&Away<'_>]| set.len() > limit.left(held, view.world.is_some());
        // What is down already takes no place that it does not have.
        let is_up = |away: &&&Away<'_>| !limits::is_down(view, away.node.as_str());
        let up: Vec<&Away<'_>> = limit.machines.iter().filter(is_up).copied().collect();
        if up.is_empty() || !exceeds(&most_by_series(&limit.machines, false)) {
            continue;
        }
        let what = &limit.what;
        match antichain::most(view, &limit.machines, false) {
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
