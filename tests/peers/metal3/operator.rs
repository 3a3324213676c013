//! What the baremetal-operator would do with the hosts of a real API server, played by the tests.
//!
//! It is as untidy as the real one: power is seen late, and one look at it may show what is wanted in the
//! place of what is; an annotation `reboot.metal3.io/NAME` holds a host off until somebody takes it away,
//! the bare one is taken away once the host was seen off; a change of the image wipes; a failure is tried
//! again by itself, and again. It runs in a thread of its own, so that tests may block theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

/// The server at hand takes an empty text in a custom resource for null, and refuses it.
const BLANK: &str = " ";

const FINALIZER: &str = "baremetalhost.metal3.io";

/// How it behaves; changed with [`Operator::tell`].
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    /// How long a host stays in a state that is passed through.
    pub(crate) delay: Duration,
    /// How long a machine takes to switch on or off, and to be seen so.
    pub(crate) power_delay: Duration,
    /// Power is shown as it is wanted for one look before it is shown as it is.
    pub(crate) shows_wanted: bool,
    /// The same of single hosts.
    pub(crate) power_delays: BTreeMap<String, Duration>,
    /// It does nothing at all.
    pub(crate) asleep: bool,
    /// Hosts that never switch off.
    pub(crate) never_off: BTreeSet<String>,
    /// Hosts that never switch on.
    pub(crate) never_on: BTreeSet<String>,
    /// Hosts that go off by themselves, once each.
    pub(crate) spurious: BTreeSet<String>,
    /// What fails, by host and the state in which it does.
    pub(crate) failures: BTreeMap<(String, String), Failure>,
    /// Serial numbers that inspection finds, by host; none of others.
    pub(crate) serials: BTreeMap<String, String>,
    /// Interfaces that inspection finds, by host; none of others.
    pub(crate) interfaces: BTreeMap<String, Vec<String>>,
}

/// A failure of the operator's.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// At what it is (`registration error`).
    pub(crate) kind: &'static str,
    /// What it says.
    pub(crate) message: &'static str,
    /// How often it comes; `None`: always.
    pub(crate) times: Option<u32>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(150),
            power_delay: Duration::from_millis(150),
            shows_wanted: true,
            power_delays: BTreeMap::new(),
            asleep: false,
            never_off: BTreeSet::new(),
            never_on: BTreeSet::new(),
            spurious: BTreeSet::new(),
            failures: BTreeMap::new(),
            serials: BTreeMap::new(),
            interfaces: BTreeMap::new(),
        }
    }
}

/// A machine behind a host.
#[derive(Debug)]
struct Machine {
    is_on: bool,
    /// What it is being switched to, and when that is so.
    switching: Option<(bool, Instant)>,
    /// It was shown as wanted in the place of what is.
    has_lied: bool,
    /// Since when the host is in its state.
    since: Instant,
    state: String,
}

#[derive(Debug, Default)]
struct Shared {
    behaviour: Behaviour,
    machines: BTreeMap<String, Machine>,
    /// What was done, in order.
    events: Vec<(String, String)>,
}

