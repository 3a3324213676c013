//! How the guards of two revisions hold together: what another revision says is added to guards, of which `design` is the
//! design.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use crate::design::{
    DefaultLimits, Design, Documented, EtcdCluster, FailureDomain, Guards, MaxUnavailable,
    NodeDesign, RedeployPolicy, RemediationPolicy, Retirement, Selector, WipePolicy,
};

pub(super) fn protected(guards: &mut Guards, design: &Design, other: &Documented) {
    let selectors = &other.guards.policy.protected;
    let all = &mut guards.policy.protected;
    all.extend(selectors.iter().cloned());
    // A node whose tags or rack have changed since is the same node, and so is a machine that has another name now: its
    // controller has the same address.
    let Some(mut named) = named(selectors, other) else {
        return;
    };
    let address = |node: &NodeDesign| node.out_of_band.address.clone();
    let nodes = other.nodes.values();
    let protected = nodes.filter(|node| named.node_names.contains(node.name.as_str()));
    let addresses: BTreeSet<Arc<str>> = protected.filter_map(|node| address(node)).collect();
    let nodes = design.nodes.values();
    let same = nodes.filter(|node| address(node).is_some_and(|own| addresses.contains(&own)));
    let same: Vec<Arc<str>> = same.map(|node| Arc::from(node.name.as_str())).collect();
    named.node_names.extend(same);
    all.push(named);
}

/// The nodes that both revisions let be changed without a proof of their identity.
pub(super) fn unverified(guards: &mut Guards, design: &Design, other: &Documented) {
    let others = named(&other.guards.policy.unverified, other);
    let common = match (named(&guards.policy.unverified, design), others) {
        (Some(mut own), Some(other)) => {
            let names = &mut own.node_names;
            names.retain(|name| other.node_names.contains(name));
            (!own.node_names.is_empty()).then_some(own)
        }
        _ => None,
    };
    guards.policy.unverified = common.into_iter().collect();
}

pub(super) fn maintenance_windows(guards: &mut Guards, _: &Design, other: &Documented) {
    let all = &mut guards.policy.maintenance_windows;
    all.extend(other.guards.policy.maintenance_windows.iter().cloned());
    all.dedup();
}

/// Both limits; what each leaves out is the default there, which holds beside the other's.
pub(super) fn max_unavailable(guards: &mut Guards, design: &Design, revision: &Documented) {
    let (own, other) = (
        &guards.policy.max_unavailable,
        &revision.guards.policy.max_unavailable,
    );
    let mut by_tag = own.by_tag.clone();
    for (tag, limit) in &other.by_tag {
        let own = by_tag.entry(tag.clone()).or_insert(*limit);
        *own = (*own).min(*limit);
    }
    guards.policy.max_unavailable = MaxUnavailable {
        total: least(own.total, other.total),
        percent: least(own.percent, other.percent),
        per_rack: least(own.per_rack, other.per_rack),
        by_tag,
        defaults: DefaultLimits {
            control_plane: own.has_control_plane_default() || other.has_control_plane_default(),
            others: own.has_default() || other.has_default(),
        },
    };
    let has_control_plane_default = other.has_control_plane_default();
    if other.per_rack.is_some() || !other.by_tag.is_empty() {
        place_as(guards, design, revision);
    }
    if has_control_plane_default {
        control_plane_as(guards, design, revision);
    }
}

/// Notes which machines are of the control plane in another revision, which limits it.
fn control_plane_as(guards: &mut Guards, design: &Design, revision: &Documented) {
    for (name, node) in &revision.nodes {
        let is_alike = |now: &Arc<NodeDesign>| now.tags == node.tags && now.labels == node.labels;
        if design.nodes.get(name).is_none_or(is_alike) || !super::is_control_plane(node) {
            continue;
        }
        let place = guards.policy.elsewhere.entry(name.clone()).or_default();
        place.control_plane = true;
    }
}

