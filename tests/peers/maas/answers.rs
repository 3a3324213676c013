//! The paths of the stand-in, and what is answered there.

use serde_json::{Value, json};

use super::region::{Machine, State, Tag, Version, Wrong};
use super::rules::name;
use super::serve::{Answer, Received};

/// The images that can be deployed.
pub(super) const IMAGES: &[&str] = &["focal", "jammy", "noble"];

const BASE: &str = "/MAAS/api/2.0/";

pub(super) fn text(status: u16, body: &str) -> Answer {
    Answer {
        status,
        headers: vec![("content-type", "text/plain; charset=utf-8".to_owned())],
        body: body.to_owned(),
    }
}

pub(super) fn json_of(status: u16, body: &Value) -> Answer {
    Answer {
        status,
        headers: vec![("content-type", "application/json; charset=utf-8".to_owned())],
        body: body.to_string(),
    }
}

/// The line of a request in the recorder: what is asked for, and of which machine.
pub(super) fn line(received: &Received) -> String {
    let path = received.path.strip_prefix(BASE).unwrap_or(&received.path);
    match received.operation() {
        Some(operation) => format!("{} {path}?op={operation}", received.method),
        None => format!("{} {path}", received.method),
    }
}

fn shown_zone() -> Value {
    json!({"name": "default", "description": "", "id": 1, "resource_uri": format!("{BASE}zones/default/")})
}

fn shown_pool() -> Value {
    json!({"name": "default", "description": "Default pool", "id": 0, "resource_uri": format!("{BASE}resourcepool/0/")})
}

/// A machine as MAAS shows it.
pub(super) fn shown(machine: &Machine) -> Value {
    let id = &machine.id;
    let mut shown = json!({
        "system_id": id, "hostname": machine.hostname, "fqdn": format!("{}.maas", machine.hostname),
        "status": machine.status, "status_name": name(machine.status), "status_message": machine.message,
        "power_state": machine.listed.unwrap_or(machine.power), "power_type": machine.power_type, "owner": machine.owner,
        "owner_data": machine.owner_data, "locked": machine.locked, "osystem": machine.osystem,
        "distro_series": machine.series, "hwe_kernel": machine.kernel, "tag_names": machine.tags,
        "hardware_uuid": machine.uuid, "hardware_info": {"system_serial": "Unknown"}, "node_type": 0,
        "architecture": "amd64/generic", "cpu_count": 4, "memory": 8192,
        "zone": shown_zone(), "pool": shown_pool(),
        "raids": [], "bcaches": [], "status_action": "", "min_hwe_kernel": "", "netboot": true, "description": "",
        "resource_uri": format!("{BASE}machines/{id}/"),
    });
    for (name, value) in [
        ("ephemeral_deploy", json!(false)),
        ("commissioning_status_name", json!("Passed")),
        ("testing_status_name", json!("Pending")),
        ("storage", json!(350_000.0)),
    ] {
        shown[name] = value;
    }
    for (name, value) in machine.parts.shown(id, machine.is_known) {
        shown[name] = value;
    }
    shown
}

/// What a commissioning finds of the board.
const HARDWARE: &[&str] = &[
    "chassis_serial",
    "chassis_type",
    "chassis_vendor",
    "chassis_version",
    "cpu_model",
    "mainboard_firmware_date",
    "mainboard_firmware_vendor",
    "mainboard_firmware_version",
    "mainboard_product",
    "mainboard_serial",
    "mainboard_vendor",
    "mainboard_version",
    "system_family",
    "system_product",
    "system_serial",
    "system_sku",
    "system_vendor",
    "system_version",
];

/// All fields of a machine; lists are kept shorter here than in MAAS.
fn whole(machine: &Machine) -> Value {
    let mut shown = shown(machine);
    // What is not played: tests and their numbers, virtual machines, synchronisation of hardware.
    for name in ["cpu", "interface", "memory", "network", "other", "storage"] {
        shown[format!("{name}_test_status")] = json!(-1);
        shown[format!("{name}_test_status_name")] = json!("Unknown");
    }
    for name in [
        "address_ttl",
        "parent",
        "pod",
        "virtualmachine_id",
        "last_sync",
        "next_sync",
        "sync_interval",
        "swap_size",
        "current_installation_result_id",
    ] {
        shown[name] = Value::Null;
    }
    for (name, value) in [
        ("commissioning_status", json!(2)),
        ("testing_status", json!(0)),
        ("cpu_speed", json!(0)),
        ("current_commissioning_result_id", json!(1)),
        ("current_testing_result_id", json!(2)),
        ("disable_ipv4", json!(false)),
        ("enable_hw_sync", json!(false)),
        ("workload_annotations", json!(machine.owner_data)),
    ] {
        shown[name] = value;
    }
    for name in ["cache_sets", "special_filesystems", "numanode_set"] {
        shown[name] = json!([]);
    }
    for name in HARDWARE {
        shown["hardware_info"][*name] = json!("Unknown");
    }
    shown["node_type_name"] = json!("Machine");
    shown["domain"] = shown_domain();
    shown
}

