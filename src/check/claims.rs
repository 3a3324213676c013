//! Claims: what a plan says of itself, computed again from its changes and steps.

use std::collections::BTreeMap;

use super::antichain;
use super::away::{self, most_by_series};
use super::failures::wave_of;
use super::interval::Away;
use super::kinds::{facts_of, rung_of_section};
use super::rule::Found;
use super::view::View;
use crate::design::Rung;
use crate::plan::{Action, ChangeKind};
use crate::step::{Step, StepKind};

/// The counts of the summary are those of the changes.
pub(super) fn summary(view: &View<'_>, found: &mut Found<'_, '_>) {
    let summary = &view.plan.summary;
    let (mut done, mut blocked) = (BTreeMap::new(), BTreeMap::new());
    let (mut excluded, mut wiped) = (0, 0);
    let mut highest = None;
    for change in &view.plan.changes {
        let count: &mut BTreeMap<ChangeKind, usize> = match (change.excluded, &change.blocked) {
            (true, _) => {
                excluded += 1;
                continue;
            }
            (false, Some(_)) => &mut blocked,
            (false, None) if change.shown_only => continue,
            (false, None) => &mut done,
        };
        *count.entry(change.kind).or_default() += 1;
        if change.blocked.is_none() {
            highest = highest.max(change.rung);
        }
        if change.blocked.is_none() && change.destructive {
            wiped += change.disks.len();
        }
    }
    let table = [
        (done == summary.changes, "the changes"),
        (blocked == summary.blocked, "what is blocked"),
        (excluded == summary.excluded, "what is excluded"),
        (wiped == summary.wiped_disks, "the disks that are wiped"),
        (highest == summary.highest_rung, "the highest rung"),
    ];
    for (_, what) in table.iter().filter(|(is_same, _)| !is_same) {
        found.add([], format!("the summary does not count {what}"));
    }
}

/// A change goes as far as its steps and the fields that it brings true, and no further than it says.
pub(super) fn rungs(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (change, steps) in view.worked_on() {
        let in_service = match change.kind {
            ChangeKind::Create | ChangeKind::Unknown | ChangeKind::None => false,
            ChangeKind::Adopt
            | ChangeKind::Record
            | ChangeKind::AwaitReady
            | ChangeKind::Rename
            | ChangeKind::Relabel
            | ChangeKind::Service
            | ChangeKind::Redeploy
            | ChangeKind::Destroy
            | ChangeKind::Retire
            | ChangeKind::Unretire
            | ChangeKind::Operation
            | ChangeKind::Drift
            | ChangeKind::Accept => true,
        };
        let is_built = view.has(change.node.as_str(), StepKind::Deploy);
        let fields = change.fields.iter();
        let fields = fields.filter(|field| is_built && field.accepted.is_none());
        let of_fields = fields.map(|field| rung_of_section(field.section)).max();
        let of_steps = steps.iter().map(|at| rung_of_step(view.step(*at))).max();
        let rung = of_steps.max(of_fields).filter(|_| in_service);
        if change.rung != rung {
            let [says, does] = [change.rung, rung].map(|rung| rung.map_or("nothing", Rung::as_str));
            let what = format!(
                "`{}` says `{says}`, and goes as far as `{does}`",
                change.node
            );
            found.add(steps.iter().copied(), what);
        }
    }
}

/// How far a step goes: cleaning that erases takes all disks, and a teardown that keeps local storage one.
fn rung_of_step(step: &Step) -> Rung {
    let own = facts_of(step.id.kind).rung;
    let erases = step.given().clean_steps().iter().any(|step| step.erases);
    let preserves = *step.given().preserve_local_storage();
    match (step.id.kind == StepKind::Destroy, preserves) {
        (true, true) => Rung::Reinstall,
        (false, _) if erases => Rung::Wipe,
        (true | false, _) => own,
    }
}

/// The longest way through the steps takes as long as the summary says.
pub(super) fn longest_path(view: &View<'_>, found: &mut Found<'_, '_>) {
    // A run that another clone resumes gets the times of now.
    if view.has_begun {
        return;
    }
    let mut ends: Vec<u64> = Vec::with_capacity(view.plan.steps.len());
    for (position, step) in view.steps() {
        let needs = step.needs.iter().map(|need| need.step.0 as usize);
        let begin = needs
            .filter(|need| *need < position)
            .map(|need| ends[need])
            .max();
        // A step that stands by takes the time of the one that it stands in for.
        let own = if step.standby { 0 } else { step.timeout };
        ends.push(begin.unwrap_or_default().saturating_add(own));
    }
    let longest = ends.into_iter().max().unwrap_or_default();
    if longest != view.plan.summary.longest_path {
        found.add(
            [],
            format!(
                "the longest way takes {longest} s, and the summary says {} s",
                view.plan.summary.longest_path
            ),
        );
    }
}

/// No wave takes more machines than the plan says of its group, and of all.
pub(super) fn waves(view: &View<'_>, found: &mut Found<'_, '_>) {
    let away = away::of(view);
    if away.is_empty() {
        return;
    }
    let most = view.plan.summary.waves.map(|size| size.most);
    for group in &view.plan.groups {
        let Some(size) = group.waves else { continue };
        let of_group = |away: &&Away<'_>| {
            let group_of = away
                .firsts
                .first()
                .and_then(|at| view.step(*at).id.group.as_ref());
            group_of == Some(&group.name)
        };
        let own: Vec<&Away<'_>> = away.iter().filter(of_group).collect();
        let mut together = most_by_series(&own, false);
        if together.len() > size.most {
            // Those whose intervals meet need not be away together.
            together = antichain::most(view, &own, false).unwrap_or(together);
        }
        if together.len() > size.most || most.is_some_and(|most| most < size.most) {
            let what = format!(
                "waves of group `{}` are larger than the plan says",
                group.name
            );
            found.add(
                together.iter().flat_map(|away| away.firsts.iter().copied()),
                what,
            );
        }
    }
    let mut in_wave: BTreeMap<usize, usize> = BTreeMap::new();
    for machine in away {
        let waves = machine.firsts.iter().filter_map(|at| wave_of(view, *at));
        for wave in waves.collect::<std::collections::BTreeSet<_>>() {
            *in_wave.entry(wave).or_default() += 1;
        }
    }
    for (wave, count) in in_wave {
        if most.is_some_and(|most| count > most) {
            found.add([wave], "the wave is larger than the plan says of its waves");
        }
    }
}

/// Every designed node is changed, unchanged or retired.
pub(super) fn counted(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(site) = view.site else { return };
    let plan = view.plan;
    let changed = plan.changes.iter();
    let changed = changed
        .filter(|change| site.nodes.contains_key(&change.node))
        .count();
    let is_of_all = plan.request.action == Action::Update;
    let all = if is_of_all { site.nodes.len() } else { changed };
    if changed + plan.unchanged + plan.summary.retired != all {
        let what = format!(
            "of {all} nodes {changed} are changed, {} unchanged and {} retired",
            plan.unchanged, plan.summary.retired
        );
        found.add([], what);
    }
}
