//! A stand-in for Ironic that keeps nodes in memory and ends every transition with the next look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::backend::http::tests::server::{Received, Reply, Server};

/// The ways in which a service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// As it should.
    Well,
    /// Its end is reported, and nothing has changed.
    Unchanged,
    /// As above the first time, and well the next.
    SecondTry,
    /// Only the settings of the BIOS have changed.
    Half,
    /// A step fails, and the machine is put into maintenance; nothing has changed, or all has.
    Fails,
    FailsChanged,
    /// A step is not offered: it fails without maintenance.
    NotOffered,
    /// A step fails, and leads to active only when the maintenance was taken off.
    FailsForGood,
    /// It is paused.
    Holds,
    /// It is accepted, and nothing happens.
    Ignored,
    /// The machine is off after it.
    LeavesOff,
}

/// The volumes after a step that makes some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Makes {
    /// Those that it was told, of which Ironic shows no drives.
    Volumes,
    /// None, and it ends well.
    Nothing,
    /// Another level.
    Others,
}

/// Shared by its clones.
#[derive(Clone)]
pub(super) struct StandIn(Arc<Mutex<StandInState>>);

pub(super) struct StandInState {
    nodes: BTreeMap<String, Value>,
    /// States of nodes at the next list.
    pending: BTreeMap<String, String>,
    /// How many more requests find a node held.
    held: BTreeMap<String, u32>,
    /// Nodes whose operations run until they are ended by hand.
    slow: Vec<String>,
    /// By UUID of their node.
    ports: Vec<(String, Value)>,
    traits: BTreeMap<String, Value>,
    /// The settings of the BIOS of all nodes, and the versions of their components.
    pub(super) values: BTreeMap<&'static str, String>,
    /// The part of it that may not be read.
    pub(super) denied: Option<&'static str>,
    pub(super) service: Service,
    /// The volumes that `raid.apply_configuration` makes.
    pub(super) makes: Makes,
    /// Bodies of the requests for services.
    pub(super) serviced: Vec<Value>,
    /// The requests that are refused, by method and end of the path.
    busy: Option<(&'static str, &'static str)>,
    newest: u32,
    page: usize,
    next_host: String,
    clock: u64,
}

