//! Each field of the schemas that names something else, and a wrong name in it, which is found where it is written.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::design::fixture::{checked, document};
use crate::design::kind;
use crate::design::schema::files;

/// A site in which each name occurs once.
const SITE: [(&str, &str, &str); 7] = [
    (
        kind::NETWORK,
        "management",
        "{cidr: 10.0.0.0/24, routedomain: inner}",
    ),
    (
        kind::NETWORK_LINK,
        "uplink",
        "{allowed_networks: [management], trunking: {mode: disabled, default_network: management}}",
    ),
    (kind::RACK, "rack01", "{}"),
    (kind::HARDWARE_PROFILE, "server", "{}"),
    (kind::HOST_PROFILE, "compute", "{hardware_profile: server}"),
    (
        kind::NODE,
        "node-one",
        "{host_profile: compute, metadata: {rack: rack01, tags: [worker], owner_data: {plane: enabled}}}",
    ),
    (
        kind::STRATEGY,
        "rollout",
        "{groups: [{name: workers, critical: true, depends_on: [], selectors: []}]}",
    ),
];

/// A field by its path, a document with a wrong name in it between `~`, the name that was meant, and the code of the finding.
type Row = (&'static str, &'static str, &'static str, &'static str);

const OF_NODES: [Row; 10] = [
    (
        "host_profile",
        "{host_profile: ~comptue~}",
        "compute",
        "reference-host-profile",
    ),
    (
        "hardware_profile",
        "{hardware_profile: ~sever~}",
        "server",
        "reference-hardware-profile",
    ),
    (
        "primary_network",
        "{primary_network: ~managment~}",
        "management",
        "reference-network",
    ),
    (
        "oob.network",
        "{oob: {type: manual, network: ~managment~}}",
        "management",
        "reference-network",
    ),
    (
        "interfaces.*.device_link",
        "{interfaces: {a: {device_link: ~uplnk~, networks: []}}}",
        "uplink",
        "reference-network-link",
    ),
    (
        "interfaces.*.networks[]",
        "{interfaces: {a: {device_link: uplink, networks: [~managment~]}}}",
        "management",
        "reference-network",
    ),
    (
        "addressing[].network",
        "{addressing: [{network: ~managment~, address: 10.0.0.9}]}",
        "management",
        "reference-network",
    ),
    (
        "metadata.rack",
        "{metadata: {rack: ~rack1~}}",
        "rack01",
        "reference-rack",
    ),
    (
        "storage.physical_devices.*.volume_group",
        "{storage: {physical_devices: {sda: {volume_group: ~dta~}}, volume_groups: {data: {}}}}",
        "data",
        "reference-volume-group",
    ),
    (
        "storage.physical_devices.*.partitions[].volume_group",
        "{storage: {physical_devices: {sda: {partitions: [{name: a, volume_group: ~dta~}]}}, volume_groups: {data: {}}}}",
        "data",
        "reference-volume-group",
    ),
];

