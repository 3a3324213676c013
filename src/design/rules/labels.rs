//! Kubernetes labels: their syntax, and those that are not the design's to set.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::super::read::{Findings, text_of};
use super::super::{Design, Section};
use crate::diagnostic::Diagnostic;
use crate::document::{Map, Node};

/// The longest name or value of a label, and the longest prefix of a name.
const LONGEST: (usize, usize) = (63, 253);

/// Labels that stop or mislead a kubelet if another actor than it, or the step that is to stop it, sets them.
pub(crate) const RESERVED: [&str; 7] = [
    "promenade-decomission",
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "node.kubernetes.io/windows-build",
];

/// Machines that have their labels from one profile share one finding.
pub(super) fn check(design: &Design, findings: &mut Findings) {
    let mut seen = FxHashSet::default();
    let mut found = FxHashSet::default();
    for node in design.nodes.values() {
        let Some(fields) = node.sections.shared(&Section::Labels) else {
            continue;
        };
        if !seen.insert(Arc::as_ptr(fields)) {
            continue;
        }
        let labels = fields
            .at(&["metadata", "owner_data"])
            .and_then(Node::as_map);
        for (key, field) in labels.into_iter().flat_map(Map::iter) {
            let is_new = found.insert(field.key_mark);
            if let Some(problem) = key_problem(&key.text).filter(|_| is_new) {
                let message = format!("`{}` cannot be the key of a label: {problem}", key.text);
                findings.push(Diagnostic::error("rule-label-key", field.key_mark, message));
            } else if RESERVED.contains(&&*key.text) && is_new {
                let message = format!("the label `{}` is reserved", key.text);
                let finding = Diagnostic::error("rule-label-reserved", field.key_mark, message);
                findings.push(finding.hint(
                    "the kubelet sets it, or is stopped by it: leave it out of `owner_data`",
                ));
            }
            let Some(value) = text_of(&field.node) else {
                continue;
            };
            if let Some(problem) = value_problem(&value).filter(|_| found.insert(field.node.mark)) {
                let message = match field.node.is_secret() {
                    true => format!("this cannot be the value of a label: {problem}"),
                    false => format!("`{value}` cannot be the value of a label: {problem}"),
                };
                let finding = Diagnostic::error("rule-label-value", field.node.mark, message);
                findings.push(finding);
            }
        }
    }
}

/// Why a text cannot be the key of a label.
fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix {
        let is_label = |label: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !label.is_empty()
                && label.len() <= LONGEST.0
                && label.chars().all(fits)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if prefix.len() > LONGEST.1 || !prefix.split('.').all(is_label) {
            return Some("the part before `/` is not a DNS name in lower case");
        }
    }
    match name {
        "" => Some("it has no name"),
        name => value_problem(name),
    }
}

/// Why a text cannot be the value of a label.
fn value_problem(value: &str) -> Option<&'static str> {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    if value.len() > LONGEST.0 {
        Some("it is longer than 63 characters")
    } else if !ends(value.chars().next()) || !ends(value.chars().last()) {
        Some("it does not begin and end with a letter or a digit")
    } else if value.contains(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))) {
        Some("it has a character other than letters, digits, `-`, `_` and `.`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_of_kubernetes() {
        let long = "x".repeat(64);
        for good in ["a", "A.b_c-9", "node-role.kubernetes.io/master", "0"] {
            assert_eq!(key_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "bad key!",
            "/a",
            "a/",
            "a/b/c",
            "Upper.io/x",
            "-a",
            "a_",
            &long,
        ] {
            assert!(key_problem(bad).is_some(), "{bad}");
        }
        for good in ["", "enabled", "1.2-x_y"] {
            assert_eq!(value_problem(good), None, "{good}");
        }
        for bad in ["a b", "a/b", "-x", "x.", "ä", &long] {
            assert!(value_problem(bad).is_some(), "{bad}");
        }
    }
}
