//! Guards: the plan is held to those that are resolved for it, and every flag that loosens one is shown as such.

use serde_json::{Value, json};

use super::rule::Found;
use super::view::View;
use crate::design::{ApprovalScope, Guards, Policy, Rung, Share};
use crate::guard::{PARALLELISM, REMEDIATIONS};
use crate::plan::{Action, Allowance, ChangeKind, Options};
use crate::step::{Effect, OnDrainTimeout, StepKind};

/// A flag that allows something, or loosens a guard: whether a request uses it so.
struct Flag {
    name: &'static str,
    /// The guard that it loosens.
    guard: Option<&'static str>,
    is_used: fn(&Options, &Policy) -> bool,
}

const fn allows(name: &'static str, is_used: fn(&Options, &Policy) -> bool) -> Flag {
    let guard = None;
    Flag {
        name,
        guard,
        is_used,
    }
}

const fn loosens(
    name: &'static str,
    guard: &'static str,
    is_used: fn(&Options, &Policy) -> bool,
) -> Flag {
    let guard = Some(guard);
    Flag {
        name,
        guard,
        is_used,
    }
}

fn is_given(allowance: &Allowance) -> bool {
    allowance.all || !allowance.nodes.is_empty()
}

/// Whether one share is more than another one of the same kind.
const fn is_more(asked: Share, own: Option<Share>) -> bool {
    match (asked, own) {
        (Share::Machines(asked), Some(Share::Machines(own))) => asked > own,
        (Share::Percent(asked), Some(Share::Percent(own))) => asked > own,
        (Share::Machines(1), _) => false,
        _ => true,
    }
}

/// The flags.
static FLAGS: [Flag; 18] = [
    allows("allow-restart", |options, _| {
        is_given(&options.allow_restart)
    }),
    allows("allow-reinstall", |options, _| {
        is_given(&options.allow_reinstall)
    }),
    allows("allow-redeploy", |options, _| {
        is_given(&options.allow_redeploy)
    }),
    allows("allow-destroy", |options, _| {
        is_given(&options.allow_destroy)
    }),
    allows("adopt", |options, _| is_given(&options.adopt)),
    allows("node-is-gone", |options, _| {
        !options.leaving.gone.is_empty()
    }),
    allows("forget", |options, _| options.leaving.forget),
    allows("skip-blocked", |options, _| options.skip_blocked),
    allows("allow-intermediate-commits", |options, _| {
        options.allow_intermediate_commits
    }),
    loosens("allow-unverified", "unverified", |options, _| {
        is_given(&options.allow_unverified)
    }),
    loosens("destroy-etcd", "etcd_clusters", |options, _| {
        !options.leaving.destroy_etcd.is_empty()
    }),
    loosens("no-etcd-here", "etcd_clusters", |options, _| {
        !options.leaving.no_etcd_here.is_empty()
    }),
    loosens("on-drain-timeout", "disruption_budgets", |options, _| {
        options
            .leaving
            .on_drain_timeout
            .is_some_and(|what| what != OnDrainTimeout::Fail)
    }),
    loosens(
        "outside-windows",
        "maintenance_windows",
        |options, policy| options.outside_windows && !policy.maintenance_windows.is_empty(),
    ),
    loosens("max-unavailable", "max_unavailable", |options, policy| {
        let limits = &policy.max_unavailable;
        options.max_unavailable.is_some_and(|asked| match asked {
            Share::Machines(_) => is_more(asked, limits.total.map(Share::Machines)),
            Share::Percent(_) => is_more(asked, limits.percent.map(Share::Percent)),
        })
    }),
    loosens("max-failures", "max_failures", |options, policy| {
        let own = policy.max_failures.unwrap_or(u64::MAX);
        options.max_failures.is_some_and(|asked| asked > own)
    }),
    loosens("max-remediations", "remediation", |options, policy| {
        let own = policy.remediation.max_at_once.unwrap_or(REMEDIATIONS);
        options
            .remediation
            .max_at_once
            .is_some_and(|asked| asked > own)
    }),
    loosens("parallelism", "parallelism", |options, policy| {
        options.parallelism > policy.parallelism.unwrap_or(PARALLELISM)
    }),
];

