//! Whatever documents say, there is a design, and no panic.

use proptest::prelude::*;

use super::fixture::{documents, lines};
use super::schema::own_kinds;
use super::{Input, SiteName, check};

const WORDS: [&str; 60] = [
    "groups",
    "name",
    "critical",
    "depends_on",
    "selectors",
    "success_criteria",
    "node_names",
    "node_tags",
    "node_labels",
    "rack_names",
    "minimum_successful_nodes",
    "host_profile",
    "hardware_profile",
    "interfaces",
    "networks",
    "device_link",
    "addressing",
    "network",
    "address",
    "oob",
    "type",
    "ipmi",
    "libvirt",
    "storage",
    "physical_devices",
    "volume_groups",
    "partitions",
    "logical_volumes",
    "size",
    "filesystem",
    "mountpoint",
    "platform",
    "kernel_params",
    "hugepages",
    "metadata",
    "tags",
    "owner_data",
    "rack",
    "cidr",
    "ranges",
    "routes",
    "gateway",
    "routedomain",
    "mtu",
    "bonding",
    "mode",
    "trunking",
    "allowed_networks",
    "assets",
    "node_filter",
    "filter_set",
    "clusters",
    "members",
    "thresholds",
    "retirements",
    "reason",
    "priorities",
    "hardware",
    "sim",
    "kind",
];

const TEXTS: [&str; 24] = [
    "a",
    "b",
    "c",
    "'!a'",
    "'!'",
    "-1",
    "0",
    "7",
    "1.5",
    "null",
    "true",
    "10.0.0.1",
    "10.0.0.0/24",
    "fd00::/64",
    "99%",
    "30g",
    "'>1t'",
    "'x: y'",
    "2026-02-28",
    "sim",
    "union",
    "disabled",
    "99999999999999999999",
    "''",
];

/// A value in YAML's flow style, made of words that documents are made of.
fn value() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(&TEXTS[..]).prop_map(str::to_owned);
    leaf.prop_recursive(6, 60, 6, |inner| {
        let key = proptest::sample::select(&WORDS[..])
            .prop_union(proptest::sample::select(&["a", "b", "'!a'", "7"][..]));
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::btree_map(key, inner, 0..6).prop_map(|fields| {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

/// Some documents of any kind.
fn site() -> impl Strategy<Value = String> {
    let kinds: Vec<&str> = own_kinds().collect();
    let name = proptest::sample::select(&["a", "b", "c", "deployment-strategy"][..]);
    let one = (proptest::sample::select(kinds), name, value()).prop_map(|(kind, name, data)| {
        let schema = if kind.starts_with("deckhand/") {
            "metadata/Control/v1"
        } else {
            "metadata/Document/v1"
        };
        format!("---\nschema: {kind}\nmetadata: {{schema: {schema}, name: {name}}}\ndata: {data}\n")
    });
    proptest::collection::vec(one, 1..12).prop_map(|documents| documents.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_document_makes_it_panic_and_threads_and_order_change_nothing(text in site()) {
        let (sources, documents) = documents(&text);
        let mut seen = std::collections::BTreeSet::new();
        let mut inputs: Vec<Input<'_>> = documents
            .iter()
            .filter(|document| seen.insert(document.id.clone()))
            .map(|document| (&**document, &document.data))
            .collect();
        let (design, found) = check(SiteName::from("s"), &inputs, 1);
        for group in &design.guards.groups {
            prop_assert!(group.nodes(&design).len() <= design.nodes.len());
        }
        for node in design.nodes.values() {
            prop_assert_eq!(node.digests.iter().count(), 8);
            let guards = &design.guards;
            let _ = (guards.cleaning_of(node), guards.backend_of(node), guards.is_protected(node));
        }
        let _ = design.guards.retired(&design, "2026-01-01");
        inputs.reverse();
        let (again, other) = check(SiteName::from("s"), &inputs, 3);
        prop_assert_eq!(lines(found, &sources), lines(other, &sources));
        for (name, node) in &design.nodes {
            prop_assert_eq!(&node.digests, &again.nodes[name.as_str()].digests);
        }
    }
}
