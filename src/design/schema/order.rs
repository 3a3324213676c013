//! The order of the fields of documents: that of the schemas, in which their properties stand as the examples have them.

use std::sync::{Arc, OnceLock};

use super::field::MOST_REFERENCES;
use super::own;
use crate::diagnostic::SourceId;
use crate::document::{ENTRY, Limits, Node, load_values};

/// The schemas with their properties in order, the envelope's under no kind.
type Ordered = Vec<(Option<&'static str>, Node)>;

/// Returns the names of the fields at a path, in their order: in the data of a kind, or, without one, in the envelope of
/// every document. There are none at a path that the schema does not know.
#[must_use]
pub fn key_order(kind: Option<&str>, path: &[&str]) -> Vec<Arc<str>> {
    let Some((_, root)) = schemas().iter().find(|(known, _)| *known == kind) else {
        return Vec::new();
    };
    let mut place = vec![root];
    for step in path {
        let all = place.iter().flat_map(|node| all(root, node));
        place = all.filter_map(|node| below(node, step)).collect();
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    for node in place.iter().flat_map(|node| all(root, node)) {
        let properties = node.get("properties").and_then(Node::as_map);
        for (key, _) in properties.into_iter().flat_map(|map| map.iter()) {
            if !names.contains(&key.text) {
                names.push(key.text.clone());
            }
        }
    }
    names
}

/// The schemas as documents, whose maps have an order: JSON is YAML.
fn schemas() -> &'static Ordered {
    static SCHEMAS: OnceLock<Ordered> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let own = own::OWN.iter().map(|(kind, text)| (Some(*kind), *text));
        let read = |(kind, text): (Option<&'static str>, &str)| {
            let (values, _) = load_values(SourceId(u32::MAX), text, &Limits::default());
            Some((kind, values.into_iter().next()?))
        };
        own.chain([(None, own::DOCUMENT)])
            .filter_map(read)
            .collect()
    })
}

/// The schemas that hold for a place, alternatives among them.
fn all<'n>(root: &'n Node, node: &'n Node) -> Vec<&'n Node> {
    let mut found = Vec::new();
    let mut next = vec![(node, 0)];
    while let Some((node, depth)) = next.pop() {
        if depth > MOST_REFERENCES {
            continue;
        }
        found.push(node);
        let reference = node.get("$ref").and_then(Node::as_str);
        let pointer = reference.and_then(|reference| reference.strip_prefix("#/"));
        let target = pointer.and_then(|pointer| {
            let parts: Vec<&str> = pointer.split('/').collect();
            root.at(&parts)
        });
        let lists = ["allOf", "anyOf", "oneOf"].into_iter();
        let lists = lists.filter_map(|key| node.get(key)?.as_list()).flatten();
        let then = ["then", "else"].into_iter().filter_map(|key| node.get(key));
        let mut inner: Vec<&Node> = target.into_iter().chain(lists).chain(then).collect();
        inner.reverse();
        next.extend(inner.into_iter().map(|node| (node, depth + 1)));
    }
    found
}

/// The schema of a field, or of the entries of a list.
fn below<'n>(node: &'n Node, step: &str) -> Option<&'n Node> {
    if step == ENTRY {
        return node.get("items");
    }
    let named = node.get("properties").and_then(|fields| fields.get(step));
    let pattern = || {
        let patterns = node.get("patternProperties")?.as_map()?;
        patterns.iter().next().map(|(_, field)| &field.node)
    };
    named
        .or_else(|| {
            node.get("additionalProperties")
                .filter(|node| node.as_map().is_some())
        })
        .or_else(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(kind: Option<&str>, path: &[&str]) -> String {
        key_order(kind, path).join(" ")
    }

    #[test]
    fn fields_stand_in_the_order_of_their_schema_below_names_and_lists_too() {
        assert_eq!(order(None, &[]), "schema metadata data");
        assert!(order(None, &["metadata"]).starts_with("schema name labels "));
        let kind = Some("drydock/HostProfile/v1");
        assert!(
            order(kind, &[])
                .starts_with("host_profile hardware_profile primary_network oob platform")
        );
        let partition = ["storage", "physical_devices", "sda", "partitions", ENTRY];
        assert!(
            order(kind, &partition).starts_with("name "),
            "{}",
            order(kind, &partition)
        );
        let backends = Some("trueup/Backends/v1");
        let redfish = ["overrides", ENTRY, "hardware", "redfish", "deploy"];
        assert!(order(backends, &redfish).starts_with("from mode url"));
        assert_eq!(order(Some("none/None/v1"), &[]), "");
        assert_eq!(order(kind, &["none"]), "");
    }
}
