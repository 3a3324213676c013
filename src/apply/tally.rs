//! How nodes and groups stand, kept up to date as steps end.
//!
//! The standings are those of airship-deployment-grouping ("an overall status will be kept for each
//! unique node"). Counts of each group are kept by standing, so that a gate is judged without a
//! visit of its nodes, however many waves there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::design::{NodeName, SuccessCriteria};
use crate::guard::{self, Verdict};
use crate::journal::StepOutcome;
use crate::plan::{Plan, PlannedGroup, Standing};
use crate::run::{GroupResult, NodeOutcome, NodeView};
use crate::step::{Step, StepKind};

/// One node in this run.
#[derive(Clone)]
pub(super) struct NodeTally {
    pub(super) name: NodeName,
    pub(super) standing: Standing,
    /// How far it came.
    pub(super) view: NodeView,
    /// A step of it runs; the others wait here.
    pub(super) busy: bool,
    /// The step of it that an earlier life of this run began, and that has not ended; the others wait.
    pub(super) open: Option<usize>,
    /// The step of it that had begun when the run stopped, and whose end is not known.
    pub(super) unended: Option<Arc<str>>,
    pub(super) parked: Vec<u32>,
    groups: Vec<u32>,
}

/// One group in this run.
#[derive(Clone, Default)]
pub(super) struct GroupTally {
    counts: [usize; Standing::ALL.len()],
    /// Nodes that the plan has no change of and that are not deployed, in the same way.
    aside: [usize; Standing::ALL.len()],
    /// The criteria, and how many nodes they are judged over.
    criteria: SuccessCriteria,
    total: usize,
    /// Nodes that no step of this plan prepares, deploys or waits for, and that are not deployed.
    hopeless: usize,
    /// Nodes that failed in this run.
    failed_now: usize,
    /// Nodes that were built before this run and have not joined in it. No wave waits for them, so that only the end of the
    /// group may depend on whether they did: until then they count as prepared.
    not_joined: usize,
    /// Nodes that failed after they had been prepared, while a gate of prepared nodes was open.
    early: usize,
    /// Nodes of the current wave that still stand as the records say, and will be torn down.
    pub(super) to_tear_down: usize,
    /// Whether a node may also be worked on by another group at the same time.
    pub(super) shared: bool,
    /// Gates of prepared nodes that have not been judged.
    pub(super) open_gates: usize,
    /// Why it failed.
    pub(super) failed: Option<Arc<str>>,
    /// Whether it ended, and with success.
    pub(super) ended: Option<bool>,
    /// Deploys that wait until the gate is certain (overlap).
    pub(super) parked: Vec<u32>,
}