impl StandIn {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(StandInState {
            nodes: BTreeMap::new(),
            pending: BTreeMap::new(),
            held: BTreeMap::new(),
            slow: Vec::new(),
            ports: Vec::new(),
            traits: BTreeMap::new(),
            denied: None,
            values: [("bios.Turbo", "Disabled"), ("firmware.bmc", "7.0")]
                .map(|(name, value)| (name, value.to_owned()))
                .into(),
            service: Service::Well,
            makes: Makes::Volumes,
            serviced: Vec::new(),
            busy: None,
            newest: 115,
            page: 1000,
            next_host: String::new(),
            clock: 0,
        })))
    }

    pub(super) fn fixture(&self) -> MutexGuard<'_, StandInState> {
        self.0.lock().unwrap()
    }

    pub(super) fn newest(self, minor: u32) -> Self {
        self.fixture().newest = minor;
        self
    }

    /// No conductor is free at such requests.
    pub(super) fn busy_at(&self, requests: Option<(&'static str, &'static str)>) {
        self.fixture().busy = requests;
    }

    /// The traits and the MAC addresses of a node.
    pub(super) fn equipment(&self, name: &str) -> (Value, Vec<Value>) {
        let uuid = self.node(name)["uuid"].as_str().unwrap().to_owned();
        let fixture = self.fixture();
        let ports = fixture.ports.iter().filter(|(of, _)| *of == uuid);
        let ports = ports.map(|(_, address)| address.clone()).collect();
        let traits = fixture.traits.get(name).cloned();
        (traits.unwrap_or_default(), ports)
    }

    pub(super) fn page(self, size: usize) -> Self {
        self.fixture().page = size;
        self
    }

    pub(super) fn next_host(&self, host: &str) {
        self.fixture().next_host = host.to_owned();
    }

    pub(super) fn with(self, name: &str, state: &str) -> Self {
        let node = new_node(name, state);
        self.fixture().nodes.insert(name.to_owned(), node);
        self
    }

    pub(super) fn set(&self, name: &str, field: &str, value: Value) {
        self.fixture().nodes.get_mut(name).unwrap()[field] = value;
    }

    pub(super) fn node(&self, name: &str) -> Value {
        self.fixture().nodes[name].clone()
    }

    pub(super) fn state(&self, name: &str) -> String {
        self.node(name)["provision_state"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(super) fn hold(&self, name: &str, requests: u32) {
        self.fixture().held.insert(name.to_owned(), requests);
    }

    pub(super) fn slow(&self, name: &str) {
        self.fixture().slow.push(name.to_owned());
    }

    /// Begins an operation that runs until [`Self::end`].
    pub(super) fn begin(&self, name: &str, during: &str, after: &str) {
        let mut fixture = self.fixture();
        fixture.slow.push(name.to_owned());
        fixture.moved(name, during);
        fixture.pending.insert(name.to_owned(), after.to_owned());
    }

    pub(super) fn end(&self, name: &str) {
        let mut fixture = self.fixture();
        fixture.slow.retain(|slow| slow != name);
        fixture.settle();
    }

    pub(super) async fn serve(&self) -> Server {
        self.serve_but(|_| None).await
    }

    /// Serves, but for what `otherwise` answers itself.
    pub(super) async fn serve_but(
        &self,
        otherwise: impl Fn(&Received) -> Option<Reply> + Send + Sync + 'static,
    ) -> Server {
        let fixture = self.clone();
        Server::plain(move |received| {
            if received.path == "/v1" {
                let newest = format!("1.{}", fixture.fixture().newest);
                let headers = vec![
                    ("x-openstack-ironic-api-minimum-version", "1.1".to_owned()),
                    ("x-openstack-ironic-api-maximum-version", newest),
                ];
                return Reply::Json(200, headers, json!({"id": "v1"}));
            }
            otherwise(received).unwrap_or_else(|| fixture.fixture().answer(received))
        })
        .await
    }
}

fn new_node(name: &str, state: &str) -> Value {
    json!({
        "uuid": format!("uuid-{name}"), "name": name, "provision_state": state, "power_state": "power off",
        "retired": false, "maintenance": false, "protected": false, "extra": {}, "instance_info": {}, "driver_info": {},
        "clean_step": {}, "provision_updated_at": null, "instance_uuid": null,
    })
}

fn refusal(status: u16, words: &str) -> Reply {
    let inner = json!({"faultcode": "Client", "faultstring": words}).to_string();
    Reply::json(status, json!({"error_message": inner}))
}

impl StandInState {
    fn moved(&mut self, name: &str, state: &str) {
        self.clock += 1;
        let node = self.nodes.get_mut(name).unwrap();
        node["provision_state"] = json!(state);
        if state == "active" && node["stays_off"] != true {
            node["power_state"] = json!("power on");
        }
        node["provision_updated_at"] = json!(format!("2026-01-01T00:00:00.{:06}", self.clock));
    }

    /// Ends all running operations.
    fn settle(&mut self) {
        let slow = self.slow.clone();
        let ended: Vec<_> = self
            .pending
            .keys()
            .filter(|name| !slow.contains(name))
            .cloned()
            .collect();
        for name in ended {
            let state = self.pending.remove(&name).unwrap();
            self.moved(&name, &state);
        }
    }

    fn shown(&self, node: &Value) -> Value {
        let mut node = node.clone();
        let name = node["name"].as_str().unwrap().to_owned();
        if self.held.get(&name).is_some_and(|left| *left > 0) {
            node["reservation"] = json!("conductor");
        }
        node
    }

    fn answer(&mut self, received: &Received) -> Reply {
        let (path, query) = received
            .path
            .split_once('?')
            .unwrap_or((&received.path, ""));
        let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
        if let ("GET", ["nodes", _, part @ ("bios" | "firmware" | "inventory")]) =
            (received.method.as_str(), &parts[..])
        {
            return self.part(part);
        }
        let is_busy =
            |(method, end): (&str, &str)| received.method == method && path.ends_with(end);
        if self.busy.is_some_and(is_busy) {
            return refusal(503, "No free conductor workers available");
        }
        match (received.method.as_str(), &parts[..]) {
            ("GET", ["nodes"]) => self.list(query),
            ("GET", ["drivers"]) if !query.is_empty() && self.newest < 77 => refusal(
                406,
                "Request not acceptable. The minimal required API version should be 1.77",
            ),
            ("GET", ["drivers"]) => {
                Reply::json(200, json!({"drivers": [{"name": "fake-hardware"}]}))
            }
            ("GET", ["ports"]) => {
                let ports = self.ports.iter();
                let ports: Vec<_> = ports
                    .filter(|(of, _)| {
                        !query.contains("node=") || query.contains(&format!("node={of}"))
                    })
                    .map(|(of, address)| json!({"address": address, "node_uuid": of}))
                    .collect();
                Reply::json(200, json!({"ports": ports}))
            }
            ("POST", ["ports"]) => {
                let of = received.body["node_uuid"].as_str().unwrap().to_owned();
                self.ports.push((of, received.body["address"].clone()));
                Reply::json(201, json!({}))
            }
            ("POST", ["nodes"]) => {
                let name = received.body["name"].as_str().unwrap().to_owned();
                let mut node = new_node(&name, "enroll");
                node["extra"] = received.body["extra"].clone();
                self.nodes.insert(name, node.clone());
                Reply::json(201, node)
            }
            (method, ["nodes", of, rest @ ..]) => {
                let is_it = |node: &&Value| node["uuid"] == **of || node["name"] == **of;
                let Some(node) = self.nodes.values().find(is_it) else {
                    return refusal(404, "Node could not be found.");
                };
                let name = node["name"].as_str().unwrap().to_owned();
                if method == "GET" {
                    let shown = self.shown(&self.nodes[&name].clone());
                    if let Some(left) = self.held.get_mut(&name) {
                        *left = left.saturating_sub(1);
                    }
                    return Reply::json(200, shown);
                }
                self.change(method, &name, rest, &received.body)
            }
            _ => refusal(404, "no such thing"),
        }
    }

    fn list(&mut self, query: &str) -> Reply {
        self.settle();
        let marker = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("marker="));
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        let begin = marker.map_or(0, |marker| {
            1 + names
                .iter()
                .position(|name| format!("uuid-{name}") == marker)
                .unwrap()
        });
        let end = (begin + self.page).min(names.len());
        let page: Vec<Value> = names[begin..end]
            .iter()
            .map(|name| self.shown(&self.nodes[name]))
            .collect();
        for left in self.held.values_mut() {
            *left = left.saturating_sub(1);
        }
        let mut body = json!({"nodes": page});
        if end < names.len() {
            body["next"] = json!(format!(
                "{}/v1/nodes?limit=1&marker=uuid-{}",
                self.next_host,
                names[end - 1]
            ));
        }
        Reply::json(200, body)
    }

    /// The values of a node, each with the terms that its registry has.
    fn part(&self, part: &str) -> Reply {
        if self.denied == Some(part) {
            return refusal(403, "Access was denied");
        }
        let of = |start: &str| {
            let values = self.values.iter();
            let of = values.filter_map(|(name, value)| {
                Some((name.strip_prefix(start)?.to_owned(), value.clone()))
            });
            of.collect::<Vec<_>>()
        };
        match part {
            "bios" => {
                let settings = of("bios.").into_iter().map(|(name, value)| {
                    json!({"name": name, "value": value, "attribute_type": "Enumeration",
                        "allowable_values": ["Enabled", "Disabled"], "read_only": false})
                });
                Reply::json(200, json!({"bios": settings.collect::<Vec<_>>()}))
            }
            "firmware" => {
                let components = of("firmware.").into_iter();
                let components = components.map(|(name, value)| json!({"component": name, "initial_version": "1", "current_version": value}));
                Reply::json(200, json!({"firmware": components.collect::<Vec<_>>()}))
            }
            _ => Reply::json(
                200,
                json!({"inventory": {"memory": {"physical_mb": 65536}, "cpu": {"socket_count": 2, "count": 64},
                    "disks": [{"name": "/dev/sda", "serial": "S"}], "interfaces": [{"mac_address": "52:54:00:00:00:01"}]}}),
            ),
        }
    }

    /// Carries out the step of a deploy that makes volumes.
    fn make_volumes(&mut self, name: &str, body: &Value) {
        let steps = body["deploy_steps"].as_array().into_iter().flatten();
        for step in steps.filter(|step| step["interface"] == "raid") {
            assert_eq!(step["args"]["delete_existing"], true);
            let mut config = step["args"]["raid_config"].clone();
            for disk in config["logical_disks"].as_array_mut().unwrap() {
                let disk = disk.as_object_mut().unwrap();
                disk.remove("number_of_physical_disks");
                if self.makes == Makes::Others {
                    disk.insert("raid_level".to_owned(), json!("5"));
                }
            }
            if self.makes != Makes::Nothing {
                self.nodes.get_mut(name).unwrap()["raid_config"] = config;
            }
        }
    }

    /// Begins a service, whose end is decided already.
    fn serve_step(&mut self, name: &str, body: &Value) -> Reply {
        if self.nodes[name]["maintenance"] == true {
            return refusal(
                400,
                "The service operation can't be performed on node because it's in maintenance mode.",
            );
        }
        self.serviced.push(body.clone());
        if self.service == Service::Ignored {
            return Reply::json(202, Value::Null);
        }
        let changes = match self.service {
            Service::Unchanged
            | Service::Fails
            | Service::NotOffered
            | Service::FailsForGood
            | Service::Holds => false,
            Service::SecondTry => self.serviced.len() > 1,
            _ => true,
        };
        let steps = body["service_steps"].as_array().into_iter().flatten();
        for step in steps.filter(|_| changes) {
            for setting in step["args"]["settings"].as_array().into_iter().flatten() {
                match step["interface"].as_str() {
                    Some("bios") => {
                        let value = setting["value"].as_str().unwrap().to_owned();
                        self.values.insert("bios.Turbo", value);
                    }
                    Some("firmware") if self.service != Service::Half => {
                        let version = setting["url"].as_str().unwrap().rsplit('_').next().unwrap();
                        let version = version.trim_end_matches(".bin").to_owned();
                        self.values.insert("firmware.bmc", version);
                    }
                    _ => {}
                }
            }
        }
        if body["runbook"].is_string() && changes {
            self.values.insert("bios.Turbo", "Enabled".to_owned());
        }
        let after = match self.service {
            Service::Fails
            | Service::FailsChanged
            | Service::FailsForGood
            | Service::NotOffered => "service failed",
            Service::Holds => "service hold",
            _ => "active",
        };
        if self.service == Service::LeavesOff {
            let node = self.nodes.get_mut(name).unwrap();
            node["stays_off"] = json!(true);
            node["power_state"] = json!("power off");
        }
        if after == "service failed" {
            let node = self.nodes.get_mut(name).unwrap();
            node["last_error"] = json!("Node failed step bios.apply_configuration: it is locked");
            if self.service != Service::NotOffered {
                node["maintenance"] = json!(true);
                node["fault"] = json!("service failure");
            }
        }
        self.moved(name, "servicing");
        self.pending.insert(name.to_owned(), after.to_owned());
        Reply::json(202, Value::Null)
    }

    fn change(&mut self, method: &str, name: &str, rest: &[&str], body: &Value) -> Reply {
        if self.held.get(name).is_some_and(|left| *left > 0) {
            return refusal(409, "Node is locked by host conductor, please retry.");
        }
        match (method, rest) {
            ("PATCH", []) => {
                let node = self.nodes.get_mut(name).unwrap();
                for operation in body.as_array().unwrap() {
                    let path = operation["path"].as_str().unwrap();
                    let (parent, key) = path.rsplit_once('/').unwrap();
                    let parent = node.pointer_mut(parent).unwrap();
                    match operation["op"].as_str().unwrap() {
                        "add" => parent[key] = operation["value"].clone(),
                        _ => parent[key] = Value::Null,
                    }
                }
                Reply::json(200, node.clone())
            }
            ("PUT", ["states", "provision"]) => {
                let (during, after) = match body["target"].as_str().unwrap() {
                    "service" => {
                        let newest = self.newest;
                        assert!(newest >= 87, "a verb that it does not have");
                        return self.serve_step(name, body);
                    }
                    "abort" if self.nodes[name]["maintenance"] == true => {
                        return refusal(
                            400,
                            "Can not abort service while it is in maintenance mode.",
                        );
                    }
                    "abort" => {
                        self.moved(name, "active");
                        return Reply::json(202, Value::Null);
                    }
                    "manage" if self.nodes[name]["provision_state"] != "enroll" => {
                        self.moved(name, "manageable");
                        return Reply::json(202, Value::Null);
                    }
                    "manage" => ("verifying", "manageable"),
                    "provide" => ("cleaning", "available"),
                    "clean" => ("cleaning", "manageable"),
                    "active" => {
                        self.make_volumes(name, body);
                        ("deploying", "active")
                    }
                    "deleted" => ("deleting", "available"),
                    other => panic!("verb {other}"),
                };
                self.moved(name, during);
                self.pending.insert(name.to_owned(), after.to_owned());
                Reply::json(202, Value::Null)
            }
            ("PUT", ["states", "power"]) => {
                self.nodes.get_mut(name).unwrap()["power_state"] = body["target"].clone();
                Reply::json(202, Value::Null)
            }
            ("PUT", ["traits"]) => {
                self.traits.insert(name.to_owned(), body["traits"].clone());
                Reply::json(204, Value::Null)
            }
            ("PUT", ["maintenance"]) => {
                self.nodes.get_mut(name).unwrap()["maintenance"] = json!(true);
                Reply::json(202, Value::Null)
            }
            ("DELETE", ["maintenance"]) if self.service == Service::FailsForGood => {
                refusal(403, "The policy forbids it.")
            }
            ("DELETE", ["maintenance"]) => {
                self.nodes.get_mut(name).unwrap()["maintenance"] = json!(false);
                Reply::json(202, Value::Null)
            }
            ("DELETE", []) => {
                self.nodes.remove(name);
                Reply::json(204, Value::Null)
            }
            other => panic!("{other:?}"),
        }
    }
}
