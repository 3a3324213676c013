//! Which groups succeed, and how nodes stand in the end: a plain model, written from the specification.
//!
//! Told which steps on nodes failed, it processes the groups one after the other as "Process" of
//! airship-deployment-grouping tells, with waves of redeploys inside a group. What a run reports has to be the same.

use std::collections::{BTreeMap, BTreeSet};

use trueup::design::{GroupName, NodeName};
use trueup::guard;
use trueup::plan::{ChangeKind, Plan, PlannedGroup, Standing};
use trueup::record::Outcome;
use trueup::run::{Finished, RunReport};
use trueup::step::{StepKind, Wait};

/// The steps on nodes that did not succeed, or were not attempted since one before them in their own
/// teardown did not.
pub(super) type Fails = BTreeSet<(StepKind, NodeName)>;

struct Model<'a> {
    plan: &'a Plan,
    fails: &'a Fails,
    /// By group and node, the wave of each node that is redeployed.
    waves: BTreeMap<(&'a GroupName, &'a NodeName), u32>,
    redeployed: BTreeSet<&'a NodeName>,
    /// Nodes that were built before and are waited for until they join, each with the group in which that is.
    awaited: BTreeMap<&'a NodeName, Option<&'a GroupName>>,
    /// Nodes that no step moves, as they stand.
    left_alone: BTreeMap<&'a NodeName, Standing>,
    status: BTreeMap<&'a NodeName, Standing>,
    failed_now: BTreeSet<&'a NodeName>,
    touched: BTreeSet<&'a NodeName>,
    /// Nodes that were not taken out of service, for want of a place.
    kept: BTreeSet<&'a NodeName>,
}

/// How the groups of a plan end, and the nodes in them.
pub(super) fn model<'a>(
    plan: &'a Plan,
    fails: &'a Fails,
    site_failed: bool,
) -> (BTreeMap<&'a NodeName, Standing>, Vec<bool>) {
    let waves = waves(plan);
    let nodes_with = |kind: StepKind| -> BTreeSet<&NodeName> {
        let steps = plan.steps.iter().filter(|step| step.id.kind == kind);
        steps.filter_map(|step| step.id.node.as_ref()).collect()
    };
    let (prepared, deployed) = (nodes_with(StepKind::Prepare), nodes_with(StepKind::Deploy));
    let redeployed: BTreeSet<_> = waves.keys().map(|(_, node)| *node).collect();
    let mut model = Model {
        plan,
        fails,
        awaited: BTreeMap::new(),
        left_alone: BTreeMap::new(),
        status: BTreeMap::new(),
        failed_now: BTreeSet::new(),
        touched: BTreeSet::new(),
        kept: BTreeSet::new(),
        redeployed,
        waves,
    };
    let changes: BTreeMap<_, _> = plan
        .changes
        .iter()
        .map(|change| (&change.node, change))
        .collect();
    for node in plan.groups.iter().flat_map(|group| &group.nodes) {
        let standing = match changes.get(node) {
            // What an earlier run left half-done stands as its record has it until its turn comes.
            Some(change) if model.redeployed.contains(node) => {
                let is_half_done = change
                    .reasons
                    .iter()
                    .any(|reason| reason.contains("had begun to change it"));
                assert!(
                    is_half_done || change.counts_as == Standing::Deployed,
                    "{change:?}"
                );
                change.counts_as
            }
            Some(change) if deployed.contains(node) => {
                assert!(
                    matches!(change.kind, ChangeKind::Create | ChangeKind::Unknown),
                    "{change:?}"
                );
                // One that an earlier run prepared is only deployed.
                match prepared.contains(node) {
                    true => Standing::NotStarted,
                    false => change.counts_as,
                }
            }
            Some(change) => {
                let steps = plan.steps.iter().map(|step| &step.id);
                let mut waits = steps.filter(|id| id.kind == StepKind::AwaitReady);
                match waits.find(|id| id.node.as_ref() == Some(node)) {
                    Some(id) => drop(model.awaited.insert(node, id.group.as_ref())),
                    None => drop(model.left_alone.insert(node, change.counts_as)),
                }
                change.counts_as
            }
            None => {
                model.left_alone.insert(node, Standing::Deployed);
                Standing::Deployed
            }
        };
        model.status.insert(node, standing);
    }
    let mut results: Vec<bool> = Vec::new();
    for group in &plan.groups {
        let ready = group.depends_on.iter().all(|other| {
            let position = plan.groups.iter().position(|each| each.name == *other);
            results[position.unwrap()]
        });
        let result = !site_failed && ready && model.process(group);
        results.push(result);
    }
    (model.status, results)
}

