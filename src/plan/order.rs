//! Whether the steps of a plan that was read wait for each other as the builders of steps make them wait.
//!
//! Kinds, groups, waves and nodes of steps say all but a little of what each has to wait for. A file whose steps wait for
//! less would run past a gate, a wave, or a drain. To wait for more does no harm.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Action, Contradiction, Plan, groups, remedy};
use crate::design::{GroupName, NodeName, Share};
use crate::guard::{GroupSize, Guarded, WaveLimits, WaveSize, is_control_plane};
use crate::step::{Step, StepIndex, StepKind, Wait};

/// Finds a step that does not wait for what it has to.
///
/// # Errors
///
/// The first one.
pub(super) fn check(plan: &Plan) -> Result<(), Contradiction> {
    walk(plan, &|_| false)?;
    check_sizes(plan)
}

/// Holds the waves against the sizes that the plan gives for them.
fn check_sizes(plan: &Plan) -> Result<(), Contradiction> {
    let sizes = plan
        .groups
        .iter()
        .filter_map(|group| Some((&group.name, group.waves?)));
    let sizes: FxHashMap<&GroupName, WaveSize> = sizes.collect();
    for wave in waves(plan) {
        let of_group = wave
            .begins
            .id
            .group
            .as_ref()
            .and_then(|group| sizes.get(group));
        let told = of_group.into_iter().chain(&plan.summary.waves);
        if told.min().is_some_and(|size| wave.nodes.len() > size.most) {
            let id = wave.begins.id.clone();
            return Err(Contradiction::Wave { id });
        }
    }
    Ok(())
}

/// Whether the waves of a plan keep the limits of a design, and wait for the machines that hold a cluster up.
///
/// # Errors
///
/// The first step that does not.
pub fn check_limits(plan: &Plan, site: &Guarded) -> Result<(), Contradiction> {
    let holds_up = |node: &NodeName| {
        site.nodes
            .get(node)
            .is_some_and(|node| is_control_plane(node))
    };
    walk(plan, &holds_up)?;
    let flag = match plan.request.action {
        Action::Remediate => Some(Share::Machines(remedy::at_once(
            site.guards(),
            &plan.options,
        ))),
        _ => plan.options.max_unavailable,
    };
    // Etcd is judged by what it says itself when a member is taken out.
    let clusters = site.guards().etcd_clusters.iter();
    let clusters = clusters.map(|cluster| (cluster.name.as_str(), usize::MAX));
    let waves = waves(plan);
    let machines = waves.iter().flat_map(|wave| wave.nodes.iter().copied());
    let groups = groups::in_order(site, &FxHashSet::default()).unwrap_or_default();
    let retired = plan.groups.iter().map(|group| (&group.name, group.retired));
    let retired: FxHashMap<&GroupName, usize> = retired.collect();
    let sizes = groups.iter().map(|group| {
        let retired = retired.get(&group.name).copied().unwrap_or_default();
        let size = group.size();
        GroupSize {
            total: size.total.saturating_sub(retired),
            ..size
        }
    });
    let limits = WaveLimits::new(site.guards(), flag)
        .with_etcd(clusters)
        .with_groups(sizes, &machines.collect());
    for wave in waves {
        let nodes = wave.nodes.iter().filter_map(|node| site.nodes.get(*node));
        let is_canary = plan.options.canary && wave.is_first;
        let most = if is_canary { 1 } else { usize::MAX };
        if wave.nodes.len() > most || limits.waves(nodes.map(|node| &**node), false).len() > 1 {
            let id = wave.begins.id.clone();
            return Err(Contradiction::Wave { id });
        }
    }
    Ok(())
}

/// The machines that are taken out of service together.
struct Wave<'p> {
    /// The step that it begins with.
    begins: &'p Step,
    nodes: FxHashSet<&'p NodeName>,
    /// No other takes machines out of service before it.
    is_first: bool,
}

fn waves(plan: &Plan) -> Vec<Wave<'_>> {
    let takes_waves = plan.request.action.goes_in_waves();
    let mut waves: Vec<Wave<'_>> = Vec::new();
    let mut is_open = takes_waves;
    for step in &plan.steps {
        let kind = step.id.kind;
        match &step.id.node {
            None if kind == StepKind::StartWave => {
                is_open = true;
                waves.push(Wave {
                    begins: step,
                    nodes: FxHashSet::default(),
                    is_first: waves.is_empty(),
                });
            }
            None if kind == StepKind::GateDeployed => is_open = takes_waves,
            Some(node) if is_open && (takes_waves || rank(kind).is_some()) => {
                if waves.is_empty() {
                    // All of them are one wave, and no step begins it.
                    waves.push(Wave {
                        begins: step,
                        nodes: FxHashSet::default(),
                        is_first: true,
                    });
                }
                if let Some(wave) = waves.last_mut() {
                    wave.nodes.insert(node);
                }
            }
            _ => {}
        }
    }
    waves
}

