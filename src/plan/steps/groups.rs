//! The steps of the deployment groups: start, waves of redeploys, prepares, gate, deploys, gate.
//!
//! A node in several groups has steps in each; in all but the first they stand by, for the case that
//! the first group was never begun.

use rustc_hash::{FxHashMap, FxHashSet};

use super::leaving::{Place, tear_down, written};
use super::{NewStep, StepInputs, StepList, clean_steps, deployed, down_first};
use crate::design::{GroupName, NodeDesign, NodeName};
use crate::guard::WaveLimits;
use crate::plan::PlannedGroup;
use crate::plan::item::Item;
use crate::plan::leave::Leave;
use crate::step::{Effect, PrepareParameters, StepIndex, StepKind};

/// All groups, in run order.
pub(super) fn all(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let mut progress = Progress {
        gates: Vec::with_capacity(inputs.groups.len()),
        by_name: FxHashMap::default(),
        sent: FxHashSet::default(),
        last_with_waves: None,
        limits: inputs.limits.clone(),
        canary: inputs.options.canary,
    };
    // Machines that are down take their places until their group has its turn.
    let down = inputs.items.values();
    for item in down.filter(|item| item.is_brought_back()) {
        if let (Some(node), Some(why)) = (item.subject.after, item.subject.down()) {
            progress.limits.hold(node, why);
        }
    }
    for group in inputs.groups {
        let gate = one(draft, inputs, group, &mut progress);
        progress.gates.push(gate);
        progress.by_name.insert(&group.name, gate);
        draft.sinks.push(gate);
    }
}

/// The state that the groups so far leave to the next.
struct Progress<'g> {
    /// The last gate of each group, in run order.
    gates: Vec<StepIndex>,
    by_name: FxHashMap<&'g GroupName, StepIndex>,
    /// Nodes that have steps in a group already.
    sent: FxHashSet<&'g NodeName>,
    /// The last gate of the last group that takes machines out of service, or brings some back: the limits are the site's,
    /// so the next such group waits for it, also if groups run in parallel.
    last_with_waves: Option<StepIndex>,
    /// The limits, with the places of machines that are down and have not had their turn.
    limits: WaveLimits<'g>,
    canary: bool,
}

/// One group; its last gate.
fn one<'g>(
    draft: &mut StepList,
    inputs: &'g StepInputs<'_>,
    group: &'g PlannedGroup,
    progress: &mut Progress<'g>,
) -> StepIndex {
    let items = group.nodes.iter();
    let items = items.filter_map(|name| inputs.items.get(name).copied());
    let items: Vec<&Item<'_>> = items.filter(|item| item.work.is_in_a_group()).collect();
    let start = draft.add(start(draft, inputs, group, progress));
    let sent_before = |item: &&Item<'g>| !progress.sent.insert(item.subject.name);
    let again: Vec<&Item<'g>> = items.iter().copied().filter(sent_before).collect();
    let mut open = OpenGroup {
        inputs,
        group: &group.name,
        start,
        standby: again.iter().map(|item| item.subject.name).collect(),
        ends: Vec::new(),
    };
    for item in &items {
        if let Some(node) = item.subject.after
            && item.is_brought_back()
            && !open.standby.contains(item.subject.name)
        {
            progress.limits.release(node);
        }
    }
    let (redeploys, others): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item: &&Item<'_>| item.work.tears_down());
    for item in &others {
        open.repair(draft, item);
    }
    for item in redeploys.iter().filter(|item| item.work.restarts()) {
        open.set_levels(draft, item);
    }
    let machines = down_first(redeploys.into_iter());
    let waves = draft.waves(
        &progress.limits,
        Some(&group.name),
        machines,
        progress.canary,
    );
    let is_built = |item: &&Item<'_>| item.work.prepare || item.work.deploy;
    let creates: Vec<&Item<'_>> = others.into_iter().filter(is_built).collect();
    let gates = open.build(draft, &waves, &creates, progress);
    open.soak_repaired(draft, waves.len(), group);
    let last = NewStep::new(StepKind::GateDeployed, Some(&group.name), None)
        .success([start])
        .done(gates)
        .done(open.ends);
    let last = draft.add(last);
    progress.canary &= waves.is_empty();
    if !waves.is_empty() || creates.iter().any(|item| item.is_brought_back()) {
        progress.last_with_waves = Some(last);
    }
    last
}