/// The wave in which each node is redeployed.
fn waves(plan: &Plan) -> BTreeMap<(&GroupName, &NodeName), u32> {
    let mut of_step: Vec<Option<u32>> = Vec::with_capacity(plan.steps.len());
    let mut of_node = BTreeMap::new();
    let redeployed: BTreeSet<_> = plan
        .changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Redeploy)
        .map(|change| &change.node)
        .collect();
    for step in &plan.steps {
        let needs = step.needs.iter().map(|need| need.step.0 as usize);
        let mut inherited = needs.filter_map(|need| {
            let other = &plan.steps[need].id;
            let is_own = other.node.is_some() && other.node == step.id.node;
            let starts = matches!(other.kind, StepKind::StartWave | StepKind::StartGroup)
                && other.group == step.id.group;
            of_step[need].filter(|_| is_own || starts)
        });
        let wave = match step.id.kind {
            StepKind::StartWave => step.id.wave,
            StepKind::StartGroup => Some(0),
            _ => inherited.next(),
        };
        of_step.push(wave);
        if let Some((group, node)) = step.id.group.as_ref().zip(step.id.node.as_ref())
            && step.id.kind == StepKind::Destroy
            && redeployed.contains(node)
        {
            of_node.insert((group, node), wave.unwrap_or(0));
        }
    }
    of_node
}

impl<'a> Model<'a> {
    fn process(&mut self, group: &'a PlannedGroup) -> bool {
        let waves = group
            .nodes
            .iter()
            .filter_map(|node| self.waves.get(&(&group.name, node)).copied());
        let waves: BTreeSet<u32> = waves.collect();
        let mut waves: Vec<Option<u32>> = waves.into_iter().map(Some).collect();
        // What is created goes with the first wave, or before it, if some of that takes places until it is back.
        let gates = self.plan.steps.iter().filter(|step| {
            step.id.kind == StepKind::GatePrepared && step.id.group.as_ref() == Some(&group.name)
        });
        if waves.is_empty() || gates.count() > waves.len() {
            waves.insert(0, None);
        }
        let all = (0..waves.len()).all(|number| self.wave(group, number, waves[number]));
        // Whether they join counts at the end only.
        let awaited = self
            .awaited
            .iter()
            .filter(|(_, of)| **of == Some(&group.name));
        for (node, _) in awaited {
            let fails = self.fails.iter().any(|(_, other)| other == *node);
            let standing = if fails {
                Standing::Failed
            } else {
                Standing::Deployed
            };
            self.status.insert(node, standing);
        }
        all && self.passes(group, &[Standing::Deployed])
    }

    fn passes(&self, group: &PlannedGroup, good: &[Standing]) -> bool {
        let successful = group.nodes.iter().filter(|node| {
            let is_awaited = good.contains(&Standing::Prepared) && self.awaited.contains_key(node);
            is_awaited || good.contains(&self.status[node])
        });
        guard::evaluate(
            &group.success_criteria,
            group.nodes.len(),
            successful.count(),
        )
        .passed
    }

    fn wave(&mut self, group: &'a PlannedGroup, number: usize, wave: Option<u32>) -> bool {
        let can_succeed = group.nodes.iter().filter(|node| {
            let left_alone = self.left_alone.get(node);
            !self.failed_now.contains(node)
                && left_alone.is_none_or(|as_is| *as_is == Standing::Deployed)
        });
        let total = group.nodes.len();
        let starts = wave.is_none()
            || guard::can_still_hold(&group.success_criteria, total, can_succeed.count());
        let is_of_wave = |node: &&NodeName| {
            let own = self.waves.get(&(&group.name, *node));
            own.is_some_and(|own| Some(*own) == wave)
        };
        let mut of_wave = group.nodes.iter().filter(is_of_wave);
        let is_done = of_wave.all(|node| self.touched.contains(node));
        let starts = starts && (is_done || self.is_back_before(group, wave));
        let up: Vec<&NodeName> = group
            .nodes
            .iter()
            .filter(is_of_wave)
            .filter(|node| !self.touched.contains(node) && !self.is_out(node))
            .collect();
        let kept: Vec<&NodeName> = up
            .iter()
            .copied()
            .filter(|node| !self.has_place(node, &up))
            .collect();
        let starts = starts && (up.is_empty() || kept.len() < up.len());
        if number > 0 && !starts {
            return false;
        }
        let nodes: Vec<&NodeName> = group
            .nodes
            .iter()
            .filter(|node| !self.left_alone.contains_key(node) && !self.awaited.contains_key(node))
            // What is created does not wait for the wave, only for the group.
            .filter(|node| match self.waves.get(&(&group.name, *node)) {
                Some(_) => starts && is_of_wave(node),
                None => number == 0,
            })
            .collect();
        for node in &nodes {
            if self.waves.contains_key(&(&group.name, node)) && self.touched.insert(node) {
                if kept.contains(node) {
                    self.kept.insert(node);
                    self.failed_now.insert(node);
                    self.status.insert(node, Standing::Failed);
                    continue;
                }
                let standing = self.try_step(StepKind::Destroy, node, Standing::NotStarted);
                self.status.insert(node, standing);
            }
        }
        for (kind, valid, next) in [
            (StepKind::Prepare, Standing::NotStarted, Standing::Prepared),
            (StepKind::Deploy, Standing::Prepared, Standing::Deployed),
        ] {
            for node in &nodes {
                if self.status[node] == valid {
                    let standing = self.try_step(kind, node, next);
                    self.status.insert(node, standing);
                }
            }
            let good = [Standing::Prepared, Standing::Deployed];
            if kind == StepKind::Prepare && !self.passes(group, &good) {
                return false;
            }
        }
        starts
    }

