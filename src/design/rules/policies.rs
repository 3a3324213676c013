//! Retirement, cleaning, guards and backends.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::open::Adoption;
use super::super::read::{Findings, is_blank, items, text, text_of};
use super::super::selector::Criterion;
use super::super::{NodeDesign, Section, Selector, SiteTimeZone};
use super::selectors::near;
use super::{
    Catalog, Design, Documented, check_attributes, check_names, check_selector, check_selectors,
    check_values, kind, names_near,
};
use crate::diagnostic::{Diagnostic, Mark, nearest};
use crate::document::{Map, Node};

pub(super) fn check(catalog: &Catalog<'_>, site: &Documented, findings: &mut Findings) {
    for (_, data) in catalog.of(kind::RETIREMENT) {
        for entry in items(data, "retirements") {
            check_retirement(entry, site, findings);
        }
    }
    for (_, data) in catalog.of(kind::ADOPTION) {
        for entry in items(data, "machines") {
            check_adoption(entry, site, findings);
        }
    }
    for (_, data) in catalog.of(kind::CLEANING) {
        check_ties(data, findings);
        check_selectors(items(data, "selectors"), site, findings);
    }
    // A document that selects no machine at all is told by the rules of hardware.
    for (_, data) in catalog.of(kind::HARDWARE) {
        for selector in items(data, "selectors") {
            check_values(selector, site, findings);
        }
    }
    for (_, data) in catalog.of(kind::POLICY) {
        check_policy(data, site, findings);
    }
    for (_, data) in catalog.of(kind::BACKENDS) {
        check_backends(data, site, findings);
    }
}

fn check_retirement(entry: &Node, design: &Design, findings: &mut Findings) {
    let unknown = check_names(entry, design, |name, node| {
        let message = format!("there is no node `{name}` that could retire");
        findings.push(
            Diagnostic::error("reference-retired-node", node.mark, message)
                .did_you_mean(name, names_near(name, design)),
        );
    }) | check_attributes(entry, design, findings);
    let selector = Selector::read(entry);
    if !unknown && !selector.is_all() && design.index().select(&selector, design).is_empty() {
        let message = "no node retires by this entry";
        findings.push(Diagnostic::warning(
            "rule-selector-empty",
            entry.mark,
            message,
        ));
    }
    let Some(from) = entry.get("from") else {
        return;
    };
    // What has not the form of a day is the schema's to tell.
    if let Some(day) = text_of(from)
        && day.len() == "YYYY-MM-DD".len()
        && day.parse::<jiff::civil::Date>().is_err()
    {
        let message = format!("there is no day `{day}`");
        findings.push(Diagnostic::error(
            "rule-retirement-date",
            from.mark,
            message,
        ));
    }
}

/// The fields of adopted machines that are still open.
fn check_adoption(entry: &Node, design: &Design, findings: &mut Findings) {
    check_selector(entry, design, findings);
    let adoption = Adoption::read(entry);
    for (field, mark) in &adoption.open {
        let name = field.as_str();
        if let Some((_, other)) = adoption.assumed.iter().find(|(each, _)| each == field) {
            let message = format!("`{name}` is open and assumed");
            findings.push(
                Diagnostic::error("rule-open-field", *mark, message)
                    .related(*other, "it is assumed here"),
            );
            continue;
        }
        let mut lacking = adoption.lacking(*field, design);
        let Some(first) = lacking.next() else {
            continue;
        };
        let of = match lacking.count() {
            0 => format!("`{first}` has no `{name}`"),
            more => format!("`{first}` and {more} more have no `{name}`"),
        };
        let message =
            format!("{of}, which was not observed at the adoption: no plan deploys such a machine");
        findings.push(
            Diagnostic::warning("rule-open-field", *mark, message)
                .hint("give it in their documents, or move it to `assumed`"),
        );
    }
}

/// Steps of one interface need an order; 0 is off and needs none.
fn check_ties(data: &Node, findings: &mut Findings) {
    let mut seen: BTreeMap<(&str, i64), (&str, Mark)> = BTreeMap::new();
    let priorities = data.get("priorities").and_then(Node::as_map);
    for (key, field) in priorities.into_iter().flat_map(Map::iter) {
        let Some((interface, step)) = key.text.split_once('.') else {
            continue;
        };
        let Some(priority) = field.node.whole_number().filter(|priority| *priority > 0) else {
            continue;
        };
        if let Some((other, first)) = seen.get(&(interface, priority)) {
            let message = format!(
                "`{interface}.{other}` and `{interface}.{step}` have the same priority {priority}"
            );
            findings.push(
                Diagnostic::error("rule-cleaning-tie", field.node.mark, message)
                    .hint("inside one interface the order must be clear")
                    .related(*first, "the other is here"),
            );
        } else {
            seen.insert((interface, priority), (step, field.node.mark));
        }
    }
}