const OF_OTHERS: [(&str, Row); 13] = [
    (
        kind::POLICY,
        (
            "max_unavailable.by_tag.*",
            "{max_unavailable: {by_tag: {~wrker~: 1}}}",
            "worker",
            "rule-selector-empty",
        ),
    ),
    (
        kind::BACKENDS,
        (
            "names.*",
            "{hardware: {kind: sim}, names: {~node-on~: {kubernetes: x}}}",
            "node-one",
            "reference-backend-node",
        ),
    ),
    (
        kind::NETWORK,
        (
            "routes[].routedomain",
            "{cidr: 10.1.0.0/24, routes: [{gateway: 10.1.0.1, routedomain: ~iner~}]}",
            "inner",
            "reference-routing-domain",
        ),
    ),
    (
        kind::NETWORK_LINK,
        (
            "allowed_networks[]",
            "{allowed_networks: [~managment~], trunking: {mode: 802.1q}}",
            "management",
            "reference-network",
        ),
    ),
    (
        kind::NETWORK_LINK,
        (
            "trunking.default_network",
            "{allowed_networks: [], trunking: {mode: 802.1q, default_network: ~managment~}}",
            "management",
            "reference-network",
        ),
    ),
    (
        kind::RACK,
        (
            "local_networks[]",
            "{local_networks: [~managment~]}",
            "management",
            "reference-network",
        ),
    ),
    (
        kind::STRATEGY,
        (
            "groups[].depends_on[]",
            "{groups: [{name: control, critical: true, depends_on: [], selectors: []}, {name: workers, critical: true, depends_on: [~contrl~], selectors: []}]}",
            "control",
            "rule-group-unknown",
        ),
    ),
    (
        kind::CONFIGURATION,
        (
            "physical_provisioner.deployment_strategy",
            "{physical_provisioner: {deployment_strategy: ~rolout~}}",
            "rollout",
            "reference-strategy",
        ),
    ),
    (
        kind::ETCD_CLUSTERS,
        (
            "clusters[].members[].node",
            "{clusters: [{name: k, members: [{name: a, node: ~node-on~, peer_url: 'https://a:2380', client_url: 'https://a:2379'}]}]}",
            "node-one",
            "reference-etcd-node",
        ),
    ),
    (
        kind::BACKENDS,
        (
            "hardware.metal3.cluster",
            "{hardware: {kind: metal3, metal3: {cluster: ~mgt~}}, clusters: {mgmt: {context: m}}}",
            "mgmt",
            "reference-cluster",
        ),
    ),
    (
        kind::BACKENDS,
        (
            "hardware.sim.faults[].nodes[]",
            "{hardware: {kind: sim, sim: {faults: [{nodes: [~node-on~], verb: deploy, fails: 1}]}}}",
            "node-one",
            "rule-simulated-nobody",
        ),
    ),
    (
        kind::BACKENDS,
        (
            "hardware.sim.hardware[].nodes[]",
            "{hardware: {kind: sim, sim: {hardware: [{nodes: [~node-on~], values: {bios.A: x}}]}}}",
            "node-one",
            "rule-simulated-nobody",
        ),
    ),
    (
        kind::BACKENDS,
        (
            "clusters.*.sim.pods[].nodes[]",
            "{hardware: {kind: sim}, clusters: {k: {kind: sim, sim: {pods: [{name: p, nodes: [~node-on~]}]}}}}",
            "node-one",
            "rule-simulated-nobody",
        ),
    ),
];

/// Where selectors stand, and a document with `@` for the fields of one. The findings are warnings, since sites share selectors.
const SELECTORS: [(&str, &str, &str); 11] = [
    (
        kind::STRATEGY,
        "groups[].selectors[]",
        "{groups: [{name: workers, critical: true, depends_on: [], selectors: [{@}]}]}",
    ),
    (
        kind::BOOT_ACTION,
        "node_filter.filter_set[]",
        "{node_filter: {filter_set_type: union, filter_set: [{filter_type: union, @}]}}",
    ),
    (
        kind::BACKENDS,
        "overrides[].selector",
        "{hardware: {kind: sim}, overrides: [{selector: {@}, hardware: {kind: sim}}]}",
    ),
    (
        kind::BACKENDS,
        "clusters.*.join_overrides[].selector",
        "{hardware: {kind: sim}, clusters: {k: {kind: sim, join_overrides: [{selector: {@}, join: wait}]}}}",
    ),
    (kind::CLEANING, "selectors[]", "{selectors: [{@}]}"),
    (
        kind::HARDWARE,
        "selectors[]",
        "{selectors: [{@}], bios: {A: x}}",
    ),
    (
        kind::ADOPTION,
        "machines[]",
        "{machines: [{open: [storage], @}]}",
    ),
    (
        kind::RETIREMENT,
        "retirements[]",
        "{retirements: [{reason: old, @}]}",
    ),
    (kind::POLICY, "protected[]", "{protected: [{@}]}"),
    (kind::POLICY, "unverified[]", "{unverified: [{@}]}"),
    (
        kind::POLICY,
        "ignore_changes[].selectors[]",
        "{ignore_changes: [{paths: [networks], reason: r, selectors: [{@}]}]}",
    ),
];