    /// Whether what a wave waits for, beside the end of the wave before, has come back.
    fn is_back_before(&self, group: &PlannedGroup, wave: Option<u32>) -> bool {
        let starts = self.plan.steps.iter().filter(|step| {
            let id = &step.id;
            id.kind == StepKind::StartWave
                && id.group.as_ref() == Some(&group.name)
                && id.wave == wave
        });
        let needs = starts
            .flat_map(|step| &step.needs)
            .filter(|need| need.wait == Wait::Success);
        needs
            .map(|need| &self.plan.steps[need.step.0 as usize].id)
            .all(|id| {
                id.node.as_ref().is_none_or(|node| {
                    // What was not sent is what it was before, and its failure may be still to come, in this very wave.
                    let stays = self.redeployed.contains(node) && !self.touched.contains(node);
                    let is_back = self.status[node] == Standing::Deployed;
                    stays || (is_back && !self.fails.contains(&(id.kind, node.clone())))
                })
            })
    }

    /// Whether a machine is out of service: a run before left it so, or it was taken out, and it is not back.
    fn is_out(&self, node: &NodeName) -> bool {
        let mut limits = self.plan.guards.places.iter();
        let was_down = limits.any(|limit| limit.down.contains(node));
        let is_built = self.status[node] == Standing::Deployed
            && (self.touched.contains(node) || !self.redeployed.contains(node));
        match was_down {
            true => !is_built,
            false => {
                self.touched.contains(node)
                    && !self.kept.contains(node)
                    && self.status[node] != Standing::Deployed
            }
        }
    }

    /// Whether a machine of a wave has a place beside those that did not come back, and those of its wave before it; `up`: all
    /// that are in service.
    fn has_place(&self, node: &NodeName, up: &[&NodeName]) -> bool {
        let limits = self.plan.guards.places.iter();
        let mut limits = limits.filter(|limit| limit.nodes.contains(node));
        limits.all(|limit| {
            let known = limit
                .nodes
                .iter()
                .filter(|other| self.status.contains_key(other));
            let out = known.filter(|other| self.is_out(other)).count();
            let before = up.iter().take_while(|other| **other != node);
            let before = before.filter(|other| limit.nodes.contains(other)).count();
            out == 0 || out + usize::from(limit.is_given) * before < limit.places
        })
    }

    fn try_step(&mut self, kind: StepKind, node: &'a NodeName, next: Standing) -> Standing {
        let fails = |kind| self.fails.contains(&(kind, node.clone()));
        if fails(kind) || (kind == StepKind::Deploy && fails(StepKind::AwaitReady)) {
            self.failed_now.insert(node);
            return Standing::Failed;
        }
        next
    }
}

/// Compares what a run reports with the model.
pub(super) fn check(
    plan: &Plan,
    fails: &Fails,
    site_failed: bool,
    report: &RunReport,
    finished: &Finished,
) {
    let (standings, results) = model(plan, fails, site_failed);
    let told: Vec<bool> = report.groups.iter().map(|group| group.succeeded).collect();
    assert_eq!(told, results, "groups {:#?} with {fails:?}", plan.groups);
    for (node, standing) in standings {
        assert_eq!(finished.standings[node], standing, "{node} with {fails:?}");
    }
    let critical = plan.groups.iter().zip(&results);
    let critical_failed = critical
        .filter(|(group, _)| group.critical)
        .any(|(_, passed)| !passed);
    assert_eq!(finished.critical_failed, critical_failed);
    assert!(
        !critical_failed || report.outcome == Outcome::Failed,
        "{report:#?}"
    );
}
