//! The guards in Hardware documents, as values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::design::{FirmwareTerms, NodeName};
use crate::guard::subject::Subject;

/// The machines of which each part is demanded. A machine that the other revision has no more is demanded nothing of.
pub(super) fn expected_parts(subject: &Subject<'_>) -> Value {
    let mut machines: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    if subject.guards.policy.demands_expected_hardware {
        let elsewhere = &subject.guards.expected_elsewhere;
        let is_known = |name: &NodeName| {
            let against = subject.against;
            against.is_none_or(|other| other.nodes.contains_key(name.as_str()))
        };
        let nodes = subject.design.nodes.iter();
        for (name, node) in nodes.filter(|(name, _)| subject.counts(name) && is_known(name)) {
            let others = elsewhere.get(name).into_iter().flatten().cloned();
            for part in node.expected_parts().into_iter().chain(others) {
                let part = format!("{} {}", part.name, part.value);
                machines.entry(part).or_default().insert(name.as_str());
            }
        }
    }
    json!(machines)
}

/// The components of machines of which the terms for their firmware say something.
pub(super) fn components(subject: &Subject<'_>, says: fn(&FirmwareTerms) -> bool) -> Value {
    let nodes = subject.design.nodes.iter();
    let nodes = nodes.filter(|(name, _)| subject.counts(name));
    let components = nodes.flat_map(|(name, node)| {
        let terms = node.all_firmware_terms();
        let allowed = terms.filter(move |(.., terms)| says(terms));
        allowed.map(move |(component, ..)| format!("{component} of {name}"))
    });
    components.collect()
}

/// The versions from which the firmware of machines may go to the one that is designed. Another design of a version says
/// anew from which.
pub(super) fn firmware_from(subject: &Subject<'_>) -> Value {
    let is_same = |name: &NodeName, component: &str, version: Option<&str>| {
        subject.against.is_none_or(|other| {
            let node = other.nodes.get(name.as_str());
            let mut terms = node.into_iter().flat_map(|node| node.all_firmware_terms());
            terms.any(|(other, new, _)| *other == *component && new.as_deref() == version)
        })
    };
    let mut found = Map::new();
    for (name, node) in subject.design.nodes.iter() {
        for (component, version, terms) in node.all_firmware_terms() {
            let version = version.as_deref();
            let is_meant = !terms.from.is_empty() && subject.counts(name);
            if is_meant && is_same(name, &component, version) {
                let key = format!("{component} of {name} to {}", version.unwrap_or_default());
                found.insert(key, json!(terms.from));
            }
        }
    }
    Value::Object(found)
}
