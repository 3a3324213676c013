//! Every field of every kind of document, changed once: the effect of a plan changes, or the field is an exception.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::PlanFixture;
use crate::design::fixture;
use crate::lifecycle::ProvisionState;
use crate::plan::PlanEffect;

/// The kinds whose documents make machines and what reaches them.
const WALKED: [&str; 7] = [
    "drydock/BaremetalNode/v1",
    "drydock/HostProfile/v1",
    "drydock/HardwareProfile/v1",
    "drydock/Network/v1",
    "drydock/NetworkLink/v1",
    "drydock/BootAction/v1",
    "trueup/Backends/v1",
];

/// The kinds that are not walked, and why.
const NOT_WALKED: [(&str, &str); 17] = [
    (
        "deckhand/DataSchema/v1",
        "what documents may hold, which validation checks",
    ),
    (
        "deckhand/LayeringPolicy/v1",
        "how documents are rendered: the values count",
    ),
    (
        "deckhand/ValidationPolicy/v1",
        "what a site asks of its documents before they are used",
    ),
    ("drydock/Rack/v1", "a description of a place"),
    ("drydock/Region/v1", "a description of a place"),
    (
        "pegleg/SiteDefinition/v1",
        "which folders a site is made of: the values count",
    ),
    (
        "promenade/EtcdClusters/v1",
        "a guard: what is removed stands in the steps",
    ),
    (
        "shipyard/DeploymentConfiguration/v1",
        "times: those that change what is done stand in the steps",
    ),
    (
        "shipyard/DeploymentStrategy/v1",
        "groups: their order is covered, a node's group by its limits",
    ),
    (
        "trueup/Adoption/v1",
        "no plan deploys what is open; an adoption stands in the steps",
    ),
    (
        "trueup/Rollout/v1",
        "in which order sites get a revision: the plan of none has anything of it",
    ),
    (
        "trueup/CleaningPolicy/v1",
        "the clean steps that follow from it stand in the steps",
    ),
    (
        "trueup/Hardware/v1",
        "the values that are set stand in the steps",
    ),
    (
        "trueup/NodeRetirement/v1",
        "a guard: who retires has a step",
    ),
    (
        "trueup/Policy/v1",
        "a guard, which is resolved for the site",
    ),
    ("policy-input", "no document"),
    ("document", "the envelope"),
];

/// Fields that may change without another effect, and why. What is below such a field is none, too.
const EXCEPTIONS: [(&str, &str, &str); 16] = [
    ("drydock/BaremetalNode/v1", "description", "a text"),
    (
        "drydock/BaremetalNode/v1",
        "metadata.rack",
        "counts by what it does: limits, groups, boot actions",
    ),
    (
        "drydock/BaremetalNode/v1",
        "metadata.tags",
        "count by what they do: groups, boot actions",
    ),
    ("drydock/HostProfile/v1", "description", "a text"),
    (
        "drydock/HostProfile/v1",
        "host_profile",
        "where values come from: the values count",
    ),
    (
        "drydock/HostProfile/v1",
        "metadata.boot_mac",
        "is of a machine, and not inherited",
    ),
    (
        "drydock/HostProfile/v1",
        "metadata.rack",
        "counts by what it does: limits, groups, boot actions",
    ),
    (
        "drydock/HostProfile/v1",
        "metadata.tags",
        "count by what they do: groups, boot actions",
    ),
    (
        "drydock/Network/v1",
        "dhcp_relay",
        "nothing of it is put on a machine",
    ),
    (
        "drydock/Network/v1",
        "labels",
        "nothing of it is put on a machine",
    ),
    (
        "drydock/Network/v1",
        "ranges",
        "nothing of it is put on a machine",
    ),
    (
        "drydock/NetworkLink/v1",
        "allowed_networks",
        "what documents may hold, which validation checks",
    ),
    (
        "drydock/BootAction/v1",
        "node_filter",
        "counts by which actions apply",
    ),
    (
        "trueup/Backends/v1",
        "overrides.[].selector",
        "counts by which machines it selects",
    ),
    (
        "trueup/Backends/v1",
        "exec_environment",
        "what programs that print secrets are given: the reach, which is trusted by itself",
    ),
    (
        "trueup/Backends/v1",
        "notify",
        "who is told of a run: the reach, which is trusted by itself",
    ),
];