fn check_policy(data: &Node, design: &Design, findings: &mut Findings) {
    if let Some(zone) = data.get("time_zone")
        && let Some(name) = zone.as_str()
        && SiteTimeZone::named(name).is_none()
    {
        let message = format!("there is no time zone `{name}`");
        let names = SiteTimeZone::names();
        let near = nearest(name, names.iter().map(String::as_str));
        findings.push(
            Diagnostic::error("rule-time-zone", zone.mark, message).hint(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "give the name of a zone of IANA, such as `Europe/Berlin`".to_owned(),
            }),
        );
    }
    for list in ["protected", "unverified"] {
        check_selectors(items(data, list), design, findings);
    }
    for ignored in items(data, "ignore_changes") {
        check_selectors(items(ignored, "selectors"), design, findings);
        check_ignored_paths(items(ignored, "paths"), design, findings);
    }
    let by_tag = data
        .at(&["max_unavailable", "by_tag"])
        .and_then(Node::as_map);
    for (tag, field) in by_tag.into_iter().flat_map(Map::iter) {
        let index = design.index();
        if !index.has(Criterion::Tag, &tag.text) {
            let message = format!("no node has the tag `{}`", tag.text);
            findings.push(
                Diagnostic::warning("rule-selector-empty", field.key_mark, message)
                    .did_you_mean(&tag.text, near(&tag.text, index.values(Criterion::Tag))),
            );
        }
    }
    for window in items(data, "maintenance_windows") {
        let (from, to) = (text(window, "from"), text(window, "to"));
        if from.is_some() && from == to {
            let message = "this window ends when it begins";
            findings.push(Diagnostic::error("rule-window-empty", window.mark, message));
        }
    }
}

/// Warns of paths that begin with a field of no machine: what they are to leave as it is would be a change.
fn check_ignored_paths(paths: &[Node], design: &Design, findings: &mut Findings) {
    let fields = |node: &Arc<NodeDesign>| {
        let sections = Section::ALL.into_iter();
        let fields = sections.filter_map(|section| Some(node.sections.get(&section)?.to_node()));
        fields.map(Cow::into_owned).collect::<Vec<Node>>()
    };
    for path in paths {
        let first = path.as_str().and_then(|path| path.split(['.', '[']).next());
        let Some(first) = first.filter(|first| !first.is_empty() && !first.contains('*')) else {
            continue;
        };
        let mut nodes = design.nodes.values();
        let has_it = |node| fields(node).iter().any(|each| each.get(first).is_some());
        if design.nodes.is_empty() || nodes.any(has_it) {
            continue;
        }
        let known: Vec<Node> = design.nodes.values().take(20).flat_map(fields).collect();
        let names = known.iter().filter_map(Node::as_map).flat_map(Map::iter);
        let message = format!("no machine has a field `{first}`");
        findings.push(
            Diagnostic::warning("rule-ignored-path", path.mark, message)
                .did_you_mean(first, names.map(|(key, _)| &*key.text)),
        );
    }
}

