//! Resources as a server sends them, and settings as they are written.

use std::sync::Arc;

use serde_json::json;

use super::manifest;
use super::resource::{Host, Machine, Metal3Machine, key};
use super::state::{Able, STATES};
use super::{Inspect, Scheme, Settings};
use crate::backend::hardware::written::names;
use crate::design::fixture::site;
use crate::design::{BackendKind, HardwareBackend, NodeDesign, NodeName};
use crate::diagnostic::SourceId;
use crate::document::{Limits, Node, load_values};
use crate::guard::Guarded;
use crate::lifecycle::{PowerState, ProvisionState as S};
use crate::observed::{Capability, Fact};

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
    let held: Vec<_> = host.power_holds().map(|each| &**each).collect();
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

fn host(spec: serde_json::Value, status: serde_json::Value) -> Host {
    serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()
}

#[test]
fn every_state_of_the_operator_has_its_place_in_a_machines_life() {
    // As the operator's own type has them, in its order.
    let known = [
        "",
        "unmanaged",
        "registering",
        "match profile",
        "inspecting",
        "preparing",
        "ready",
        "available",
        "provisioning",
        "provisioned",
        "externally provisioned",
        "deprovisioning",
        "powering off before delete",
        "deleting",
    ];
    let table: Vec<&str> = STATES.iter().map(|(name, ..)| *name).collect();
    assert_eq!(table, known);
    for (name, state, failed) in STATES {
        let at = |status: &str| {
            let external = *name == "externally provisioned";
            let spec = json!({"externallyProvisioned": external});
            host(
                spec,
                json!({"operationalStatus": status, "provisioning": {"state": name}}),
            )
            .state()
        };
        assert_eq!((at("OK"), at("error")), (*state, *failed), "{name}");
    }
    let other = host(json!({}), json!({"provisioning": {"state": "dreaming"}}));
    assert_eq!(other.state(), S::Other);
    assert!(other.observed("lab", ABLE).capabilities.is_empty());
}

const ABLE: Able = Able {
    cleans: true,
    deploys: true,
};

#[test]
fn what_the_operator_is_about_to_do_counts_as_begun() {
    let image = |url: &str| json!({"url": url});
    let at =
        |state: &str, url: &str| json!({"provisioning": {"state": state, "image": {"url": url}}});
    let table = [
        (
            "an image to come",
            json!({"online": true, "image": image("a")}),
            at("available", ""),
            S::Deploying,
        ),
        (
            "off, none comes",
            json!({"online": false, "image": image("a")}),
            at("available", ""),
            S::Available,
        ),
        (
            "as it should be",
            json!({"image": image("a")}),
            at("provisioned", "a"),
            S::Active,
        ),
        (
            "another image",
            json!({"image": image("b")}),
            at("provisioned", "a"),
            S::Deleting,
        ),
        (
            "its image is gone",
            json!({}),
            at("provisioned", "a"),
            S::Deleting,
        ),
        (
            "externally provisioned",
            json!({"externallyProvisioned": true}),
            at("externally provisioned", ""),
            S::Active,
        ),
    ];
    for (what, spec, status, state) in table {
        assert_eq!(host(spec, status).state(), state, "{what}");
    }
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"provisioning": {"state": "available"}}});
    let going: Host = serde_json::from_value(going).unwrap();
    assert_eq!(going.state(), S::Deleting);
}