/// A small site of one machine, by kind.
fn documents() -> BTreeMap<&'static str, (&'static str, Value)> {
    [
        (
            "drydock/BaremetalNode/v1",
            (
                "n1",
                json!({"host_profile": "p", "metadata": {"rack": "r1"}, "addressing": [
                    {"network": "oam", "address": "10.0.0.1"},
                    {"network": "oob", "address": "10.1.0.1"},
                ]}),
            ),
        ),
        (
            "drydock/HostProfile/v1",
            (
                "p",
                json!({
                    "hardware_profile": "hw",
                    "oob": {"type": "redfish", "network": "oob", "account": "admin"},
                    "interfaces": {"bond0": {"device_link": "l", "networks": ["oam"]}},
                    "storage": {"physical_devices": {"sda": {}}},
                    "platform": {"image": "ubuntu-24.04", "kernel": "generic"},
                    "metadata": {"owner_data": {"role": "worker"}},
                }),
            ),
        ),
        (
            "drydock/HardwareProfile/v1",
            ("hw", json!({"vendor": "Dell"})),
        ),
        (
            "drydock/Network/v1",
            ("oam", json!({"cidr": "10.0.0.0/24", "mtu": 1500})),
        ),
        ("drydock/NetworkLink/v1", ("l", json!({"mtu": 9000}))),
        (
            "drydock/BootAction/v1",
            (
                "a",
                json!({"assets": [{"path": "/x", "type": "file", "data": "y"}]}),
            ),
        ),
        (
            "trueup/Backends/v1",
            ("backends", json!({"hardware": {"kind": "sim", "sim": {}}})),
        ),
    ]
    .into()
}

/// The digest of the effect of the first deploy of a site of these documents.
fn effect(documents: &BTreeMap<&'static str, (&'static str, Value)>) -> String {
    let mut text = fixture::document("drydock/Network/v1", "oob", "{cidr: 10.1.0.0/24}");
    for (kind, (name, data)) in documents {
        text += &fixture::document(kind, name, &data.to_string());
    }
    let mut site = PlanFixture::settled(&[]);
    let documented = fixture::site(&text);
    site.after = documented.design;
    site.guards = documented.guards;
    site.see("n1", ProvisionState::Available);
    let plan = site.plan();
    PlanEffect::of(&plan).digest().to_string()
}

/// One way into a schema, and a value for what is there.
fn fields(schema: &Value, path: &[String], into: &mut Vec<(Vec<String>, Value)>, root: &Value) {
    if path.len() > 8 {
        return;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        return fields(target.unwrap_or(&Value::Null), path, into, root);
    }
    let below = |key: &str| [path, &[key.to_owned()]].concat();
    let mut is_leaf = true;
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        is_leaf = false;
        fields(inner, &below(key), into, root);
    }
    if schema["additionalProperties"].is_object() {
        is_leaf = false;
        fields(
            &schema["additionalProperties"],
            &below("walked"),
            into,
            root,
        );
    }
    if schema["items"].is_object() {
        is_leaf = false;
        fields(&schema["items"], &below("[]"), into, root);
    }
    for inner in ["anyOf", "oneOf"] {
        for inner in schema[inner].as_array().into_iter().flatten() {
            is_leaf = false;
            fields(inner, path, into, root);
        }
    }
    if is_leaf {
        let word = |name: &str| match &schema["type"] {
            Value::String(one) => one == name,
            Value::Array(some) => some.iter().any(|one| one == name),
            _ => false,
        };
        let value = match schema["enum"].as_array().and_then(|all| all.last()) {
            Some(last) => last.clone(),
            None if path.ends_with(&["boot_mac".to_owned()]) => json!("52:54:00:00:00:01"),
            None if word("string") => json!("walked"),
            None if word("integer") || word("number") => json!(4242),
            None if word("boolean") => json!(true),
            None if word("array") => json!(["walked"]),
            None => json!({"walked": "walked"}),
        };
        into.push((path.to_vec(), value));
    }
}