/// The barrier before a group.
fn start(
    draft: &StepList,
    inputs: &StepInputs<'_>,
    group: &PlannedGroup,
    progress: &Progress<'_>,
) -> NewStep {
    let parallel = inputs.options.parallel_groups.max(1);
    let before = progress.gates.len().checked_sub(parallel);
    let dependencies = group.depends_on.iter();
    let dependencies = dependencies.filter_map(|name| progress.by_name.get(name).copied());
    let early = group.nodes.iter().filter_map(|name| draft.early.get(name));
    NewStep::new(StepKind::StartGroup, Some(&group.name), None)
        .success(draft.prepare_site)
        .success(dependencies)
        .done(before.and_then(|before| progress.gates.get(before).copied()))
        .done(early.flatten().copied())
}

/// A node that is built in a wave, and what came before its deploy.
struct Sent<'i> {
    item: &'i Item<'i>,
    torn_down: Option<StepIndex>,
    prepared: Option<StepIndex>,
}

/// The group whose steps are being written.
struct OpenGroup<'g> {
    inputs: &'g StepInputs<'g>,
    group: &'g GroupName,
    start: StepIndex,
    standby: FxHashSet<&'g NodeName>,
    /// The steps that its last gate waits for.
    ends: Vec<StepIndex>,
}

