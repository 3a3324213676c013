//! The steps of an action on nodes that were named, outside all groups.
//!
//! Nodes run in parallel, but for those that are taken out of service: they go in waves, in the order of
//! their groups, as the limits of the site allow.

use std::sync::Arc;

use super::leaving::{Bounds, OUTSIDE, tear_down, written as step_of_leaving};
use super::{NewStep, StepInputs, StepList, deployed, down_first};
use crate::plan::action::Action;
use crate::plan::item::Item;
use crate::step::{PrepareParameters, StepIndex, StepKind};

/// All nodes that were named, in waves if the action has them.
pub(super) fn all(draft: &mut StepList, inputs: &StepInputs<'_>, action: Action) {
    if action == Action::CheckEtcd && inputs.items.is_empty() {
        let kind = StepKind::CheckEtcd;
        let check = NewStep::new(kind, None, None).timeout(Bounds::of(inputs).of_kind(kind));
        draft.add(check);
        return;
    }
    let items = || {
        inputs
            .order
            .iter()
            .filter_map(|name| inputs.items.get(name).copied())
    };
    let machines = down_first(items());
    let waves = match action.goes_in_waves() {
        true => draft.waves(inputs.limits, None, machines, inputs.options.canary),
        false => Vec::new(),
    };
    if waves.len() < 2 {
        for item in items() {
            one(draft, inputs, item, None);
        }
        return;
    }
    let mut before: Vec<StepIndex> = Vec::new();
    for (number, nodes) in (1u32..).zip(waves) {
        let start = draft.start_wave(None, number);
        let wave = draft.add(start.done(std::mem::take(&mut before)));
        for item in nodes.iter().filter_map(|node| inputs.items.get(&node.name)) {
            before.extend(one(draft, inputs, item, Some(wave)));
        }
        if inputs.options.canary && number == 1 {
            draft.canary.append(&mut before);
        }
    }
}

/// Nodes that are built again and that no group selects, in waves behind all groups.
pub(super) fn rebuilt_outside_groups(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let items = || {
        let items = inputs
            .order
            .iter()
            .filter_map(|name| inputs.items.get(name));
        items
            .copied()
            .filter(|item| item.change.group.is_none() && item.work.deploy)
    };
    let machines = down_first(items());
    if machines.is_empty() {
        return;
    }
    let canary = inputs.options.canary && inputs.groups.is_empty();
    let mut ended = std::mem::take(&mut draft.sinks);
    let mut back_before = std::mem::take(&mut draft.back_before);
    let waves = draft.waves(inputs.limits, None, machines, canary);
    for (number, nodes) in (1u32..).zip(waves) {
        let start = draft
            .start_wave(None, number)
            .success(draft.prepare_site)
            .success(std::mem::take(&mut back_before))
            .done(std::mem::take(&mut ended));
        let wave = draft.add(start);
        let mut last_of_wave = Vec::new();
        for item in nodes.iter().filter_map(|node| inputs.items.get(&node.name)) {
            let last = rebuild(draft, inputs, item, wave);
            last_of_wave.push(last);
            let design = item.subject.after;
            let is_member = item
                .work
                .leave
                .as_ref()
                .is_some_and(|leave| leave.is_member);
            if canary && number == 1 {
                draft.canary.push(last);
            } else if is_member || design.is_some_and(|node| inputs.limits.has_control_plane(node))
            {
                back_before.push(last);
            } else {
                ended.push(last);
            }
        }
        back_before.extend(draft.soak(inputs, (None, number), &nodes, (Some(wave), last_of_wave)));
    }
    draft.sinks.extend(ended);
    draft.sinks.extend(back_before);
    draft.sinks.extend(draft.canary.iter().copied());
}

/// Tears a node down and builds it again; the last step.
fn rebuild(
    draft: &mut StepList,
    inputs: &StepInputs<'_>,
    item: &Item<'_>,
    wave: StepIndex,
) -> StepIndex {
    let configuration = &inputs.site.guards().configuration;
    let written = |kind| NewStep::new(kind, None, Some(item.subject.name));
    let torn_down = tear_down(draft, inputs, item, &OUTSIDE, |first| first.success([wave]));
    let parameters = draft.share(PrepareParameters {
        preserve_local_storage: item.keeps_disks,
        ..PrepareParameters::default()
    });
    let prepare = written(StepKind::Prepare)
        .timeout(configuration.prepare_node_timeout)
        .parameters(parameters)
        .success([wave])
        .success(torn_down);
    let prepared = draft.add(prepare);
    let parameters = draft.share(deployed(item));
    let deploy = written(StepKind::Deploy)
        .timeout(configuration.deploy_timeout)
        .effect(item.deploy_effect())
        .parameters(parameters)
        .success([prepared]);
    let deployed = draft.add(deploy);
    let leave = item.work.leave.as_ref().or(item.work.rejoins.as_ref());
    match leave.filter(|leave| leave.comes_back()) {
        Some(leave) => {
            let back = step_of_leaving(draft, inputs, StepKind::AwaitReady, item, leave, &OUTSIDE);
            draft.add(back.success([deployed]))
        }
        None => deployed,
    }
}

/// The steps of one node; the last of them.
fn one(
    draft: &mut StepList,
    inputs: &StepInputs<'_>,
    item: &Item<'_>,
    wave: Option<StepIndex>,
) -> Option<StepIndex> {
    let configuration = &inputs.site.guards().configuration;
    let name = item.subject.name;
    if let Some(single) = &item.work.single {
        let timeout = match single.kind {
            StepKind::Forget
            | StepKind::AcceptIdentity
            | StepKind::AcceptDifferences
            | StepKind::Adopt => 0,
            StepKind::Remediate => match &single.parameters {
                Some(parameters) => parameters
                    .given()
                    .remediation()
                    .map_or(0, |limits| limits.longest()),
                None => 0,
            },
            StepKind::PowerOn | StepKind::PowerOff => configuration.node_status_timeout,
            StepKind::Clean | StepKind::Provide => configuration.destroy_timeout.max(3600),
            _ => configuration.prepare_node_timeout,
        };
        let parameters = single.parameters.clone().map(Arc::new);
        let written = NewStep::new(single.kind, None, Some(name))
            .timeout(timeout)
            .parameters(parameters)
            .success(wave);
        return Some(draft.add(written));
    }
    if let Some(labels) = &item.work.relabel {
        let written = NewStep::new(StepKind::Relabel, None, Some(name))
            .timeout(configuration.relabel_nodes_timeout)
            .parameters(draft.share((**labels).clone()));
        return Some(draft.add(written));
    }
    if let Some((leave, only)) = item
        .work
        .leave
        .as_ref()
        .and_then(|leave| Some((leave, leave.only?)))
    {
        let written = step_of_leaving(draft, inputs, only, item, leave, &OUTSIDE);
        return Some(draft.add(written.success(wave)));
    }
    tear_down(draft, inputs, item, &OUTSIDE, |first| first.success(wave))
}
