//! The effects of the steps of a plan on the records of their nodes: for the process that carries it out, for an abort,
//! and for those that only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::node;
use super::outcome::NodeOutcome;
use crate::design::{Digests, NodeName, RunId};
use crate::identity;
use crate::plan::{ChangeKind, Plan};
use crate::record::{NodeRecord, RunRecord};
use crate::step::{Effect, Given, Notes, RecordContext, Step, StepId, StepKind};

/// A plan, as far as the effects of its steps on records depend on it.
pub(super) struct PlanEffects<'a> {
    /// Steps that destroy data, and those whose parameters stand in records.
    steps: FxHashMap<&'a StepId, &'a Step>,
    changes: FxHashMap<&'a NodeName, ChangeKind>,
    /// Nodes that the plan takes out of the cluster.
    leaving: FxHashSet<&'a NodeName>,
    /// The nodes of which differences are accepted.
    accepting: FxHashSet<&'a NodeName>,
    /// The nodes on which the plan lets pods be scheduled again.
    uncordoned: FxHashSet<&'a NodeName>,
    /// The nodes that a soak of the plan watches.
    soaked: FxHashSet<&'a NodeName>,
    /// Machines were named: what an action does not bring true of them stays as it is recorded.
    is_targeted: bool,
}

/// The records of the nodes of a site, by name.
pub(super) trait NodeRecords {
    /// Takes a record out.
    fn take(&mut self, node: &NodeName) -> Option<NodeRecord>;

    /// Puts a record in.
    fn put(&mut self, record: NodeRecord);
}

impl NodeRecords for FxHashMap<NodeName, NodeRecord> {
    fn take(&mut self, node: &NodeName) -> Option<NodeRecord> {
        self.remove(node)
    }

    fn put(&mut self, record: NodeRecord) {
        self.insert(record.node.clone(), record);
    }
}

impl NodeRecords for BTreeMap<NodeName, NodeRecord> {
    fn take(&mut self, node: &NodeName) -> Option<NodeRecord> {
        self.remove(node)
    }

    fn put(&mut self, record: NodeRecord) {
        self.insert(record.node.clone(), record);
    }
}

impl<'a> PlanEffects<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let nodes_with = |kind| {
            let steps = plan.steps.iter().filter(move |step| step.id.kind == kind);
            steps.filter_map(|step| step.id.node.as_ref()).collect()
        };
        let changes = plan.changes.iter();
        Self {
            steps: steps_of_note(plan),
            changes: changes.map(|change| (&change.node, change.kind)).collect(),
            is_targeted: plan.request.action.is_targeted(),
            leaving: nodes_with(StepKind::RemoveFromCluster),
            accepting: nodes_with(StepKind::AcceptDifferences),
            uncordoned: nodes_with(StepKind::Uncordon),
            soaked: plan.steps.iter().flat_map(Step::soaked).collect(),
        }
    }

    /// A step that destroys data, or whose parameters stand in records.
    pub(super) fn step(&self, step: &StepId) -> Option<&'a Step> {
        self.steps.get(step).copied()
    }

    /// Whether a step keeps the disks beside that of the system.
    pub(super) fn keeps_disks(&self, step: &StepId) -> bool {
        self.step(step)
            .is_some_and(|step| *step.given().preserve_local_storage())
    }

    /// Takes the end of a step into the records. `design`: the digests of the design to be reached, `None` if the node left
    /// it; `now`: seconds since 1970. Gives the old name of a node that was renamed.
    pub(super) fn apply(
        &self,
        nodes: &mut impl NodeRecords,
        outcome: &NodeOutcome,
        run: &RunRecord,
        design: Option<&Digests>,
        now: i64,
    ) -> Option<NodeName> {
        let step = self.step(&outcome.step);
        let given = step.map(|step| step.given());
        let actor = run.actor.clone().unwrap_or_default();
        let change = self.changes.get(&outcome.node).copied();
        let context = RecordContext {
            run: &run.run,
            revision: &run.revision,
            design,
            only_relabels: change == Some(ChangeKind::Relabel) && !self.is_targeted,
            is_operation: change == Some(ChangeKind::Operation),
            reason: given.and_then(|all| all.reason().as_ref()),
            leaves_cluster: self.leaving.contains(&outcome.node),
            is_gone: given.is_some_and(|all| *all.node_is_gone()),
            identity: given.and_then(|all| all.identity().as_deref()),
            accepted: given
                .and_then(|all| all.accepted().as_deref())
                .map(|accepted| (accepted, &actor)),
            is_accepting: self.accepting.contains(&outcome.node),
            verified: given.map_or(&[], |all| all.verified()),
            open: given.map_or(&[], |all| all.open()),
            settings: given.map_or(&[], |all| all.settings()),
            joins_after: given.filter(|all| *all.joins()).map(|_| now),
            keeps_disks: self.keeps_disks(&outcome.step),
            lifts_cordon: self.uncordoned.contains(&outcome.node),
            soaks: self.soaked.contains(&outcome.node),
            decided: outcome.decided,
        };
        let old = given.and_then(|all| all.renamed_from().as_ref());
        // An end that is taken in twice finds it moved.
        let renamed = old.filter(|_| outcome.message.is_none()).and_then(|old| {
            let mut record = nodes.take(old)?;
            record.node = outcome.node.clone();
            nodes.put(record);
            Some(old.clone())
        });
        let before = nodes.take(&outcome.node);
        if let Some(record) = node::after(before.as_ref(), outcome, &context) {
            nodes.put(record);
        }
        renamed
    }

    /// Takes in that a drain had begun whose end is not known; whether that changed a record.
    pub(super) fn begin_drain(
        &self,
        nodes: &mut BTreeMap<NodeName, NodeRecord>,
        node: &NodeName,
        run: &RunId,
    ) -> bool {
        let cordoned = self.uncordoned.contains(node).then(|| run.clone());
        let record = nodes.get_mut(node);
        let record = record.filter(|record| record.cordoned != cordoned);
        record.is_some_and(|record| {
            record.cordoned = cordoned;
            true
        })
    }
}

/// Takes a note of a step into the records: they hold the annotations of a remediation, and what a node carried and has not
/// been given back. Whether that changed a record.
pub(super) fn take_note(
    nodes: &mut impl NodeRecords,
    step: &StepId,
    text: &Arc<str>,
    run: &RunRecord,
) -> bool {
    let Some(name) = &step.node else { return false };
    let noted = match step.kind.facts().notes {
        Notes::None | Notes::LeftPods => return false,
        Notes::Remediation => node::noted,
        Notes::Carried => node::carried,
    };
    if identity::noted(std::slice::from_ref(text)).is_some() {
        return false;
    }
    let before = nodes.take(name);
    nodes.put(noted(before.as_ref(), name, text, &run.run));
    true
}

fn steps_of_note(plan: &Plan) -> FxHashMap<&StepId, &Step> {
    let stands = |given: &dyn Given| {
        given.reason().is_some()
            || *given.node_is_gone()
            || given.identity().is_some()
            || given.accepted().is_some()
            || given.renamed_from().is_some()
            || *given.joins()
            || !given.verified().is_empty()
            || !given.open().is_empty()
            || !given.settings().is_empty()
    };
    let steps = plan.steps.iter();
    let steps = steps.filter(|step| step.effect == Effect::Destructive || stands(step.given()));
    steps.map(|step| (&step.id, step)).collect()
}
