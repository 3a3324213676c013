//! Failures: each wave stands behind a check at the act, and none begins over what a cluster stands on.

use std::collections::BTreeSet;

use super::away;
use super::interval::Away;
use super::kinds::facts_of;
use super::limits::{Retired, is_control_plane};
use super::rule::Found;
use super::view::View;
use crate::plan::Action;
use crate::record::Phase;
use crate::step::{StepKind, Wait};

/// The wave for whose success a step waits: by itself, or by the steps of its node before it.
pub(super) fn wave_of(view: &View<'_>, step: usize) -> Option<usize> {
    let node = view.step(step).id.node.as_ref();
    let (mut at, mut left) = (step, 16);
    while left > 0 {
        let needs = view.step(at).needs.iter().rev();
        let needs = needs.filter(|need| need.wait == Wait::Success);
        let mut needs = needs.map(|need| need.step.0 as usize);
        let own = needs
            .clone()
            .find(|need| view.step(*need).id.node.as_ref() == node);
        match needs.find(|need| view.kind(*need) == StepKind::StartWave) {
            Some(wave) => return Some(wave),
            None => (at, left) = (own?, left - 1),
        }
    }
    None
}

/// A machine is taken away behind the start of a wave, where breaker, criteria and quorum are judged again.
pub(super) fn behind_a_check(view: &View<'_>, found: &mut Found<'_, '_>) {
    let waves: Vec<usize> = view.of_kind(StepKind::StartWave).collect();
    if waves.is_empty() {
        return;
    }
    let away = away::of(view);
    for machine in away.iter().filter(|away| !away.has_left) {
        for first in &machine.firsts {
            if wave_of(view, *first).is_none() {
                found.add([*first], "takes a machine away behind no wave");
            }
        }
    }
    if view.plan.options.canary {
        let waves_first = waves[0];
        let of_first = |away: &&Away<'_>| {
            let mut waves = away.firsts.iter().filter_map(|at| wave_of(view, *at));
            waves.any(|wave| wave == waves_first)
        };
        let first: Vec<&Away<'_>> = away.iter().filter(of_first).collect();
        if first.len() > 1 {
            let steps = first.iter().flat_map(|away| away.firsts.iter().copied());
            found.add(steps, "the first wave is to be one machine");
        }
        let lasts = first.iter().flat_map(|away| away.lasts.iter());
        for last in lasts.filter(|last| !view.step(**last).standby) {
            let mut later = waves[1..].iter();
            if let Some(wave) = later.find(|wave| !view.is_after(**wave, *last, Wait::Success)) {
                found.add(
                    [*wave, *last],
                    "does not wait for the success of the canary",
                );
            }
        }
    }
}

/// If the guards have a soak, each wave behind another one waits for the success of that one's soak, which is as long and
/// watches as much as they say.
pub(super) fn soaks(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let policy = &guards.policy.soak;
    let is_about = matches!(view.plan.request.action, Action::Update | Action::Redeploy);
    if policy.seconds == 0 || !is_about {
        return;
    }
    let soaks: Vec<usize> = view.of_kind(StepKind::Soak).collect();
    for soak in &soaks {
        let terms = view.given(*soak).soak().as_deref();
        let is_kept = terms.is_some_and(|terms| {
            let watched: BTreeSet<_> = terms.namespaces.iter().cloned().collect();
            let clusters = guards.etcd_clusters.iter();
            let mut wanted = clusters.map(|each| (&each.name, each.minimum_healthy));
            let mut nodes = terms
                .nodes
                .iter()
                .filter_map(|node| view.designed(node.as_str()));
            let has_parts = guards.policy.demands_expected_hardware
                && nodes.any(|node| !node.expected_parts().is_empty());
            terms.seconds >= policy.seconds
                && watched.is_superset(&policy.namespaces)
                && wanted.all(|(name, most)| terms.etcd.get(name) >= Some(&most))
                && (terms.parts || !has_parts)
        });
        if !is_kept {
            found.add([*soak], "is shorter, or watches less, than the guards say");
        }
    }
    let waves: Vec<usize> = view.of_kind(StepKind::StartWave).collect();
    for pair in waves.windows(2) {
        let own = soaks.iter().find(|soak| (pair[0]..pair[1]).contains(*soak));
        if own.is_none_or(|soak| !view.is_after(pair[1], *soak, Wait::Success)) {
            found.add(
                [pair[1]],
                "does not wait for the soak of the wave before it",
            );
        }
    }
    if let Some(last) = waves.last()
        && !soaks.iter().any(|soak| soak > last)
    {
        found.add([*last], "has no soak behind it");
    }
}

/// A machine that came back in a wave whose soak has not succeeded since has it before the next wave, or behind what brings it back.
pub(super) fn owed_soaks(view: &View<'_>, found: &mut Found<'_, '_>) {
    let (Some(guards), Some(world)) = (view.guards(), view.world) else {
        return;
    };
    let is_about = matches!(view.plan.request.action, Action::Update | Action::Redeploy);
    if guards.policy.soak.seconds == 0 || !is_about {
        return;
    }
    let retired = Retired::of(view);
    let first_wave = view.of_kind(StepKind::StartWave).next();
    for record in world.records.values() {
        let name = record.node.as_str();
        let is_reserved = world.reservations.nodes.contains_key(&record.node);
        let is_aside =
            is_reserved || record.maintenance.is_some() || retired.contains(&record.node);
        if record.soaking.is_none() || is_aside || view.designed(name).is_none() {
            continue;
        }
        let steps = view.of_node(name);
        let is_new = |at: &usize| {
            let kind = view.kind(*at);
            facts_of(kind).takes_away || matches!(kind, StepKind::Prepare | StepKind::Deploy)
        };
        let comes_back = |at: &usize| {
            let kind = view.kind(*at);
            let is_in_a_group = view.step(*at).id.group.is_some();
            is_in_a_group && matches!(kind, StepKind::AwaitReady | StepKind::PowerOn)
        };
        let backs: Vec<usize> = steps.iter().copied().filter(comes_back).collect();
        if steps.iter().any(is_new) || record.phase != Phase::Deployed && backs.is_empty() {
            continue;
        }
        let soaks = view.of_kind(StepKind::Soak);
        let mut soaks =
            soaks.filter(|soak| view.step(*soak).soaked().any(|node| *node == record.node));
        let is_soaked = soaks.any(|soak| match (backs.is_empty(), first_wave) {
            (false, _) => backs
                .iter()
                .any(|back| view.is_after(soak, *back, Wait::Done)),
            (true, Some(wave)) => view.is_after(wave, soak, Wait::Success),
            (true, None) => true,
        });
        if !is_soaked {
            found.add(
                backs,
                format!("`{name}` has no soak, which an earlier run owes it"),
            );
        }
    }
}

/// The wave behind a machine of the control plane or a member of etcd waits for its success, and not only for its end.
pub(super) fn back_before(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let waves: Vec<usize> = view.of_kind(StepKind::StartWave).collect();
    if waves.len() < 2 {
        return;
    }
    for machine in away::of(view).iter().filter(|away| away.comes_back) {
        let node = view.designed(machine.node.as_str());
        if !node.is_some_and(|node| is_control_plane(guards, node)) {
            continue;
        }
        for last in &machine.lasts {
            if view.kind(*last) != StepKind::AwaitReady {
                continue;
            }
            let next = waves.partition_point(|wave| wave < last);
            if let Some(wave) = waves.get(next)
                && !view.is_after(*wave, *last, Wait::Success)
            {
                let what =
                    "the wave does not wait for the success of a machine on which a cluster stands";
                found.add([*wave, *last], what);
            }
        }
    }
}