/// Whether a kind of step is one of the teardown of a node.
pub(super) fn is_of_teardown(kind: StepKind) -> bool {
    rank(kind).is_some()
}

/// The place of a kind of step in the teardown of a node.
fn rank(kind: StepKind) -> Option<u8> {
    let order = [
        StepKind::Drain,
        StepKind::ClearLabels,
        StepKind::RemoveEtcd,
        StepKind::CheckEtcd,
        StepKind::ShutdownKubelet,
        StepKind::Destroy,
        StepKind::RemoveFromCluster,
    ];
    let place = (0u8..).zip(order).find(|(_, other)| *other == kind);
    place.map(|(rank, _)| rank)
}

/// The steps found so far of the teardown of a node.
#[derive(Clone, Copy, Default)]
struct Teardown {
    rank: Option<u8>,
    success: Option<usize>,
    /// That the kubelet is stopped, which may fail.
    kubelet: Option<usize>,
}

impl Teardown {
    fn last(self) -> Option<usize> {
        self.kubelet.or(self.success)
    }
}

/// A group, with the steps found so far.
#[derive(Default)]
struct GroupProgress<'p> {
    start: Option<usize>,
    wave: Option<usize>,
    waves: u32,
    /// The gate of the wave that is being seen.
    gate: Option<usize>,
    gates: Vec<usize>,
    prepares: Vec<usize>,
    /// The steps that its last gate waits for.
    ends: Vec<usize>,
    /// By node, the last step of those in the wave before that are to be back.
    back: Vec<(usize, Wait)>,
    teardowns: FxHashMap<&'p NodeName, Teardown>,
    prepared: FxHashMap<&'p NodeName, usize>,
    deployed: FxHashMap<&'p NodeName, usize>,
}

struct Walk<'p> {
    plan: &'p Plan,
    holds_up: &'p dyn Fn(&NodeName) -> bool,
    /// Whether a later step waits for it, by position.
    is_waited_for: Vec<bool>,
    verify: Option<usize>,
    prepare_site: Option<usize>,
    critical_check: Option<usize>,
    /// The last wave outside the groups.
    wave: Option<usize>,
    unset_retired: FxHashMap<&'p NodeName, usize>,
    relabels: FxHashMap<&'p NodeName, usize>,
    /// The first group in which a node has steps.
    first_groups: FxHashMap<&'p NodeName, &'p GroupName>,
    /// Nodes that are members of etcd clusters.
    members: FxHashSet<&'p NodeName>,
    /// The last gates of groups, in order.
    last_gates: Vec<usize>,
    by_name: FxHashMap<&'p GroupName, usize>,
    last_with_waves: Option<usize>,
    back_before: Vec<usize>,
    group: Option<&'p GroupName>,
    /// The group whose steps are being seen, and that of all steps outside.
    inside: GroupProgress<'p>,
    outside: GroupProgress<'p>,
}

fn walk<'p>(plan: &'p Plan, holds_up: &'p dyn Fn(&NodeName) -> bool) -> Result<(), Contradiction> {
    let mut walk = Walk {
        plan,
        holds_up,
        is_waited_for: vec![false; plan.steps.len()],
        verify: None,
        prepare_site: None,
        critical_check: None,
        wave: None,
        unset_retired: FxHashMap::default(),
        relabels: FxHashMap::default(),
        first_groups: FxHashMap::default(),
        members: FxHashSet::default(),
        last_gates: Vec::new(),
        by_name: FxHashMap::default(),
        last_with_waves: None,
        back_before: Vec::new(),
        group: None,
        inside: GroupProgress::default(),
        outside: GroupProgress::default(),
    };
    for (position, step) in plan.steps.iter().enumerate() {
        for need in &step.needs {
            if let Some(waited) = walk.is_waited_for.get_mut(need.step.0 as usize) {
                *waited = true;
            }
        }
        match (&step.id.group, &step.id.node) {
            (None, None) => walk.of_site(position)?,
            (Some(group), None) => walk.of_group(position, group)?,
            (Some(group), Some(node)) => walk.in_group(position, group, node)?,
            (None, Some(node)) => walk.outside(position, node)?,
        }
    }
    Ok(())
}