fn shown_domain() -> Value {
    json!({"authoritative": true, "ttl": null, "name": "maas", "id": 0, "is_default": true,
        "resource_record_count": 0, "resource_uri": format!("{BASE}domains/0/")})
}

pub(super) fn machine(status: u16, machine: &Machine) -> Answer {
    json_of(status, &shown(machine))
}

impl State {
    pub(super) fn answer(&mut self, received: &Received) -> Answer {
        let Some(path) = received.path.strip_prefix(BASE) else {
            return match received.path.strip_prefix("/MAAS/api/1.0/") {
                Some(_) => text(410, "The 1.0 API is no longer available."),
                None => Answer {
                    headers: vec![("location", "/MAAS/?next=%2FMAAS%2F".to_owned())],
                    ..text(302, "")
                },
            };
        };
        // The path of a partition ends without one.
        if !path.ends_with('/') && !path.contains("/partition/") {
            return text(404, "Unknown API endpoint");
        }
        if path == "describe/" {
            return json_of(200, &super::describe::description(received));
        }
        if path == "version/" {
            let version = match self.version {
                Version::V34 => "3.4.8",
                Version::V35 => "3.5.9",
            };
            return json_of(
                200,
                &json!({"version": version, "subversion": "", "capabilities": []}),
            );
        }
        if let Err(answer) = self.authenticate(received) {
            let is_unsigned = !received.headers.contains_key("authorization");
            if is_unsigned && path == "machines/" {
                return text(400, "Unrecognised signature");
            }
            return answer;
        }
        let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        self.dispatch(received, &parts)
    }

    fn dispatch(&mut self, received: &Received, parts: &[&str]) -> Answer {
        let operation = received.operation();
        let unrecognised = || {
            let Received { method, .. } = received;
            text(
                400,
                &format!("Unrecognised signature: method={method} op={operation:?}"),
            )
        };
        match (received.method.as_str(), parts, operation) {
            ("GET", ["users"], Some("whoami")) => {
                let is_superuser = self.asks == "admin";
                json_of(
                    200,
                    &json!({"username": self.asks, "is_superuser": is_superuser, "is_local": true,
                        "email": format!("{}@example.com", self.asks),
                        "resource_uri": format!("{BASE}users/{}/", self.asks)}),
                )
            }
            ("GET" | "POST", ["maas"], Some(_)) => self.option(received),
            ("GET", ["boot-resources"], None) => {
                let image = |name: &&str| {
                    json!({"id": 1, "type": "Synced", "name": format!("ubuntu/{name}"), "architecture": "amd64/ga-20.04",
                        "resource_uri": format!("{BASE}boot-resources/1/"), "last_deployed": null,
                        "platform": "generic", "subarches": "generic", "supported_platforms": "generic"})
                };
                json_of(200, &IMAGES.iter().map(image).collect())
            }
            ("GET", ["subnets"], None) => {
                let all = super::parts::SUBNETS.iter();
                json_of(
                    200,
                    &all.map(|each| super::shown::shown_subnet(each.0)).collect(),
                )
            }
            ("GET", ["fabrics"], None) => json_of(200, &super::shown::shown_fabrics()),
            (_, ["nodes", id, rest @ ..], _) if !rest.is_empty() => {
                self.on_parts(received, id, rest)
            }
            ("GET", ["zones"], None) => json_of(200, &json!([shown_zone()])),
            ("GET", ["resourcepools"], None) => json_of(200, &json!([shown_pool()])),
            ("GET", ["domains"], None) => json_of(200, &json!([shown_domain()])),
            ("GET", ["events"], Some("query")) => self.list_events(received),
            ("GET", ["machines"], None) => self.list(received),
            ("GET", ["machines"], Some("list_allocated")) => {
                let all = self
                    .machines
                    .values()
                    .filter(|machine| machine.status == 10);
                json_of(200, &all.map(shown).collect())
            }
            ("POST", ["machines"], None) => self.create(received),
            ("POST", ["machines"], Some("allocate")) => self.allocate(received),
            ("POST", ["machines"], Some("release")) => self.release_many(received),
            (_, ["machines"], Some(_)) => unrecognised(),
            (_, ["machines"], None) => text(405, ""),
            (_, ["machines", id], _) => self.on_machine(received, id),
            (_, ["tags"], _) => self.all_tags(received),
            (_, ["tags", tag], _) => self.on_tag(received, tag),
            _ => text(404, "Unknown API endpoint"),
        }
    }

