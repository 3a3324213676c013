//! trueup's own documents: retirement, cleaning, guards and backends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::approvals::{ApprovalPolicy, BreakGlassPolicy};
use super::catalog::Catalog;
use super::read::{Findings, duration, items, narrow, number, text, texts};
use super::{
    BackendKind, Backends, BlastRadius, CleaningPolicy, DefaultLimits, DisruptionPolicy,
    DrainRules, FailureDomains, Guards, HardwareBackend, IgnoredChanges, JoinMode,
    MaintenanceWindow, MaxUnavailable, NodeName, RedeployPolicy, RemediationPolicy, Retirement,
    Selector, Share, SiteTimeZone, SoakPolicy, WindowList, WipePolicy, kind,
};
use crate::diagnostic::Diagnostic;
use crate::document::{Map, Node};
use crate::remediation::{Release, RemediationLimits};

/// Puts the documents of the kinds `trueup/*` into the guards.
pub(super) fn add_policies(catalog: &Catalog<'_>, guards: &mut Guards, findings: &mut Findings) {
    for (_, data) in catalog.of(kind::RETIREMENT) {
        guards
            .retirements
            .extend(items(data, "retirements").iter().map(read_retirement));
    }
    for (document, data) in catalog.of(kind::CLEANING) {
        guards.cleaning.push(CleaningPolicy {
            name: document.id.name.clone(),
            selectors: Selector::read_all(data, "selectors"),
            automated: data.get("automated").and_then(Node::as_bool) != Some(false),
            priorities: numbers(data.get("priorities"))
                .map(|(step, priority)| (step, narrow(priority)))
                .collect(),
            mark: document.mark,
        });
    }
    // Those that select go before those that mean all, so that a default does not hide an exception.
    guards
        .cleaning
        .sort_by_key(|policy| policy.selectors.iter().all(Selector::is_all));
    if let Some(data) = only_one(catalog, kind::POLICY, findings) {
        read_policy(data, guards);
    }
    if let Some(data) = only_one(catalog, kind::BACKENDS, findings) {
        read_backends(data, &mut guards.backends);
    }
}

/// The only document of a kind that a site has at most one of.
fn only_one<'a>(
    catalog: &Catalog<'a>,
    schema: &'static str,
    findings: &mut Findings,
) -> Option<&'a Node> {
    let mut all = catalog.of(schema);
    let (first, data) = all.next()?;
    for (another, _) in all {
        let message = format!(
            "a site has one `{schema}`, and `{}` is another",
            another.id.name
        );
        findings.push(
            Diagnostic::error("rule-one-document", another.name_mark, message)
                .related(first.name_mark, "the first is here"),
        );
    }
    Some(data)
}

fn read_retirement(node: &Node) -> Retirement {
    Retirement {
        selector: Selector::read(node),
        reason: text(node, "reason").unwrap_or_else(|| Arc::from("")),
        from: text(node, "from"),
        mark: node.mark,
    }
}

fn numbers(node: Option<&Node>) -> impl Iterator<Item = (Arc<str>, u64)> {
    node.and_then(Node::as_map)
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(|(key, field)| {
            let number = field.node.whole_number()?.try_into().ok()?;
            Some((key.text.clone(), number))
        })
}

fn size(node: &Node, key: &str) -> Option<usize> {
    number(node, key).and_then(|number| usize::try_from(number).ok())
}

/// A number, or a share in percent.
fn share(node: &Node, key: &str) -> Option<Share> {
    let number = size(node, key).map(Share::Machines);
    number.or_else(|| text(node, key)?.parse().ok())
}

