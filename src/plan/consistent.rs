//! Whether a plan that was read agrees with itself: what is shown of it is computed from its changes, what is done
//! from its steps, and both say the same.
//!
//! Every plan that this program writes passes. A file that does not was altered.

use rustc_hash::{FxHashMap, FxHashSet};

use super::action::Does;
use super::allowance::Patterns;
use super::contradiction::Contradiction;
use super::effect::Kinds;
use super::{Action, Change, ChangeKind, Plan, Summary, graph, order};
use crate::design::{GroupName, NodeName};
use crate::step::{Effect, OnDrainTimeout, Step, StepKind};

/// Leaving the clusters before a machine is taken away.
const LEAVING: [StepKind; 6] = [
    StepKind::Drain,
    StepKind::ClearLabels,
    StepKind::RemoveEtcd,
    StepKind::CheckEtcd,
    StepKind::ShutdownKubelet,
    StepKind::RemoveFromCluster,
];

/// The nodes that the options allow something for.
struct Allowances<'p> {
    redeploy: Patterns<'p>,
    destroy: Patterns<'p>,
    adopt: Patterns<'p>,
}

/// Finds a contradiction.
///
/// # Errors
///
/// The first one.
pub(super) fn check(plan: &Plan) -> Result<(), Contradiction> {
    let action = plan.request.action;
    let changes = changes_of(plan, action)?;
    let groups: FxHashMap<&GroupName, FxHashSet<&NodeName>> = plan
        .groups
        .iter()
        .map(|group| (&group.name, group.nodes.iter().collect()))
        .collect();
    let allowed = Allowances {
        redeploy: Patterns::of(&plan.options.allow_redeploy),
        destroy: Patterns::of(&plan.options.allow_destroy),
        adopt: Patterns::of(&plan.options.adopt),
    };
    for step in &plan.steps {
        let kind = step.id.kind;
        let in_group = |node| {
            let group = step.id.group.as_ref();
            group.is_none_or(|group| groups.get(group).is_some_and(|nodes| nodes.contains(node)))
        };
        let misplaced = match &step.id.node {
            None => of_a_node(kind),
            Some(node) => of_the_site(kind) || !in_group(node),
        };
        if misplaced {
            let id = step.id.clone();
            return Err(Contradiction::Place { id });
        }
        let change = step.id.node.as_ref().and_then(|node| changes.get(node));
        check_step(plan, &allowed, step, change.copied())?;
    }
    order::check(plan)?;
    match counted(plan) == plan.summary {
        true => Ok(()),
        false => Err(Contradiction::Summary),
    }
}

fn changes_of(plan: &Plan, action: Action) -> Result<FxHashMap<&NodeName, &Change>, Contradiction> {
    let mut before: Option<&NodeName> = None;
    let mut changes = FxHashMap::default();
    for change in &plan.changes {
        let node = &change.node;
        if before.is_some_and(|before| before >= node) {
            return Err(Contradiction::Order { node: node.clone() });
        }
        before = Some(node);
        if !is_made_by(change.kind, action) {
            return Err(Contradiction::Action {
                node: node.clone(),
                change: change.kind,
                action,
            });
        }
        changes.insert(node, change);
    }
    Ok(changes)
}

fn check_step(
    plan: &Plan,
    allowed: &Allowances<'_>,
    step: &Step,
    change: Option<&Change>,
) -> Result<(), Contradiction> {
    let kind = step.id.kind;
    let id = || step.id.clone();
    if !is_effect_of(step) {
        return Err(Contradiction::Effect {
            id: id(),
            effect: step.effect,
        });
    }
    let Some(change) = change else {
        return Ok(());
    };
    if change.blocked.is_some() || change.excluded || change.shown_only {
        return Err(Contradiction::NotCarriedOut { id: id() });
    }
    if !steps_of(change.kind, plan.request.action).contains(kind) {
        return Err(Contradiction::Change {
            id: id(),
            change: change.kind,
        });
    }
    let destroys = matches!(
        kind,
        StepKind::Destroy | StepKind::Clean | StepKind::Remediate
    ) || (kind == StepKind::RemoveFromCluster
        && change.kind == ChangeKind::Operation
        && plan.request.action == Action::RemoveFromCluster)
        || (kind == StepKind::Deploy && change.kind == ChangeKind::Redeploy);
    if destroys && !change.destructive {
        return Err(Contradiction::Harmless {
            node: change.node.clone(),
        });
    }
    match missing_allowance(plan, allowed, change, step) {
        None => Ok(()),
        Some(flag) => Err(Contradiction::Allowance { id: id(), flag }),
    }
}

/// Whether the effect that a step claims is one of its kind: that of the kind, less where there is nothing to lose,
/// more where clean steps erase, none where it fails before it is tried.
fn is_effect_of(step: &Step) -> bool {
    let parameters = step.parameters.as_deref();
    let is_refused = parameters.is_some_and(|all| all.refused.is_some());
    let erases = parameters.is_some_and(|all| all.clean_steps.iter().any(|step| step.erases));
    match (step.id.kind, step.effect) {
        (StepKind::Prepare, Effect::None) => is_refused,
        (StepKind::Prepare, Effect::Destructive) => erases,
        (StepKind::Deploy, Effect::Reversible) => true,
        (kind, effect) => effect == kind.facts().effect,
    }
}

/// Whether a kind of step is always about one node.
fn of_a_node(kind: StepKind) -> bool {
    !of_the_site(kind) && kind != StepKind::CheckEtcd
}