impl<'g> OpenGroup<'g> {
    /// Builds the waves one after the other, what is built anew in the first, or before it, if some of that is down and takes
    /// places until it is back; the gate of each.
    fn build(
        &mut self,
        draft: &mut StepList,
        waves: &[Vec<&NodeDesign>],
        creates: &[&'g Item<'g>],
        progress: &mut Progress<'_>,
    ) -> Vec<StepIndex> {
        let mut before: Vec<StepIndex> = progress.last_with_waves.into_iter().collect();
        let is_ahead = !waves.is_empty() && creates.iter().any(|item| item.is_brought_back());
        let ahead = usize::from(is_ahead);
        let rounds = (waves.len() + ahead).max(1);
        let mut gates = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let (mut opens, mut opens_wave, mut sent) = (None, None, Vec::new());
            let number = round.checked_sub(ahead);
            let nodes = number.and_then(|number| waves.get(number));
            // What the plan calls the wave, from 1 on.
            let number = number.map_or(0, |number| number as u32 + 1);
            if let Some(nodes) = nodes {
                let start = draft
                    .start_wave(Some(self.group), number)
                    .success([self.start])
                    .success(std::mem::take(&mut draft.back_before))
                    .done(std::mem::take(&mut before));
                let wave = draft.add(start);
                sent = self.tear_down_all(draft, nodes, wave);
                (opens, opens_wave) = (Some(wave), Some(wave));
            }
            if round == 0 {
                opens = Some(self.start);
                sent.extend(creates.iter().map(|item| Sent {
                    item,
                    torn_down: None,
                    prepared: None,
                }));
            }
            for one in &mut sent {
                one.prepared = self.prepare(draft, one.item, one.torn_down);
            }
            let gate = NewStep::new(StepKind::GatePrepared, Some(self.group), None)
                .wave((rounds > 1 && number > 0).then_some(number))
                .success(opens)
                .done(sent.iter().filter_map(|one| one.prepared))
                // What was sent ahead of the waves, and does not hold them up, may be under way still.
                .done(gates.last().copied().filter(|_| round == ahead));
            let gate = draft.add(gate);
            gates.push(gate);
            let (held_up, others) = self.deploy_all(draft, &sent, gate);
            let soaked = nodes.and_then(|nodes| {
                let ended = held_up.iter().chain(&others).copied();
                draft.soak(
                    self.inputs,
                    (Some(self.group), number),
                    nodes,
                    (opens_wave, ended),
                )
            });
            self.ends.extend(soaked);
            draft.back_before.extend(soaked);
            match progress.canary && number == 1 {
                true => draft.canary.extend(held_up.into_iter().chain(others)),
                false => {
                    draft.back_before.extend(held_up);
                    before.extend(others);
                }
            }
        }
        gates
    }

    fn tear_down_all(
        &self,
        draft: &mut StepList,
        nodes: &[&NodeDesign],
        wave: StepIndex,
    ) -> Vec<Sent<'g>> {
        let items = nodes
            .iter()
            .filter_map(|node| self.inputs.items.get(&node.name));
        let tear_down = |item: &&'g Item<'g>| Sent {
            item,
            torn_down: self.tear_down(draft, item, wave),
            prepared: None,
        };
        items.map(tear_down).collect()
    }

    /// Deploys what a wave sent; the last steps of those that were taken out of service: of those on which a
    /// cluster stands, and of the others.
    fn deploy_all(
        &mut self,
        draft: &mut StepList,
        sent: &[Sent<'_>],
        gate: StepIndex,
    ) -> (Vec<StepIndex>, Vec<StepIndex>) {
        let (mut held_up, mut others) = (Vec::new(), Vec::new());
        for one in sent {
            if one.item.work.restarts() {
                self.back_from_service(draft, one, &mut held_up, &mut others);
                continue;
            }
            let Some(step) = self.deploy(draft, one.item, gate, one.prepared) else {
                continue;
            };
            let is_down = one.torn_down.is_some() || one.item.is_brought_back();
            if !is_down && one.item.work.rejoins.is_none() {
                continue;
            }
            match self.await_ready(draft, one.item, [Some(step), None]) {
                Some(back) if self.holds_up(one.item) => held_up.push(back),
                back => others.push(back.unwrap_or(step)),
            }
        }
        (held_up, others)
    }

    /// A machine that was serviced is awaited, and its node takes pods again.
    fn back_from_service(
        &mut self,
        draft: &mut StepList,
        one: &Sent<'_>,
        held_up: &mut Vec<StepIndex>,
        others: &mut Vec<StepIndex>,
    ) {
        let Some(serviced) = one.torn_down else {
            return;
        };
        self.ends.push(serviced);
        let name = one.item.subject.name.clone();
        draft.joins.entry(name).or_default().push(serviced);
        let back = self.await_ready(draft, one.item, [Some(serviced), None]);
        held_up.extend(back.filter(|_| self.holds_up(one.item)));
        let last = back.unwrap_or(serviced);
        let service = one.item.work.service.as_deref();
        let leave = one.item.work.leave.as_deref();
        let leave = leave.filter(|_| service.is_some_and(|service| service.uncordons));
        let Some(leave) = leave else {
            others.push(last);
            return;
        };
        let place = self.place(one.item);
        let uncordon = written(
            draft,
            self.inputs,
            StepKind::Uncordon,
            one.item,
            leave,
            &place,
        );
        let uncordon = draft.add(uncordon.success([last]));
        self.ends.push(uncordon);
        others.push(uncordon);
    }

    /// Behind all waves of the group: its machines that are brought back, and whose soak an earlier run owes, have it. Each is in
    /// the soak of its first group.
    fn soak_repaired(&mut self, draft: &mut StepList, waves: usize, group: &PlannedGroup) {
        let owed = self.inputs.owed.iter().filter(|each| {
            let name = &each.node.name;
            each.is_repaired && group.nodes.contains(name) && !self.standby.contains(name)
        });
        let id = (Some(self.group), waves as u32 + 1);
        let behind = (Some(self.start), self.ends.clone());
        let soak = draft.soak_owed(self.inputs, id, owed, behind);
        self.ends.extend(soak);
        draft.back_before.extend(soak);
    }

    fn written(&self, kind: StepKind, item: &Item<'_>) -> NewStep {
        let standby = self.standby.contains(item.subject.name);
        NewStep::new(kind, Some(self.group), Some(item.subject.name)).standby(standby)
    }

    /// Power and labels, and the wait for what is to be in its clusters.
    fn repair(&mut self, draft: &mut StepList, item: &Item<'_>) {
        let on = self.set_levels(draft, item);
        if item.work.deploy {
            return;
        }
        let unset = draft.unset_retired.get(item.subject.name).copied();
        let back = self.await_ready(draft, item, [Some(on.unwrap_or(self.start)), unset]);
        if item.work.uncordon {
            let leave = Leave::of_a_cordoned(item.subject.membership);
            let place = self.place(item);
            let uncordon = written(draft, self.inputs, StepKind::Uncordon, item, &leave, &place);
            let needs = [Some(back.unwrap_or(self.start)), unset];
            let uncordon = draft.add(uncordon.success(needs.into_iter().flatten()));
            self.ends.push(uncordon);
        }
    }

    /// Power and labels; the step that switches it on.
    fn set_levels(&mut self, draft: &mut StepList, item: &Item<'_>) -> Option<StepIndex> {
        let configuration = &self.inputs.site.guards().configuration;
        let name = item.subject.name;
        let unset = draft.unset_retired.get(name).copied();
        let mut on = None;
        if item.work.power_on {
            let written = self
                .written(StepKind::PowerOn, item)
                .timeout(configuration.node_status_timeout)
                .success([self.start])
                .success(unset);
            let step = draft.add(written);
            self.ends.push(step);
            on = Some(step);
        }
        if let Some(labels) = &item.work.relabel {
            let written = self
                .written(StepKind::Relabel, item)
                .timeout(configuration.relabel_nodes_timeout)
                .parameters(draft.share((**labels).clone()))
                .success([self.start])
                .success(unset);
            let step = draft.add(written);
            self.ends.push(step);
            draft.relabels.entry(name.clone()).or_default().push(step);
        }
        let live = draft.service_live(self.inputs, item, &self.place(item), [self.start]);
        self.ends.extend(live);
        on
    }

    fn place(&self, item: &Item<'_>) -> Place<'_> {
        Place {
            group: Some(self.group),
            standby: self.standby.contains(item.subject.name),
        }
    }

    fn tear_down(
        &self,
        draft: &mut StepList,
        item: &Item<'_>,
        wave: StepIndex,
    ) -> Option<StepIndex> {
        let unset = draft.unset_retired.get(item.subject.name).copied();
        tear_down(draft, self.inputs, item, &self.place(item), |first| {
            first.success([wave]).success(unset)
        })
    }

    /// Whether a cluster stands on it: when it does not come back, no other wave may start.
    fn holds_up(&self, item: &Item<'_>) -> bool {
        let leave = item.work.leave.as_ref().or(item.work.rejoins.as_ref());
        let is_member = leave.is_some_and(|leave| leave.is_member);
        let limits = self.inputs.limits;
        let mut design = item.subject.after.into_iter();
        is_member || design.any(|node| limits.has_control_plane(node))
    }

    /// A node that is to be in its clusters is waited for until it is.
    fn await_ready(
        &mut self,
        draft: &mut StepList,
        item: &Item<'_>,
        before: [Option<StepIndex>; 2],
    ) -> Option<StepIndex> {
        let leave = item.work.leave.as_ref().or(item.work.rejoins.as_ref());
        let leave = leave.filter(|leave| leave.comes_back())?;
        let place = self.place(item);
        let written = written(
            draft,
            self.inputs,
            StepKind::AwaitReady,
            item,
            leave,
            &place,
        );
        let step = draft.add(written.success(before.into_iter().flatten()));
        self.ends.push(step);
        let name = item.subject.name.clone();
        draft.joins.entry(name).or_default().push(step);
        Some(step)
    }

    fn prepare(
        &self,
        draft: &mut StepList,
        item: &Item<'_>,
        torn_down: Option<StepIndex>,
    ) -> Option<StepIndex> {
        if !item.work.prepare {
            return None;
        }
        let mut written = self
            .written(StepKind::Prepare, item)
            .timeout(self.inputs.site.guards().configuration.prepare_node_timeout)
            .success([torn_down.unwrap_or(self.start)])
            .success(
                draft
                    .early
                    .get(item.subject.name)
                    .into_iter()
                    .flatten()
                    .copied(),
            )
            .success(draft.unset_retired.get(item.subject.name).copied());
        if item.work.refused.is_some() {
            let parameters = PrepareParameters {
                refused: item.work.refused.clone(),
                ..PrepareParameters::default()
            };
            written = written
                .effect(Effect::None)
                .parameters(draft.share(parameters));
            return Some(draft.add(written));
        }
        // No cleaning up to the deploy undoes what a teardown has kept.
        let mut parameters = PrepareParameters {
            preserve_local_storage: item.keeps_disks,
            ..PrepareParameters::default()
        };
        if !item.work.tears_down() && !item.keeps_disks {
            parameters.clean_steps = clean_steps(item);
        }
        if parameters.clean_steps.iter().any(|step| step.erases) {
            parameters.disks = item.subject.all_disks();
            written = written.effect(item.deploy_effect());
        }
        let parameters = draft.share(parameters);
        Some(draft.add(written.parameters(parameters)))
    }

    fn deploy(
        &mut self,
        draft: &mut StepList,
        item: &Item<'_>,
        gate: StepIndex,
        prepared: Option<StepIndex>,
    ) -> Option<StepIndex> {
        if !item.work.deploy {
            return None;
        }
        let written = self
            .written(StepKind::Deploy, item)
            .timeout(self.inputs.site.guards().configuration.deploy_timeout)
            .effect(item.deploy_effect())
            .parameters(draft.share(deployed(item)))
            .success([gate])
            .success(prepared)
            .success(draft.unset_retired.get(item.subject.name).copied());
        let step = draft.add(written);
        self.ends.push(step);
        Some(step)
    }
}