fn read_policy(data: &Node, guards: &mut Guards) {
    let policy = &mut guards.policy;
    policy.protected = Selector::read_all(data, "protected");
    policy.unverified = Selector::read_all(data, "unverified");
    if let Some(limits) = data.get("max_unavailable") {
        let total = share(limits, "total");
        policy.max_unavailable = MaxUnavailable {
            total: total.and_then(Share::as_number),
            percent: total.and_then(Share::as_percent),
            per_rack: size(limits, "per_rack"),
            by_tag: numbers(limits.get("by_tag"))
                .filter_map(|(tag, limit)| Some((tag, usize::try_from(limit).ok()?)))
                .collect(),
            defaults: DefaultLimits::default(),
        };
    }
    policy.failure_domains = FailureDomains::read(data);
    policy.soak = SoakPolicy::read(data);
    policy.drain_rules = DrainRules::read(data);
    let windows: Vec<_> = items(data, "maintenance_windows")
        .iter()
        .filter_map(|window| {
            Some(MaintenanceWindow {
                days: texts(window, "days").collect(),
                from: text(window, "from")?,
                to: text(window, "to")?,
            })
        })
        .collect();
    // An unknown zone is an error of its document.
    let zone = text(data, "time_zone").and_then(|name| SiteTimeZone::named(&name));
    policy.time_zone = zone.unwrap_or_default();
    policy.maintenance_windows = match windows.is_empty() {
        true => Vec::new(),
        false => vec![WindowList {
            time_zone: policy.time_zone.clone(),
            windows,
        }],
    };
    policy.wipe = match text(data, "wipe").as_deref() {
        Some("skip") => WipePolicy::Skip,
        _ => WipePolicy::Require,
    };
    policy.redeploy_on_change = match text(data, "redeploy_on_change").as_deref() {
        Some("never") => RedeployPolicy::Never,
        _ => RedeployPolicy::Ask,
    };
    // Any other word would be a misspelt demand.
    policy.demands_expected_hardware =
        text(data, "expected_hardware").is_some_and(|word| &*word != "report");
    policy.disruption = data
        .get("disruption")
        .map(DisruptionPolicy::read)
        .unwrap_or_default();
    policy.blast_radius = BlastRadius::read_all(data);
    policy.parallelism = size(data, "parallelism");
    policy.rego = text(data, "rego");
    policy.state_branch = text(data, "state_branch");
    policy.approvals = data
        .get("approvals")
        .map(ApprovalPolicy::read)
        .map(Arc::new);
    // Any other word would be a misspelt demand.
    policy.signed_runs = text(data, "signed_runs").is_some_and(|word| &*word != "optional");
    policy.demands_ticket = text(data, "ticket").is_some_and(|word| &*word != "optional");
    let break_glass = data.get("break_glass").map(BreakGlassPolicy::read);
    policy.break_glass = break_glass.map(Arc::new);
    if let Some(flags) = data.get("flags") {
        policy.forbidden_flags = texts(flags, "forbid").collect();
    }
    policy.silenced = texts(data, "silence").collect();
    policy.ignored = items(data, "ignore_changes")
        .iter()
        .map(read_ignored)
        .collect();
    policy.max_failures = number(data, "max_failures");
    if let Some(remediation) = data.get("remediation") {
        policy.remediation = read_remediation(remediation);
    }
}

fn read_ignored(data: &Node) -> IgnoredChanges {
    IgnoredChanges {
        selectors: Selector::read_all(data, "selectors"),
        // The schema refuses those that are none.
        paths: texts(data, "paths")
            .filter_map(|path| path.parse().ok())
            .collect(),
        reason: text(data, "reason").unwrap_or_else(|| Arc::from("")),
    }
}

fn read_remediation(data: &Node) -> RemediationPolicy {
    let own = RemediationPolicy::default();
    let limits = own.limits;
    let attempts = number(data, "attempts").map(narrow);
    let written = |key| duration(data, key);
    let seconds = |key, otherwise| written(key).unwrap_or(otherwise);
    RemediationPolicy {
        max_at_once: size(data, "max_at_once"),
        max_unhealthy: share(data, "max_unhealthy"),
        cooldown: written("cooldown"),
        limits: RemediationLimits {
            attempts: attempts.unwrap_or(limits.attempts),
            power_off: seconds("power_off_timeout", limits.power_off),
            power_on: seconds("power_on_timeout", limits.power_on),
            release: seconds("release_timeout", limits.release),
            ready: seconds("ready_timeout", limits.ready),
            settling: seconds("power_settling", limits.settling),
            backoff: seconds("backoff", limits.backoff),
            method: match text(data, "release_node").as_deref() {
                Some("out-of-service") => Release::OutOfService,
                _ => Release::DeleteNode,
            },
        },
    }
}

