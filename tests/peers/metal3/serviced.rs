//! The service of a machine on Metal3: the objects of its firmware, the policy that is set back, and failures that are true.
//!
//! The operator of the tests' own drives hosts; what it does with firmware while a machine is off is played here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::counted::{Counted, Halt};
use super::life::{ENVIRONMENT, Lab};
use super::{Management, NAMESPACE};

const KINDS: [(&str, &str); 4] = [
    ("HostFirmwareSettings", "hostfirmwaresettings"),
    ("HostFirmwareComponents", "hostfirmwarecomponents"),
    ("HostUpdatePolicy", "hostupdatepolicies"),
    ("FirmwareSchema", "firmwareschemas"),
];

/// How what is wanted is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dealt {
    Well,
    Unchanged,
    Refused,
}

/// The part of the operator that deals with firmware; it ends when it is dropped.
struct Firmware {
    dealt: Arc<Mutex<Dealt>>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Firmware {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn objects(management: &Management, kind: &str) -> Api<DynamicObject> {
    objects_of(management.fixture.client.clone(), kind)
}

fn objects_of(client: Client, kind: &str) -> Api<DynamicObject> {
    let plural = KINDS.iter().find(|(known, _)| *known == kind).unwrap().1;
    let kind = GroupVersionKind::gvk("metal3.io", "v1alpha1", kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(client, NAMESPACE, &resource)
}

async fn object(management: &Management, kind: &str) -> Value {
    let found = objects(management, kind).get_opt("m001").await.unwrap();
    found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
}

/// The kinds of the operator's that deal with firmware, as far as they count here.
async fn define(management: &Management) {
    for (kind, plural) in KINDS {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.metal3.io")},
            "spec": {"group": "metal3.io", "scope": "Namespaced",
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}}]},
        });
        management.fixture.create(&definition).await;
        for attempt in 0.. {
            if objects(management, kind)
                .list(&ListParams::default())
                .await
                .is_ok()
            {
                break;
            }
            assert!(attempt < 600, "the server never has {kind}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn make(management: &Management, kind: &str, spec: Value, status: Value) {
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": "m001"}, "spec": spec});
    let api = objects(management, kind);
    api.create(
        &PostParams::default(),
        &serde_json::from_value(object).unwrap(),
    )
    .await
    .unwrap();
    if !status.is_null() {
        let status = Patch::Merge(json!({ "status": status }));
        api.patch_status("m001", &PatchParams::default(), &status)
            .await
            .unwrap();
    }
}

async fn firmware(management: &Management) -> Firmware {
    define(management).await;
    let schema = json!({"Turbo": {"attributeType": "Enumeration", "allowableValues": ["Enabled", "Disabled"]}});
    make(
        management,
        "FirmwareSchema",
        json!({ "schema": schema }),
        Value::Null,
    )
    .await;
    let status = json!({"settings": {"Turbo": "Disabled"}, "schema": {"name": "m001", "namespace": NAMESPACE}});
    make(
        management,
        "HostFirmwareSettings",
        json!({"settings": {}}),
        status,
    )
    .await;
    let component = json!({"component": "bmc", "initialVersion": "6.0", "currentVersion": "7.0"});
    let status = json!({"components": [component]});
    let other = json!({"component": "nic:1", "url": "http://images/nic"});
    make(
        management,
        "HostFirmwareComponents",
        json!({"updates": [other]}),
        status,
    )
    .await;
    let dealt = Arc::new(Mutex::new(Dealt::Well));
    let ends = Arc::new(AtomicBool::new(false));
    let kubeconfig = std::fs::read_to_string(management.fixture.kubeconfig()).unwrap();
    let (told, end) = (dealt.clone(), ends.clone());
    // Tests block their own thread while the program runs.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let client = super::operator::client(&kubeconfig).await;
            let apis = KINDS.map(|(kind, _)| objects_of(client.clone(), kind));
            let hosts = super::operator::hosts(client, NAMESPACE);
            while !end.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(30)).await;
                let dealt = *told.lock().unwrap();
                reconcile(&apis, &hosts, dealt).await;
            }
        });
    });
    let thread = Some(thread);
    Firmware {
        dealt,
        ends,
        thread,
    }
}

