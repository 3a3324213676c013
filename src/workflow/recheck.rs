//! Whether a run that another clone began may be resumed here.
//!
//! Its plan comes from a ref that every account with push rights can write, and is compared with the plan that this clone makes
//! now of the same request: of the run's documents, the records, and what is observed. The run is half done, so that
//! some of its steps are not in the new plan any more. Those are never begun here: where an earlier process began them,
//! their end is found out, and otherwise they fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::consent::{Consent, is_pinned, listed};
use super::equip::in_history;
use super::{Failure, FailureKind, Planned};
use crate::design::{EtcdCluster, EtcdMember, GroupName, NodeName, RunId};
use crate::lifecycle::PowerState;
use crate::observed::Fact;
use crate::plan::effect::{Difference, EffectPart};
use crate::plan::{
    self, Cause, Change, ChangeKind, FactName, Options, Plan, PlanEffect, Precondition,
};
use crate::run::{Interrupted, taken_out};
use crate::step::{Effect, Loss, StepIndex, StepKind};

/// Why a step is not begun.
const NOT_COVERED: &str =
    "the run was begun in another clone, and a plan made now does not have this step";

/// The limits of a resume of a run from another clone.
#[derive(Default)]
pub struct Rechecked {
    /// Facts that steps rely on, beside those of the run's plan.
    relies_on: Vec<Precondition>,
    /// Steps that are not begun, by their positions, and why.
    pub refused: BTreeMap<usize, Arc<str>>,
    /// How long steps may take, by their positions, if a plan made now gives them another time.
    timeouts: BTreeMap<usize, u64>,
}

/// Makes the plan of a run again and compares; `consent.reviewed` is the run's plan.
///
/// # Errors
///
/// Its documents are not in the history of this clone; its allowances were not given; it destroys what
/// a plan made now would not touch.
pub fn recheck(consent: &Consent<'_>, interrupted: &Interrupted) -> Result<Rechecked, Failure> {
    let run = &interrupted.record.run;
    in_history(
        consent.checkout,
        &consent.site.connection,
        interrupted.commit,
    )?;
    let is_pinned = is_pinned(consent.operator, consent.reviewed)?;
    let planned = match consent.make(is_pinned) {
        Ok(planned) => planned,
        // A node that it names is gone, and no plan for it can be made any more.
        Err(failure) if matches!(failure.kind, FailureKind::NotFound | FailureKind::Usage) => {
            return Ok(nothing_covered(consent.reviewed));
        }
        Err(failure) => return Err(failure),
    };
    let plan = consent.reviewed;
    let own = Some(&interrupted.record);
    let clearance = planned.gate.clear(consent.approving(), plan, plan, own)?;
    let beyond = |planned: &Planned, allowed: &Options| {
        Beyond::of(plan, planned).without_half_done(plan, planned, allowed)
    };
    if is_pinned {
        let beyond = beyond(&planned, &plan.options);
        return covered(plan, &planned, run, beyond);
    }
    let given = planned.plan.options.clone();
    let (planned, mut missing) = consent.to_confirm(planned)?;
    let own = beyond(&planned, &given);
    let whole = beyond(&planned, &plan.options);
    // What is left of a machine that is half done is in no plan that is made now.
    if missing.is_none() && own.nodes.len() != whole.nodes.len() {
        let given = given.allowances();
        let mut all = plan.options.allowances();
        all.retain(|flag| !given.contains(flag));
        missing = Some(all);
    }
    if let Some(missing) = missing.filter(|_| !clearance.is_approved()) {
        consent.ask(plan, &missing)?;
    }
    covered(plan, &planned, run, whole)
}

/// Every step may only be found out about.
fn nothing_covered(plan: &Plan) -> Rechecked {
    let touching = plan.steps.iter().enumerate();
    let touching = touching.filter(|(_, step)| step.effect != Effect::None);
    Rechecked {
        refused: touching
            .map(|(position, _)| (position, Arc::from(NOT_COVERED)))
            .collect(),
        ..Rechecked::default()
    }
}

/// The actions of a run that a plan made now lacks, by node.
struct Beyond {
    nodes: BTreeMap<NodeName, Vec<Difference>>,
    site: Vec<Difference>,
}