/// Notes where machines stand in another revision, and their tags by which it limits.
fn place_as(guards: &mut Guards, design: &Design, revision: &Documented) {
    let by_tag = &revision.guards.policy.max_unavailable.by_tag;
    for (name, node) in &revision.nodes {
        let is_alike = |now: &Arc<NodeDesign>| now.rack == node.rack && now.tags == node.tags;
        if design.nodes.get(name).is_none_or(is_alike) {
            continue;
        }
        let place = guards.policy.elsewhere.entry(name.clone()).or_default();
        place.racks.extend(node.rack.clone());
        let limited = node.tags.iter().filter(|tag| by_tag.contains_key(*tag));
        place.tags.extend(limited.cloned());
    }
}

/// The domains of both; if one has none, the default width of waves holds beside those of the other.
pub(super) fn failure_domains(guards: &mut Guards, design: &Design, revision: &Documented) {
    let other = &revision.guards.policy.failure_domains;
    let domains = &mut guards.policy.failure_domains;
    // Those by which the circuit breaker of remediation counts if a policy names none.
    let default = BTreeSet::from([FailureDomain::Rack]);
    let counted = match other.by.is_empty() {
        true => &default,
        false => &other.by,
    };
    domains.with_default_width = domains.holds_default_width() || other.holds_default_width();
    for (name, node) in &revision.nodes {
        let Some(now) = design.nodes.get(name) else {
            continue;
        };
        let moved = counted.iter().filter(|by| by.of(node) != by.of(now));
        let moved: Vec<_> = moved
            .filter_map(|by| Some((by.clone(), by.of(node)?.clone())))
            .collect();
        if !moved.is_empty() {
            let elsewhere = domains.elsewhere.entry(name.clone()).or_default();
            elsewhere.extend(moved);
        }
    }
    domains.by.extend(other.by.iter().cloned());
}

/// The longer soak, in which the namespaces of both are watched.
pub(super) fn soak(guards: &mut Guards, _: &Design, other: &Documented) {
    let (own, other) = (&mut guards.policy.soak, &other.guards.policy.soak);
    own.seconds = own.seconds.max(other.seconds);
    own.namespaces.extend(other.namespaces.iter().cloned());
}

/// The stricter behavior for each pod.
pub(super) fn drain_rules(guards: &mut Guards, _: &Design, other: &Documented) {
    let other = &other.guards.policy.drain_rules;
    guards.policy.drain_rules.and(other);
}

pub(super) fn parallelism(guards: &mut Guards, _: &Design, other: &Documented) {
    let (own, other) = (guards.policy.parallelism, other.guards.policy.parallelism);
    guards.policy.parallelism = least_with(own, other, super::PARALLELISM);
}

pub(super) fn max_failures(guards: &mut Guards, _: &Design, other: &Documented) {
    guards.policy.max_failures =
        least(guards.policy.max_failures, other.guards.policy.max_failures);
}

pub(super) fn redeploy_on_change(guards: &mut Guards, _: &Design, other: &Documented) {
    if other.guards.policy.redeploy_on_change == RedeployPolicy::Never {
        guards.policy.redeploy_on_change = RedeployPolicy::Never;
    }
}

pub(super) fn expected_hardware(guards: &mut Guards, _: &Design, other: &Documented) {
    guards.policy.demands_expected_hardware |= other.guards.policy.demands_expected_hardware;
}

/// The parts that the other demands of a machine count also if its design expects them no more.
pub fn expected_parts(guards: &mut Guards, design: &Design, other: &Documented) {
    if !other.guards.policy.demands_expected_hardware {
        return;
    }
    for (name, node) in &other.nodes {
        let mut parts = node.expected_parts();
        let own = design.nodes.get(name).filter(|_| !parts.is_empty());
        let Some(own) = own.map(|own| own.expected_parts()) else {
            continue;
        };
        parts.retain(|part| !own.contains(part));
        if !parts.is_empty() {
            let known = guards.expected_elsewhere.entry(name.clone()).or_default();
            known.extend(parts);
            known.sort();
            known.dedup();
        }
    }
}

pub(super) fn disruption(guards: &mut Guards, _: &Design, other: &Documented) {
    let policy = &mut guards.policy.disruption;
    *policy = policy.lower(&other.guards.policy.disruption);
}

pub(super) fn blast_radius(guards: &mut Guards, design: &Design, revision: &Documented) {
    let others = &revision.guards.policy.blast_radius;
    for (rung, other) in others {
        let own = guards.policy.blast_radius.entry(*rung).or_default();
        *own = own.lower(*other);
    }
    if others.values().any(|other| other.racks.is_some()) {
        place_as(guards, design, revision);
    }
}