fn join_mode(data: &Node) -> Option<JoinMode> {
    match text(data, "join").as_deref()? {
        "in-run" => Some(JoinMode::InRun),
        "later" => Some(JoinMode::Later),
        "never" => Some(JoinMode::Never),
        _ => None,
    }
}

/// Returns the backends that the data of a `trueup/Backends/v1` names.
#[must_use]
pub fn backends_of(data: &Node) -> Backends {
    let mut backends = Backends::default();
    read_backends(data, &mut backends);
    backends
}

fn read_backends(data: &Node, backends: &mut Backends) {
    if let Some(hardware) = data.get("hardware") {
        backends.hardware = read_hardware(hardware);
    }
    for each in items(data, "overrides") {
        if let Some(hardware) = each.get("hardware") {
            let selector = each.get("selector").map(Selector::read).unwrap_or_default();
            backends.overrides.push((selector, read_hardware(hardware)));
        }
    }
    for (node, field) in data
        .get("names")
        .and_then(Node::as_map)
        .into_iter()
        .flat_map(Map::iter)
    {
        let names: BTreeMap<_, _> = field
            .node
            .as_map()
            .into_iter()
            .flat_map(Map::keys)
            .filter_map(|system| Some((system.text.clone(), text(&field.node, &system.text)?)))
            .collect();
        backends
            .names
            .insert(NodeName::from(node.text.clone()), names);
    }
    if let Some(cluster) = data.at(&["clusters", "kubernetes"]) {
        backends.join = join_mode(cluster);
        let overrides = items(cluster, "join_overrides").iter().filter_map(|each| {
            let selector = each.get("selector").map(Selector::read).unwrap_or_default();
            Some((selector, join_mode(each)?))
        });
        backends.join_overrides = overrides.collect();
    }
    backends.allow_plain_http = data.get("allow_plain_http").and_then(Node::as_bool) == Some(true);
    backends.exec_environment = texts(data, "exec_environment").collect();
    backends.data = Some(data.clone());
}

impl Backends {
    /// The settings by which a backend trusts a server that it cannot verify, or erases again what it cannot prove.
    #[must_use]
    pub fn trusting(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if let Some(data) = &self.data {
            trusting("", data, &mut found);
        }
        found
    }
}

fn trusting(path: &str, node: &Node, found: &mut BTreeSet<String>) {
    for (key, field) in node.as_map().into_iter().flat_map(Map::iter) {
        let path = format!("{path}{}", key.text);
        let value = &field.node;
        match &*key.text {
            "verify" if value.as_bool() == Some(false) => {
                found.insert(format!("{path}: false"));
            }
            "erase" if value.as_str() == Some("repeatable") => {
                found.insert(format!("{path}: repeatable"));
            }
            _ => trusting(&format!("{path}."), value, found),
        }
    }
    for (position, item) in node.as_list().into_iter().flatten().enumerate() {
        trusting(&format!("{path}{position}."), item, found);
    }
}