/// No flag is used that the policy forbids.
pub(super) fn forbidden(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let policy = &guards.policy;
    let is_used = |flag: &&Flag| (flag.is_used)(&view.plan.options, policy);
    for flag in FLAGS.iter().filter(is_used) {
        if policy.forbidden_flags.contains(flag.name) {
            found.add(
                [],
                format!("uses `--{}`, which the policy forbids", flag.name),
            );
        }
    }
}

/// A flag that loosens a guard is listed with it.
pub(super) fn loosened(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let listed = &view.plan.guards.loosened;
    for flag in &FLAGS {
        let Some(guard) = flag.guard else { continue };
        let is_listed = listed
            .iter()
            .any(|each| each.flag.as_deref() == Some(flag.name) && &*each.guard == guard);
        if (flag.is_used)(&view.plan.options, &guards.policy) && !is_listed {
            let what = format!(
                "`--{}` loosens `{guard}`, which the plan does not show",
                flag.name
            );
            found.add([], what);
        }
    }
}

/// The guards that a plan says it is held to are those that are resolved.
pub(super) fn values(view: &View<'_>, found: &mut Found<'_, '_>) {
    let (Some(guards), false) = (view.guards(), view.plan.steps.is_empty()) else {
        return;
    };
    for (name, value) in read(view, guards) {
        let own = view.plan.guards.values.get(name).unwrap_or(&Value::Null);
        let is_same = match &value {
            // A part of what the plan says.
            Value::Object(fields) => fields.iter().all(|(field, value)| {
                let own = own.get(field).unwrap_or(&Value::Null);
                own == value
            }),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => *own == value,
        };
        if !is_same {
            found.add(
                [],
                format!("guard `{name}` is not what the plan says that it is"),
            );
        }
    }
}

/// The numbers and times of the guards, by name.
fn read(view: &View<'_>, guards: &Guards) -> Vec<(&'static str, Value)> {
    let policy = &guards.policy;
    let limits = &policy.max_unavailable;
    let windows = policy.maintenance_windows.iter().map(|list| {
        let windows = list
            .windows
            .iter()
            .map(|window| match window.days.is_empty() {
                true => json!({"from": window.from, "to": window.to}),
                false => json!({"days": window.days, "from": window.from, "to": window.to}),
            });
        let windows: Vec<Value> = windows.collect();
        json!({"time_zone": list.time_zone.name(), "windows": windows})
    });
    let windows: Vec<Value> = windows.collect();
    let mut protected: Vec<&str> = Vec::new();
    for (change, _) in view.worked_on() {
        let node = view.designed(change.node.as_str());
        let is_protected = |node| policy.protected.iter().any(|each| each.matches(node));
        if node.is_some_and(is_protected) {
            protected.push(change.node.as_str());
        }
    }
    protected.sort_unstable();
    let nothing_or = |value: Value, is_nothing: bool| if is_nothing { Value::Null } else { value };
    let clusters = guards.etcd_clusters.iter().map(|cluster| {
        let mut members: Vec<_> = cluster.members.iter().map(|member| &member.name).collect();
        members.sort_unstable();
        members.dedup();
        let value = json!({"minimum_healthy": cluster.minimum_healthy, "members": members});
        (cluster.name.to_string(), value)
    });
    let disruption = &policy.disruption;
    let says_nothing = disruption.by_class.is_empty() && disruption.default == Rung::Live;
    let rungs = disruption.by_class.iter();
    let rungs = rungs.map(|(section, rung)| (section.to_string(), json!(rung.as_str())));
    let default = ("default".to_owned(), json!(disruption.default.as_str()));
    let rungs = rungs.chain([default]).collect();
    let mut all = vec![
        (
            "maintenance_windows",
            nothing_or(json!(windows), windows.is_empty()),
        ),
        (
            "max_unavailable",
            json!({
                "total": limits.total,
                "percent": limits.percent,
                "per_rack": limits.per_rack,
                "by_tag": limits.by_tag,
            }),
        ),
        ("max_failures", json!(policy.max_failures)),
        (
            "expected_hardware",
            nothing_or(json!(true), !policy.demands_expected_hardware),
        ),
        ("disruption", nothing_or(Value::Object(rungs), says_nothing)),
        (
            "parallelism",
            json!(policy.parallelism.unwrap_or(PARALLELISM)),
        ),
        ("etcd_clusters", Value::Object(clusters.collect())),
    ];
    if view.plan.request.action != Action::Guards {
        all.push((
            "protected",
            nothing_or(json!(protected), protected.is_empty()),
        ));
    }
    all
}