/// All nodes and groups.
#[derive(Clone)]
pub(super) struct Tally<'a> {
    pub(super) groups: &'a [PlannedGroup],
    pub(super) group_tallies: Vec<GroupTally>,
    pub(super) nodes: Vec<NodeTally>,
    node_index: FxHashMap<&'a str, u32>,
    group_index: FxHashMap<&'a str, u32>,
    /// Nodes that failed in this run after something was attempted.
    pub(super) failures: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let in_groups: usize = plan.groups.iter().map(|group| group.nodes.len()).sum();
        let mut tally = Self {
            groups: &plan.groups,
            group_tallies: Vec::with_capacity(plan.groups.len()),
            nodes: Vec::with_capacity(plan.changes.len().max(in_groups)),
            node_index: FxHashMap::default(),
            group_index: (0..)
                .zip(&plan.groups)
                .map(|(index, group)| (group.name.as_str(), index))
                .collect(),
            failures: 0,
        };
        tally.add_nodes(plan);
        for (group, number) in plan.groups.iter().zip(0u32..) {
            tally.add_group(group, number);
        }
        if plan.options.parallel_groups > 1 {
            for node in tally.nodes.iter().filter(|node| node.groups.len() > 1) {
                for group in &node.groups {
                    tally.group_tallies[*group as usize].shared = true;
                }
            }
        }
        for step in &plan.steps {
            if step.id.kind == StepKind::GatePrepared
                && let Some(group) = tally.group_of(step)
            {
                tally.group_tallies[group as usize].open_gates += 1;
            }
        }
        tally
    }

    /// The nodes that change, and those that have steps.
    fn add_nodes(&mut self, plan: &'a Plan) {
        for change in &plan.changes {
            let node = self.add(&change.node);
            self.nodes[node].standing = change.counts_as;
        }
        for step in &plan.steps {
            if let Some(name) = &step.id.node {
                let node = self.add(name);
                self.nodes[node].view.planned.add(step.id.kind);
            }
        }
        for node in &mut self.nodes {
            // What is built from nothing is not started, whatever an earlier run left of it.
            if node.view.planned.has(StepKind::Prepare) && !node.view.planned.has(StepKind::Destroy)
            {
                node.standing = Standing::NotStarted;
            }
        }
    }

    /// A group with its nodes as they stand.
    fn add_group(&mut self, group: &'a PlannedGroup, number: u32) {
        let mut counted = GroupTally {
            criteria: group.criteria(),
            total: group.judged(),
            ..GroupTally::default()
        };
        for name in &group.nodes {
            if let Some(standing) = group.not_deployed.get(name) {
                counted.aside[*standing as usize] += 1;
                continue;
            }
            let node = self.add(name);
            let node = &mut self.nodes[node];
            node.groups.push(number);
            counted.counts[node.standing as usize] += 1;
            let works = [StepKind::Prepare, StepKind::Deploy, StepKind::AwaitReady];
            let worked_on = works.into_iter().any(|kind| node.view.planned.has(kind));
            if !worked_on && node.standing != Standing::Deployed {
                counted.hopeless += 1;
            }
        }
        self.group_tallies.push(counted);
    }

    fn add(&mut self, name: &'a NodeName) -> usize {
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let index = *self.node_index.entry(name.as_str()).or_insert(next);
        if index == next {
            self.nodes.push(NodeTally {
                name: name.clone(),
                standing: Standing::Deployed,
                view: NodeView::default(),
                busy: false,
                open: None,
                unended: None,
                parked: Vec::new(),
                groups: Vec::new(),
            });
        }
        index as usize
    }

    /// The group of a step.
    pub(super) fn group_of(&self, step: &Step) -> Option<u32> {
        let name = step.id.group.as_ref()?;
        self.group_index.get(name.as_str()).copied()
    }

    /// The node of a step.
    pub(super) fn index_of(&self, node: &NodeName) -> Option<usize> {
        self.node_index
            .get(node.as_str())
            .map(|node| *node as usize)
    }

    pub(super) fn node_of(&self, step: &Step) -> Option<u32> {
        let name = step.id.node.as_ref()?;
        self.node_index.get(name.as_str()).copied()
    }

    pub(super) fn stand(&mut self, node: usize, standing: Standing) {
        let node = &mut self.nodes[node];
        if node.standing == standing {
            return;
        }
        for group in &node.groups {
            let counts = &mut self.group_tallies[*group as usize].counts;
            counts[node.standing as usize] -= 1;
            counts[standing as usize] += 1;
        }
        node.standing = standing;
    }

    /// Takes in how a step of a node ended. `gate_open`: a gate of prepared nodes of its group that
    /// this step does not wait for has not been judged.
    pub(super) fn node_step_ended(
        &mut self,
        node: usize,
        step: &Step,
        outcome: &StepOutcome,
        attempted: bool,
        group_with_open_gate: Option<usize>,
    ) {
        let kind = step.id.kind;
        match outcome {
            StepOutcome::Skipped { .. } | StepOutcome::NotNeeded => {}
            StepOutcome::Succeeded => {
                let view = &mut self.nodes[node].view;
                view.achieved.add(kind);
                // What did not join in an earlier run, and has by now, is deployed.
                let has_joined = kind == StepKind::AwaitReady && view.failed.is_none();
                match kind.facts().reaches {
                    Some(phase) => self.stand(node, Standing::from(phase)),
                    None if has_joined => self.stand(node, Standing::Deployed),
                    None => {}
                }
            }
            StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
                let (was, is_awaited) = {
                    let node = &self.nodes[node];
                    (node.standing, node.view.is_only_awaited())
                };
                if !is_awaited
                    && matches!(was, Standing::Prepared | Standing::Deployed)
                    && kind != StepKind::Destroy
                    && let Some(group) = group_with_open_gate
                {
                    self.group_tallies[group].early += 1;
                }
                self.stand(node, Standing::Failed);
                let node = &mut self.nodes[node];
                if node.view.fail(&step.id, message) {
                    self.failures += u64::from(attempted);
                    for group in &node.groups {
                        let tally = &mut self.group_tallies[*group as usize];
                        match is_awaited {
                            true => tally.not_joined += 1,
                            false => tally.failed_now += 1,
                        }
                    }
                }
            }
        }
    }

    fn prepared(&self, group: usize) -> usize {
        let tally = &self.group_tallies[group];
        tally.counts[Standing::Prepared as usize]
            + tally.counts[Standing::Deployed as usize]
            + tally.early
            + tally.not_joined
    }

    fn deployed(&self, group: usize) -> usize {
        self.group_tallies[group].counts[Standing::Deployed as usize]
    }

    /// Judges a group by how many of its nodes are successful.
    pub(super) fn judge(&self, group: usize, successful: usize) -> (usize, Verdict) {
        let tally = &self.group_tallies[group];
        let verdict = guard::evaluate(&tally.criteria, tally.total, successful);
        (successful, verdict)
    }

    /// Whether how a group ends is open: its criteria can still hold, and a node of it has steps that did not fail and are not
    /// done.
    pub(super) fn is_open(&self, group: usize) -> bool {
        let nodes = self.groups[group].nodes.iter();
        let mut nodes = nodes.filter_map(|name| self.index_of(name));
        let is_unfinished = nodes.any(|node| {
            let view = &self.nodes[node].view;
            view.failed.is_none() && view.planned != view.achieved
        });
        is_unfinished && self.can_still_hold(group)
    }

    /// Judges a group's prepared nodes.
    pub(super) fn judge_prepared(&self, group: usize) -> (usize, Verdict) {
        self.judge(group, self.prepared(group))
    }

    /// Judges a group's deployed nodes.
    pub(super) fn judge_deployed(&self, group: usize) -> (usize, Verdict) {
        self.judge(group, self.deployed(group))
    }

    /// A gate of prepared nodes was judged.
    pub(super) fn gate_judged(&mut self, group: usize) {
        let tally = &mut self.group_tallies[group];
        tally.open_gates = tally.open_gates.saturating_sub(1);
        tally.early = 0;
    }

    /// Whether the criteria can still hold at the end.
    pub(super) fn can_still_hold(&self, group: usize) -> bool {
        let tally = &self.group_tallies[group];
        let lost = tally.failed_now + tally.hopeless;
        let possible = tally.total.saturating_sub(lost);
        guard::can_still_hold(&tally.criteria, tally.total, possible)
    }

    /// Whether the open gate of prepared nodes will pass whatever comes.
    pub(super) fn gate_is_certain(&self, group: usize) -> bool {
        let tally = &self.group_tallies[group];
        let sure = self.prepared(group).saturating_sub(tally.to_tear_down);
        guard::is_certain(&tally.criteria, tally.total, sure)
    }

    /// How a group stands.
    pub(super) fn result(&self, group: usize) -> GroupResult {
        let (planned, tally) = (&self.groups[group], &self.group_tallies[group]);
        let standings: BTreeMap<Standing, usize> = Standing::ALL
            .into_iter()
            .map(|standing| (standing as usize, standing))
            .map(|(at, standing)| (standing, tally.counts[at] + tally.aside[at]))
            .filter(|(_, count)| *count > 0)
            .collect();
        let succeeded = tally.ended == Some(true);
        GroupResult {
            group: planned.name.clone(),
            critical: planned.critical,
            succeeded,
            stopped: tally.ended.is_none(),
            reason: tally.failed.clone().filter(|_| !succeeded),
            standings,
        }
    }
}

/// The effect of the end of a step that was still running when the run stopped on its node's record.
pub(super) fn under_way(step: &Step, why: &str) -> Option<NodeOutcome> {
    let message = why.into();
    NodeOutcome::of(&step.id, &StepOutcome::Unknown { message }, true, &[])
}