fn read_hardware(node: &Node) -> HardwareBackend {
    let kind = match node.get("kind").and_then(Node::as_str) {
        Some("sim") => BackendKind::Sim,
        Some("redfish") => BackendKind::Redfish,
        Some("ipmi") => BackendKind::Ipmi,
        Some("ironic") => BackendKind::Ironic,
        Some("metal3") => BackendKind::Metal3,
        Some("maas") => BackendKind::Maas,
        _ => BackendKind::None,
    };
    HardwareBackend {
        kind,
        settings: text(node, "kind").and_then(|kind| node.get(&kind)).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::BackendKind;
    use crate::design::fixture::{document, site};
    use crate::remediation::Share;

    #[test]
    fn retirement_holds_from_its_day_on_and_the_first_entry_gives_the_reason() {
        let text = [
            document(kind::NODE, "n1", "metadata: {rack: r1}"),
            document(kind::NODE, "n2", "metadata: {rack: r1}"),
            document(
                kind::RETIREMENT,
                "old",
                "retirements:\n- {node_names: [n1], reason: disks, from: 2026-03-01}\n- {rack_names: [r1], reason: rack, from: '2026-05-01'}",
            ),
        ]
        .concat();
        let site = site(&text);
        let on = |node: &str, day: &str| {
            let retired = site.guards.retired(&site.design, day);
            let entry = retired.get(&NodeName::from(node));
            entry.map(|entry| entry.reason.to_string())
        };
        assert_eq!(on("n1", "2026-02-28"), None);
        assert_eq!(on("n1", "2026-03-01"), Some("disks".to_owned()));
        assert_eq!(on("n1", "2026-06-01"), Some("disks".to_owned()));
        assert_eq!(on("n2", "2026-04-30"), None);
        assert_eq!(on("n2", "2026-05-01"), Some("rack".to_owned()));
        assert_eq!(on("n9", "2026-05-01"), None);
    }

    #[test]
    fn the_first_override_that_selects_a_node_gives_its_backend() {
        let text = [
            document(kind::NODE, "n1", "metadata: {tags: [virtual]}"),
            document(kind::NODE, "n2", "metadata: {tags: [real]}"),
            document(
                kind::BACKENDS,
                "b",
                "hardware: {kind: redfish}\noverrides: [{selector: {node_tags: [virtual]}, hardware: {kind: sim}}]",
            ),
        ]
        .concat();
        let site = site(&text);
        assert_eq!(
            site.guards.backend_of(&site.design.nodes["n1"]).kind,
            BackendKind::Sim
        );
        assert_eq!(
            site.guards.backend_of(&site.design.nodes["n2"]).kind,
            BackendKind::Redfish
        );
    }

    #[test]
    fn an_exception_to_cleaning_goes_before_the_rule_whatever_they_are_called() {
        let text = [
            document(kind::NODE, "n1", "metadata: {tags: [keep]}"),
            document(kind::NODE, "n2", "metadata: {tags: [wipe]}"),
            document(
                kind::CLEANING,
                "a-default",
                "automated: true\npriorities: {deploy.erase_devices: 10}",
            ),
            document(
                kind::CLEANING,
                "z-keep",
                "automated: false\nselectors: [{node_tags: [keep]}]",
            ),
        ]
        .concat();
        let site = site(&text);
        let policy = |node: &str| site.guards.cleaning_of(&site.design.nodes[node]).unwrap();
        assert!(!policy("n1").automated);
        let other = policy("n2");
        assert_eq!(other.priorities["deploy.erase_devices"], 10);
    }

    #[test]
    fn what_a_policy_says_of_remediation_counts_and_what_it_does_not_say_is_the_default() {
        let text = document(
            kind::POLICY,
            "a",
            "remediation: {max_at_once: 2, max_unhealthy: '3', cooldown: 20m, attempts: 4, ready_timeout: 90, backoff: 2m, release_node: out-of-service}",
        );
        let policy = site(&text).guards.policy.remediation;
        assert_eq!(policy.max_at_once, Some(2));
        assert_eq!(policy.max_unhealthy, Some(Share::Machines(3)));
        assert_eq!(policy.cooldown(), 1200);
        let limits = RemediationLimits {
            attempts: 4,
            ready: 90,
            backoff: 120,
            method: Release::OutOfService,
            ..RemediationLimits::default()
        };
        assert_eq!(policy.limits, limits);
        let plain = site(&document(kind::POLICY, "a", "wipe: skip"));
        assert_eq!(
            plain.guards.policy.remediation,
            RemediationPolicy::default()
        );
    }

    #[test]
    fn a_site_has_one_policy() {
        let text = document(kind::POLICY, "a", "wipe: skip")
            + &document(kind::POLICY, "b", "wipe: require");
        let found = site(&text);
        assert_eq!(
            found.problems,
            ["rule-one-document 8:18 a site has one `trueup/Policy/v1`, and `b` is another"]
        );
        assert_eq!(found.guards.policy.wipe, WipePolicy::Skip);
    }
}