    fn option(&mut self, received: &Received) -> Answer {
        let asked = received.asked("name");
        match (received.operation(), asked.first()) {
            (Some("get_config"), Some(name)) => match self.options.get(*name) {
                Some(value) => json_of(200, value),
                None => json_of(400, &json!({*name: ["not a valid config setting"]})),
            },
            (Some("set_config"), _) if self.asks != "admin" => {
                text(403, "reserved for administrators")
            }
            (Some("set_config"), _) => {
                let value = received.field("value").unwrap_or_default();
                let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                let name = received.field("name").unwrap_or_default().to_owned();
                self.options.insert(name, value);
                json_of(200, &json!("OK"))
            }
            _ => text(400, "Unrecognised signature"),
        }
    }

    fn list(&self, received: &Received) -> Answer {
        let (ids, names) = (received.asked("id"), received.asked("hostname"));
        let (macs, statuses) = (received.asked("mac_address"), received.asked("status"));
        let among = |wanted: &[&str], is: &dyn Fn(&&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(is)
        };
        let is_listed = |machine: &&Machine| {
            self.wrong != Some(Wrong::ListsNothing)
                && among(&ids, &|id| **id == machine.id)
                && among(&names, &|name| **name == machine.hostname)
                && among(&macs, &|mac| machine.macs.iter().any(|own| own == *mac))
                && among(&statuses, &|status| {
                    status.eq_ignore_ascii_case(name(machine.status))
                })
        };
        let listed = self.machines.values().filter(is_listed);
        // A machine that is as it was is not written anew: lists of a thousand are long.
        let mut texts = self.texts.borrow_mut();
        let mut body = String::from("[");
        for machine in listed {
            let known = texts.get(&machine.id).filter(|(was, _)| was == machine);
            if known.is_none() {
                let text = shown(machine).to_string();
                texts.insert(machine.id.clone(), (machine.clone(), text));
            }
            if body.len() > 1 {
                body.push(',');
            }
            body.push_str(&texts[&machine.id].1);
        }
        body.push(']');
        Answer {
            headers: vec![("content-type", "application/json; charset=utf-8".to_owned())],
            status: 200,
            body,
        }
    }

    fn create(&mut self, received: &Received) -> Answer {
        let mut problems = serde_json::Map::new();
        for field in ["architecture", "mac_addresses"] {
            if received.field(field).is_none_or(str::is_empty) {
                problems.insert(field.to_owned(), json!(["This field is required."]));
            }
        }
        let macs: Vec<String> = received
            .fields("mac_addresses")
            .iter()
            .map(|mac| (*mac).to_owned())
            .collect();
        let hostname = received.field("hostname").unwrap_or_default().to_owned();
        for machine in self.machines.values() {
            if machine.hostname == hostname {
                problems.insert("hostname".to_owned(), json!(["it is taken"]));
            }
            if machine.macs.iter().any(|mac| macs.contains(mac)) {
                problems.insert("mac_addresses".to_owned(), json!(["it is taken"]));
            }
        }
        if !problems.is_empty() {
            return json_of(400, &Value::Object(problems));
        }
        let id = self.new_id();
        let mut created = Machine::new(&id, &hostname, 0);
        created.set_macs(macs);
        created.power_type = received.field("power_type").unwrap_or_default().to_owned();
        self.machines.insert(id.clone(), created);
        self.effects.push(format!("create {id}"));
        let is_asked = received.field("commission") != Some("false") && self.asks == "admin";
        if is_asked || self.wrong == Some(Wrong::CommissionsCreated) {
            let commissioned = self.operate("commission", &id, &Received::default());
            drop(commissioned);
        }
        json_of(200, &whole(&self.machines[&id]))
    }

