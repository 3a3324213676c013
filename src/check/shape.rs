//! The shape of a plan: its steps exist, belong to something, and are those of its changes.

use rustc_hash::FxHashSet;

use super::kinds::{Place, facts_of, is_made_by, rung_of_section, steps_of};
use super::rule::Found;
use super::view::{Names, View};
use crate::design::Rung;
use crate::plan::{Action, Change, ChangeKind};
use crate::step::{Effect, OnDrainTimeout, Step, StepId, StepKind};

/// Ids are unique, and have the parts of their kind.
pub(super) fn ids(view: &View<'_>, found: &mut Found<'_, '_>) {
    let mut known: FxHashSet<&StepId> = FxHashSet::default();
    for (position, step) in view.steps() {
        let id = &step.id;
        let is_name = |name: &str| !name.is_empty() && !name.contains('/');
        let named = id.node.as_ref().is_none_or(|node| is_name(node.as_str()))
            && id
                .group
                .as_ref()
                .is_none_or(|group| is_name(group.as_str()));
        let has_parts = match facts_of(id.kind).place {
            Place::Site => id.group.is_none() && id.node.is_none() && id.wave.is_none(),
            Place::Group => {
                let may_have_wave = id.kind == StepKind::GatePrepared || id.wave.is_none();
                id.group.is_some() && id.node.is_none() && may_have_wave
            }
            Place::Wave => {
                // Before the first wave stands the soak that earlier runs owe.
                let is_owed = id.kind == StepKind::Soak && id.group.is_none();
                let least = u32::from(!is_owed);
                id.node.is_none() && id.wave.is_some_and(|wave| wave >= least)
            }
            Place::Node => id.node.is_some() && id.wave.is_none(),
            Place::NodeOrSite => id.wave.is_none() && (id.node.is_some() || id.group.is_none()),
        };
        if !named || !has_parts {
            found.add([position], "is no id of a step of its kind");
        }
        if !known.insert(id) {
            found.add([position], "there is more than one step of this id");
        }
    }
}

/// Needs exist and are acyclic: each is before its step, and there once.
pub(super) fn needs(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (position, step) in view.steps() {
        let mut needs = step.needs.iter().map(|need| need.step.0 as usize);
        if needs.any(|need| need >= position) {
            found.add([position], "waits for a step that is not before it");
        }
        if !step.needs.is_sorted_by(|one, other| one.step < other.step) {
            found.add([position], "waits for a step twice, or not in their order");
        }
    }
    for precondition in &view.plan.relies_on {
        let mut steps = precondition.steps.iter().map(|step| step.0 as usize);
        if steps.any(|step| step >= view.plan.steps.len()) {
            let subject = &precondition.subject;
            found.add(
                [],
                format!("a fact of `{subject}` is for a step that does not exist"),
            );
        }
    }
}

/// Every step belongs to a change, to a group that holds its node, or to the site.
pub(super) fn belongs(view: &View<'_>, found: &mut Found<'_, '_>) {
    let groups = view.plan.groups.iter();
    let groups: rustc_hash::FxHashMap<_, _> = groups
        .map(|group| (&group.name, group.nodes.iter().collect::<FxHashSet<_>>()))
        .collect();
    for (position, step) in view.steps() {
        let StepId { group, node, .. } = &step.id;
        let in_group = group.as_ref().map(|group| groups.get(group));
        match (in_group, node) {
            (Some(None), _) => found.add([position], "its group is none of the plan"),
            (Some(Some(nodes)), Some(node)) if !nodes.contains(node) => {
                found.add([position], "its group does not hold its node");
            }
            (_, Some(node)) if view.change(node.as_str()).is_none() => {
                found.add([position], "its node has no change");
            }
            _ => {}
        }
    }
}

/// A node has one change, of its action, and one record; a node is in a run once.
pub(super) fn once(view: &View<'_>, found: &mut Found<'_, '_>) {
    let action = view.plan.request.action;
    let changes = &view.plan.changes;
    for pair in changes.windows(2) {
        if pair[0].node >= pair[1].node {
            let what = "is not in its place in the list of changes, or twice";
            found.about(pair[1].node.as_str(), what);
        }
    }
    for change in changes {
        if !is_made_by(change.kind, action) {
            let what = format!("has a change that `{action}` does not make");
            found.about(change.node.as_str(), &what);
        }
    }
    for (change, steps) in view.worked_on() {
        let first = steps.iter().find_map(|at| view.step(*at).id.group.as_ref());
        let mut own: FxHashSet<StepKind> = FxHashSet::default();
        for position in steps {
            let step = view.step(*position);
            let is_again = step.id.group.is_some() && step.id.group.as_ref() != first;
            if step.standby != is_again {
                let what = "stands by in its first group, or does not in another one";
                found.add([*position], what);
            } else if !is_again && !own.insert(step.id.kind) {
                let what = format!("`{}` has two steps of one kind", change.node);
                found.add([*position], what);
            }
        }
    }
}