fn check_backends(data: &Node, site: &Documented, findings: &mut Findings) {
    if let Some(hardware) = data.get("hardware") {
        check_hardware(hardware, data, site, findings);
    }
    for entry in items(data, "overrides") {
        if let Some(selector) = entry.get("selector") {
            check_selector(selector, site, findings);
        }
        if let Some(hardware) = entry.get("hardware") {
            check_hardware(hardware, data, site, findings);
        }
    }
    let clusters = data.get("clusters").and_then(Node::as_map);
    for (_, cluster) in clusters.into_iter().flat_map(Map::iter) {
        for entry in items(&cluster.node, "join_overrides") {
            if let Some(selector) = entry.get("selector") {
                check_selector(selector, site, findings);
            }
        }
        if let Some(settings) = cluster.node.get("sim") {
            check_patterns(settings, "pods", site, findings);
            check_patterns(settings, "faults", site, findings);
        }
    }
    let mut seen: BTreeMap<(Arc<str>, Arc<str>), Mark> = BTreeMap::new();
    let names = data.get("names").and_then(Node::as_map);
    for (node, field) in names.into_iter().flat_map(Map::iter) {
        if site.index().position(&node.text).is_none() {
            let message = format!("there is no node `{}`", node.text);
            findings.push(
                Diagnostic::error("reference-backend-node", field.key_mark, message)
                    .did_you_mean(&node.text, names_near(&node.text, site)),
            );
        }
        for (system, other) in field.node.as_map().into_iter().flat_map(Map::iter) {
            let Some(name) = text_of(&other.node) else {
                continue;
            };
            let is_taken = |other: &crate::design::NodeName| {
                let names = site.guards.backends.names.get(other);
                other.as_str() != &*node.text
                    && names.is_none_or(|names| !names.contains_key(&*system.text))
            };
            if let Some((taken, _)) = site.nodes.get_key_value(&*name)
                && is_taken(taken)
            {
                let message = format!(
                    "`{}` and `{taken}` are both called `{name}` in {}",
                    node.text, system.text
                );
                let finding = Diagnostic::error("rule-backend-name", other.node.mark, message);
                findings.push(finding.related(site.nodes[taken].mark, "the other is here"));
            }
            let key = (system.text.clone(), name);
            if let Some(first) = seen.get(&key) {
                let message = format!("two nodes are called `{}` in {}", key.1, key.0);
                findings.push(
                    Diagnostic::error("rule-backend-name", other.node.mark, message)
                        .related(*first, "the other is here"),
                );
            } else {
                seen.insert(key, other.node.mark);
            }
        }
    }
}

fn check_hardware(hardware: &Node, data: &Node, design: &Design, findings: &mut Findings) {
    let Some(chosen) = text(hardware, "kind") else {
        return;
    };
    for (key, field) in hardware.as_map().into_iter().flat_map(Map::iter) {
        if &*key.text != "kind" && key.text != chosen {
            let message = format!(
                "these are settings of `{}`, and the backend is `{chosen}`",
                key.text
            );
            findings.push(Diagnostic::warning(
                "rule-backend-settings",
                field.key_mark,
                message,
            ));
        }
    }
    let Some(settings) = hardware.get(&chosen) else {
        return;
    };
    if &*chosen == "sim" {
        check_patterns(settings, "faults", design, findings);
        check_patterns(settings, "hardware", design, findings);
    }
    let verified = [
        settings.get("verify"),
        settings.at(&["controller", "verify"]),
    ];
    let is_off = |node: &&Node| node.as_bool() == Some(false);
    for verify in verified.into_iter().flatten().filter(is_off) {
        let message =
            "certificates are not verified: an attacker on the network can be the other end";
        findings.push(
            Diagnostic::warning("rule-tls-unverified", verify.mark, message)
                .hint("give the certificate that signed them as `ca`"),
        );
    }
    let cluster = settings.get("cluster").filter(|node| !is_blank(node));
    if let Some((node, name)) = cluster.and_then(|node| Some((node, text_of(node)?))) {
        let clusters = data.get("clusters").and_then(Node::as_map);
        if !clusters.is_some_and(|clusters| clusters.contains_key(&name)) {
            let known = clusters
                .into_iter()
                .flat_map(Map::keys)
                .map(|key| &*key.text);
            findings.push(
                Diagnostic::error(
                    "reference-cluster",
                    node.mark,
                    format!("`clusters` has no `{name}`"),
                )
                .did_you_mean(&name, known),
            );
        }
    }
}

/// Warns of settings of a simulator for unknown nodes. A node that has left the design may
/// still be torn down, so that it is no error.
fn check_patterns(settings: &Node, list: &str, design: &Design, findings: &mut Findings) {
    for pattern in items(settings, list)
        .iter()
        .flat_map(|entry| items(entry, "nodes"))
    {
        let Some(text) = text_of(pattern) else {
            continue;
        };
        // Opening the simulator reports invalid patterns.
        let Ok(glob) = globset::Glob::new(&text) else {
            continue;
        };
        let is_there = design.index().position(&text).is_some() || {
            let glob = glob.compile_matcher();
            design.nodes.keys().any(|name| glob.is_match(name.as_str()))
        };
        if !is_there {
            let message = format!("no node is called `{text}`");
            findings.push(
                Diagnostic::warning("rule-simulated-nobody", pattern.mark, message)
                    .did_you_mean(&text, names_near(&text, design)),
            );
        }
    }
}
