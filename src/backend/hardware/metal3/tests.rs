//! Resources as a server sends them, and settings as they are written.

use serde_json::json;

use super::resource::{Host, Machine, Metal3Machine, key};
use super::{Inspect, Scheme, Settings};
use crate::design::{BackendKind, HardwareBackend};
use crate::diagnostic::SourceId;
use crate::document::{Limits, Node, load_values};

/// A value as it is written.
pub(super) fn written(text: &str) -> Node {
    let (mut values, problems) = load_values(SourceId(0), text, &Limits::default());
    assert!(problems.is_empty(), "{problems:?}");
    values.remove(0)
}

fn settings(text: &str) -> Result<Settings, String> {
    let node = written(text);
    let mark = node.mark;
    let backend = HardwareBackend {
        kind: BackendKind::Metal3,
        settings: Some(node),
    };
    Settings::read(&backend, mark).map_err(|problem| problem.message.to_string())
}

#[test]
fn a_host_is_read_whatever_is_missing_null_or_unknown() {
    let host: Host = serde_json::from_value(json!({
        "metadata": {"name": "n1", "annotations": null, "labels": {"a": "b"}},
        "spec": {"online": true, "bmc": null, "image": {"url": "http://x", "format": "raw"},
            "raid": {"softwareRAIDVolumes": []}},
        "status": {"poweredOn": null, "provisioning": {"ID": "", "state": "provisioned"}},
        "new": 1,
    }))
    .unwrap();
    assert_eq!(&*host.metadata.name, "n1");
    assert_eq!(&*host.spec.image.unwrap().url, "http://x");
    assert_eq!(&*host.status.provisioning.state, "provisioned");
    assert!(host.spec.online && !host.status.powered_on);
    assert_eq!(serde_json::from_str::<Host>("{}").unwrap(), Host::default());
}

#[test]
fn a_key_that_only_begins_like_the_reboot_annotation_is_none() {
    let annotations = json!({
        "reboot.metal3.io": "", "reboot.metal3.io/a": "{}", "reboot.metal3.io.example": "",
        "other": "",
    });
    let host = json!({"metadata": {"annotations": annotations}});
    let host: Host = serde_json::from_value(host).unwrap();
    let all: Vec<_> = host.reboots().map(|each| &**each).collect();
    assert_eq!(all, ["reboot.metal3.io", "reboot.metal3.io/a"]);
    let held: Vec<_> = host.held_off().map(|each| &**each).collect();
    assert_eq!(held, ["reboot.metal3.io/a"]);
}

#[test]
fn versions_are_compared_as_numbers_and_what_is_none_counts_as_newer() {
    let at = |version: &str| {
        let host = json!({"metadata": {"resourceVersion": version}});
        serde_json::from_value::<Host>(host).unwrap().metadata
    };
    for (seen, other, reached) in [
        ("9", "10", true),
        ("10", "10", true),
        ("10", "9", false),
        ("x", "9", true),
    ] {
        assert_eq!(at(seen).is_reached_by(other), reached, "{seen} {other}");
    }
}

#[test]
fn machines_lead_to_their_nodes_and_hosts() {
    let machine: Machine = serde_json::from_value(json!({
        "spec": {"clusterName": "c", "infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": "m-1"}},
        "status": {"nodeRef": {"name": "n1"}},
    }))
    .unwrap();
    assert_eq!(&*machine.spec.infrastructure_ref.name, "m-1");
    assert_eq!(&*machine.status.node_ref.unwrap().name, "n1");
    let of = |host: &str| -> Option<String> {
        let machine = json!({"metadata": {"annotations": {key::HOST: host}}});
        let machine: Metal3Machine = serde_json::from_value(machine).unwrap();
        machine.host().map(str::to_owned)
    };
    assert_eq!(of("elsewhere/n1").as_deref(), Some("n1"));
    assert_eq!(of("n1").as_deref(), Some("n1"));
    assert_eq!(of("elsewhere/"), None);
}

#[test]
fn settings_have_defaults_and_say_what_does_not_fit() {
    let least = settings("cluster: management").unwrap();
    assert_eq!((&*least.namespace, least.create), ("metal3", true));
    assert_eq!(least.inspect, Inspect::Once);
    assert_eq!(least.controller.scheme, Scheme::Https);
    assert!(least.controller.verify && least.image.is_none());
    let text = "{cluster: c, controller: {scheme: http, system: '/s/{node}'}, image: {source: x}, \
                credentials: {password: {env: P}}, settling_time: 0, inspect: never}";
    let all = settings(text).unwrap();
    assert_eq!(all.controller.scheme, Scheme::Http);
    assert!(all.settling.is_zero() && all.password.is_some());
    for (text, problem) in [
        ("namespace: a", "cluster"),
        ("{cluster: c, settling_time: -1}", "settling time"),
        ("{cluster: c, controller: {schema: http}}", "schema"),
        ("{cluster: c, image: {checksum: x}}", "source"),
    ] {
        let found = settings(text).unwrap_err();
        assert!(found.contains(problem), "{text}: {found}");
    }
}
