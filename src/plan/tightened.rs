//! The refusals of guards to a run that has begun, if they were tightened since its plan was made.
//!
//! Guards that the run itself asks as its steps start (windows, thresholds of etcd, the breaker of remediations, how backends are reached)
//! are not among them: it is carried out under the guards of the moment anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::blast_radius::exceeded;
use super::subject::{NO_REDEPLOYS, PROTECTED};
use super::{ChangeKind, Options, Plan, PlanGuards};
use crate::design::{NodeDesign, NodeName, RedeployPolicy, Retirement, WipePolicy};
use crate::guard::{self, Guarded};
use crate::step::StepKind;

/// The guards that hold now, for a plan that was made earlier.
#[derive(Clone, Copy)]
pub struct GuardsNow<'a> {
    /// The design under all of them.
    pub design: &'a Guarded,
    /// The designs that were applied last, of nodes that may have left it.
    pub applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The guards of a plan that is made now.
    pub guards: &'a PlanGuards,
    /// Today (`YYYY-MM-DD`).
    pub today: &'a str,
}

/// The refusals of the guards of now to a run that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tightened {
    /// Why the run is not carried out at all.
    pub refusals: Vec<String>,
    /// The options of its plan, with the smaller limits.
    pub options: Options,
    /// Steps that are not begun any more, by their positions, and why.
    pub steps: BTreeMap<usize, Arc<str>>,
    /// The guards that are stricter now, by name.
    pub guards: BTreeSet<&'static str>,
}

impl Tightened {
    /// The refusals of the guards of now to a plan.
    #[must_use]
    pub fn of(plan: &Plan, now: &GuardsNow<'_>) -> Self {
        let weaker = guard::weaker(&now.guards.values, &plan.guards.values);
        let guards: BTreeSet<&str> = weaker.into_iter().map(|(guard, _)| guard).collect();
        let policy = &now.design.guards().policy;
        let mut options = plan.options.clone();
        if guards.contains("max_failures") {
            let most = options.max_failures.into_iter();
            options.max_failures = most.chain(policy.max_failures).min();
        }
        if guards.contains("parallelism") {
            let most = policy.parallelism.unwrap_or(guard::PARALLELISM).max(1);
            options.parallelism = options.parallelism.min(most);
        }
        let mut refusals = Vec::new();
        if guards.contains("blast_radius") {
            let reached = exceeded(plan.request.action, &plan.changes, now.design.guards());
            let new = reached
                .iter()
                .filter(|each| !plan.guards.exceeded.contains(each));
            refusals.extend(new.map(|each| format!("it reaches {each} (`blast_radius`)")));
        }
        let flags = options.forbidden(policy);
        if !flags.is_empty() {
            refusals.push(super::Error::Forbidden { flags }.to_string());
        }
        Self {
            refusals,
            options,
            steps: steps(plan, now, guards.contains("wipe")),
            guards,
        }
    }
}

/// The steps that are not begun any more. A machine that was taken away already is built again: nothing that comes
/// behind is refused with it, so that no guard leaves one half done.
fn steps(plan: &Plan, now: &GuardsNow<'_>, wipe_is_stricter: bool) -> BTreeMap<usize, Arc<str>> {
    let mut teardown: FxHashMap<&NodeName, usize> = FxHashMap::default();
    for (position, step) in plan.steps.iter().enumerate() {
        if let (StepKind::Destroy | StepKind::Service, Some(node)) = (step.id.kind, &step.id.node) {
            teardown.insert(node, position);
        }
    }
    let changes = plan.changes.iter().map(|change| (&change.node, change));
    let changes: FxHashMap<_, _> = changes.collect();
    let takes_away = |node: &NodeName| -> Option<&'static str> {
        let designs = [now.design.nodes.get(node), now.applied.get(node)];
        let change = changes.get(node)?;
        let kind = change.kind;
        let is_for_change = !plan.request.action.is_targeted() && kind == ChangeKind::Redeploy;
        let policy = &now.design.guards().policy;
        match () {
            () if designs
                .into_iter()
                .flatten()
                .any(|node| now.design.guards().is_protected(node)) =>
            {
                Some(PROTECTED)
            }
            () if is_for_change && policy.redeploy_on_change == RedeployPolicy::Never => {
                Some(NO_REDEPLOYS)
            }
            () if is_for_change && !change.is_within(&plan.options, &policy.disruption) => {
                Some("the policy does not allow it to go as far any more (`disruption`)")
            }
            () if wipe_is_stricter && policy.wipe == WipePolicy::Require => {
                Some("the policy asks for `wipe: require` now, and the plan was made without")
            }
            () => None,
        }
    };
    let retired = now.design.retired(now.today);
    let mut refused = BTreeMap::new();
    for (position, step) in plan.steps.iter().enumerate() {
        let Some(node) = &step.id.node else {
            continue;
        };
        let is_before = teardown.get(node).is_some_and(|last| position <= *last);
        let why = match is_before {
            true => takes_away(node).map(Arc::from),
            false => None,
        };
        let why = why.or_else(|| stays_out(plan, &retired, (step.id.kind, is_before), node));
        let why = why.or_else(|| unverified(plan, now, node, &changes));
        if let Some(why) = why {
            refused.insert(position, why);
        }
    }
    refused
}

