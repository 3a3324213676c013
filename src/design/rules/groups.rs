//! Deployment groups and the timeouts of a site action.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::super::read::{Findings, items, text, text_of};
use super::super::strategy::{configuration_of, strategy_of};
use super::super::{DeploymentConfiguration, Group, name_problem};
use super::{Catalog, Design, Documented, check_selectors};
use crate::diagnostic::{Diagnostic, Mark, some_names};
use crate::document::Node;

pub(super) fn check(catalog: &Catalog<'_>, site: &Documented, findings: &mut Findings) {
    let mut known = Findings::default();
    let configuration = configuration_of(catalog, &mut known);
    if let Some((_, data)) = configuration {
        check_drain(data, &site.guards.configuration, findings);
    }
    let Some((_, data)) = strategy_of(catalog, configuration, &mut known) else {
        return;
    };
    let groups = items(data, "groups");
    check_names(groups, findings);
    check_dependences(groups, findings);
    for group in groups {
        check_selectors(items(group, "selectors"), site, findings);
    }
    check_coverage(data, site, findings);
    check_minima(groups, site, findings);
}

fn check_drain(data: &Node, configuration: &DeploymentConfiguration, findings: &mut Findings) {
    let (grace, timeout) = (
        configuration.drain_grace_period,
        configuration.drain_timeout,
    );
    if grace < timeout {
        return;
    }
    let field = |name| data.at(&["kubernetes_provisioner", name]);
    let mark = field("drain_grace_period").or_else(|| field("drain_timeout"));
    let message = format!(
        "the grace period of a drain ({grace} s) must be less than its timeout ({timeout} s)"
    );
    let mark = mark.map_or(data.mark, |node| node.mark);
    findings.push(Diagnostic::error("rule-drain-grace", mark, message));
}

fn check_names(groups: &[Node], findings: &mut Findings) {
    let mut seen: BTreeMap<Arc<str>, Mark> = BTreeMap::new();
    for group in groups {
        let Some((node, name)) = group
            .get("name")
            .and_then(|node| Some((node, text_of(node)?)))
        else {
            continue;
        };
        if let Some(problem) = name_problem(&name).filter(|_| !name.is_empty()) {
            let message = format!("the name of a group {problem}");
            findings.push(Diagnostic::error("rule-group-name", node.mark, message));
        }
        if let Some(first) = seen.get(&name) {
            let message = format!("there are two groups `{name}`");
            findings.push(
                Diagnostic::error("rule-group-repeated", node.mark, message)
                    .related(*first, "the first is here"),
            );
        } else {
            seen.insert(name, node.mark);
        }
    }
}

/// Unknown groups, a group that depends on itself, and circles, each shown whole.
fn check_dependences(groups: &[Node], findings: &mut Findings) {
    let mut graph: DiGraph<Arc<str>, Mark> = DiGraph::new();
    let mut of_name: BTreeMap<Arc<str>, NodeIndex> = BTreeMap::new();
    for group in groups {
        if let Some(name) = text(group, "name") {
            let node = graph.add_node(name.clone());
            of_name.entry(name).or_insert(node);
        }
    }
    for group in groups {
        let Some(name) = text(group, "name") else {
            continue;
        };
        for entry in items(group, "depends_on") {
            let Some(other) = text_of(entry) else {
                continue;
            };
            if other == name {
                let message = format!("group `{name}` depends on itself");
                findings.push(Diagnostic::error("rule-group-self", entry.mark, message));
            } else if let (Some(from), Some(to)) = (of_name.get(&name), of_name.get(&other)) {
                graph.add_edge(*from, *to, entry.mark);
            } else {
                let message = format!("there is no group `{other}`");
                findings.push(
                    Diagnostic::error("rule-group-unknown", entry.mark, message)
                        .did_you_mean(&other, of_name.keys().map(|name| &**name)),
                );
            }
        }
    }
    let mut circles: Vec<Vec<NodeIndex>> = tarjan_scc(&graph)
        .into_iter()
        .filter(|component| component.len() > 1)
        .collect();
    for circle in &mut circles {
        circle.sort();
    }
    circles.sort();
    for component in circles {
        let (way, mark) = shortest_circle(&graph, &component);
        let names: Vec<&str> = way.iter().map(|node| &*graph[*node]).collect();
        let message = format!(
            "groups depend on each other in a circle: {}",
            names.join(" → ")
        );
        findings.push(Diagnostic::error("rule-group-cycle", mark, message));
    }
}