pub(super) fn wipe(guards: &mut Guards, _: &Design, other: &Documented) {
    if other.guards.policy.wipe == WipePolicy::Require {
        guards.policy.wipe = WipePolicy::Require;
    }
}

pub(super) fn remediation(guards: &mut Guards, design: &Design, other: &Documented) {
    let (own, other) = (&guards.policy.remediation, &other.guards.policy.remediation);
    let most = |policy: &RemediationPolicy| policy.max_unhealthy(None);
    // A number and a share are compared by the machines that there are.
    let machines = design.nodes.len();
    let is_stricter = most(other).of(machines) < most(own).of(machines);
    let mut limits = own.limits;
    limits.attempts = limits.attempts.min(other.limits.attempts);
    limits.backoff = limits.backoff.max(other.limits.backoff);
    guards.policy.remediation = RemediationPolicy {
        max_at_once: least_with(own.max_at_once, other.max_at_once, super::REMEDIATIONS),
        max_unhealthy: match most(other).is_within(most(own)) || is_stricter {
            true => Some(most(other)),
            false => own.max_unhealthy,
        },
        cooldown: Some(own.cooldown().max(other.cooldown())),
        limits,
    };
}

pub(super) fn signed_runs(guards: &mut Guards, _: &Design, other: &Documented) {
    guards.policy.signed_runs |= other.guards.policy.signed_runs;
}

pub(super) fn ticket(guards: &mut Guards, _: &Design, other: &Documented) {
    guards.policy.demands_ticket |= other.guards.policy.demands_ticket;
}

pub(super) fn forbidden_flags(guards: &mut Guards, _: &Design, other: &Documented) {
    let forbidden = other.guards.policy.forbidden_flags.iter().cloned();
    guards.policy.forbidden_flags.extend(forbidden);
}

pub(super) fn allow_plain_http(guards: &mut Guards, _: &Design, other: &Documented) {
    guards.backends.allow_plain_http &= other.guards.backends.allow_plain_http;
}

/// The retirements of both. A machine whose tags or rack have changed since is the same machine.
pub(super) fn retirements(guards: &mut Guards, _: &Design, other: &Documented) {
    let others = &other.guards.retirements;
    guards.retirements.extend(others.iter().cloned());
    for retirement in others {
        if let Some(selector) = named(slice::from_ref(&retirement.selector), other) {
            guards.retirements.push(Retirement {
                selector,
                ..retirement.clone()
            });
        }
    }
}

/// The clusters of both revisions. Of members that both have, the newest revision says on which node they are.
pub(super) fn etcd_clusters(guards: &mut Guards, _: &Design, other: &Documented) {
    let all = &mut guards.etcd_clusters;
    for other in &other.guards.etcd_clusters {
        match all.iter_mut().find(|own| own.name == other.name) {
            Some(own) => etcd_cluster(own, other),
            None => all.push(other.clone()),
        }
    }
}

fn etcd_cluster(own: &mut EtcdCluster, other: &EtcdCluster) {
    own.minimum_healthy = own.minimum_healthy.max(other.minimum_healthy);
    let known: BTreeSet<Arc<str>> = own.members.iter().map(|own| own.name.clone()).collect();
    let more = other.members.iter();
    let more = more.filter(|member| !known.contains(&member.name));
    own.members.extend(more.cloned());
}

/// The nodes that selectors mean in their own revision, by name.
fn named(selectors: &[Selector], design: &Design) -> Option<Selector> {
    let nodes = selectors.iter().flat_map(|selector| selector.nodes(design));
    let names: BTreeSet<Arc<str>> = nodes.map(|node| Arc::from(node.as_str())).collect();
    (!names.is_empty()).then(|| Selector {
        node_names: names,
        ..Selector::default()
    })
}

fn least<N: Ord>(one: Option<N>, other: Option<N>) -> Option<N> {
    one.into_iter().chain(other).min()
}

/// The smaller of two limits, each with its default; `None` if neither gives one.
fn least_with<N: Ord + Copy>(one: Option<N>, other: Option<N>, default: N) -> Option<N> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(default).min(other.unwrap_or(default))),
    }
}
