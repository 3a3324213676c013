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

/// A machine as MAAS shows it.
pub(super) fn shown(machine: &Machine) -> Value {
    let id = &machine.id;
    let mut shown = json!({
        "system_id": id, "hostname": machine.hostname, "fqdn": format!("{}.maas", machine.hostname),
        "status": machine.status, "status_name": name(machine.status), "status_message": machine.message,
        "power_state": machine.power, "power_type": machine.power_type, "owner": machine.owner,
        "owner_data": machine.owner_data, "locked": machine.locked, "osystem": machine.osystem,
        "distro_series": machine.series, "hwe_kernel": machine.kernel, "tag_names": machine.tags,
        "hardware_uuid": machine.uuid, "hardware_info": {"system_serial": "Unknown"}, "node_type": 0,
        "architecture": "amd64/generic", "cpu_count": 4, "memory": 8192,
        "zone": {"name": "default", "id": 1}, "pool": {"name": "default", "id": 0},
        "raids": [], "bcaches": [], "cache_sets": [],
        "resource_uri": format!("{BASE}machines/{id}/"),
    });
    for (name, value) in machine.parts.shown(id, machine.is_known) {
        shown[name] = value;
    }
    shown
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
                    &json!({"username": self.asks, "is_superuser": is_superuser}),
                )
            }
            ("GET" | "POST", ["maas"], Some(_)) => self.option(received),
            ("GET", ["boot-resources"], None) => {
                let image = |name: &&str| json!({"name": format!("ubuntu/{name}"), "architecture": "amd64/ga"});
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
            among(&ids, &|id| **id == machine.id)
                && among(&names, &|name| **name == machine.hostname)
                && among(&macs, &|mac| machine.macs.iter().any(|own| own == *mac))
                && among(&statuses, &|status| {
                    status.eq_ignore_ascii_case(name(machine.status))
                })
        };
        let listed = self.machines.values().filter(is_listed);
        json_of(200, &listed.map(shown).collect())
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
        machine(200, &self.machines[&id])
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
        if !is_dry {
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
            "read" | "update" | "mount_special" | "restore_default_configuration" => {
                machine(200, &self.machines[id])
            }
            "get_curtin_config" => text(200, "{}"),
            "power_parameters" => json_of(200, &json!({})),
            "query_power_state" if !self.has_rack => Answer {
                headers: vec![("retry-after", "10".to_owned())],
                ..text(503, "no rack controller")
            },
            "query_power_state" => {
                let machine = &self.machines[id];
                let state = if machine.is_dark {
                    "error"
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
        let shown = |(name, tag): (&String, &Tag)| json!({"name": name, "comment": tag.comment, "kernel_opts": tag.kernel_options, "definition": ""});
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
                &json!({"name": tag, "comment": self.tags[tag].comment}),
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
            json!({"id": event.number, "node": event.machine, "type": event.kind, "description": event.description,
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
        json_of(200, &json!({"count": events.len(), "events": events}))
    }
}
