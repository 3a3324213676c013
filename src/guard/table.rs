//! The guards of a site, a row each: of which fields of documents it is made, how those of two revisions hold together,
//! and which of two is weaker.
//!
//! Every field of the documents that guard a site has a row here, or is named as one that guards nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

mod hardware;

use super::join;
use super::order::{Order, of_times};
use super::subject::Subject;
use crate::design::{
    ApprovalPolicy, Design, Documented, Group, Guards, NodeName, RedeployPolicy, Share, WipePolicy,
    kind,
};
use crate::step::StepKind;

/// A guard of a site.
pub struct Guard {
    /// Its name in plans, and as a rule the first field that it is made of.
    pub name: &'static str,
    /// The fields that it is made of: the kind of document, and the path in it with all that is below.
    pub fields: &'static [(&'static str, &'static str)],
    /// How those of two revisions hold together.
    pub(super) join: Join,
    /// Its value.
    value: fn(&Subject<'_>) -> Value,
    /// Which of two values is weaker.
    pub(super) order: Order,
}

/// Adds what another revision has to the guards of a design, so that both hold.
type Merge = fn(&mut Guards, &Design, &Documented);

/// How the guards of two revisions hold together.
#[derive(Clone, Copy)]
pub(super) enum Join {
    /// The newest alone decides.
    Newest,
    /// The same, at once for every action that has steps of these kinds.
    AtOnce(&'static [StepKind]),
    /// Both hold.
    Both(Merge),
    /// The same, but for an update, in which the newest alone decides.
    BothInActions(Merge),
}

/// Steps that clean machines.
const CLEANING: &[StepKind] = &[
    StepKind::Destroy,
    StepKind::Prepare,
    StepKind::Provide,
    StepKind::Clean,
];

/// All guards.
pub static TABLE: [Guard; 37] = [
    Guard {
        name: "protected",
        fields: &[(kind::POLICY, "protected")],
        join: Join::Both(join::protected),
        value: |subject| json!(subject.named(&subject.guards.policy.protected)),
        order: Order::AtLeastMachines,
    },
    Guard {
        name: "unverified",
        fields: &[(kind::POLICY, "unverified")],
        join: Join::Both(join::unverified),
        value: |subject| json!(subject.named(&subject.guards.policy.unverified)),
        order: Order::AtMostThese,
    },
    Guard {
        name: "maintenance_windows",
        fields: &[
            (kind::POLICY, "maintenance_windows"),
            (kind::POLICY, "time_zone"),
        ],
        join: Join::Both(join::maintenance_windows),
        value: |subject| of_times(&subject.guards.policy.maintenance_windows),
        order: Order::Times,
    },
    Guard {
        name: "max_unavailable",
        fields: &[(kind::POLICY, "max_unavailable")],
        join: Join::Both(join::max_unavailable),
        value: |subject| {
            let limits = &subject.guards.policy.max_unavailable;
            json!({
                "total": limits.total,
                "percent": limits.percent,
                "per_rack": limits.per_rack,
                "by_tag": limits.by_tag,
                "tagged": tagged(subject),
                "with_default": limits.has_default(),
                "with_control_plane_default": limits.has_control_plane_default(),
            })
        },
        order: Order::Fields(&[
            ("total", Order::Limit),
            ("percent", Order::Limit),
            ("per_rack", Order::AtMost),
            ("by_tag", Order::Each(&Order::AtMost)),
            ("tagged", Order::Each(&Order::AtLeastThese)),
        ]),
    },
    Guard {
        name: "failure_domains",
        fields: &[(kind::POLICY, "failure_domains")],
        join: Join::Both(join::failure_domains),
        value: |subject| {
            let domains = &subject.guards.policy.failure_domains;
            let by: Vec<String> = domains.by.iter().map(ToString::to_string).collect();
            json!({"domains": by, "default_width": domains.holds_default_width()})
        },
        order: Order::Fields(&[
            ("domains", Order::AtLeastThese),
            ("default_width", Order::Demand),
        ]),
    },
    Guard {
        name: "soak",
        fields: &[(kind::POLICY, "soak")],
        join: Join::Both(join::soak),
        value: |subject| {
            let soak = &subject.guards.policy.soak;
            match soak.seconds {
                0 => Value::Null,
                seconds => json!({"seconds": seconds, "namespaces": soak.namespaces}),
            }
        },
        order: Order::Fields(&[
            ("seconds", Order::AtLeast),
            ("namespaces", Order::AtLeastThese),
        ]),
    },
    Guard {
        name: "drain_rules",
        fields: &[(kind::POLICY, "drain_rules")],
        join: Join::Both(join::drain_rules),
        value: |subject| subject.guards.policy.drain_rules.as_value(),
        order: Order::Fields(&[
            ("skip", Order::AtMostThese),
            ("drain", Order::AtLeastThese),
            ("wait_completed", Order::AtLeastThese),
        ]),
    },
    Guard {
        name: "parallelism",
        fields: &[(kind::POLICY, "parallelism")],
        join: Join::Both(join::parallelism),
        value: |subject| {
            json!(
                subject
                    .guards
                    .policy
                    .parallelism
                    .unwrap_or(super::PARALLELISM)
            )
        },
        order: Order::AtMost,
    },
    Guard {
        name: "max_failures",
        fields: &[(kind::POLICY, "max_failures")],
        join: Join::Both(join::max_failures),
        value: |subject| json!(subject.guards.policy.max_failures),
        order: Order::AtMost,
    },
    Guard {
        name: "redeploy_on_change",
        fields: &[(kind::POLICY, "redeploy_on_change")],
        join: Join::Both(join::redeploy_on_change),
        value: |subject| json!(subject.guards.policy.redeploy_on_change == RedeployPolicy::Never),
        order: Order::Demand,
    },
    Guard {
        name: "expected_hardware",
        fields: &[(kind::POLICY, "expected_hardware")],
        join: Join::Both(join::expected_hardware),
        value: |subject| json!(subject.guards.policy.demands_expected_hardware),
        order: Order::Demand,
    },
    Guard {
        name: "expected_parts",
        fields: &[(kind::HARDWARE, "expect"), (kind::HARDWARE, "selectors")],
        join: Join::Both(join::expected_parts),
        value: hardware::expected_parts,
        order: Order::Each(&Order::AtLeastMachines),
    },
    Guard {
        name: "firmware_downgrades",
        fields: &[
            (kind::HARDWARE, "firmware.*.downgrade"),
            (kind::HARDWARE, "selectors"),
        ],
        // The versions that a permission is about are of the newest.
        join: Join::Newest,
        value: |subject| hardware::components(subject, |terms| terms.downgrade),
        order: Order::AtMostThese,
    },
    Guard {
        name: "firmware_live",
        fields: &[
            (kind::HARDWARE, "firmware.*.apply"),
            (kind::HARDWARE, "selectors"),
        ],
        join: Join::Newest,
        value: |subject| hardware::components(subject, |terms| terms.live),
        order: Order::AtMostThese,
    },
    Guard {
        name: "firmware_from",
        fields: &[
            (kind::HARDWARE, "firmware.*.from"),
            (kind::HARDWARE, "selectors"),
        ],
        join: Join::Newest,
        value: hardware::firmware_from,
        order: Order::Each(&Order::AtMostThese),
    },
    Guard {
        name: "disruption",
        fields: &[(kind::POLICY, "disruption")],
        join: Join::Both(join::disruption),
        value: |subject| {
            let policy = &subject.guards.policy.disruption;
            if policy.is_default() {
                return Value::Null;
            }
            let own = policy.by_class.iter();
            let own = own.map(|(section, rung)| (section.to_string(), json!(rung)));
            let default = ("default".to_owned(), json!(policy.default));
            Value::Object(std::iter::once(default).chain(own).collect())
        },
        order: Order::Rungs,
    },
    Guard {
        name: "blast_radius",
        fields: &[(kind::POLICY, "blast_radius")],
        join: Join::Both(join::blast_radius),
        value: |subject| {
            let limits = subject.guards.policy.blast_radius.iter();
            let limits = limits.map(|(rung, most)| {
                let value = json!({
                    "machines": most.machines,
                    "racks": most.racks,
                    "etcd_members": most.etcd_members,
                });
                (rung.to_string(), value)
            });
            Value::Object(limits.collect())
        },
        order: Order::Each(&Order::Fields(&[
            ("machines", Order::AtMost),
            ("racks", Order::AtMost),
            ("etcd_members", Order::AtMost),
        ])),
    },
    Guard {
        name: "wipe",
        fields: &[(kind::POLICY, "wipe")],
        join: Join::Both(join::wipe),
        value: |subject| json!(subject.guards.policy.wipe == WipePolicy::Require),
        order: Order::Demand,
    },
    Guard {
        name: "remediation",
        fields: &[
            (kind::POLICY, "remediation.max_at_once"),
            (kind::POLICY, "remediation.max_unhealthy"),
            (kind::POLICY, "remediation.cooldown"),
            (kind::POLICY, "remediation.attempts"),
            (kind::POLICY, "remediation.backoff"),
        ],
        join: Join::Both(join::remediation),
        value: |subject| {
            let policy = &subject.guards.policy.remediation;
            json!({
                "max_at_once": policy.max_at_once.unwrap_or(super::REMEDIATIONS),
                "max_unhealthy": share(policy.max_unhealthy(None)),
                "cooldown": policy.cooldown(),
                "attempts": policy.limits.attempts,
                "backoff": policy.limits.backoff,
            })
        },
        order: Order::Fields(&[
            ("max_at_once", Order::AtMost),
            ("max_unhealthy", Order::AtMost),
            ("cooldown", Order::AtLeast),
            ("attempts", Order::AtMost),
            ("backoff", Order::AtLeast),
        ]),
    },
    Guard {
        name: "rego",
        fields: &[(kind::POLICY, "rego")],
        // Each revision's rules judge by themselves.
        join: Join::Newest,
        value: |subject| json!(subject.files.rules),
        order: Order::Any,
    },
    Guard {
        name: "approvals",
        fields: &[(kind::POLICY, "approvals")],
        // The rules of each revision have to be met.
        join: Join::Newest,
        value: |subject| approvals(subject.guards.policy.approvals.as_deref()),
        order: Order::Fields(&[
            (
                "rules",
                Order::Rules(&Order::Fields(&[
                    ("count", Order::AtLeast),
                    ("of", Order::People),
                ])),
            ),
            ("applier_counts", Order::Licence),
            (
                "recovery",
                Order::Exception(&[("count", Order::AtLeast), ("of", Order::AtMostThese)]),
            ),
        ]),
    },
    Guard {
        name: "allowed_signers",
        fields: &[(kind::POLICY, "approvals.allowed_signers")],
        // Only those that both revisions have may sign.
        join: Join::Newest,
        value: |subject| match subject.guards.policy.asks_for_signatures() {
            true => json!(subject.files.signers),
            false => Value::Null,
        },
        order: Order::OnlyThese(&Order::Fields(&[
            ("after", Order::AtLeast),
            ("before", Order::AtMost),
        ])),
    },
    Guard {
        name: "signed_runs",
        fields: &[(kind::POLICY, "signed_runs")],
        join: Join::Both(join::signed_runs),
        value: |subject| json!(subject.guards.policy.signed_runs),
        order: Order::Demand,
    },
    Guard {
        name: "ticket",
        fields: &[(kind::POLICY, "ticket")],
        join: Join::Both(join::ticket),
        value: |subject| json!(subject.guards.policy.demands_ticket),
        order: Order::Demand,
    },
    Guard {
        name: "break_glass",
        fields: &[(kind::POLICY, "break_glass")],
        // Only as far as both revisions let it be done.
        join: Join::Newest,
        value: |subject| {
            let policy = subject.guards.policy.break_glass.as_ref();
            json!(policy.map(|policy| json!({"machines": policy.machines, "by": policy.by})))
        },
        order: Order::Exception(&[("machines", Order::AtMost), ("by", Order::AtMostThese)]),
    },
    Guard {
        name: "forbidden_flags",
        fields: &[(kind::POLICY, "flags")],
        join: Join::Both(join::forbidden_flags),
        value: |subject| json!(subject.guards.policy.forbidden_flags),
        order: Order::AtLeastThese,
    },
    Guard {
        name: "etcd_clusters",
        fields: &[
            (kind::ETCD_CLUSTERS, "clusters[].name"),
            (kind::ETCD_CLUSTERS, "clusters[].members"),
            (kind::ETCD_CLUSTERS, "clusters[].thresholds"),
        ],
        join: Join::Both(join::etcd_clusters),
        value: |subject| {
            let clusters = subject.guards.etcd_clusters.iter().map(|cluster| {
                let members = cluster.members.iter().map(|member| &member.name);
                let members: BTreeSet<_> = members.collect();
                let cluster_guards =
                    json!({"minimum_healthy": cluster.minimum_healthy, "members": members});
                (cluster.name.to_string(), cluster_guards)
            });
            Value::Object(clusters.collect())
        },
        order: Order::Each(&Order::Fields(&[
            ("minimum_healthy", Order::AtLeast),
            ("members", Order::AtLeastThese),
        ])),
    },
    Guard {
        name: "groups",
        fields: &[
            (kind::STRATEGY, "groups[].name"),
            (kind::STRATEGY, "groups[].critical"),
            (kind::STRATEGY, "groups[].success_criteria"),
            (kind::STRATEGY, "groups[].depends_on"),
            (kind::STRATEGY, "groups[].selectors"),
        ],
        join: Join::AtOnce(&[StepKind::GateDeployed]),
        value: groups,
        order: Order::Each(&CRITERIA),
    },
    Guard {
        name: "uncleaned",
        fields: &[(kind::CLEANING, "automated"), (kind::CLEANING, "selectors")],
        join: Join::AtOnce(CLEANING),
        value: |subject| {
            let design = subject.design;
            let is_kept = |name: &&NodeName| {
                let node = design.nodes.get(*name);
                let policy = node.and_then(|node| subject.guards.cleaning_of(node));
                policy.is_some_and(|policy| !policy.automated)
            };
            let nodes = design.nodes.keys().filter(|name| subject.counts(name));
            match subject
                .guards
                .cleaning
                .iter()
                .all(|policy| policy.automated)
            {
                true => json!([]),
                false => nodes.filter(is_kept).map(NodeName::as_str).collect(),
            }
        },
        order: Order::AtMostThese,
    },
    Guard {
        name: "clean_steps",
        fields: &[
            (kind::CLEANING, "priorities"),
            (kind::CLEANING, "selectors"),
        ],
        join: Join::AtOnce(CLEANING),
        value: clean_steps,
        order: Order::Each(&Order::Fields(&[
            ("steps", Order::AtLeastThese),
            ("machines", Order::AtLeast),
        ])),
    },
    Guard {
        name: "clean_steps_left_out",
        fields: &[(kind::CLEANING, "priorities")],
        join: Join::AtOnce(CLEANING),
        value: |subject| {
            let policies = subject.guards.cleaning.iter();
            let left_out = policies.flat_map(|policy| {
                let steps = policy.priorities.iter();
                let left_out = steps.filter(|(_, priority)| **priority == 0);
                left_out.map(|(step, _)| format!("{step} by {}", policy.name))
            });
            left_out.collect()
        },
        order: Order::AtMostThese,
    },
    Guard {
        name: "allow_plain_http",
        fields: &[(kind::BACKENDS, "allow_plain_http")],
        join: Join::Both(join::allow_plain_http),
        value: |subject| json!(subject.guards.backends.allow_plain_http),
        order: Order::Licence,
    },
    Guard {
        name: "trusting_backends",
        fields: &[
            (kind::BACKENDS, "hardware.*.verify"),
            (kind::BACKENDS, "hardware.*.controller.verify"),
            (kind::BACKENDS, "hardware.*.erase"),
        ],
        // How machines are reached, and with which verbs, is of now.
        join: Join::Newest,
        value: |subject| json!(subject.guards.backends.trusting()),
        order: Order::AtMostThese,
    },
    Guard {
        name: "retirements",
        fields: &[(kind::RETIREMENT, "retirements")],
        join: Join::BothInActions(join::retirements),
        value: |_| Value::Null,
        order: Order::Free,
    },
    Guard {
        name: "ignore_changes",
        fields: &[(kind::POLICY, "ignore_changes")],
        // It makes trueup do less.
        join: Join::Newest,
        value: |_| Value::Null,
        order: Order::Free,
    },
    Guard {
        name: "reach",
        fields: &[
            (kind::BACKENDS, "hardware"),
            (kind::BACKENDS, "overrides"),
            (kind::BACKENDS, "clusters"),
            (kind::BACKENDS, "names"),
            (kind::BACKENDS, "notify"),
            (kind::BACKENDS, "exec_environment"),
            (kind::ETCD_CLUSTERS, "clusters[].credentials"),
        ],
        // How machines and clusters are reached is of now, within what the operator trusts.
        join: Join::Newest,
        value: |_| Value::Null,
        order: Order::Free,
    },
    Guard {
        name: "times",
        fields: &[
            (kind::CONFIGURATION, ""),
            (kind::POLICY, "remediation"),
            (kind::POLICY, "silence"),
            (kind::POLICY, "allow_duplicate_keys"),
            (kind::POLICY, "state_branch"),
        ],
        // Timeouts and orders are not weaker or stricter; if the records are is moved by `migrate` alone.
        join: Join::Newest,
        value: |_| Value::Null,
        order: Order::Free,
    },
];

/// Whether a guard that the newest documents make weaker is so for a plan with some steps, whatever is in force.
#[must_use]
pub fn is_weaker_at_once(guard: &str, has: &dyn Fn(StepKind) -> bool) -> bool {
    let guard = TABLE.iter().find(|each| each.name == guard);
    let kinds = guard.map_or(&[][..], |guard| match guard.join {
        Join::AtOnce(kinds) => kinds,
        _ => &[],
    });
    kinds.iter().any(|kind| has(*kind))
}

/// The guards of a site as values: by name, those that restrict anything.
#[must_use]
pub fn values(subject: &Subject<'_>) -> BTreeMap<Arc<str>, Value> {
    let guards = TABLE
        .iter()
        .filter(|guard| !matches!(guard.order, Order::Free));
    let values = guards.map(|guard| (Arc::from(guard.name), (guard.value)(subject)));
    values.filter(|(_, value)| !is_nothing(value)).collect()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    }
}

/// The values of guards for a plan that `takes` some machines: that others are guarded, too, makes no plan looser.
#[must_use]
pub fn about(
    values: &BTreeMap<Arc<str>, Value>,
    takes: &dyn Fn(&str) -> bool,
) -> BTreeMap<Arc<str>, Value> {
    let mut values = values.clone();
    let retain = |machines: &mut Value| match machines {
        Value::Array(machines) => {
            machines.retain(|name| name.as_str().is_some_and(takes));
            !machines.is_empty()
        }
        _ => true,
    };
    for guard in &TABLE {
        match (guard.order, values.get_mut(guard.name)) {
            (Order::AtLeastMachines, Some(machines)) => drop(retain(machines)),
            (Order::Each(Order::AtLeastMachines), Some(Value::Object(parts))) => {
                parts.retain(|_, machines| retain(machines));
            }
            _ => {}
        }
    }
    values
}

/// The guards by which new values are weaker than old ones, each with how.
#[must_use]
pub fn weaker(
    old: &BTreeMap<Arc<str>, Value>,
    new: &BTreeMap<Arc<str>, Value>,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for guard in &TABLE {
        let value = |all: &BTreeMap<Arc<str>, Value>| all.get(guard.name).cloned();
        let (old, new) = (
            value(old).unwrap_or_default(),
            value(new).unwrap_or_default(),
        );
        let ways = guard.order.weaker(&old, &new);
        found.extend(ways.into_iter().map(|how| (guard.name, how)));
    }
    found
}

fn share(share: Share) -> Value {
    match share {
        Share::Machines(number) => json!(number),
        Share::Percent(_) => json!(share.to_string()),
    }
}

fn approvals(policy: Option<&ApprovalPolicy>) -> Value {
    let Some(policy) = policy else {
        return Value::Null;
    };
    let rules = policy.rules.iter().map(|rule| {
        let value = json!({"count": rule.count, "of": rule.of});
        (rule.scope.to_string(), value)
    });
    let rules: Map<String, Value> = rules.collect();
    let recovery = policy.recovery.as_ref();
    json!({
        "rules": rules,
        "applier_counts": policy.applier_counts,
        "recovery": recovery.map(|rule| json!({"count": rule.count, "of": rule.of})),
    })
}

/// The machines that limits by tag are about, as far as they are compared.
fn tagged(subject: &Subject<'_>) -> Value {
    let limits = &subject.guards.policy.max_unavailable.by_tag;
    // A plan is held to the limits of the moment over the machines of the moment.
    let limits = limits.keys().filter(|_| subject.nodes.is_none());
    let tagged = limits.map(|tag| {
        let nodes = subject.design.nodes.values();
        let is_there = |name: &NodeName| {
            subject
                .against
                .is_none_or(|newest| newest.nodes.contains_key(name))
        };
        let of_tag = nodes.filter(|node| node.tags.contains(tag) && is_there(&node.name));
        let names: BTreeSet<&str> = of_tag.map(|node| node.name.as_str()).collect();
        (tag.to_string(), json!(names))
    });
    Value::Object(tagged.collect())
}

const CRITERIA: Order = Order::Fields(&[
    ("critical", Order::Demand),
    ("percent_successful_nodes", Order::AtLeast),
    ("minimum_successful_nodes", Order::AtLeast),
    ("maximum_failed_nodes", Order::AtMost),
    ("depends_on", Order::AtLeastThese),
]);

/// The groups that can stop a run: those that are critical, or have criteria. If it is compared, a group is left out
/// whose machines are all gone, or in groups that are as strict by now, whatever these are called.
fn groups(subject: &Subject<'_>) -> Value {
    let criteria = |group: &Group| {
        let mut value = serde_json::to_value(&group.success_criteria).unwrap_or_default();
        value["critical"] = json!(group.critical);
        if !group.depends_on.is_empty() {
            let others: BTreeSet<&str> =
                group.depends_on.iter().map(|name| name.as_str()).collect();
            value["depends_on"] = json!(others);
        }
        value
    };
    let mut found = Map::new();
    for group in &subject.guards.groups {
        let own = criteria(group);
        if own == json!({"critical": false}) {
            continue;
        }
        let mut name = group.name.to_string();
        if let Some(newest) = subject.against {
            let nodes = group.nodes(subject.design);
            let as_strict = newest
                .guards
                .groups
                .iter()
                .filter(|new| CRITERIA.weaker(&own, &criteria(new)).is_empty());
            let watched: BTreeSet<&NodeName> =
                as_strict.flat_map(|new| new.nodes(newest)).collect();
            let mut left = nodes
                .iter()
                .filter(|name| newest.nodes.contains_key(**name));
            if left.all(|name| watched.contains(*name)) {
                continue;
            }
            let known = newest
                .guards
                .groups
                .iter()
                .find(|new| new.name == group.name);
            let is_as_strict =
                known.is_some_and(|new| CRITERIA.weaker(&own, &criteria(new)).is_empty());
            if is_as_strict {
                name = format!("{name}, for some of its machines");
            }
        }
        found.insert(name, own);
    }
    Value::Object(found)
}

/// The steps that policies of cleaning switch on, and for how many machines.
fn clean_steps(subject: &Subject<'_>) -> Value {
    let design = subject.design;
    let policies = subject.guards.cleaning.iter().filter_map(|policy| {
        let steps = policy.priorities.iter();
        let on: BTreeSet<&str> = steps
            .filter(|(_, priority)| **priority > 0)
            .map(|(step, _)| &**step)
            .collect();
        if on.is_empty() {
            return None;
        }
        let counts = |name: &&NodeName| {
            subject.counts(name)
                && subject
                    .against
                    .is_none_or(|newest| newest.nodes.contains_key(*name))
        };
        let of_policy = |name: &&NodeName| {
            let node = design.nodes.get(*name);
            let own = node.and_then(|node| subject.guards.cleaning_of(node));
            own.is_some_and(|own| std::ptr::eq(own, policy))
        };
        // How many there are is compared between revisions only.
        let nodes = match subject.nodes {
            None => design.nodes.keys().filter(counts).filter(of_policy).count(),
            Some(_) => 0,
        };
        Some((
            policy.name.to_string(),
            json!({"steps": on, "machines": nodes}),
        ))
    });
    Value::Object(policies.collect())
}

#[cfg(test)]
mod tests;