/// Every change that is carried out has the steps of its kind and no others.
pub(super) fn of_change(view: &View<'_>, found: &mut Found<'_, '_>) {
    let action = view.plan.request.action;
    // A plan of which nothing is carried out has no steps.
    if view.plan.steps.is_empty() {
        return;
    }
    for change in &view.plan.changes {
        let steps = view.of_node(change.node.as_str());
        let kinds = steps_of(change.kind, action);
        for position in steps {
            if !kinds.may_have.contains(&view.kind(*position)) {
                found.add([*position], "is none of the steps of its change");
            }
        }
        let is_done = |kind: &StepKind| view.has(change.node.as_str(), *kind);
        let is_complete = match kinds.all {
            true => kinds.needs.iter().all(is_done),
            false => kinds.needs.is_empty() || kinds.needs.iter().any(is_done),
        };
        if is_carried_out(change) && !is_complete {
            found.about(change.node.as_str(), "lacks a step of its change");
        }
    }
}

fn is_carried_out(change: &Change) -> bool {
    let is_held = change.blocked.is_some() || change.excluded || change.shown_only;
    !is_held && change.kind != ChangeKind::None
}

/// Nothing blocked, excluded or only shown has a step.
pub(super) fn carried_out(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (change, steps) in view.worked_on() {
        if !is_carried_out(change) {
            let what = "has a step, and its change is blocked, excluded or only shown";
            found.add(steps.iter().copied(), format!("`{}` {what}", change.node));
        }
    }
}

/// A step has the effect of its kind: less only if there is nothing to lose, more if it erases.
pub(super) fn effects(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (position, step) in view.steps() {
        let own = facts_of(step.id.kind).effect;
        let is_right = match (step.id.kind, step.effect) {
            (StepKind::Prepare, Effect::None) => step.given().refused().is_some(),
            (StepKind::Prepare, Effect::Destructive) => {
                step.given().clean_steps().iter().any(|step| step.erases)
            }
            (StepKind::Deploy, Effect::Reversible) => true,
            (_, effect) => effect == own,
        };
        if !is_right {
            found.add([position], "does not have the effect of its kind");
        }
    }
}

/// A step that destroys data or takes a machine away is in a change that is shown as destructive.
pub(super) fn destructive(view: &View<'_>, found: &mut Found<'_, '_>) {
    let action = view.plan.request.action;
    for (change, steps) in view.worked_on() {
        let destroys = |position: &usize| {
            use StepKind as S;
            let kind = view.kind(*position);
            [S::Destroy, S::Clean, S::Remediate].contains(&kind)
                || kind == S::Deploy && change.kind == ChangeKind::Redeploy
                || kind == S::RemoveFromCluster && action == Action::RemoveFromCluster
        };
        if change.destructive {
            continue;
        }
        let destroying: Vec<usize> = steps.iter().copied().filter(|at| destroys(at)).collect();
        if !destroying.is_empty() {
            let what = format!("`{}` is not shown as destructive", change.node);
            found.add(destroying, what);
        }
    }
}

/// A step that destroys was allowed by a flag, which an approval covers, or by the action that names the node.
pub(super) fn allowed(view: &View<'_>, found: &mut Found<'_, '_>) {
    let options = &view.plan.options;
    let destroy = Names::of(&options.allow_destroy);
    let adopt = Names::of(&options.adopt);
    let unverified = Names::of(&options.allow_unverified);
    let by_documents = view.plan.request.action == Action::Update;
    for (change, steps) in view.worked_on() {
        let names: Option<(&Names<'_>, &str)> = match change.kind {
            // What is left of a machine that was torn down before holds nothing.
            ChangeKind::Destroy if change.destructive => Some((&destroy, "--allow-destroy")),
            ChangeKind::Adopt => Some((&adopt, "--adopt")),
            // How far a redeploy may go is a rule of its own.
            ChangeKind::Redeploy
            | ChangeKind::Destroy
            | ChangeKind::None
            | ChangeKind::Create
            | ChangeKind::Unknown
            | ChangeKind::Rename
            | ChangeKind::Record
            | ChangeKind::Relabel
            | ChangeKind::Service
            | ChangeKind::Drift
            | ChangeKind::Accept
            | ChangeKind::AwaitReady
            | ChangeKind::Retire
            | ChangeKind::Unretire
            | ChangeKind::Operation => None,
        };
        if let Some((names, flag)) = names.filter(|_| by_documents)
            && !names.contain(&change.node)
        {
            let what = format!("`{}` is not among those of `{flag}`", change.node);
            found.add(steps.iter().copied(), what);
        }
        for position in steps {
            if let Some(flag) = missing_flag(view, change, view.step(*position)) {
                found.add([*position], format!("needs `{flag}`, which is not given"));
            }
        }
    }
    // Who is named by the policy may be changed unverified, too.
    if let Some(guards) = view.guards() {
        for (change, steps) in view.worked_on().filter(|(change, _)| change.unverified) {
            let name = change.node.as_str();
            let designed = view.designed(name).or(view.applied(name));
            let selectors = &guards.policy.unverified;
            let by_policy = |node| selectors.iter().any(|selector| selector.matches(node));
            if !unverified.contain(&change.node) && !designed.is_some_and(by_policy) {
                let what = format!("`{name}` is unverified, and nothing allows that");
                found.add(steps.iter().copied(), what);
            }
        }
    }
}