    fn allocate(&mut self, received: &Received) -> Answer {
        let by_name = |name: &str| {
            let mut all = self.machines.values();
            all.find(|machine| machine.hostname == name)
                .map(|machine| machine.id.clone())
        };
        let named = received.field("name").and_then(by_name);
        let asked = received.field("system_id").map(str::to_owned).or(named);
        let Some(id) = asked else {
            // The real one takes any, or composes a virtual machine: no client of this one may ask for that.
            return text(409, "No machine available.");
        };
        let known = self.machines.get(&id).map(|machine| machine.status);
        if known != Some(4) {
            return text(409, "No machine with this system ID available.");
        }
        let asks = self.asks.clone();
        let is_dry = received.field("dry_run") == Some("true");
        if !is_dry && self.wrong != Some(Wrong::AllocatesNothing) {
            let taken = self.machines.get_mut(&id).unwrap();
            taken.owner = Some(asks.clone());
            taken.status = 10;
            self.event(&id, 10, "User acquiring node", &format!("({asks})"));
            self.effects.push(format!("allocate {id}"));
        }
        machine(200, &self.machines[&id])
    }

    fn release_many(&mut self, received: &Received) -> Answer {
        let ids: Vec<String> = received
            .fields("machines")
            .iter()
            .map(|id| (*id).to_owned())
            .collect();
        if ids.iter().any(|id| !self.machines.contains_key(id)) {
            return text(400, "Unknown machine(s).");
        }
        let refused = ids.iter().find_map(|id| self.refusal("release_many", id));
        if let Some(refusal) = refused {
            return refusal;
        }
        let mut released = Vec::new();
        for id in ids {
            let is_free = self.machines[&id].status == 4;
            if !is_free && self.operate("release", &id, received).is_ok() {
                released.push(id);
            }
        }
        json_of(200, &json!(released))
    }

    fn on_machine(&mut self, received: &Received, id: &str) -> Answer {
        if !self.machines.contains_key(id) {
            return text(404, "No Machine matches the given query.");
        }
        let operation = match (received.method.as_str(), received.operation()) {
            ("GET", None) => "read",
            ("PUT", None) => "update",
            ("DELETE", None) => "delete",
            (
                "GET",
                Some(operation @ ("query_power_state" | "get_curtin_config" | "power_parameters")),
            ) => operation,
            ("POST", Some(operation)) => operation,
            _ => return text(400, "Unrecognised signature"),
        };
        if let Some(refusal) = self.refusal(operation, id) {
            return refusal;
        }
        match operation {
            "read" => json_of(200, &whole(&self.machines[id])),
            "update" | "mount_special" | "restore_default_configuration" => {
                machine(200, &self.machines[id])
            }
            "get_curtin_config" => text(200, "{}"),
            "power_parameters" => json_of(
                200,
                &json!({"power_user": "maas", "power_driver": "LAN_2_0", "power_address": "192.0.2.10", "cipher_suite_id": "3", "power_boot_type": "auto", "privilege_level": "OPERATOR", "workaround_flags": ["opensesspriv"], "k_g": "", "power_pass": "given", "mac_address": ""}),
            ),
            "query_power_state" if !self.has_rack => Answer {
                headers: vec![("retry-after", "10".to_owned())],
                ..text(503, "no rack controller")
            },
            "query_power_state" => {
                let machine = self.machines.get_mut(id).unwrap();
                machine.listed = None;
                let state = if machine.is_dark {
                    "error"
                } else if self.wrong == Some(Wrong::ReportsOn) {
                    "on"
                } else {
                    machine.power
                };
                json_of(200, &json!({"state": state}))
            }
            "delete" => {
                if self.wrong != Some(Wrong::DeletesNothing) {
                    self.machines.remove(id);
                }
                self.effects.push(format!("delete {id}"));
                text(204, "")
            }
            "accept" if self.machines[id].status != 0 => machine(200, &self.machines[id]),
            "accept" => self
                .operate("commission", id, received)
                .unwrap_or_else(|error| error),
            operation => self
                .operate(operation, id, received)
                .unwrap_or_else(|error| error),
        }
    }

