//! Selectors: the names, tags, labels and racks in them that no node has.
//!
//! They are warnings: a selector that many sites share may name what one of them does not have.

use super::super::read::{Findings, items, text_of};
use super::super::selector::{Criterion, label_entries};
use super::super::{Design, Selector};
use crate::diagnostic::Diagnostic;
use crate::document::Node;

/// Warns of selectors in a list that mean no node.
pub(super) fn check_selectors(list: &[Node], design: &Design, findings: &mut Findings) {
    for node in list {
        check_selector(node, design, findings);
    }
}

/// Warns of what a selector has that no node has, or else where it means no node.
pub(super) fn check_selector(node: &Node, design: &Design, findings: &mut Findings) {
    let unknown = check_values(node, design, findings);
    let selector = Selector::read(node);
    if !unknown && !selector.is_all() && design.index().select(&selector, design).is_empty() {
        let message = "this selector means no node";
        findings.push(Diagnostic::warning(
            "rule-selector-empty",
            node.mark,
            message,
        ));
    }
}

/// Warns of each value in a selector that no node has; whether there was one.
pub(super) fn check_values(selector: &Node, design: &Design, findings: &mut Findings) -> bool {
    let unknown_name = check_names(selector, design, |name, node| {
        let message = format!("there is no node `{name}`");
        findings.push(
            Diagnostic::warning("rule-selector-unknown-node", node.mark, message)
                .did_you_mean(name, names_near(name, design)),
        );
    });
    unknown_name | check_attributes(selector, design, findings)
}

/// Warns of each tag, rack and label in a selector that no node has; whether there was one.
pub(super) fn check_attributes(selector: &Node, design: &Design, findings: &mut Findings) -> bool {
    let mut unknown = false;
    let index = design.index();
    for (field, criterion) in [
        ("node_tags", Criterion::Tag),
        ("rack_names", Criterion::Rack),
    ] {
        for node in items(selector, field) {
            let Some(value) = text_of(node).filter(|value| !index.has(criterion, value)) else {
                continue;
            };
            unknown = true;
            let message = match criterion {
                Criterion::Tag => format!("no node has the tag `{value}`"),
                Criterion::Rack => format!("no node is in rack `{value}`"),
            };
            findings.push(
                Diagnostic::warning("rule-selector-unknown", node.mark, message)
                    .did_you_mean(&value, near(&value, index.values(criterion))),
            );
        }
    }
    for (node, key, value) in label_entries(selector) {
        if index.has_label(&key, &value) {
            continue;
        }
        unknown = true;
        let message = format!("no node has the label `{key}: {value}`");
        let finding = Diagnostic::warning("rule-selector-unknown", node.mark, message);
        let mut values = index.values_of_label(&key).take(SMALL).peekable();
        findings.push(match values.peek() {
            Some(_) => {
                let mut known: Vec<_> = values.map(|each| format!("{key}: {each}")).collect();
                known.sort();
                finding.did_you_mean(&format!("{key}: {value}"), known.iter().map(String::as_str))
            }
            None => {
                let mut known: Vec<_> = index.label_keys().take(SMALL).collect();
                known.sort_unstable();
                finding.did_you_mean(&key, known)
            }
        });
    }
    unknown
}

/// Calls `report` for each name of an unknown node; whether there was one.
pub(super) fn check_names(
    selector: &Node,
    design: &Design,
    mut report: impl FnMut(&str, &Node),
) -> bool {
    let mut unknown = false;
    for node in items(selector, "node_names") {
        if let Some(name) = text_of(node)
            && design.index().position(&name).is_none()
        {
            unknown = true;
            report(&name, node);
        }
    }
    unknown
}

/// So many names at most are compared with a wrong one.
const SMALL: usize = 200;

/// The names that a person may have meant: all of a small site, and of a large one those that begin
/// alike, so that many mistakes in a large site cost no product.
pub(super) fn names_near<'a>(
    name: &str,
    design: &'a Design,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let start = start_of(name, design.nodes.len());
    let from = std::ops::Bound::Included(start.as_str());
    let names = design
        .nodes
        .range::<str, _>((from, std::ops::Bound::Unbounded));
    near_ones(start.clone(), names.map(|(name, _)| name.as_str()))
}

/// Those of a sorted list.
pub(super) fn near<'a, T: AsRef<str>>(
    value: &str,
    sorted: &'a [T],
) -> impl Iterator<Item = &'a str> + use<'a, T> {
    let start = start_of(value, sorted.len());
    let from = sorted.partition_point(|each| each.as_ref() < start.as_str());
    near_ones(start, sorted[from..].iter().map(AsRef::as_ref))
}

/// The part that a name has to begin with to be compared, among so many.
fn start_of(name: &str, all: usize) -> String {
    match all {
        0..=SMALL => String::new(),
        _ => name.chars().take(name.chars().count() / 2 + 1).collect(),
    }
}

fn near_ones<'a>(
    start: String,
    sorted: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = &'a str> {
    sorted
        .take_while(move |name| name.starts_with(&start))
        .take(SMALL)
}