impl Beyond {
    fn of(plan: &Plan, planned: &Planned) -> Self {
        let now = &planned.plan;
        let mut nodes = BTreeMap::<_, Vec<_>>::new();
        let mut site = judged_otherwise(plan, planned);
        let (effect, fresh) = (PlanEffect::of(plan), PlanEffect::of(now));
        let mut differences = effect.exceeds(&fresh);
        differences.retain(|difference| difference.part != EffectPart::Drain);
        for difference in differences {
            match &difference.node {
                Some(node) => nodes.entry(node.clone()).or_default().push(difference),
                // A plan for nodes that are done does not have their groups any more.
                None if matches!(
                    difference.part,
                    EffectPart::Steps | EffectPart::Groups | EffectPart::Guards
                ) => {}
                None => site.push(difference),
            }
        }
        Self { nodes, site }
    }

    /// Leaves out the machines that are in the middle of what was allowed, of which nothing is in service, and those that
    /// wait for them.
    fn without_half_done(mut self, plan: &Plan, planned: &Planned, allowed: &Options) -> Self {
        let changes = by_node(plan);
        let waiting = waiting_for_etcd(plan, planned);
        let action = plan.request.action;
        self.nodes.retain(|node, differences| {
            let designed = planned.guarded.nodes.contains_key(node);
            let change = changes.get(node).copied();
            let (is_allowed, most) = match change.map(|change| (change, change.kind)) {
                Some((_, ChangeKind::Create)) => (designed, EffectPart::Data),
                Some((change, ChangeKind::Redeploy)) => (
                    designed
                        && (action.is_targeted()
                            || change
                                .is_within(allowed, &planned.guarded.guards().policy.disruption)),
                    EffectPart::Teardown,
                ),
                Some((_, ChangeKind::Destroy)) => (
                    action.is_targeted() || (!designed && allowed.allow_destroy.names(node)),
                    EffectPart::Teardown,
                ),
                _ => (false, EffectPart::Steps),
            };
            let within = differences.iter().all(|each| each.part <= most);
            let is_under_way = is_out_of_service(planned, node) || waiting.contains(node);
            !(is_allowed && within && is_under_way)
        });
        self
    }
}

/// Groups of a plan that are not those of its documents: by their order, their criteria, or the nodes that count.
fn judged_otherwise(plan: &Plan, planned: &Planned) -> Vec<Difference> {
    let documented = plan::in_order(&planned.guarded, &FxHashSet::default());
    let mut documented = documented.unwrap_or_default().into_iter();
    let names: FxHashSet<&GroupName> = plan.groups.iter().map(|group| &group.name).collect();
    let now = planned.plan.groups.iter();
    let now: FxHashMap<_, _> = now.map(|group| (&group.name, &group.nodes)).collect();
    let differs = plan.groups.iter().filter_map(|group| {
        let is_same = documented
            .find(|other| other.name == group.name)
            .is_some_and(|mut other| {
                if plan.request.action.is_targeted() {
                    other.depends_on.retain(|name| names.contains(name));
                }
                let own: FxHashSet<&NodeName> = group.nodes.iter().collect();
                let left = now.get(&group.name).copied().into_iter().flatten();
                let is_whole = own.len() + group.retired == other.nodes.len()
                    && left.into_iter().all(|node| own.contains(node));
                is_whole
                    && group.critical == other.critical
                    && group.success_criteria == other.success_criteria
                    && group.depends_on == other.depends_on
            });
        (!is_same).then(|| Difference {
            node: None,
            what: format!(
                "group `{}` is judged otherwise, or has another place in the order",
                group.name
            ),
            part: EffectPart::Rest,
        })
    });
    differs.collect()
}

/// How long steps may take, if a plan made now gives the same step, or else its kind, another time.
fn timeouts(plan: &Plan, now: &Plan) -> BTreeMap<usize, u64> {
    let mut of_step: FxHashMap<(StepKind, Option<&NodeName>), u64> = FxHashMap::default();
    let mut of_kind: FxHashMap<StepKind, u64> = FxHashMap::default();
    for step in &now.steps {
        of_step.insert((step.id.kind, step.id.node.as_ref()), step.timeout);
        let longest = of_kind.entry(step.id.kind).or_default();
        *longest = step.timeout.max(*longest);
    }
    let steps = plan.steps.iter().enumerate();
    let others = steps.filter_map(|(position, step)| {
        let own = of_step.get(&(step.id.kind, step.id.node.as_ref()));
        let timeout = *own.or_else(|| of_kind.get(&step.id.kind))?;
        (timeout != step.timeout).then_some((position, timeout))
    });
    others.collect()
}