/// Whether a kind of step is never about one node.
fn of_the_site(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::VerifySite
            | StepKind::PrepareSite
            | StepKind::StartGroup
            | StepKind::StartWave
            | StepKind::GatePrepared
            | StepKind::GateDeployed
            | StepKind::CriticalCheck
            | StepKind::Tag
    )
}

/// Whether an action makes a kind of change.
fn is_made_by(change: ChangeKind, action: Action) -> bool {
    use ChangeKind as K;
    if change == K::None {
        return true;
    }
    match action.does() {
        Does::Compare => change != K::Operation,
        Does::Nothing => false,
        Does::Rebuild => change == K::Redeploy,
        Does::Leave { destroy: true, .. } | Does::Destroy => change == K::Destroy,
        Does::Relabel => change == K::Relabel,
        Does::Machine(StepKind::SetRetired, _) => change == K::Retire,
        Does::Machine(StepKind::UnsetRetired, _) => change == K::Unretire,
        Does::Leave { .. }
        | Does::Cluster(_)
        | Does::Machine(..)
        | Does::Forget
        | Does::Accept
        | Does::Remediate => change == K::Operation,
    }
}

/// The kinds of steps that a change of an action can have.
fn steps_of(change: ChangeKind, action: Action) -> Kinds {
    use StepKind as S;
    let one = |kind| Kinds::of(&[kind]);
    match action.does() {
        Does::Compare => steps_of_update(change),
        Does::Nothing => Kinds::default(),
        Does::Rebuild => Kinds::of(&LEAVING).union(Kinds::of(&[
            S::Destroy,
            S::Prepare,
            S::Deploy,
            S::AwaitReady,
        ])),
        Does::Leave { destroy, .. } => {
            let machine: &[S] = if destroy { &[S::Destroy] } else { &[] };
            Kinds::of(&LEAVING).union(Kinds::of(machine))
        }
        Does::Destroy => one(S::Destroy),
        Does::Cluster(kind) | Does::Machine(kind, _) => one(kind),
        Does::Relabel => one(S::Relabel),
        Does::Forget => one(S::Forget),
        Does::Remediate => one(S::Remediate),
        Does::Accept => Kinds::of(&[S::AcceptIdentity, S::AcceptDifferences, S::Adopt]),
    }
}

fn steps_of_update(change: ChangeKind) -> Kinds {
    use ChangeKind as K;
    use StepKind as S;
    let kinds: &[S] = match change {
        K::Create => &[S::UnsetRetired, S::Prepare, S::Deploy, S::AwaitReady],
        K::Unknown => &[S::UnsetRetired, S::Prepare],
        K::Adopt => &[S::UnsetRetired, S::Adopt],
        K::Rename => &[S::Rename],
        K::Record | K::Relabel | K::Drift | K::Accept => &[
            S::UnsetRetired,
            S::PowerOn,
            S::Lock,
            S::Relabel,
            S::Record,
            S::AcceptDifferences,
        ],
        K::AwaitReady => &[S::UnsetRetired, S::PowerOn, S::Lock, S::AwaitReady],
        K::Redeploy => &[
            S::UnsetRetired,
            S::Destroy,
            S::Prepare,
            S::Deploy,
            S::AwaitReady,
        ],
        K::Destroy => &[S::Destroy],
        K::Retire => &[S::SetRetired],
        K::Unretire => &[S::UnsetRetired],
        K::Operation | K::None => &[],
    };
    match change {
        K::Redeploy | K::Destroy => Kinds::of(kinds).union(Kinds::of(&LEAVING)),
        _ => Kinds::of(kinds),
    }
}

/// The flag that a step takes and the options do not hold.
fn missing_allowance(
    plan: &Plan,
    allowed: &Allowances<'_>,
    change: &Change,
    step: &Step,
) -> Option<&'static str> {
    let leaving = &plan.options.leaving;
    // Its machine was torn down before; what is left of it holds nothing back.
    let is_left = change.kind == ChangeKind::Destroy && !change.destructive;
    if plan.request.action == Action::Update {
        let needed = match (change.kind, step.id.kind) {
            (ChangeKind::Redeploy, _) => Some(("--allow-redeploy", &allowed.redeploy)),
            (ChangeKind::Destroy, _) if !is_left => Some(("--allow-destroy", &allowed.destroy)),
            (_, StepKind::Adopt) => Some(("--adopt", &allowed.adopt)),
            _ => None,
        };
        if let Some((flag, patterns)) = needed
            && !patterns.match_name(change.node.as_str())
        {
            return Some(flag);
        }
    }
    let all = step.parameters.as_deref()?;
    let loosens = |what: &OnDrainTimeout| *what != OnDrainTimeout::Fail;
    let drains = all.on_drain_timeout.filter(loosens);
    let table = [
        (
            "--on-drain-timeout",
            drains.is_some() && !is_left && drains != leaving.on_drain_timeout,
        ),
        (
            "--node-is-gone",
            all.node_is_gone && !is_left && leaving.gone.is_empty(),
        ),
        ("--forget", all.forget && !leaving.forget),
    ];
    let missing = table.into_iter().find(|(_, missing)| *missing);
    missing.map(|(flag, _)| flag)
}

/// The summary counted from the changes.
fn counted(plan: &Plan) -> Summary {
    let mut summary = Summary {
        retired: plan.summary.retired,
        // By the records, of which a plan has none.
        unproven: plan.summary.unproven,
        longest_path: graph::longest_path(&plan.steps),
        // Held against the steps, with their order.
        waves: plan.summary.waves,
        ..Summary::default()
    };
    summary.count(&plan.changes);
    summary
}