/// Why a machine is not built any more, nor taken out of its clusters for that: it was retired since.
fn stays_out(
    plan: &Plan,
    retired: &BTreeMap<&NodeName, &Retirement>,
    (kind, is_before_teardown): (StepKind, bool),
    node: &NodeName,
) -> Option<Arc<str>> {
    if !(kind.rebuilds() || is_before_teardown) || plan.request.action.is_targeted() {
        return None;
    }
    let reason = &retired.get(node)?.reason;
    Some(Arc::from(format!("retired: {reason}")))
}

/// Why a machine is not changed any more whose identity nothing proves.
fn unverified(
    plan: &Plan,
    now: &GuardsNow<'_>,
    node: &NodeName,
    changes: &FxHashMap<&NodeName, &super::Change>,
) -> Option<Arc<str>> {
    let change = changes.get(node).filter(|change| change.unverified)?;
    let designs = [now.design.nodes.get(node), now.applied.get(node)];
    let selectors = &now.design.guards().policy.unverified;
    let by_policy = designs
        .into_iter()
        .flatten()
        .any(|node| selectors.iter().any(|selector| selector.matches(node)));
    let is_allowed = by_policy || plan.options.allow_unverified.names(&change.node);
    (!is_allowed)
        .then(|| Arc::from("it is unverified, and the policy does not allow that any more"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::guard::TABLE;

    /// Guards that this module applies to a run that has begun, or names to its caller.
    const HERE: [&str; 14] = [
        "allowed_signers",
        "approvals",
        "blast_radius",
        "disruption",
        "forbidden_flags",
        "max_failures",
        "max_unavailable",
        "parallelism",
        "protected",
        "redeploy_on_change",
        "retirements",
        "signed_runs",
        "unverified",
        "wipe",
    ];

    /// Guards that a run is under because it is carried out with the design of now, or its plan is judged once more.
    const AS_IT_RUNS: [&str; 10] = [
        "allow_plain_http",
        "drain_rules",
        "etcd_clusters",
        "expected_hardware",
        "expected_parts",
        "maintenance_windows",
        "reach",
        "rego",
        "remediation",
        "trusting_backends",
    ];

    /// Guards of the revision that is applied, which a run goes through as its plan has them.
    const AS_PLANNED: [&str; 13] = [
        "break_glass",
        "clean_steps",
        "clean_steps_left_out",
        "failure_domains",
        "firmware_downgrades",
        "firmware_from",
        "firmware_live",
        "groups",
        "ignore_changes",
        "soak",
        "ticket",
        "times",
        "uncleaned",
    ];

    #[test]
    fn each_guard_says_how_it_holds_for_a_run_that_has_begun() {
        let lists = HERE.iter().chain(&AS_IT_RUNS).chain(&AS_PLANNED).copied();
        let known: BTreeSet<&str> = lists.collect();
        let all: BTreeSet<&str> = TABLE.iter().map(|guard| guard.name).collect();
        assert_eq!(known, all);
        assert_eq!(
            known.len(),
            HERE.len() + AS_IT_RUNS.len() + AS_PLANNED.len()
        );
    }
}