    fn all_tags(&mut self, received: &Received) -> Answer {
        let shown = |(name, tag): (&String, &Tag)| {
            json!({"name": name, "comment": tag.comment, "kernel_opts": tag.kernel_options, "definition": "",
            "resource_uri": format!("{BASE}tags/{name}/")})
        };
        if received.method == "GET" {
            return json_of(200, &self.tags.iter().map(shown).collect());
        }
        let field = |name: &str| received.field(name).unwrap_or_default().to_owned();
        let name = field("name");
        if self.asks != "admin" {
            return text(403, "");
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if self.tags.contains_key(&name) || name.is_empty() || !name.chars().all(is_plain) {
            return json_of(400, &json!({"name": ["Enter a valid value."]}));
        }
        let tag = Tag {
            comment: field("comment"),
            kernel_options: field("kernel_opts"),
        };
        self.tags.insert(name.clone(), tag.clone());
        json_of(200, &shown((&name, &tag)))
    }

    fn on_tag(&mut self, received: &Received, tag: &str) -> Answer {
        if !self.tags.contains_key(tag) {
            return text(404, "No Tag matches the given query.");
        }
        match (received.method.as_str(), received.operation()) {
            ("GET", Some("machines")) => {
                let tagged = self
                    .machines
                    .values()
                    .filter(|machine| machine.tags.contains(tag));
                json_of(200, &tagged.map(shown).collect())
            }
            ("GET", None) => json_of(
                200,
                &json!({"name": tag, "comment": self.tags[tag].comment, "definition": "",
                    "kernel_opts": self.tags[tag].kernel_options, "resource_uri": format!("{BASE}tags/{tag}/")}),
            ),
            ("DELETE", None) => {
                self.tags.remove(tag);
                text(204, "")
            }
            ("POST", Some("update_nodes")) => {
                let mut counts = [0, 0];
                for (position, field) in ["add", "remove"].into_iter().enumerate() {
                    for id in received.fields(field) {
                        let forgets = self.wrong == Some(Wrong::ForgetsTags);
                        // A machine that is not known is skipped without a word.
                        let Some(machine) = self.machines.get_mut(id) else {
                            continue;
                        };
                        let changed = match field {
                            "add" => !forgets && machine.tags.insert(tag.to_owned()),
                            _ => machine.tags.remove(tag),
                        };
                        counts[position] += usize::from(changed);
                    }
                }
                json_of(200, &json!({"added": counts[0], "removed": counts[1]}))
            }
            _ => text(400, "Unrecognised signature"),
        }
    }

    fn list_events(&self, received: &Received) -> Answer {
        let number = |name: &str| {
            received
                .asked(name)
                .first()
                .and_then(|text| text.parse::<usize>().ok())
        };
        let limit = number("limit").unwrap_or(100);
        if limit > 1000 {
            return text(
                400,
                "Requested number of events is greater than limit: 1000",
            );
        }
        let least = match received.asked("level").first() {
            Some(&"DEBUG") => 10,
            _ => 20,
        };
        let (ids, names) = (received.asked("id"), received.asked("hostname"));
        let is_of = |machine: &str| {
            let hostname = self
                .machines
                .get(machine)
                .map_or("", |machine| &machine.hostname);
            (ids.is_empty() || ids.contains(&machine))
                && (names.is_empty() || names.contains(&hostname))
        };
        let found = self
            .events
            .iter()
            .filter(|event| event.level >= least && is_of(&event.machine));
        let shown = |event: &super::region::Event| {
            json!({"id": event.number, "username": "unknown", "created": "Sun, 22 Nov. 2026 14:05:58",
                "hostname": self.machines.get(&event.machine).map(|machine| &machine.hostname), "node": event.machine, "type": event.kind, "description": event.description,
                "level": if event.level == 10 { "DEBUG" } else { "INFO" }})
        };
        // After an event come the oldest of those, else the newest of all; the newest first in both.
        let events: Vec<Value> = match number("after") {
            Some(after) => {
                let mut since: Vec<_> = found
                    .filter(|event| event.number > after)
                    .take(limit)
                    .map(shown)
                    .collect();
                since.reverse();
                since
            }
            None => found.rev().take(limit).map(shown).collect(),
        };
        let (next, prev) = (
            "/MAAS/api/2.0/events/?op=query&before=1",
            "/MAAS/api/2.0/events/?op=query&after=9",
        );
        json_of(
            200,
            &json!({"count": events.len(), "events": events, "next_uri": next, "prev_uri": prev}),
        )
    }
}
