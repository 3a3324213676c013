//! The order of the steps of deployment groups (airship-deployment-grouping).

use rustc_hash::{FxHashMap, FxHashSet};

use super::rule::Found;
use super::view::View;
use crate::design::{GroupName, NodeName};
use crate::plan::{Action, PlannedGroup, Standing};
use crate::record::Phase;
use crate::step::{StepKind, Wait};

/// The barriers of a group, and the steps on its nodes.
#[derive(Default)]
struct Barriers {
    start: Option<usize>,
    waves: Vec<usize>,
    gates: Vec<usize>,
    end: Option<usize>,
    steps: Vec<usize>,
}

fn barriers<'a>(view: &View<'a>) -> FxHashMap<&'a GroupName, Barriers> {
    let mut groups: FxHashMap<&GroupName, Barriers> = FxHashMap::default();
    for (position, step) in view.steps() {
        let Some(group) = &step.id.group else {
            continue;
        };
        let all = groups.entry(group).or_default();
        let kind = step.id.kind;
        if kind == StepKind::StartGroup {
            all.start = Some(position);
        } else if kind == StepKind::StartWave {
            all.waves.push(position);
        } else if kind == StepKind::GatePrepared {
            all.gates.push(position);
        } else if kind == StepKind::GateDeployed {
            all.end = Some(position);
        } else {
            all.steps.push(position);
        }
    }
    groups
}

/// A group begins after the groups that it depends on have succeeded, and as many at the same time as was asked for.
pub(super) fn in_turn(view: &View<'_>, found: &mut Found<'_, '_>) {
    let all = barriers(view);
    let parallel = view.plan.options.parallel_groups.max(1);
    let planned = &view.plan.groups;
    for (number, group) in planned.iter().enumerate() {
        let Some(start) = all.get(&group.name).and_then(|all| all.start) else {
            continue;
        };
        for name in &group.depends_on {
            let end = all.get(name).and_then(|all| all.end);
            if end.is_none_or(|end| !view.is_after(start, end, Wait::Success)) {
                let what = format!("does not wait for the success of group `{name}`");
                found.add([start], what);
            }
        }
        let before = number.checked_sub(parallel).map(|before| &planned[before]);
        let before = before.and_then(|before| all.get(&before.name)?.end);
        if let Some(end) = before
            && !view.is_after(start, end, Wait::Done)
        {
            found.add(
                [start, end],
                "more groups at the same time than was asked for",
            );
        }
    }
}

/// Inside a group: start, prepare, gate, deploy, gate; a gate judges when all that it counts has ended.
pub(super) fn inside(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (name, all) in barriers(view) {
        let (Some(start), Some(end)) = (all.start, all.end) else {
            let what = format!("group `{name}` has no start or no end");
            found.add(all.steps.iter().copied(), what);
            continue;
        };
        if !view.is_after(end, start, Wait::Success) {
            found.add(
                [end, start],
                "the gate of a group does not wait for its start",
            );
        }
        for wave in &all.waves {
            if !view.is_after(*wave, start, Wait::Success) {
                found.add(
                    [*wave, start],
                    "a wave does not wait for the start of its group",
                );
            }
        }
        let counted = |at: &usize| {
            matches!(
                view.kind(*at),
                StepKind::Deploy
                    | StepKind::Service
                    | StepKind::ServiceLive
                    | StepKind::Soak
                    | StepKind::AwaitReady
                    | StepKind::PowerOn
                    | StepKind::Relabel
            )
        };
        let counted = all
            .gates
            .iter()
            .chain(all.steps.iter().filter(|at| counted(at)));
        for step in counted {
            if !view.waits(end, *step, Wait::Done) && !view.is_after(end, *step, Wait::Done) {
                found.add(
                    [end, *step],
                    "the gate of a group does not wait for a step that it counts",
                );
            }
        }
        for step in &all.steps {
            own_gate(view, *step, &all, found);
        }
    }
}