/// The criteria of a selector.
const CRITERIA: [Row; 4] = [
    (
        "node_names[]",
        "node_names: [~node-on~]",
        "node-one",
        "rule-selector-unknown-node",
    ),
    (
        "node_tags[]",
        "node_tags: [worker, ~wrker~]",
        "worker",
        "rule-selector-unknown",
    ),
    (
        "node_labels[]",
        "node_labels: [~'plane: enabld'~]",
        "'plane: enabled'",
        "rule-selector-unknown",
    ),
    (
        "rack_names[]",
        "rack_names: [~rack1~]",
        "rack01",
        "rule-selector-unknown",
    ),
];

/// Fields that are called alike and name nothing in the documents.
const OTHERS: [&str; 4] = [
    // Addresses of controllers.
    "networks[]",
    // Patterns of pods in the same simulator, and of members, which it reports itself.
    "api_servers[]",
    // Names in Region, which describe tags and give no machine one.
    "tag_definitions[].tag",
    // The tags of a machine are made by being written there.
    "metadata.tags[]",
];

/// All fields: kind, path, document, name that was meant, code.
fn rows() -> Vec<(&'static str, String, String, &'static str, &'static str)> {
    let nodes = OF_NODES.iter().map(|row| (kind::NODE, *row));
    let mut rows: Vec<_> = nodes
        .chain(OF_OTHERS)
        .map(|(kind, (path, data, meant, code))| {
            (kind, path.to_owned(), data.to_owned(), meant, code)
        })
        .collect();
    for (kind, at, data) in SELECTORS {
        for (path, criterion, meant, code) in CRITERIA {
            let is_retirement = kind == kind::RETIREMENT && path == "node_names[]";
            let code = match is_retirement {
                true => "reference-retired-node",
                false => code,
            };
            // Drydock's filters have a map of labels.
            let criterion = match (kind, path) {
                (kind::BOOT_ACTION, "node_labels[]") => "node_labels: {plane: ~enabld~}",
                _ => criterion,
            };
            let meant = match criterion.contains("{plane") {
                true => "enabled",
                false => meant,
            };
            let path = match meant {
                "enabled" => "node_labels.*",
                _ => path,
            };
            let data = data.replace('@', criterion);
            rows.push((kind, format!("{at}.{path}"), data, meant, code));
        }
    }
    rows
}

/// The findings of the site with a document, as `code line:column message (hint)`.
fn found(kind: &str, data: &str) -> Vec<String> {
    let others = SITE
        .iter()
        .filter(|(each, ..)| kind != kind::STRATEGY || *each != kind::STRATEGY);
    let name = match kind {
        kind::STRATEGY => "deployment-strategy",
        _ => "written",
    };
    let mut text = document(kind, name, data);
    text.extend(others.map(|(kind, name, data)| document(kind, name, data)));
    checked(&text).problems
}

#[test]
fn a_wrong_name_is_found_where_it_is_written_with_the_one_that_was_meant() {
    for (kind, path, data, meant, code) in rows() {
        let column = 3 + data.find('~').unwrap();
        let (before, rest) = data.split_once('~').unwrap();
        let (wrong, after) = rest.split_once('~').unwrap();
        let problems = found(kind, &format!("{before}{wrong}{after}"));
        let start = format!("{code} 5:{column} ");
        let end = format!("did you mean `{}`?)", meant.trim_matches('\''));
        let is_it = |problem: &&String| {
            let hint = problem.rsplit_once("did you mean").map(|(_, hint)| hint);
            problem.starts_with(&start)
                && hint.is_some_and(|hint| end.ends_with(hint) || hint.contains(meant))
        };
        assert!(
            problems.iter().any(|each| is_it(&each)),
            "{kind} {path}: {start}… {end}\n{problems:#?}"
        );
        let problems = found(kind, &format!("{before}{meant}{after}"));
        assert!(
            !problems.iter().any(|problem| problem.starts_with(code)),
            "{kind} {path} with the right name: {problems:#?}"
        );
    }
}