/// The shortest way from the first group of a strongly connected component back to itself, and where
/// its first step was written.
fn shortest_circle(
    graph: &DiGraph<Arc<str>, Mark>,
    component: &[NodeIndex],
) -> (Vec<NodeIndex>, Mark) {
    let start = component[0];
    let mut before: BTreeMap<NodeIndex, NodeIndex> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    let mut last = start;
    'search: while let Some(node) = queue.pop_front() {
        let mut next: Vec<NodeIndex> = graph.neighbors(node).collect();
        next.reverse();
        for other in next {
            if other == start {
                last = node;
                break 'search;
            }
            if component.binary_search(&other).is_ok() && !before.contains_key(&other) {
                before.insert(other, node);
                queue.push_back(other);
            }
        }
    }
    let mut way = vec![start, last];
    while let Some(previous) = before.get(&last) {
        way.push(*previous);
        last = *previous;
    }
    way.reverse();
    let first = graph.find_edge(way[0], way[1]);
    let mark = first.and_then(|edge| graph.edge_weight(edge).copied());
    let anywhere = Mark::new(crate::diagnostic::SourceId(u32::MAX), 0);
    (way, mark.unwrap_or(anywhere))
}

/// Warns of nodes that no group selects; those that retire belong to none anyway.
fn check_coverage(data: &Node, site: &Documented, findings: &mut Findings) {
    let index = site.index();
    let mut held = vec![false; site.nodes.len()];
    for group in &site.guards.groups {
        if group.selectors.is_empty() {
            return;
        }
        for position in index.select_any(&group.selectors, site) {
            held[position as usize] = true;
        }
    }
    let left: Vec<_> = site
        .nodes
        .values()
        .zip(held.into_iter().zip(retiring(site)))
        .filter(|(_, (held, retires))| !held && !retires)
        .map(|(node, _)| node)
        .collect();
    if left.is_empty() {
        return;
    }
    let names = some_names(left.iter().map(|node| node.name.as_str()));
    let message = format!("no group selects {names}: nodes outside of groups are not deployed");
    let mark = data.get("groups").map_or(data.mark, |groups| groups.mark);
    let warning = Diagnostic::warning("rule-node-without-group", mark, message);
    findings.push(left.iter().take(3).fold(warning, |warning, node| {
        warning.related(node.mark, format!("`{}` is here", node.name))
    }));
}

/// Warns if a group can never have as many successful nodes as it wants.
fn check_minima(groups: &[Node], site: &Documented, findings: &mut Findings) {
    let retires = retiring(site);
    let index = site.index();
    for (group, node) in site.guards.groups.iter().zip(named(groups)) {
        let Some(wanted) = group.success_criteria.minimum_successful_nodes else {
            continue;
        };
        let all = members(group, site, index);
        let stay = all.iter().filter(|position| !retires[**position as usize]);
        let (all, stay) = (all.len() as u64, stay.count() as u64);
        if stay >= wanted {
            continue;
        }
        let name = &group.name;
        let retired = match all - stay {
            0 => String::new(),
            retired => format!(", of which {retired} retire"),
        };
        let message =
            format!("group `{name}` wants {wanted} successful nodes, and has {all}{retired}");
        let field = node.at(&["success_criteria", "minimum_successful_nodes"]);
        let mark = field.map_or(node.mark, |field| field.mark);
        findings.push(Diagnostic::warning(
            "rule-minimum-unreachable",
            mark,
            message,
        ));
    }
}

/// The groups that were read, those with a name.
fn named(groups: &[Node]) -> impl Iterator<Item = &Node> {
    groups.iter().filter(|group| text(group, "name").is_some())
}

fn members(group: &Group, design: &Design, index: &super::super::selector::NodeIndex) -> Vec<u32> {
    match group.selectors.is_empty() {
        true => (0..design.nodes.len() as u32).collect(),
        false => index.select_any(&group.selectors, design),
    }
}

/// By position, whether a node retires, now or on a later day.
pub(super) fn retiring(site: &Documented) -> Vec<bool> {
    let mut retires = vec![false; site.nodes.len()];
    for retirement in &site.guards.retirements {
        // An entry without criteria is an error; it does not retire the site.
        if !retirement.selector.is_all() {
            for position in site.index().select(&retirement.selector, site) {
                retires[position as usize] = true;
            }
        }
    }
    retires
}
