//! Every interleaving in which steps succeed keeps the limits on machines that are away together.

use super::antichain::{self, MOST};
use super::away::{self, most_by_series};
use super::interval::Away;
use super::limits::{self, Limit};
use super::rule::Found;
use super::view::View;

/// One machine of the control plane at a time, where no number is given for the site.
pub(super) fn control_plane(view: &View<'_>, found: &mut Found<'_, '_>) {
    each(view, found, |limit| limit.is_control_plane);
}

/// Per site, group, rack and tag no more machines than the guards allow.
pub(super) fn within_limits(view: &View<'_>, found: &mut Found<'_, '_>) {
    each(view, found, |limit| !limit.is_control_plane);
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
