//! A plan with what every rule looks up in it.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use rustc_hash::{FxHashMap, FxHashSet};

use super::interval::Away;
use super::{Inputs, World};
use crate::design::{Guards, NodeDesign, NodeName};
use crate::guard::Guarded;
use crate::observed::ObservedNode;
use crate::plan::{Allowance, Change, Plan};
use crate::record::NodeRecord;
use crate::step::{Given, Step, StepKind, Wait};

/// How many steps are followed in all to find a way from one to another. A step of a plan that this program makes waits
/// for what it has to by itself, so that a search is rare; if the file of a stranger uses all of this up, what was not
/// found by then is taken for missing.
const SEARCHED: usize = 20_000_000;

/// A plan, its inputs, and its steps and changes by node.
pub(super) struct View<'a> {
    pub(super) plan: &'a Plan,
    pub(super) site: Option<&'a Guarded>,
    pub(super) world: Option<World<'a>>,
    /// The plan is that of a run that has begun.
    pub(super) has_begun: bool,
    changes: FxHashMap<&'a str, &'a Change>,
    /// By node, the positions of its steps, in order.
    of_node: FxHashMap<&'a str, Vec<usize>>,
    left_to_search: Cell<usize>,
    /// The machines that are away at some time, once they were asked for.
    pub(super) away: OnceCell<Vec<Away<'a>>>,
}

impl<'a> View<'a> {
    pub(super) fn of(plan: &'a Plan, inputs: &Inputs<'a>) -> Self {
        let mut of_node: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (position, step) in plan.steps.iter().enumerate() {
            if let Some(node) = &step.id.node {
                of_node.entry(node.as_str()).or_default().push(position);
            }
        }
        let changes = plan.changes.iter();
        Self {
            plan,
            site: inputs.site,
            world: inputs.world,
            has_begun: inputs.has_begun,
            changes: changes.map(|each| (each.node.as_str(), each)).collect(),
            of_node,
            left_to_search: Cell::new(SEARCHED),
            away: OnceCell::new(),
        }
    }

    pub(super) fn step(&self, position: usize) -> &'a Step {
        &self.plan.steps[position]
    }

    pub(super) fn kind(&self, position: usize) -> StepKind {
        self.step(position).id.kind
    }

    pub(super) fn given(&self, position: usize) -> &'a dyn Given {
        self.step(position).given()
    }

    /// All steps with their positions.
    pub(super) fn steps(&self) -> impl Iterator<Item = (usize, &'a Step)> + use<'a> {
        self.plan.steps.iter().enumerate()
    }

    /// The positions of steps of one kind.
    pub(super) fn of_kind(&self, kind: StepKind) -> impl Iterator<Item = usize> + use<'a> {
        let steps = self.steps().filter(move |(_, step)| step.id.kind == kind);
        steps.map(|(position, _)| position)
    }

    /// The positions of the steps of a node, in order.
    pub(super) fn of_node(&self, node: &str) -> &[usize] {
        self.of_node.get(node).map_or(&[], |steps| steps)
    }

    /// Whether a node has a step of a kind.
    pub(super) fn has(&self, node: &str, kind: StepKind) -> bool {
        let mut steps = self.of_node(node).iter();
        steps.any(|position| self.kind(*position) == kind)
    }

    pub(super) fn change(&self, node: &str) -> Option<&'a Change> {
        self.changes.get(node).copied()
    }

    /// The changes of nodes that have steps, each with the positions of these.
    pub(super) fn worked_on(&self) -> impl Iterator<Item = (&'a Change, &[usize])> {
        let changes = self.plan.changes.iter();
        changes.filter_map(|change| {
            let steps = self.of_node(change.node.as_str());
            (!steps.is_empty()).then_some((change, steps))
        })
    }

    pub(super) fn guards(&self) -> Option<&'a Guards> {
        self.site.map(|site| site.guards())
    }

    pub(super) fn designed(&self, node: &str) -> Option<&'a NodeDesign> {
        self.site?.nodes.get(node).map(|node| &**node)
    }

    pub(super) fn record(&self, node: &str) -> Option<&'a NodeRecord> {
        self.world?.records.get(node)
    }

    pub(super) fn observed(&self, node: &str) -> Option<&'a ObservedNode> {
        self.world?.observations?.node(node)
    }

    /// A node as it was applied last, if that is at hand.
    pub(super) fn applied(&self, node: &str) -> Option<&'a NodeDesign> {
        let revision = self.record(node)?.revision.as_ref()?;
        let site = self.world?.applied.get(revision)?;
        site.design.nodes.get(node).map(|node| &**node)
    }

    /// Whether a step waits for another one by itself; needs are sorted, which is a rule of their own.
    pub(super) fn waits(&self, step: usize, other: usize, wait: Wait) -> bool {
        let needs = &self.step(step).needs;
        let found = needs.binary_search_by_key(&other, |need| need.step.0 as usize);
        found.is_ok_and(|at| wait == Wait::Done || needs[at].wait == Wait::Success)
    }

    /// Whether a step waits for another one, by itself or by what it waits for; for a success each of these waits for one.
    pub(super) fn is_after(&self, step: usize, other: usize, wait: Wait) -> bool {
        if step <= other {
            return false;
        }
        if self.waits(step, other, wait) {
            return true;
        }
        let (mut open, mut seen) = (vec![step], FxHashSet::default());
        while let Some(step) = open.pop() {
            for need in &self.step(step).needs {
                let before = need.step.0 as usize;
                if before < other || (wait == Wait::Success && need.wait != Wait::Success) {
                    continue;
                }
                if before == other {
                    return true;
                }
                let left = self.left_to_search.get();
                if left > 0 && seen.insert(before) {
                    self.left_to_search.set(left - 1);
                    open.push(before);
                }
            }
        }
        false
    }
}

/// A set of nodes by names and globs, as plans hold it.
pub(super) struct Names<'a> {
    all: bool,
    names: &'a BTreeSet<Arc<str>>,
    globs: Vec<GlobMatcher>,
}

impl<'a> Names<'a> {
    pub(super) fn of(allowance: &'a Allowance) -> Self {
        let is_glob = |name: &&Arc<str>| name.contains(['*', '?', '[', '{']);
        let globs = allowance.nodes.iter().filter(is_glob);
        let globs = globs.filter_map(|glob| GlobBuilder::new(glob).build().ok());
        Self {
            all: allowance.all,
            names: &allowance.nodes,
            globs: globs.map(|glob| glob.compile_matcher()).collect(),
        }
    }

    pub(super) fn contain(&self, node: &NodeName) -> bool {
        let name = node.as_str();
        let in_globs = || self.globs.iter().any(|glob| glob.is_match(name));
        self.all || self.names.contains(name) || in_globs()
    }
}