/// Judges what is wanted, and applies it while the machine is off and its policy says so.
async fn reconcile(apis: &[Api<DynamicObject>; 4], hosts: &Api<DynamicObject>, dealt: Dealt) {
    let [settings, components, policies, _] = apis;
    let get = async |api: &Api<DynamicObject>| {
        let found = api.get_opt("m001").await.ok().flatten();
        found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
    };
    let host = get(hosts).await;
    let policy = get(policies).await;
    for (api, field) in [
        (settings, "firmwareSettings"),
        (components, "firmwareUpdates"),
    ] {
        let object = get(api).await;
        let generation = &object["metadata"]["generation"];
        if object["status"]["conditions"][0]["observedGeneration"] != *generation {
            let (valid, message) = match dealt {
                Dealt::Refused => ("False", "Setting Turbo is invalid"),
                _ => ("True", "ok"),
            };
            let condition = json!({"type": "Valid", "status": valid, "reason": "Judged", "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
            let _ = api
                .patch_status("m001", &PatchParams::default(), &patch)
                .await;
        }
        let is_off = host["status"]["poweredOn"] == false;
        if !is_off || policy["spec"][field] != "onReboot" || dealt != Dealt::Well {
            continue;
        }
        let status = match field {
            "firmwareSettings" => json!({"settings": object["spec"]["settings"]}),
            _ => {
                let updates = object["spec"]["updates"].as_array().into_iter().flatten();
                let mut updates = updates.filter(|each| each["component"] == "bmc");
                let Some(update) = updates.next() else {
                    continue;
                };
                let version = update["url"].as_str().unwrap().rsplit('_').next().unwrap();
                json!({"components": [{"component": "bmc", "initialVersion": "6.0", "currentVersion": version}]})
            }
        };
        let patch = Patch::Merge(json!({ "status": status }));
        let _ = api
            .patch_status("m001", &PatchParams::default(), &patch)
            .await;
    }
}

fn document(turbo: &str, version: &str) -> String {
    format!(
        "schema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata:\n  mode: enforce\n  bios: {{Turbo: {turbo}}}\n  \
         firmware: {{bmc: {{version: '{version}', image: {{url: 'http://images/bmc_{version}'}}}}}}\n"
    )
}

const APPLY: [&str; 4] = ["apply", "--yes", "--allow", "restart"];

/// A machine that is deployed, with firmware that is not as its document enforces.
async fn in_use() -> Option<(Lab, Firmware)> {
    let lab = Lab::start(1).await?;
    lab.run(&["apply", "--yes"], 0);
    let firmware = firmware(&lab.management).await;
    lab.site
        .commit(&[("hardware.yaml", &*document("Enabled", "7.1"))]);
    Some((lab, firmware))
}

#[tokio::test]
async fn values_come_about_with_one_restart_and_the_policy_is_set_back() {
    let Some((lab, _firmware)) = in_use().await else {
        return;
    };
    let management = &lab.management;
    let plan = lab.run(&["plan"], 0);
    for said in [
        "bios.Turbo: Disabled, designed Enabled",
        "firmware.bmc: 7.0, designed 7.1",
        "--allow-restart m001",
    ] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    let before = management.operator.events("m001").len();
    lab.run(&APPLY, 0);
    let events = management.operator.events("m001").split_off(before);
    assert_eq!(events, ["power off", "power on"]);
    let settings = object(management, "HostFirmwareSettings").await;
    assert_eq!(settings["spec"]["settings"]["Turbo"], "Enabled");
    let updates = object(management, "HostFirmwareComponents").await["spec"]["updates"].clone();
    let other = json!({"component": "nic:1", "url": "http://images/nic"});
    let own = json!({"component": "bmc", "url": "http://images/bmc_7.1"});
    assert_eq!(
        updates,
        json!([other, own]),
        "what another client wants stays"
    );
    assert_eq!(object(management, "HostUpdatePolicy").await, Value::Null);
    let host = management.host("m001").await;
    assert_eq!(host["spec"]["online"], true);
    assert_eq!(
        host["metadata"]["annotations"]["trueup.dev/step"],
        Value::Null
    );
    lab.site
        .trueup(&["plan", "--detailed-exitcode"], ENVIRONMENT)
        .with(0);
}

#[tokio::test]
async fn what_is_refused_or_not_done_fails_and_is_wanted_no_more() {
    let Some((lab, firmware)) = in_use().await else {
        return;
    };
    let management = &lab.management;
    let policy = json!({"firmwareSettings": "onPreparing"});
    make(management, "HostUpdatePolicy", policy.clone(), Value::Null).await;
    for (dealt, why) in [
        (
            Dealt::Refused,
            "the operator refuses it: Setting Turbo is invalid",
        ),
        (
            Dealt::Unchanged,
            "tried once, and not changed: `bios.Turbo` shows Disabled, designed Enabled",
        ),
    ] {
        *firmware.dealt.lock().unwrap() = dealt;
        let before = management.operator.events("m001").len();
        let ended = lab.site.trueup(&APPLY, ENVIRONMENT);
        assert_ne!(ended.code, 0, "{dealt:?}: {ended:?}");
        let said = ended.stdout + &ended.stderr;
        assert!(said.contains(why), "{dealt:?}: {said}");
        let restarts = management.operator.events("m001").len() - before;
        assert_eq!(
            restarts,
            if dealt == Dealt::Refused { 0 } else { 2 },
            "{dealt:?}"
        );
        let settings = object(management, "HostFirmwareSettings").await["spec"]["settings"].clone();
        assert_eq!(settings, json!({}), "{dealt:?}");
        let updates = object(management, "HostFirmwareComponents").await["spec"]["updates"].clone();
        assert_eq!(
            updates.as_array().map(Vec::len),
            Some(1),
            "{dealt:?}: {updates}"
        );
        let now = object(management, "HostUpdatePolicy").await["spec"].clone();
        assert_eq!(now, policy, "{dealt:?}");
        assert!(management.operator.is_on("m001"), "{dealt:?}");
    }
}

#[tokio::test]
async fn a_service_that_is_killed_is_resumed_and_sets_the_policy_back() {
    let Some((lab, _firmware)) = in_use().await else {
        return;
    };
    let management = &lab.management;
    let mut run = lab.begin(&APPLY);
    management
        .until("m001", "switched off", |host| {
            host["spec"]["online"] == false
        })
        .await;
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(
        object(management, "HostUpdatePolicy").await["spec"]["firmwareSettings"],
        "onReboot"
    );
    lab.run(&["apply", "--resume"], 0);
    let settings = object(management, "HostFirmwareSettings").await;
    assert_eq!(settings["status"]["settings"]["Turbo"], "Enabled");
    assert_eq!(object(management, "HostUpdatePolicy").await, Value::Null);
    assert!(management.operator.is_on("m001"));
    lab.site
        .trueup(&["plan", "--detailed-exitcode"], ENVIRONMENT)
        .with(0);
}

#[tokio::test]
async fn what_another_client_makes_during_a_service_stays_when_it_fails() {
    let Some((lab, firmware)) = in_use().await else {
        return;
    };
    let management = &lab.management;
    *firmware.dealt.lock().unwrap() = Dealt::Unchanged;
    let mut run = lab.begin(&APPLY);
    management
        .until("m001", "switched off", |host| {
            host["spec"]["online"] == false
        })
        .await;
    run.kill().unwrap();
    run.wait().unwrap();
    let policies = objects(management, "HostUpdatePolicy");
    policies
        .delete("m001", &DeleteParams::default())
        .await
        .unwrap();
    let policy = json!({"firmwareSettings": "onReboot", "firmwareUpdates": "onReboot"});
    make(management, "HostUpdatePolicy", policy.clone(), Value::Null).await;
    let update = |component: &str| json!({"component": component, "url": "http://images/nic"});
    let wanted = [update("nic:1"), update("nic:2"), update("bmc")];
    let patch = Patch::Merge(json!({"spec": {"updates": wanted}}));
    let components = objects(management, "HostFirmwareComponents");
    let parameters = PatchParams::default();
    components.patch("m001", &parameters, &patch).await.unwrap();
    let ended = lab.site.trueup(&["apply", "--resume"], ENVIRONMENT);
    assert_ne!(ended.code, 0, "{ended:?}");
    let updates = object(management, "HostFirmwareComponents").await["spec"]["updates"].clone();
    assert_eq!(updates, json!([update("nic:1"), update("nic:2")]));
    let settings = object(management, "HostFirmwareSettings").await["spec"]["settings"].clone();
    assert_eq!(settings, json!({}));
    let now = object(management, "HostUpdatePolicy").await["spec"].clone();
    assert_eq!(now, policy, "it is another client's");
    assert!(management.operator.is_on("m001"));
}

/// A run that is killed when its service has switched the machine off, and its id.
async fn killed_service(lab: &Lab) -> String {
    let mut run = lab.begin(&APPLY);
    let is_off = |host: &Value| host["spec"]["online"] == false;
    lab.management.until("m001", "switched off", is_off).await;
    run.kill().unwrap();
    run.wait().unwrap();
    let log = lab.site.trueup(&["log", "--format", "json"], ENVIRONMENT);
    let log = log.with(0).json();
    log["runs"][0]["run"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_abort_keeps_values_that_came_about_and_sets_the_policy_back() {
    let Some((lab, _firmware)) = in_use().await else {
        return;
    };
    let management = &lab.management;
    let run = killed_service(&lab).await;
    for attempt in 0.. {
        let settings = object(management, "HostFirmwareSettings").await;
        let components = object(management, "HostFirmwareComponents").await;
        let version = &components["status"]["components"][0]["currentVersion"];
        if settings["status"]["settings"]["Turbo"] == "Enabled" && *version == "7.1" {
            break;
        }
        assert!(attempt < 600, "the values never come about");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = lab.run(&["abort", &run], 0);
    assert!(
        said.contains("Found serviced, and recorded so:\n  m001\n"),
        "{said}"
    );
    let policy = object(management, "HostUpdatePolicy").await;
    assert_eq!(policy, Value::Null, "{said}");
    let settings = object(management, "HostFirmwareSettings").await;
    assert_eq!(settings["spec"]["settings"]["Turbo"], "Enabled");
    let updates = object(management, "HostFirmwareComponents").await["spec"]["updates"].clone();
    assert_eq!(updates.as_array().map(Vec::len), Some(2), "{updates}");
    let host = management.host("m001").await;
    assert_eq!(host["spec"]["online"], true);
    let mark = &host["metadata"]["annotations"]["trueup.dev/step"];
    assert_eq!(*mark, Value::Null);
}

#[tokio::test]
async fn an_abort_takes_back_what_did_not_come_about() {
    let Some((lab, firmware)) = in_use().await else {
        return;
    };
    let management = &lab.management;
    *firmware.dealt.lock().unwrap() = Dealt::Unchanged;
    let before = json!({"firmwareSettings": "onPreparing"});
    make(management, "HostUpdatePolicy", before.clone(), Value::Null).await;
    let run = killed_service(&lab).await;
    let said = lab.run(&["abort", &run], 0);
    let taken_back = "service/default/m001 is not done; what it had asked for is taken back, and values that were applied by then stay";
    assert!(
        said.contains(taken_back) && !said.contains("warning"),
        "{said}"
    );
    let settings = object(management, "HostFirmwareSettings").await;
    assert_eq!(settings["spec"]["settings"], json!({}), "{said}");
    let updates = object(management, "HostFirmwareComponents").await["spec"]["updates"].clone();
    let other = json!({"component": "nic:1", "url": "http://images/nic"});
    assert_eq!(updates, json!([other]), "{said}");
    let policy = object(management, "HostUpdatePolicy").await["spec"].clone();
    assert_eq!(policy, before, "{said}");
    let host = management.host("m001").await;
    assert_eq!(host["spec"]["online"], true);
    // The next restart of the machine changes nothing.
    *firmware.dealt.lock().unwrap() = Dealt::Well;
    for power in ["off", "on"] {
        lab.run(&["apply", "power", power, "m001", "--yes"], 0);
    }
    let settings = object(management, "HostFirmwareSettings").await;
    assert_eq!(settings["status"]["settings"]["Turbo"], "Disabled");
}

#[tokio::test]
async fn an_abort_in_another_clone_names_what_stays() {
    for has_policy in [false, true] {
        let Some((lab, firmware)) = in_use().await else {
            return;
        };
        let management = &lab.management;
        *firmware.dealt.lock().unwrap() = Dealt::Unchanged;
        if has_policy {
            let other = json!({"firmwareSettings": "onPreparing"});
            make(management, "HostUpdatePolicy", other, Value::Null).await;
        }
        let run = killed_service(&lab).await;
        // The notes of a run are in its clone alone.
        std::fs::remove_dir_all(lab.site.path().join(".git/trueup")).unwrap();
        let said = lab.run(&["abort", &run], 0);
        let wants = "no note of what was there before it was found in this clone: its hostfirmwaresettings and \
                     hostfirmwarecomponents may still want values of this step";
        let policy = ", and onReboot in its hostupdatepolicies may be of this step";
        assert!(said.contains(wants), "{said}");
        assert_eq!(said.contains(policy), has_policy, "{said}");
        assert!(!said.contains("until its run is resumed"), "{said}");
        let left = object(management, "HostUpdatePolicy").await;
        assert_eq!(left == Value::Null, !has_policy, "{left}");
    }
}

/// Kills a service at each change that it asks the management cluster for: once if the change does not arrive, once where
/// its answer is lost. What comes between two changes is read again by who follows. `end` ends the run: whether its values
/// are as designed then.
async fn killed_at_every_change(end: impl Fn(&Lab) -> bool) {
    let Some((lab, counted)) = Lab::counted(1).await else {
        return;
    };
    lab.run(&["apply", "--yes"], 0);
    let management = &lab.management;
    let _firmware = firmware(management).await;
    let (mut before, mut number) = (wanted(management).await, 0);
    for arrives in [false, true] {
        for change in 0.. {
            number += 1;
            let shown = object(management, "HostFirmwareSettings").await;
            let turbo = match shown["status"]["settings"]["Turbo"] == "Disabled" {
                true => "Enabled",
                false => "Disabled",
            };
            let version = format!("7.{number}");
            lab.site
                .commit(&[("hardware.yaml", &*document(turbo, &version))]);
            let halt = Halt { change, arrives };
            if !is_killed(&lab, &counted, halt).await {
                assert!(change >= 7, "too few changes: {change}");
                before = wanted(management).await;
                break;
            }
            let is_done = end(&lab);
            let now = wanted(management).await;
            let other = json!({"component": "nic:1", "url": "http://images/nic"});
            let update = json!({"component": "bmc", "url": format!("http://images/bmc_{version}")});
            let designed = json!([{"Turbo": turbo}, [other, update]]);
            let expected = if is_done { &designed } else { &before };
            assert_eq!(now, *expected, "{halt:?}");
            before = now;
            let policy = object(management, "HostUpdatePolicy").await;
            assert_eq!(policy, Value::Null, "{halt:?}");
            let settings = object(management, "HostFirmwareSettings").await;
            let shown = &settings["status"]["settings"]["Turbo"];
            assert!(!is_done || *shown == turbo, "{halt:?}: {shown}");
            let host = management.host("m001").await;
            let mark = &host["metadata"]["annotations"]["trueup.dev/step"];
            let is_own = mark.as_str().is_some_and(|mark| mark.contains("service/"));
            assert!(!is_own, "{halt:?}: {mark}");
            assert_eq!(host["spec"]["online"], true, "{halt:?}");
        }
    }
}

/// Begins a service and kills it at a change; `false`: it has ended without that.
async fn is_killed(lab: &Lab, counted: &Counted, halt: Halt) -> bool {
    counted.halt_at(Some(halt));
    let mut run = lab.begin(&APPLY);
    let is_killed = loop {
        if counted.has_halted() {
            // The server has what arrives.
            tokio::time::sleep(Duration::from_millis(300)).await;
            run.kill().unwrap();
            break true;
        }
        if let Some(status) = run.try_wait().unwrap() {
            assert!(status.success(), "{halt:?}: {status}");
            break false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    run.wait().unwrap();
    counted.halt_at(None);
    is_killed
}

/// The settings and the updates that are wanted.
async fn wanted(management: &Management) -> Value {
    let settings = object(management, "HostFirmwareSettings").await;
    let components = object(management, "HostFirmwareComponents").await;
    json!([settings["spec"]["settings"], components["spec"]["updates"]])
}

#[tokio::test]
async fn a_service_that_is_killed_at_any_change_is_resumed() {
    killed_at_every_change(|lab| {
        lab.run(&["apply", "--resume"], 0);
        true
    })
    .await;
}

#[tokio::test]
async fn a_service_that_is_killed_at_any_change_is_aborted() {
    killed_at_every_change(|lab| {
        let log = lab.site.trueup(&["log", "--format", "json"], ENVIRONMENT);
        let log = log.with(0).json();
        let run = log["runs"][0]["run"].as_str().unwrap();
        let said = lab.run(&["abort", run], 0);
        assert!(!said.contains("warning"), "{said}");
        said.contains("Found serviced")
    })
    .await;
}