/// Whether a machine was observed without a system, and no other client holds it.
fn is_out_of_service(planned: &Planned, node: &NodeName) -> bool {
    let seen = planned.observations.as_ref();
    let Some(seen) = seen.and_then(|seen| seen.node(node.as_str())) else {
        return false;
    };
    let carries_none = match (&seen.provision, &seen.power) {
        (Fact::Known(state), _) if !seen.kept_by_records => !state.is_deployed(),
        (_, power) => *power == Fact::Known(PowerState::Off),
    };
    carries_none && seen.maintenance.is_none() && seen.retired.is_none() && !seen.protected
}

/// The changes of a plan, by node.
fn by_node(plan: &Plan) -> FxHashMap<&NodeName, &Change> {
    let changes = plan.changes.iter();
    changes.map(|change| (&change.node, change)).collect()
}

/// The machines that nothing but etcd keeps in a plan made now, and that only since machines of the run are away: the run has
/// those back before it begins with these, and whether etcd bears their loss is judged again then.
fn waiting_for_etcd(plan: &Plan, planned: &Planned) -> FxHashSet<NodeName> {
    let Some(seen) = &planned.observations else {
        return FxHashSet::default();
    };
    let is_kept = |change: &&Change| {
        let block = change.blocked.as_ref();
        block.is_some_and(|block| block.cause == Cause::Etcd && block.flag.is_none())
    };
    let mut kept = planned.plan.changes.iter().filter(is_kept).peekable();
    if kept.peek().is_none() {
        return FxHashSet::default();
    }
    let of_run = taken_out(plan);
    let clusters = &planned.guarded.guards().etcd_clusters;
    let waits = |node: &&NodeName| {
        let has =
            |cluster: &&EtcdCluster| cluster.members.iter().any(|member| member.node == **node);
        let silent: Vec<&NodeName> = clusters
            .iter()
            .filter(has)
            .flat_map(|cluster| {
                let answers = seen.etcd.get(&cluster.name).map(|seen| &seen.answers);
                let is_silent = move |member: &&EtcdMember| {
                    let answer = answers.and_then(|answers| answers.get(&member.name));
                    let answer = answer.and_then(Fact::known);
                    answer.is_none_or(|answer| !answer.decides)
                };
                cluster.members.iter().filter(is_silent)
            })
            .map(|member| &member.node)
            .collect();
        let is_of_run = |member: &&NodeName| *member != *node && of_run.contains(*member);
        !silent.is_empty() && silent.iter().all(is_of_run)
    };
    let kept = kept.map(|change| &change.node);
    kept.filter(waits).cloned().collect()
}

fn covered(
    plan: &Plan,
    planned: &Planned,
    run: &RunId,
    beyond: Beyond,
) -> Result<Rechecked, Failure> {
    let Beyond { nodes, site } = beyond;
    let (refused, is_harmful) = not_covered(plan, &planned.plan, &nodes);
    let mut refusals = site;
    let changes = by_node(&planned.plan);
    for (node, mut differences) in nodes {
        let is_held = changes.get(&node).is_some_and(|change| is_held(change));
        if is_harmful.contains(&node) && !is_of_run(planned, &node, run) && !is_held {
            refusals.append(&mut differences);
        }
    }
    if !refusals.is_empty() {
        refusals.sort_unstable();
        let text = format!("a plan made now does not contain these changes of run {run}:");
        let way_out = format!("`trueup abort {run}` aborts it, and a new plan does the rest");
        return Err(Failure::new(FailureKind::Stale, text)
            .details(listed(&refusals))
            .hint(way_out));
    }
    Ok(Rechecked {
        relies_on: relied_on(plan, &planned.plan),
        refused,
        timeouts: timeouts(plan, &planned.plan),
    })
}

/// The steps that a plan made now does not have, by their positions, and the nodes that one of them would harm.
fn not_covered(
    plan: &Plan,
    now: &Plan,
    nodes: &BTreeMap<NodeName, Vec<Difference>>,
) -> (BTreeMap<usize, Arc<str>>, FxHashSet<NodeName>) {
    let mut refused = BTreeMap::new();
    let mut is_harmful = FxHashSet::default();
    let fresh = PlanEffect::of(now);
    for (position, step) in plan.steps.iter().enumerate() {
        let kind = step.id.kind;
        let known = step.id.node.as_ref();
        let Some((node, differences)) = known.and_then(|node| nodes.get_key_value(node)) else {
            continue;
        };
        if is_covered(kind, node, differences, &fresh) {
            continue;
        }
        let drops = matches!(kind.facts().loss, Loss::Record | Loss::Doubt | Loss::Claim);
        let is_harm = drops || kind.facts().effect == Effect::Destructive;
        if is_harm && !is_left_already(kind, node, differences, &fresh) {
            is_harmful.insert(node.clone());
        }
        refused.insert(position, Arc::from(NOT_COVERED));
    }
    (refused, is_harmful)
}