#[test]
fn a_plan_sees_flags_disks_and_what_can_be_done() {
    let seen = |metadata: serde_json::Value, spec: serde_json::Value| {
        let status = json!({"poweredOn": true, "operationalStatus": "OK",
            "provisioning": {"state": "available"},
            "hardware": {"storage": [{"name": "/dev/sdb", "sizeBytes": 5}, {"name": "/dev/sda"}]}});
        let host = json!({"metadata": metadata, "spec": spec, "status": status});
        let host: Host = serde_json::from_value(host).unwrap();
        host.observed("lab", ABLE)
    };
    let plain = seen(json!({}), json!({}));
    assert_eq!(plain.power, Fact::Known(PowerState::On));
    let disks = plain.disks.known().unwrap();
    let names: Vec<_> = disks.iter().map(|disk| &*disk.name).collect();
    assert_eq!(names, ["sda", "sdb"]);
    assert!(disks.iter().all(|disk| !disk.partitioned));
    let able = |it: Capability| plain.capabilities.contains(it);
    assert!(able(Capability::Wipe) && able(Capability::Deploy) && !able(Capability::Clean));

    let retired =
        json!({"labels": {key::RETIRED: "true"}, "annotations": {key::RETIRED_REASON: "old"}});
    let retired = seen(retired, json!({}));
    assert_eq!(retired.retired.as_deref(), Some("old"));
    assert_eq!(retired.provision, Fact::Known(S::Manageable));

    let paused = seen(
        json!({"annotations": {key::PAUSED: "metal3.io/capm3"}}),
        json!({}),
    );
    assert!(paused.maintenance.unwrap().contains("metal3.io/capm3"));
    let claim = |kind: &str, name: &str| {
        let claim =
            json!({"apiVersion": "trueup.dev/v1", "kind": kind, "namespace": "m", "name": name});
        seen(
            json!({}),
            json!({"consumerRef": claim, "disablePowerOff": true}),
        )
    };
    assert!(!claim("Site", "lab").protected);
    let other = claim("Metal3Machine", "w");
    assert!(
        other.protected
            && other
                .maintenance
                .unwrap()
                .contains("used by Metal3Machine m/w")
    );
    assert!(!other.capabilities.contains(Capability::Power));
}

fn node(out_of_band: &str, address: &str) -> Arc<NodeDesign> {
    let text = format!(
        "---\nschema: drydock/Network/v1\nmetadata: {{name: oob}}\ndata: {{cidr: 10.1.0.0/24}}\n\
         ---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n1}}\ndata:\n  oob: {out_of_band}\n  \
         addressing: [{{network: oob, address: '{address}'}}]\n"
    );
    site(&text).design.nodes[&NodeName::from("n1")].clone()
}

#[test]
fn a_controllers_address_is_written_as_the_operator_reads_it() {
    let table = [
        (
            "{type: redfish, network: oob}",
            "10.1.0.7",
            "{}",
            "redfish://10.1.0.7/redfish/v1/Systems/1",
        ),
        (
            "{type: redfish, network: oob}",
            "fd00::7",
            "{port: 8443}",
            "redfish://[fd00::7]:8443/redfish/v1/Systems/1",
        ),
        (
            "{type: redfish, network: oob, system: /s/own}",
            "10.1.0.7",
            "{scheme: http}",
            "redfish+http://10.1.0.7/s/own",
        ),
        (
            "{type: redfish, network: oob}",
            "10.1.0.7",
            "{protocol: redfish-virtualmedia, system: '/s/{node}'}",
            "redfish-virtualmedia://10.1.0.7/s/n1",
        ),
        (
            "{type: ipmi, network: oob}",
            "10.1.0.7",
            "{port: 6230}",
            "ipmi://10.1.0.7:6230",
        ),
    ];
    for (out_of_band, address, controller, expected) in table {
        let settings = settings(&format!("{{cluster: c, controller: {controller}}}")).unwrap();
        let node = node(out_of_band, address);
        let found = manifest::address(&node, &settings.controller);
        assert_eq!(found.as_deref(), Ok(expected));
    }
    let settings = settings("cluster: c").unwrap();
    let node = node("{type: libvirt, network: oob}", "10.1.0.7");
    let refused = manifest::address(&node, &settings.controller).unwrap_err();
    assert!(refused.contains("libvirt"), "{refused}");
}

#[test]
fn two_nodes_never_have_one_host() {
    let text = "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: n1}\ndata: {}\n\
                ---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: n2}\ndata: {}\n\
                ---\nschema: trueup/Backends/v1\nmetadata: {name: b}\ndata:\n  \
                hardware: {kind: metal3, metal3: {cluster: c}}\n  names: {n1: {metal3: n2}}\n";
    let site = site(text);
    let site = Guarded::of_test(&site.design, &site.guards);
    let refused = names(&site, "metal3", "Metal3", "schema-metal3").unwrap_err();
    assert_eq!(
        refused.message,
        "`n1` and `n2` are both called `n2` in Metal3"
    );
    assert!(names(&site, "ironic", "Ironic", "schema-ironic").is_ok());
}