/// A step on a node waits for the start of its group, a gate for each prepare, and a deploy for the gate behind its prepare.
fn own_gate(view: &View<'_>, step: usize, all: &Barriers, found: &mut Found<'_, '_>) {
    let Some(start) = all.start else { return };
    let is_begun = |at: usize| {
        let mut needs = view.step(at).needs.iter();
        needs.any(|need| need.wait == Wait::Success && need.step.0 as usize >= start)
    };
    let kind = view.kind(step);
    let behind = all.gates.partition_point(|gate| *gate < step);
    if kind == StepKind::Prepare {
        // The first gate behind it counts it.
        let gate = all.gates.get(behind);
        if gate.is_none_or(|gate| !view.waits(*gate, step, Wait::Done)) {
            found.add([step], "no gate behind it waits for its end");
        }
    }
    if kind == StepKind::Deploy {
        let gate = behind.checked_sub(1).map(|at| &all.gates[at]);
        if gate.is_none_or(|gate| !view.waits(step, *gate, Wait::Success)) {
            found.add(
                [step],
                "does not wait for the success of the gate before it",
            );
        }
    } else if !is_begun(step) {
        found.add([step, start], "does not wait for the start of its group");
    }
}

/// The groups are those of the strategy, with the nodes that their selectors select, their criteria and their order.
pub(super) fn of_strategy(view: &View<'_>, found: &mut Found<'_, '_>) {
    let (Some(site), false) = (view.site, view.plan.steps.is_empty()) else {
        return;
    };
    let is_update = view.plan.request.action == Action::Update;
    let designed = &site.guards().groups;
    let by_name: FxHashMap<&GroupName, _> =
        designed.iter().map(|group| (&group.name, group)).collect();
    if is_update && view.plan.groups.len() != designed.len() {
        found.add([], "the plan does not have the groups of the strategy");
    }
    for group in &view.plan.groups {
        let name = &group.name;
        let Some(own) = by_name.get(name) else {
            found.add([], format!("group `{name}` is none of the strategy"));
            continue;
        };
        let depends_on = own.depends_on.iter();
        // Of a plan for some nodes only the groups of these count.
        let planned = |name: &&GroupName| view.plan.groups.iter().any(|group| group.name == **name);
        let is_same = own.critical == group.critical
            && own.success_criteria == group.success_criteria
            && depends_on.filter(planned).eq(&group.depends_on);
        if !is_same {
            found.add(
                [],
                format!("group `{name}` is judged otherwise than its document says"),
            );
        }
        let selected = own.nodes(site).into_iter();
        let mut left_out = 0;
        let mut planned = group.nodes.iter().peekable();
        for node in selected {
            match planned.next_if(|next| *next == node) {
                Some(_) => {}
                None => left_out += 1,
            }
        }
        if planned.next().is_some() || left_out != group.retired {
            found.add(
                [],
                format!("group `{name}` does not have the nodes that its selectors select"),
            );
        }
        let is_as_recorded = match is_update {
            true => group.not_deployed.is_empty(),
            false => counts_as_recorded(view, group),
        };
        if !is_as_recorded {
            found.add(
                [],
                format!("group `{name}` counts nodes otherwise than their records say"),
            );
        }
    }
}

/// Whether those nodes of a group count neither for it nor against it that the plan has no change of and that are not
/// deployed, as far as records are at hand.
fn counts_as_recorded(view: &View<'_>, group: &PlannedGroup) -> bool {
    let aside = &group.not_deployed;
    let holds = |node: &NodeName| {
        let counts = aside.get(node).copied();
        match (view.change(node.as_str()), view.world) {
            (Some(_), _) => counts.is_none(),
            (None, None) => true,
            (None, Some(world)) => {
                let phase = world.records.get(node).map(|record| record.phase);
                counts
                    == match phase {
                        None | Some(Phase::NotStarted) => Some(Standing::NotStarted),
                        Some(Phase::Prepared) => Some(Standing::Prepared),
                        Some(Phase::Deployed) => None,
                        Some(Phase::Failed | Phase::Unknown) => Some(Standing::Failed),
                    }
            }
        }
    };
    let known: FxHashSet<&NodeName> = group.nodes.iter().collect();
    aside.keys().all(|node| known.contains(node)) && known.iter().all(|node| holds(node))
}