/// Sets a value, and all that is missing above it.
fn set(data: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *data = match (&*data, &value) {
            (Value::Bool(true), Value::Bool(true)) => json!(false),
            _ => value,
        };
        return;
    };
    if first == "[]" {
        if !data.is_array() {
            *data = json!([null]);
        }
        return set(&mut data.as_array_mut().unwrap()[0], rest, value);
    }
    if !data.is_object() {
        *data = Value::Object(Map::new());
    }
    let fields = data.as_object_mut().unwrap();
    set(
        fields.entry(first.clone()).or_insert(Value::Null),
        rest,
        value,
    );
}

fn schema(kind: &str) -> Value {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let file = folder.join(format!("{}.json", kind.replace('/', ".")));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn every_field_of_every_document_changes_the_effect_or_is_an_exception() {
    let documents = documents();
    let (mut silent, mut used) = (Vec::new(), BTreeSet::new());
    let mut walked = 0;
    for kind in WALKED {
        let schema = schema(kind);
        let mut all = Vec::new();
        fields(&schema, &[], &mut all, &schema);
        for (mut path, value) in all {
            if path.first().is_some_and(|first| first == "names") {
                "n1".clone_into(&mut path[1]);
            }
            let mut documents = documents.clone();
            // The settings of a backend are those of its kind.
            if kind == "trueup/Backends/v1" && path.len() > 2 && path[0] == "hardware" {
                let hardware = json!({"kind": path[1], path[1].as_str(): {}});
                documents.get_mut(kind).unwrap().1 = json!({"hardware": hardware});
            }
            let before = effect(&documents);
            let mut changed = documents.clone();
            set(&mut changed.get_mut(kind).unwrap().1, &path, value);
            if changed == documents {
                continue;
            }
            walked += 1;
            if effect(&changed) != before {
                continue;
            }
            let path = path.join(".");
            let exception = EXCEPTIONS.iter().find(|(of, field, _)| {
                *of == kind && (path == *field || path.starts_with(&format!("{field}.")))
            });
            match exception {
                Some((_, field, _)) => drop(used.insert((kind, *field))),
                None => silent.push(format!("{kind} {path}")),
            }
        }
    }
    assert_eq!(silent, Vec::<String>::new());
    assert!(walked > 150, "{walked}");
    let unused: Vec<_> = EXCEPTIONS
        .iter()
        .filter(|(kind, field, _)| !used.contains(&(*kind, *field)))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
    assert!(EXCEPTIONS.iter().all(|(.., reason)| !reason.is_empty()));
    let mut known: BTreeSet<String> = WALKED.iter().map(|kind| kind.replace('/', ".")).collect();
    known.extend(NOT_WALKED.iter().map(|(kind, _)| kind.replace('/', ".")));
    known.extend(
        [
            "plan",
            "parts",
            "explanation",
            "diff",
            "log",
            "nodes",
            "notification",
            "rollout",
            "show",
            "status",
        ]
        .map(str::to_owned),
    );
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let kind = name.trim_end_matches(".json");
        assert!(
            known.contains(kind),
            "{kind} is neither walked nor an exception"
        );
    }
}

#[test]
fn the_same_values_in_another_order_and_other_profiles_have_the_same_effect() {
    let documents = documents();
    let before = effect(&documents);
    let mut moved = documents.clone();
    // What the profile says stands in the machine, which has an empty profile.
    let profile = std::mem::replace(
        &mut moved.get_mut("drydock/HostProfile/v1").unwrap().1,
        json!({}),
    );
    let machine = &mut moved.get_mut("drydock/BaremetalNode/v1").unwrap().1;
    let fields = machine.as_object_mut().unwrap();
    for (name, value) in profile.as_object().unwrap() {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(own)), Value::Object(inherited)) => own.extend(inherited.clone()),
            _ => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    assert_eq!(effect(&moved), before);
    moved.get_mut("drydock/HostProfile/v1").unwrap().0 = "other";
    let machine = &mut moved.get_mut("drydock/BaremetalNode/v1").unwrap().1;
    machine["host_profile"] = json!("other");
    assert_eq!(effect(&moved), before);
}