/// The operator; it ends when it is dropped.
pub(crate) struct Operator {
    shared: Arc<Mutex<Shared>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Operator {
    /// Begins to drive the hosts of a namespace of the cluster of this kubeconfig.
    pub(crate) fn start(kubeconfig: &Path, namespace: &str) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let ends = Arc::new(AtomicBool::new(false));
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let (namespace, inner, end) = (namespace.to_owned(), shared.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(drive(&text, &namespace, &inner, &end));
        });
        Self {
            shared,
            ends,
            thread: Some(thread),
        }
    }

    /// Changes how it behaves.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.shared.lock().unwrap().behaviour);
    }

    /// What it has done to a host, in order: `power off`, `power on`, `clean`, `provision URL`, `inspect`,
    /// `deprovision`, `delete`, `register`.
    pub(crate) fn events(&self, host: &str) -> Vec<String> {
        let shared = self.shared.lock().unwrap();
        let of_host = shared.events.iter().filter(|(name, _)| name == host);
        of_host.map(|(_, event)| event.clone()).collect()
    }

    /// Whether the machine behind a host is on, whatever its status says.
    pub(crate) fn is_on(&self, host: &str) -> bool {
        let shared = self.shared.lock().unwrap();
        shared.machines.get(host).is_some_and(|each| each.is_on)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The hosts of a namespace.
pub(crate) fn hosts(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost");
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
}

/// The client of a kubeconfig; to be made in the runtime that uses it.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    let config = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

async fn drive(kubeconfig: &str, namespace: &str, shared: &Mutex<Shared>, ends: &AtomicBool) {
    let client = client(kubeconfig).await;
    let api = &hosts(client.clone(), namespace);
    let secrets: &Api<k8s_openapi::api::core::v1::Secret> = &Api::namespaced(client, namespace);
    let mut known = 0;
    while !ends.load(Ordering::Relaxed) {
        // Many are looked at less often, so that the server has time for others.
        tokio::time::sleep(Duration::from_millis(40 + known * 2)).await;
        if shared.lock().unwrap().behaviour.asleep {
            continue;
        }
        // The server may be away.
        let Ok(list) = api.list(&ListParams::default()).await else {
            continue;
        };
        known = list.items.len() as u64;
        let there: BTreeSet<String> = list
            .items
            .iter()
            .filter_map(|each| each.metadata.name.clone())
            .collect();
        let known = |name: &String, _: &mut Machine| there.contains(name);
        shared.lock().unwrap().machines.retain(known);
        iter(list.items)
            .for_each_concurrent(8, |host| async move {
                let host = serde_json::to_value(host).unwrap();
                let name = text(&host, "/metadata/name").to_owned();
                let has_secret = match host["spec"]["bmc"]["credentialsName"].as_str() {
                    Some(secret) if text(&host, "/status/provisioning/state") == "registering" => {
                        matches!(secrets.get_metadata_opt(secret).await, Ok(Some(_)))
                    }
                    _ => true,
                };
                let Some(change) = reconcile(&mut shared.lock().unwrap(), &host, has_secret) else {
                    return;
                };
                match apply(api, &name, &host, change).await {
                    // What is refused would never be told otherwise.
                    Err(kube::Error::Api(status)) if !matches!(status.code, 404 | 409) => {
                        eprintln!("the operator cannot write host `{name}`: {status}");
                    }
                    _ => {}
                }
            })
            .await;
    }
}

/// What is written to a host.
#[derive(Debug)]
enum Change {
    Metadata(Value),
    Status(Value),
}

async fn apply(
    api: &Api<DynamicObject>,
    name: &str,
    seen: &Value,
    change: Change,
) -> kube::Result<()> {
    let parameters = PatchParams::default();
    let version = &seen["metadata"]["resourceVersion"];
    match change {
        Change::Metadata(mut metadata) => {
            metadata["resourceVersion"] = version.clone();
            let patch = Patch::Merge(json!({"metadata": metadata}));
            api.patch(name, &parameters, &patch).await.map(drop)
        }
        Change::Status(status) => {
            let mut whole = json!({"errorCount": 0, "errorMessage": BLANK, "operationalStatus": "OK",
                "poweredOn": false, "provisioning": {"ID": BLANK},
                "provisioningFailCount": 0});
            if seen["status"].is_object() {
                merge(&mut whole, seen["status"].clone());
            }
            merge(&mut whole, status);
            let patch = json!({"metadata": {"resourceVersion": version}, "status": whole});
            let patch = Patch::Merge(patch);
            api.patch_status(name, &parameters, &patch).await.map(drop)
        }
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn text<'a>(host: &'a Value, pointer: &str) -> &'a str {
    host.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn flag(host: &Value, pointer: &str) -> bool {
    host.pointer(pointer) == Some(&json!(true))
}

fn annotations(host: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = host["metadata"]["annotations"].as_object();
    all.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
}

fn has(host: &Value, key: &str) -> bool {
    annotations(host).any(|(each, _)| each == key)
}

/// What is meant to be deployed.
fn wanted(host: &Value) -> String {
    match text(host, "/spec/image/url") {
        "" => text(host, "/spec/customDeploy/method").to_owned(),
        url => url.to_owned(),
    }
}

/// A step of the operator's for one host: at most one change.
#[expect(
    clippy::too_many_lines,
    clippy::cognitive_complexity,
    reason = "a table of states"
)]
fn reconcile(shared: &mut Shared, host: &Value, has_secret: bool) -> Option<Change> {
    let now = Instant::now();
    let name = text(host, "/metadata/name").to_owned();
    let state = text(host, "/status/provisioning/state").to_owned();
    let behaviour = shared.behaviour.clone();
    let events = &mut shared.events;
    let mut event = |what: &str| events.push((name.clone(), what.to_owned()));
    let machine = shared.machines.entry(name.clone()).or_insert(Machine {
        is_on: flag(host, "/status/poweredOn"),
        switching: None,
        has_lied: false,
        since: now,
        state: state.clone(),
    });
    if machine.state != state {
        machine.state.clone_from(&state);
        machine.since = now;
    }
    if let Some((to, at)) = machine.switching
        && at <= now
    {
        machine.is_on = to;
        machine.switching = None;
    }
    if behaviour.spurious.contains(&name) && machine.is_on && state == "provisioned" {
        machine.is_on = false;
        event("spurious off");
        shared.behaviour.spurious.remove(&name);
    }
    if has(host, "baremetalhost.metal3.io/paused") {
        return None;
    }
    let finalizers = host["metadata"]["finalizers"].as_array();
    let is_ours = finalizers.is_some_and(|all| all.contains(&json!(FINALIZER)));
    let deleting = !text(host, "/metadata/deletionTimestamp").is_empty();
    if deleting && !is_ours {
        return None;
    }
    if !is_ours {
        return Some(Change::Metadata(json!({"finalizers": [FINALIZER]})));
    }
    let is_steady = matches!(
        &*state,
        "provisioned" | "externally provisioned" | "available" | "ready"
    );
    if has(host, "baremetalhost.metal3.io/detached") && is_steady {
        if deleting {
            return Some(Change::Metadata(json!({"finalizers": []})));
        }
        let is_told = text(host, "/status/operationalStatus") == "detached";
        return (!is_told).then(|| Change::Status(json!({"operationalStatus": "detached"})));
    }
    if text(host, "/status/operationalStatus") == "detached" {
        return Some(Change::Status(json!({"operationalStatus": "OK"})));
    }
    let passed = now.duration_since(machine.since) >= behaviour.delay;
    let go = |to: &str| {
        Some(Change::Status(
            json!({"provisioning": {"state": to}, "operationalStatus": "OK",
            "errorCount": 0, "errorMessage": BLANK, "errorType": null}),
        ))
    };
    if deleting {
        return match &*state {
            "provisioning" | "provisioned" | "externally provisioned" => go("deprovisioning"),
            "deprovisioning" if passed => {
                wipe(host, &mut event);
                machine.is_on = false;
                go("powering off before delete")
            }
            "deprovisioning" => None,
            "powering off before delete" if passed => {
                machine.is_on = false;
                go("deleting")
            }
            "powering off before delete" => None,
            "deleting" if passed => {
                event("delete");
                Some(Change::Metadata(json!({"finalizers": []})))
            }
            "deleting" => None,
            "" | "unmanaged" | "registering" => go("deleting"),
            _ => go("powering off before delete"),
        };
    }
    let is_cancelled = state == "provisioning" && wanted(host).is_empty();
    if is_cancelled {
        return go("deprovisioning");
    }
    if passed && let Some(failure) = fails(shared, &name, &state, has_secret) {
        shared.machines.get_mut(&name)?.since = now;
        let count = host["status"]["errorCount"].as_u64().unwrap_or(0) + 1;
        let mut status = json!({"operationalStatus": "error", "errorType": failure.kind,
            "errorMessage": failure.message, "errorCount": count});
        if state == "provisioning" {
            let count = host["status"]["provisioningFailCount"].as_u64();
            status["provisioningFailCount"] = json!(count.unwrap_or(0) + 1);
            status["provisioning"] = json!({"state": "deprovisioning"});
        }
        return Some(Change::Status(status));
    }
    let events = &mut shared.events;
    let mut event = |what: &str| events.push((name.clone(), what.to_owned()));
    let machine = shared.machines.get_mut(&name)?;
    let external = flag(host, "/spec/externallyProvisioned");
    let deployed = match text(host, "/status/provisioning/image/url") {
        "" => text(host, "/status/provisioning/customDeploy/method"),
        url => url,
    };
    match &*state {
        "" if text(host, "/spec/bmc/address").is_empty() => go("unmanaged"),
        "" => go("registering"),
        "unmanaged" if text(host, "/spec/bmc/address").is_empty() => None,
        "unmanaged" => go("registering"),
        _ if !passed => None,
        "registering" => {
            event("register");
            go(
                match (external, text(host, "/spec/inspectionMode") == "disabled") {
                    (true, _) => "externally provisioned",
                    (false, true) => "preparing",
                    (false, false) => "inspecting",
                },
            )
        }
        "inspecting" => {
            event("inspect");
            let serial = shared.behaviour.serials.get(&name);
            let nics = shared.behaviour.interfaces.get(&name).into_iter().flatten();
            let nics: Vec<_> = nics.map(|mac| json!({ "mac": mac })).collect();
            let vendor = serial.map_or(json!({}), |serial| json!({"serialNumber": serial}));
            let disk = |name: &str| {
                json!({"name": format!("/dev/{name}"),
                "sizeBytes": 480_000_000_000_u64, "serialNumber": format!("S-{name}"), "rotational": false})
            };
            Some(Change::Status(
                json!({"provisioning": {"state": "preparing"},
                "operationalStatus": "OK", "errorCount": 0, "errorMessage": BLANK,
                "hardware": {"ramMebibytes": 65536, "systemVendor": vendor, "nics": nics, "storage": [disk("sda"), disk("sdb")]}}),
            ))
        }
        "preparing" => go("available"),
        "available" | "ready" if external => go("externally provisioned"),
        "available" | "ready" if has(host, "inspect.metal3.io") => {
            if text(host, "/status/operationalStatus") == "OK" && machine.has_lied {
                machine.has_lied = false;
            }
            event("inspect again");
            Some(Change::Metadata(
                json!({"annotations": {"inspect.metal3.io": null}}),
            ))
        }
        "available" | "ready" if flag(host, "/spec/online") && !wanted(host).is_empty() => {
            event(&format!("provision {}", wanted(host)));
            go("provisioning")
        }
        "provisioning" => {
            machine.is_on = true;
            let mut provisioning = json!({"state": "provisioned", "ID": format!("id-{name}")});
            match text(host, "/spec/image/url") {
                "" => {
                    provisioning["customDeploy"] = host["spec"]["customDeploy"].clone();
                }
                _ => provisioning["image"] = host["spec"]["image"].clone(),
            }
            Some(Change::Status(json!({"provisioning": provisioning,
                "operationalStatus": "OK", "errorCount": 0, "errorMessage": BLANK,
                "provisioningFailCount": 0, "poweredOn": true})))
        }
        "externally provisioned" if !external => go("provisioned"),
        "provisioned" if wanted(host) != deployed && !external => go("deprovisioning"),
        "deprovisioning" => {
            wipe(host, &mut event);
            machine.is_on = false;
            let failed = text(host, "/status/operationalStatus") == "error";
            let mut status = json!({"poweredOn": false, "provisioning":
                {"state": "available", "image": null, "customDeploy": null}});
            if !failed || wanted(host).is_empty() {
                merge(
                    &mut status,
                    json!({"operationalStatus": "OK", "errorCount": 0, "errorMessage": BLANK, "errorType": null}),
                );
            }
            Some(Change::Status(status))
        }
        _ if is_steady => power(&behaviour, machine, host, &name, &mut event),
        _ => None,
    }
}