/// Whether what is known of a node is of the run. One that the run has torn down has no record any more, and nothing is
/// left of it in the documents.
fn is_of_run(planned: &Planned, node: &NodeName, run: &RunId) -> bool {
    match planned.records.get(node) {
        Some(record) => record.run == *run,
        None => !planned.guarded.nodes.contains_key(node),
    }
}

/// Whether a plan made now leaves a node as it is: a machine in the middle of something is held, and one that ended it is
/// there without a record.
fn is_held(change: &Change) -> bool {
    let block = change.blocked.as_ref();
    let never = block.is_some_and(|block| block.flag.is_none());
    let is_there = matches!(change.kind, ChangeKind::Adopt | ChangeKind::Unknown);
    change.shown_only || never || is_there
}

/// Whether a plan made now has the same step on a node all the same, if it does less to that node.
fn is_covered(
    kind: StepKind,
    node: &NodeName,
    differences: &[Difference],
    fresh: &PlanEffect<'_>,
) -> bool {
    let only_done = differences.iter().all(|each| each.part <= EffectPart::Etcd);
    let members = differences.iter().any(|each| each.part == EffectPart::Etcd);
    // It takes nothing away: what is waited for is what the deploy has brought.
    let is_wait = kind == StepKind::AwaitReady;
    let is_same = only_done && !(members && kind == StepKind::RemoveEtcd);
    (is_wait || is_same) && fresh.holds(Some(node), kind)
}

/// Whether a machine has left etcd that a plan made now tears down all the same: the run had come so far before its process
/// died, and finds that out.
fn is_left_already(
    kind: StepKind,
    node: &NodeName,
    differences: &[Difference],
    fresh: &PlanEffect<'_>,
) -> bool {
    kind == StepKind::RemoveEtcd
        && differences.iter().all(|each| each.part <= EffectPart::Etcd)
        && fresh.holds(Some(node), StepKind::Destroy)
}

/// The preconditions of the steps of a plan made now, for the same steps of the run's plan.
fn relied_on(plan: &Plan, now: &Plan) -> Vec<Precondition> {
    let mut positions: FxHashMap<(StepKind, &NodeName), Vec<StepIndex>> = FxHashMap::default();
    for (position, step) in plan.steps.iter().enumerate() {
        if let Some(node) = &step.id.node {
            let of_kind = positions.entry((step.id.kind, node)).or_default();
            of_kind.push(StepIndex::from_position(position));
        }
    }
    // Behind a teardown that the run has yet to end there is no node any more, whatever there is now.
    let is_gone_by_then = |fact: FactName, step: StepIndex| {
        let node = plan.steps[step.0 as usize].id.node.as_ref();
        let removals = node.and_then(|node| positions.get(&(StepKind::RemoveFromCluster, node)));
        let is_before = |removal: &StepIndex| removal.0 < step.0;
        fact == FactName::KubernetesNode && removals.into_iter().flatten().any(is_before)
    };
    let same = |index: &StepIndex| {
        let id = &now.steps[index.0 as usize].id;
        let found = positions.get(&(id.kind, id.node.as_ref()?))?;
        Some(found.iter().copied())
    };
    let preconditions = now.relies_on.iter().filter_map(|precondition| {
        let fact = precondition.what.fact;
        let same = precondition.steps.iter().filter_map(same).flatten();
        let steps: Vec<StepIndex> = same.filter(|step| !is_gone_by_then(fact, *step)).collect();
        (!steps.is_empty()).then(|| Precondition {
            steps: steps.into(),
            ..precondition.clone()
        })
    });
    preconditions.collect()
}

/// Adds what a run is held to to its plan.
pub fn hold(plan: &mut Plan, rechecked: &mut Rechecked) {
    for (position, timeout) in std::mem::take(&mut rechecked.timeouts) {
        plan.steps[position].timeout = timeout;
    }
    plan.relies_on.append(&mut rechecked.relies_on);
    plan.relies_on.sort_unstable();
    plan.relies_on.dedup();
}