/// A change that the documents ask for goes no further with its machine than a flag that names it, or the guard `disruption`
/// of the plan for what differs. Without the guard that is `live`.
pub(super) fn disruption(view: &View<'_>, found: &mut Found<'_, '_>) {
    if view.plan.request.action != Action::Update {
        return;
    }
    let options = &view.plan.options;
    let flags = [
        (Rung::Restart, Names::of(&options.allow_restart)),
        (Rung::Reinstall, Names::of(&options.allow_reinstall)),
        (Rung::Wipe, Names::of(&options.allow_redeploy)),
    ];
    let row = view.plan.guards.values.get("disruption");
    let of_row = |name: &str| row.and_then(|row| row.get(name)?.as_str());
    let parse = |word: &str| Rung::ALL.into_iter().find(|rung| rung.as_str() == word);
    let default = of_row("default").map_or(Some(Rung::Live), parse);
    let default = default.unwrap_or(Rung::Record);
    let rung_of = |word: &str| parse(word).unwrap_or(Rung::Record);
    let lowest = row.and_then(|row| row.as_object()).into_iter().flatten();
    let lowest = lowest.map(|(_, word)| word.as_str().map_or(Rung::Record, rung_of));
    let lowest = lowest.min().unwrap_or(default).min(default);
    for (change, steps) in view.worked_on() {
        let Some(rung) = change.rung else { continue };
        // What has left the design has a flag of its own.
        if change.kind == ChangeKind::Destroy {
            continue;
        }
        let fields = change.fields.iter();
        let fields = fields.filter(|field| field.accepted.is_none());
        let sections = fields
            .map(|field| field.section)
            .filter(|section| rung_of_section(*section) > Rung::Record);
        let of_sections = sections
            .map(|section| of_row(section.as_str()).map_or(default, rung_of))
            .min();
        let by_policy = of_sections.unwrap_or(if rung >= Rung::Restart {
            lowest
        } else {
            default
        });
        let by_flag = flags
            .iter()
            .any(|(most, names)| rung <= *most && names.contain(&change.node));
        if rung > by_policy && !by_flag {
            let what = format!(
                "`{}` goes as far as `{rung}`, and no flag allows more than `{by_policy}`",
                change.node
            );
            found.add(steps.iter().copied(), what);
        }
    }
}

/// The flag that a step needs by its parameters, and that the plan does not hold.
fn missing_flag(view: &View<'_>, change: &Change, step: &Step) -> Option<&'static str> {
    let given = step.given();
    let leaving = &view.plan.options.leaving;
    let is_left = change.kind == ChangeKind::Destroy && !change.destructive;
    let drains = *given.on_drain_timeout();
    let drains = drains.filter(|what| *what != OnDrainTimeout::Fail && !is_left);
    if drains.is_some() && drains != leaving.on_drain_timeout {
        return Some("--on-drain-timeout");
    }
    if *given.node_is_gone() && !is_left && leaving.gone.is_empty() {
        return Some("--node-is-gone");
    }
    (*given.forget() && !leaving.forget).then_some("--forget")
}

/// A plan that is narrowed has no step on a node that is left out by name.
pub(super) fn narrowed(view: &View<'_>, found: &mut Found<'_, '_>) {
    let options = &view.plan.options;
    let is_name =
        |word: &std::sync::Arc<str>| !word.contains([':', '*', '?', '[', '{']) && &**word != "all";
    let all_names = !options.targets.is_empty() && options.targets.iter().all(is_name);
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let is_out =
            options.excludes.contains(name) || all_names && !options.targets.contains(name);
        if is_out && view.plan.request.action == Action::Update {
            let what = format!("`{name}` is left out by `--target` or `--exclude`");
            found.add(steps.iter().copied(), what);
        }
    }
    let request = &view.plan.request;
    let asked = &request.nodes;
    if request.action == Action::Update || asked.is_empty() || !asked.iter().all(is_name) {
        return;
    }
    for (change, steps) in view.worked_on() {
        if !asked.contains(change.node.as_str()) {
            let what = format!(
                "`{}` is none of the nodes that the action names",
                change.node
            );
            found.add(steps.iter().copied(), what);
        }
    }
}