/// The approvals that the rules ask for are asked for, and those that count are counted.
pub(super) fn approvals(view: &View<'_>, found: &mut Found<'_, '_>) {
    let approvals = &view.plan.approvals;
    for needed in &approvals.needed {
        let of: Vec<String> = needed.of.iter().map(|name| name.to_lowercase()).collect();
        let mut people: Vec<String> = approvals
            .given
            .iter()
            .map(|each| each.by.to_lowercase())
            .collect();
        people.sort_unstable();
        people.dedup();
        people.retain(|name| of.is_empty() || of.contains(name));
        let missing = needed.count.saturating_sub(people.len() as u64);
        if needed.missing != missing && needed.recovery.is_none() {
            let what = format!(
                "rule `{}` lacks {missing} approvals, and the plan says {}",
                needed.rule, needed.missing
            );
            found.add([], what);
        }
    }
    let Some(rules) = view
        .guards()
        .and_then(|guards| guards.policy.approvals.as_ref())
    else {
        return;
    };
    // A plan that was not held to the rules yet has no verdict of them.
    if approvals.rules_from.is_empty() {
        return;
    }
    let scale = Scale::of(view);
    for rule in rules.rules.iter().filter(|rule| scale.is_under(rule.scope)) {
        let scope = rule.scope.to_string();
        let is_asked = approvals.needed.iter().any(|needed| {
            *needed.rule == *scope && needed.count >= rule.count && needed.of == rule.of
        });
        if !is_asked {
            found.add(
                [],
                format!("rule `{scope}` asks for approvals, and the plan does not"),
            );
        }
    }
}

/// How much a plan does, as rules about approvals count it.
#[derive(Default)]
struct Scale {
    nodes: u64,
    redeployed: u64,
    taken_away: u64,
}

impl Scale {
    fn of(view: &View<'_>) -> Self {
        let mut scale = Self::default();
        for (change, steps) in view.worked_on() {
            scale.nodes += 1;
            let takes = |kind: StepKind| {
                matches!(
                    kind,
                    StepKind::Destroy
                        | StepKind::Clean
                        | StepKind::RemoveEtcd
                        | StepKind::RemoveFromCluster
                )
            };
            let is_built = change.kind == ChangeKind::Redeploy
                || change.kind == ChangeKind::Create && change.destructive;
            let is_taken = change.kind == ChangeKind::Destroy
                || steps.iter().any(|at| {
                    takes(view.kind(*at)) && view.step(*at).effect == Effect::Destructive
                });
            match (is_built, is_taken) {
                (true, _) => scale.redeployed += 1,
                (false, true) => scale.taken_away += 1,
                (false, false) if change.destructive || change.rung < Some(Rung::Restart) => {}
                (false, false) => scale.redeployed += 1,
            }
        }
        scale
    }

    const fn is_under(&self, scope: ApprovalScope) -> bool {
        match scope {
            ApprovalScope::Any => self.nodes > 0,
            ApprovalScope::Redeploy => self.redeployed > 0,
            ApprovalScope::Destroy => self.taken_away > 0,
            ApprovalScope::MoreNodesThan(limit) => self.nodes > limit,
        }
    }
}

/// No machine is taken away that the policy protects.
pub(super) fn protected(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let selectors = &guards.policy.protected;
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let mut designs = view.designed(name).into_iter().chain(view.applied(name));
        let by_policy = designs.any(|node| selectors.iter().any(|each| each.matches(node)));
        let by_provisioner = view.observed(name).is_some_and(|seen| seen.protected);
        if !by_policy && !by_provisioner {
            continue;
        }
        use StepKind as S;
        let takes = |at: &usize| {
            matches!(
                view.kind(*at),
                S::Destroy | S::PowerOff | S::Service | S::RemoveEtcd | S::ShutdownKubelet
            )
        };
        let taking: Vec<usize> = steps.iter().copied().filter(takes).collect();
        if !taking.is_empty() {
            found.add(taking, format!("`{name}` is protected, and is taken away"));
        }
    }
}