impl<'p> Walk<'p> {
    fn step(&self, position: usize) -> &'p Step {
        &self.plan.steps[position]
    }

    /// Notes that a step waits for another one before it.
    fn waits(&self, position: usize, other: usize, wait: Wait) -> Result<(), Contradiction> {
        let step = self.step(position);
        let index = StepIndex::from_position(other);
        let found = step.needs.binary_search_by_key(&index, |need| need.step);
        match found {
            Ok(at) if wait == Wait::Done || step.needs[at].wait == Wait::Success => Ok(()),
            _ => Err(Contradiction::Waits {
                id: step.id.clone(),
                other: self.step(other).id.clone(),
            }),
        }
    }

    /// That a step waits for the success of one that has to come before it.
    fn succeeds(&self, position: usize, other: Option<usize>) -> Result<(), Contradiction> {
        match other {
            Some(other) => self.waits(position, other, Wait::Success),
            None => Err(self.misplaced(position)),
        }
    }

    fn after(
        &self,
        position: usize,
        others: impl IntoIterator<Item = usize>,
        wait: Wait,
    ) -> Result<(), Contradiction> {
        let mut others = others.into_iter();
        others.try_for_each(|other| self.waits(position, other, wait))
    }

    fn misplaced(&self, position: usize) -> Contradiction {
        Contradiction::Place {
            id: self.step(position).id.clone(),
        }
    }

    /// That nothing from `first` on is waited for by no step: this one, or one before it, waits for its end.
    fn ends_all(&self, position: usize, first: usize) -> Result<(), Contradiction> {
        let mut open = first..position;
        match open.find(|other| !self.is_waited_for[*other]) {
            None => Ok(()),
            Some(other) => self.waits(position, other, Wait::Done),
        }
    }

    /// Verification, preparation, the check, the tag, and the waves outside the groups.
    fn of_site(&mut self, position: usize) -> Result<(), Contradiction> {
        let step = self.step(position);
        match step.id.kind {
            StepKind::VerifySite => self.verify = Some(position),
            StepKind::PrepareSite => {
                self.succeeds(position, self.verify)?;
                self.prepare_site = Some(position);
            }
            StepKind::CriticalCheck => {
                self.ends_all(position, 0)?;
                self.critical_check = Some(position);
            }
            StepKind::Tag => self.ends_all(position, 0)?,
            StepKind::StartWave => {
                let first = self.wave.unwrap_or_default();
                self.ends_all(position, first)?;
                let back = std::mem::take(&mut self.back_before);
                self.after(position, back, Wait::Success)?;
                let is_redeploy = self.plan.request.action == Action::Redeploy;
                if is_redeploy {
                    self.succeeds(position, self.prepare_site)?;
                }
                let is_behind_canary = self.plan.options.canary && step.id.wave == Some(2);
                if is_behind_canary && (!is_redeploy || self.plan.groups.is_empty()) {
                    let needs = step.needs.iter().map(|need| need.step.0 as usize);
                    self.after(position, needs, Wait::Success)?;
                }
                self.wave = Some(position);
            }
            _ => {}
        }
        Ok(())
    }

    /// The barriers of a group.
    fn of_group(&mut self, position: usize, group: &'p GroupName) -> Result<(), Contradiction> {
        let kind = self.step(position).id.kind;
        if kind == StepKind::StartGroup {
            return self.start(position, group);
        }
        if self.group != Some(group) {
            return Err(self.misplaced(position));
        }
        match kind {
            StepKind::StartWave => self.start_wave(position),
            StepKind::GatePrepared => self.gate_prepared(position),
            StepKind::GateDeployed => self.gate_deployed(position, group),
            _ => Err(self.misplaced(position)),
        }
    }

    fn start(&mut self, position: usize, group: &'p GroupName) -> Result<(), Contradiction> {
        let planned = self.plan.groups.get(self.last_gates.len());
        let Some(planned) =
            planned.filter(|planned| planned.name == *group && self.group.is_none())
        else {
            return Err(self.misplaced(position));
        };
        self.succeeds(position, self.prepare_site)?;
        let dependencies = planned.depends_on.iter();
        let dependencies = dependencies.filter_map(|name| self.by_name.get(name).copied());
        self.after(position, dependencies, Wait::Success)?;
        let parallel = self.plan.options.parallel_groups.max(1);
        let before = self.last_gates.len().checked_sub(parallel);
        let before = before.and_then(|before| self.last_gates.get(before).copied());
        self.after(position, before, Wait::Done)?;
        self.group = Some(group);
        self.inside = GroupProgress {
            start: Some(position),
            ..GroupProgress::default()
        };
        Ok(())
    }

    fn start_wave(&mut self, position: usize) -> Result<(), Contradiction> {
        let waves = self.inside.waves;
        if self.step(position).id.wave != waves.checked_add(1) {
            return Err(self.misplaced(position));
        }
        self.succeeds(position, self.inside.start)?;
        for (other, wait) in std::mem::take(&mut self.inside.back) {
            self.waits(position, other, wait)?;
        }
        let back = std::mem::take(&mut self.back_before);
        self.after(position, back, Wait::Success)?;
        if waves == 0 {
            self.after(position, self.last_with_waves, Wait::Done)?;
        } else if self.inside.gate.is_none() {
            return Err(self.misplaced(position));
        }
        self.inside.wave = Some(position);
        self.inside.waves = waves + 1;
        self.inside.gate = None;
        self.inside.prepares.clear();
        Ok(())
    }

    /// Whether the wave that is being seen is the canary, which the next one needs.
    fn is_in_canary(&self) -> bool {
        self.plan.options.canary && self.last_with_waves.is_none() && self.inside.waves == 1
    }

    fn gate_prepared(&mut self, position: usize) -> Result<(), Contradiction> {
        let opens = match self.inside.waves {
            0 | 1 => self.inside.start,
            _ => self.inside.wave,
        };
        self.succeeds(position, opens)?;
        let prepares = std::mem::take(&mut self.inside.prepares);
        self.after(position, prepares, Wait::Done)?;
        self.inside.gate = Some(position);
        self.inside.gates.push(position);
        Ok(())
    }

    fn gate_deployed(
        &mut self,
        position: usize,
        group: &'p GroupName,
    ) -> Result<(), Contradiction> {
        let seen = std::mem::take(&mut self.inside);
        self.succeeds(position, seen.start)?;
        self.after(position, seen.gates, Wait::Done)?;
        self.after(position, seen.ends, Wait::Done)?;
        if seen.waves > 0 {
            self.last_with_waves = Some(position);
        }
        self.last_gates.push(position);
        self.by_name.insert(group, position);
        self.group = None;
        Ok(())
    }

    /// A step on a node in a group.
    fn in_group(
        &mut self,
        position: usize,
        group: &'p GroupName,
        node: &'p NodeName,
    ) -> Result<(), Contradiction> {
        let step = self.step(position);
        let first = *self.first_groups.entry(node).or_insert(group);
        if self.group != Some(group) || step.standby != (first != group) {
            return Err(self.misplaced(position));
        }
        let unset = self.unset_retired.get(node).copied();
        let kind = step.id.kind;
        match kind {
            StepKind::PowerOn | StepKind::Relabel => {
                self.succeeds(position, self.inside.start)?;
                self.after(position, unset, Wait::Success)?;
                self.inside.ends.push(position);
                if kind == StepKind::Relabel {
                    self.relabels.entry(node).or_insert(position);
                }
            }
            StepKind::Prepare => {
                let torn_down = self.inside.teardowns.get(node).and_then(|all| all.last());
                self.succeeds(position, torn_down.or(self.inside.start))?;
                self.after(position, unset, Wait::Success)?;
                self.inside.prepares.push(position);
                self.inside.prepared.insert(node, position);
            }
            StepKind::Deploy => {
                let prepared = self.inside.prepared.get(node).copied();
                // That of its own wave.
                self.succeeds(position, self.inside.gate)?;
                let is_behind = prepared.is_none_or(|prepared| self.inside.gate > Some(prepared));
                if !is_behind {
                    return Err(self.misplaced(position));
                }
                self.after(position, prepared, Wait::Success)?;
                self.after(position, unset, Wait::Success)?;
                self.inside.deployed.insert(node, position);
                self.inside.ends.push(position);
                if self.inside.teardowns.contains_key(node) {
                    match self.is_in_canary() {
                        true => self.back_before.push(position),
                        false => self.inside.back.push((position, Wait::Done)),
                    }
                }
            }
            StepKind::AwaitReady => {
                self.inside.ends.push(position);
                let Some(deployed) = self.inside.deployed.get(node).copied() else {
                    // An earlier run has built it.
                    self.succeeds(position, self.inside.start)?;
                    return self.after(position, unset, Wait::Success);
                };
                self.succeeds(position, Some(deployed))?;
                // It ends behind the deploy, and is waited for in its place.
                self.inside.back.retain(|(back, _)| *back != deployed);
                self.back_before.retain(|back| *back != deployed);
                let holds_up = self.members.contains(node) || (self.holds_up)(node);
                match holds_up || self.is_in_canary() {
                    true => self.back_before.push(position),
                    false => self.inside.back.push((position, Wait::Done)),
                }
            }
            kind => {
                let first = [self.inside.wave.ok_or_else(|| self.misplaced(position))?];
                let first = first.into_iter().chain(unset);
                let seen = self.inside.teardowns.get(node).copied();
                let seen = self.torn_down(position, kind, seen, first)?;
                self.inside.teardowns.insert(node, seen);
                self.note_member(node, kind);
            }
        }
        Ok(())
    }

    fn note_member(&mut self, node: &'p NodeName, kind: StepKind) {
        if kind == StepKind::CheckEtcd {
            self.members.insert(node);
        }
    }

    /// A step of a teardown: it waits for the one before, or for `first`.
    fn torn_down(
        &self,
        position: usize,
        kind: StepKind,
        seen: Option<Teardown>,
        first: impl IntoIterator<Item = usize>,
    ) -> Result<Teardown, Contradiction> {
        let mut teardown = seen.unwrap_or_default();
        let rank = rank(kind);
        if rank.is_none() || teardown.rank >= rank {
            return Err(self.misplaced(position));
        }
        if teardown.rank.is_none() {
            self.after(position, first, Wait::Success)?;
        }
        self.after(position, teardown.success, Wait::Success)?;
        teardown.rank = rank;
        if kind == StepKind::ShutdownKubelet {
            teardown.kubelet = Some(position);
        } else {
            self.after(position, teardown.kubelet.take(), Wait::Done)?;
            teardown.success = Some(position);
        }
        Ok(teardown)
    }

    /// A step on a node outside all groups.
    fn outside(&mut self, position: usize, node: &'p NodeName) -> Result<(), Contradiction> {
        let step = self.step(position);
        let kind = step.id.kind;
        let action = self.plan.request.action;
        if step.standby {
            return Err(self.misplaced(position));
        }
        let seen = self.outside.teardowns.get(node).copied();
        match (action, kind) {
            (Action::Redeploy, StepKind::Prepare) => {
                let torn_down = seen.and_then(Teardown::last);
                self.succeeds(position, self.wave)?;
                self.after(position, torn_down, Wait::Success)?;
                self.outside.prepared.insert(node, position);
            }
            (Action::Redeploy, StepKind::Deploy) => {
                self.succeeds(position, self.outside.prepared.get(node).copied())?;
                self.outside.deployed.insert(node, position);
            }
            (Action::Redeploy, StepKind::AwaitReady) => {
                self.succeeds(position, self.outside.deployed.get(node).copied())?;
            }
            _ if rank(kind).is_some() => {
                let first = match action {
                    Action::Update => Some(self.critical_check.or(self.prepare_site)),
                    Action::Redeploy => Some(self.wave),
                    _ => None,
                };
                let first = match first {
                    Some(first) => Some(first.ok_or_else(|| self.misplaced(position))?),
                    None => self.wave,
                };
                let seen = self.torn_down(position, kind, seen, first)?;
                self.outside.teardowns.insert(node, seen);
                self.note_member(node, kind);
            }
            (Action::Update, _) => self.on_record(position, node)?,
            (Action::Redeploy, _) => return Err(self.misplaced(position)),
            _ => self.after(position, self.wave, Wait::Success)?,
        }
        Ok(())
    }

    /// Retirement, records and repairs of nodes that no group selects.
    fn on_record(&mut self, position: usize, node: &'p NodeName) -> Result<(), Contradiction> {
        self.succeeds(position, self.verify)?;
        match self.step(position).id.kind {
            StepKind::UnsetRetired => drop(self.unset_retired.insert(node, position)),
            StepKind::Relabel => drop(self.relabels.insert(node, position)),
            StepKind::Record | StepKind::AcceptDifferences | StepKind::Adopt | StepKind::Rename => {
                let relabel = self.relabels.get(node).copied();
                self.after(position, relabel, Wait::Success)?;
            }
            StepKind::PowerOn | StepKind::Lock | StepKind::SetRetired | StepKind::AwaitReady => {}
            _ => return Err(self.misplaced(position)),
        }
        Ok(())
    }
}