fn wipe(host: &Value, event: &mut impl FnMut(&str)) {
    event("deprovision");
    if text(host, "/spec/automatedCleaningMode") != "disabled" {
        event("clean");
    }
}

/// What fails now.
fn fails(shared: &mut Shared, name: &str, state: &str, has_secret: bool) -> Option<Failure> {
    if !has_secret {
        return Some(Failure {
            kind: "registration error",
            message: "The BMC secret does not exist",
            times: None,
        });
    }
    let key = (name.to_owned(), state.to_owned());
    let failure = shared.behaviour.failures.get_mut(&key)?;
    match &mut failure.times {
        Some(0) => return None,
        Some(times) => *times -= 1,
        None => {}
    }
    Some(failure.clone())
}

/// What the operator does about power if nothing else goes on.
fn power(
    behaviour: &Behaviour,
    machine: &mut Machine,
    host: &Value,
    name: &str,
    event: &mut impl FnMut(&str),
) -> Option<Change> {
    let is_provisioned = text(host, "/status/provisioning/state").ends_with("provisioned");
    let is_reboot = |(key, value): &(&str, &str)| {
        let counts = *key == "reboot.metal3.io" || key.starts_with("reboot.metal3.io/");
        let mode: Value = serde_json::from_str(value).unwrap_or(Value::Null);
        counts && (is_provisioned || mode["force"] == json!(true))
    };
    let reboots = annotations(host).any(|each| is_reboot(&each));
    let shown = flag(host, "/status/poweredOn");
    let online = flag(host, "/spec/online");
    let clears = Change::Metadata(json!({"annotations": {"reboot.metal3.io": null}}));
    if !shown && !machine.is_on && has(host, "reboot.metal3.io") {
        return Some(clears);
    }
    if shown != machine.is_on && machine.switching.is_none() {
        return Some(Change::Status(json!({"poweredOn": machine.is_on})));
    }
    let desired = online && !reboots;
    if flag(host, "/spec/disablePowerOff") && !desired {
        if has(host, "reboot.metal3.io") {
            event("restart");
            return Some(clears);
        }
        return None;
    }
    if machine.is_on == desired || machine.switching.is_some() {
        // Switched already, in the operator's eyes: it shows what the host is meant to be.
        if machine.switching.is_some() && behaviour.shows_wanted && !machine.has_lied {
            machine.has_lied = true;
            return (shown != online).then(|| Change::Status(json!({"poweredOn": online})));
        }
        return None;
    }
    let stays = match desired {
        true => behaviour.never_on.contains(name),
        false => behaviour.never_off.contains(name),
    };
    if !stays {
        event(if desired { "power on" } else { "power off" });
        let delay = behaviour.power_delays.get(name);
        let delay = *delay.unwrap_or(&behaviour.power_delay);
        machine.switching = Some((desired, Instant::now() + delay));
        machine.has_lied = false;
    }
    None
}