/// The paths of the texts in a schema that end in one of some names.
fn named(schema: &Json, whole: &Json, path: &str, found: &mut BTreeSet<String>) {
    const NAMES: [&str; 22] = [
        "cluster",
        "default_network",
        "depends_on[]",
        "deployment_strategy",
        "device_link",
        "hardware_profile",
        "host_profile",
        "network",
        "networks[]",
        "allowed_networks[]",
        "local_networks[]",
        "primary_network",
        "node",
        "node_names[]",
        "node_tags[]",
        "node_labels[]",
        "nodes[]",
        "rack",
        "rack_names[]",
        "routedomain",
        "tag",
        "volume_group",
    ];
    if let Some(target) = schema["$ref"].as_str().and_then(|at| at.strip_prefix('#')) {
        named(whole.pointer(target).unwrap(), whole, path, found);
    }
    let last = path.rsplit('.').next().unwrap_or_default();
    let is_text = match &schema["type"] {
        Json::String(kind) => kind == "string",
        Json::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        _ => schema.get("oneOf").is_some() || schema.get("anyOf").is_some(),
    };
    if is_text && NAMES.contains(&last) && schema.get("enum").is_none() {
        found.insert(path.to_owned());
    }
    let below = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        named(field, whole, &below(name), found);
    }
    if schema["additionalProperties"].is_object() {
        named(&schema["additionalProperties"], whole, &below("*"), found);
    }
    if schema["items"].is_object() {
        named(&schema["items"], whole, &format!("{path}[]"), found);
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        for each in schema[key].as_array().into_iter().flatten() {
            named(each, whole, path, found);
        }
    }
}

#[test]
fn each_field_that_is_called_like_a_reference_is_listed() {
    let rows = rows();
    let mut missing = Vec::new();
    let mut all = BTreeSet::new();
    for (file, text) in files() {
        let Some(name) = file.strip_suffix(".v1.json") else {
            continue;
        };
        let kind = format!("{}/v1", name.replace('.', "/"));
        if kind.starts_with("deckhand") || kind.starts_with("pegleg") {
            continue;
        }
        let schema: Json = serde_json::from_str(text).unwrap();
        let mut paths = BTreeSet::new();
        named(&schema, &schema, "", &mut paths);
        for path in paths {
            // A host profile has the fields of the machines that inherit from it.
            let of = match &*kind {
                kind::HOST_PROFILE => kind::NODE,
                kind => kind,
            };
            // The settings of some machines are those of all.
            let like = path.replace("overrides[].hardware", "hardware");
            let like = like.replace("clusters.*.sim.faults", "hardware.sim.faults");
            let is_listed = rows
                .iter()
                .any(|(kind, path, ..)| *kind == of && *path == like);
            let is_other =
                OTHERS.iter().any(|other| path.ends_with(other)) && !path.contains("interfaces");
            if !is_listed && !is_other && (of, &*path) != (kind::NETWORK, "routedomain") {
                missing.push(format!("{kind} {path}"));
            }
            all.insert((of.to_owned(), like));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    let stale: Vec<_> = rows
        .iter()
        .map(|(kind, path, ..)| ((*kind).to_owned(), path.clone()))
        .filter(|row| !row.1.ends_with(".*") && !all.contains(row))
        .collect();
    assert!(stale.is_empty(), "no such field: {stale:#?}");
}
