//! Lists of machines that other tools keep, in JSON: the devices of NetBox, and a state of Terraform.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::notes::{Note, NoteProblem, Notes};
use crate::design::node_name_problem;
use crate::identity::Identity;

/// The version of Terraform's states that is read, that of each since 0.12.
const STATE_VERSION: u64 = 4;

/// Reads a table in CSV, a list of NetBox's devices or a state of Terraform.
///
/// # Errors
///
/// All problems at once.
pub fn read(text: &str) -> Result<Notes, Vec<NoteProblem>> {
    let trimmed = text.trim_start_matches('\u{feff}').trim_start();
    let machines = match trimmed.chars().next() {
        Some('[') => parsed::<Vec<Device>>(trimmed).map(of_devices),
        Some('{') => match parsed::<Document>(trimmed) {
            Ok(document) => document.machines(),
            Err(problem) => Err(problem),
        },
        _ => return Notes::read(text),
    };
    let mut notes = Notes::default();
    let mut problems = Vec::new();
    for machine in machines.map_err(|problem| vec![problem])? {
        match machine.note() {
            Err(why) => notes.leave_out(&machine.place, why),
            Ok(note) => {
                if let Err(why) = notes.add(note) {
                    problems.push(NoteProblem::of(&machine.place, why));
                }
            }
        }
    }
    match problems.is_empty() {
        true => Ok(notes),
        false => Err(problems),
    }
}

fn parsed<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, NoteProblem> {
    serde_json::from_str(text).map_err(|error| {
        let place = format!("line {}", error.line());
        NoteProblem::of(&place, format!("no list of machines can be read: {error}"))
    })
}

/// A machine of a list.
struct Machine {
    /// How it is named in the list.
    place: String,
    name: Option<String>,
    address: Option<String>,
    identity: Identity,
    rack: Option<String>,
    tags: Vec<String>,
}

impl Machine {
    /// Its row; or why it can be about no machine.
    fn note(&self) -> Result<Note, String> {
        let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) else {
            return Err("it has no name".to_owned());
        };
        if let Some(problem) = node_name_problem(name) {
            return Err(format!("its name cannot be that of a node: {problem}"));
        }
        Ok(Note {
            name: Arc::from(name),
            address: self.address.as_deref().map(Arc::from),
            identity: self.identity.clone(),
            rack: self.rack.as_deref().map(Arc::from),
            tags: self
                .tags
                .iter()
                .map(|tag| Arc::from(tag.as_str()))
                .collect(),
        })
    }
}

/// A list in an object: a page of NetBox's API, or a state.
#[derive(Deserialize)]
struct Document {
    results: Option<Vec<Device>>,
    count: Option<usize>,
    version: Option<u64>,
    resources: Option<Vec<Resource>>,
}

impl Document {
    fn machines(self) -> Result<Vec<Machine>, NoteProblem> {
        let refused = |why: String| Err(NoteProblem::of("the file", why));
        match self {
            Self {
                results: Some(devices),
                count,
                ..
            } => match count.filter(|count| *count > devices.len()) {
                Some(count) => refused(format!(
                    "it is one page with {} of {count} devices: ask NetBox with `?limit=0`, or join the pages",
                    devices.len()
                )),
                None => Ok(of_devices(devices)),
            },
            Self {
                version: Some(version),
                resources: Some(resources),
                ..
            } => match version == STATE_VERSION {
                true => of_resources(resources),
                false => refused(format!(
                    "it is a Terraform state of version {version}; that of version {STATE_VERSION} is read"
                )),
            },
            _ => refused(
                "it is neither a list of NetBox's devices (`results`) nor a Terraform state (`resources`)"
                    .to_owned(),
            ),
        }
    }
}

/// A device of NetBox.
#[derive(Deserialize)]
struct Device {
    id: Option<u64>,
    name: Option<String>,
    serial: Option<String>,
    rack: Option<Named>,
    /// The address of its controller, since NetBox 3.6.
    oob_ip: Option<Address>,
    #[serde(alias = "device_role")]
    role: Option<Named>,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Named {
    name: Option<String>,
    slug: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    address: String,
}

/// A tag, which was a text before NetBox 2.9.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tag {
    Text(String),
    Object { slug: String },
}

fn of_devices(devices: Vec<Device>) -> Vec<Machine> {
    let machine = |(at, device): (usize, Device)| {
        let tags = device.tags.into_iter().map(|tag| match tag {
            Tag::Text(text) | Tag::Object { slug: text } => text,
        });
        let role = device.role.and_then(|role| role.slug);
        let address = device.oob_ip.map(|it| match it.address.split_once('/') {
            Some((address, _)) => address.to_owned(),
            None => it.address,
        });
        let place = match (&device.name, device.id) {
            (Some(name), _) => format!("device `{name}`"),
            (None, Some(id)) => format!("device {id}"),
            (None, None) => format!("device number {}", at + 1),
        };
        Machine {
            place,
            name: device.name,
            address,
            identity: Identity::of(None, device.serial.as_deref()),
            rack: device.rack.and_then(|rack| rack.name),
            tags: tags.chain(role).collect(),
        }
    };
    devices.into_iter().enumerate().map(machine).collect()
}

/// A resource of a state.
#[derive(Deserialize)]
struct Resource {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(default)]
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    index_key: Option<Value>,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
}

impl Instance {
    fn text(&self, name: &str) -> Option<String> {
        let text = self.attributes.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A value of a map, which some providers keep as a text of JSON.
    fn inner(&self, map: &str, names: &[&str]) -> Option<String> {
        let value = self.attributes.get(map)?;
        let decoded = value
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        let value: &Value = decoded.as_ref().unwrap_or(value);
        let mut found = names.iter().filter_map(|name| value.get(name)?.as_str());
        found.next().map(host)
    }
}

/// The host of an address or a URL.
fn host(address: &str) -> String {
    let url = Url::parse(address).ok();
    match url.as_ref().and_then(Url::host_str) {
        Some(host) => host.trim_matches(['[', ']']).to_owned(),
        None => address.to_owned(),
    }
}

/// The machines of MAAS and Ironic among the resources.
fn of_resources(resources: Vec<Resource>) -> Result<Vec<Machine>, NoteProblem> {
    let mut machines = Vec::new();
    for resource in resources {
        for instance in &resource.instances {
            let place = match &instance.index_key {
                Some(key) => format!("{}.{}[{key}]", resource.kind, resource.name),
                None => format!("{}.{}", resource.kind, resource.name),
            };
            let (name, address, identity) = match resource.kind.as_str() {
                "maas_machine" => (
                    instance.text("hostname"),
                    instance.inner("power_parameters", &["power_address"]),
                    Identity::default().with_macs(instance.text("pxe_mac_address").as_deref()),
                ),
                "ironic_node_v1" => {
                    let ports = instance.attributes.get("ports").and_then(Value::as_array);
                    let macs = ports.into_iter().flatten();
                    let macs = macs.filter_map(|port| port.get("address")?.as_str());
                    let identity = Identity::default().with_macs(macs);
                    let names = ["redfish_address", "ipmi_address", "drac_address"];
                    (
                        instance.text("name"),
                        instance.inner("driver_info", &names),
                        match instance.text("id") {
                            Some(id) => identity.in_provisioner(&id),
                            None => identity,
                        },
                    )
                }
                _ => continue,
            };
            machines.push(Machine {
                place,
                name,
                address,
                identity,
                rack: None,
                tags: Vec::new(),
            });
        }
    }
    match machines.is_empty() {
        true => {
            let why = "the Terraform state has no `maas_machine` and no `ironic_node_v1`";
            Err(NoteProblem::of("the file", why.to_owned()))
        }
        false => Ok(machines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(notes: &Notes, address: &str) -> (String, Option<String>, Vec<String>) {
        let note = notes.about("x", Some(address), None).unwrap();
        let tags = note.tags.iter().map(ToString::to_string).collect();
        let rack = note.rack.as_ref().map(ToString::to_string);
        (note.name.to_string(), rack, tags)
    }

    #[test]
    fn devices_of_netbox_name_machines_by_controller_and_serial_number() {
        let devices = r#"[
            {"id": 1, "name": "n1", "serial": "SN-100", "rack": {"name": "r7"},
             "oob_ip": {"address": "10.0.0.7/24"}, "role": {"slug": "compute"}, "tags": [{"slug": "gpu"}]},
            {"id": 2, "name": null, "serial": "SN-200"},
            {"id": 3, "name": "a switch (old)"},
            {"id": 4, "name": "n4", "serial": "", "rack": null, "oob_ip": null, "device_role": {"slug": "storage"},
             "tags": ["hot"]}
        ]"#;
        let page = format!(r#"{{"count": 4, "next": null, "results": {devices}}}"#);
        for text in [devices, &page] {
            let notes = read(text).unwrap();
            let (name, rack, tags) = about(&notes, "10.0.0.7");
            assert_eq!((&*name, rack.as_deref()), ("n1", Some("r7")));
            assert_eq!(tags, ["compute", "gpu"]);
            let identity = Identity::of(None, Some("sn-100"));
            assert_eq!(
                &*notes.about("x", None, Some(&identity)).unwrap().name,
                "n1"
            );
            let tags = &notes.about("n4", None, None).unwrap().tags;
            assert_eq!(
                tags.iter().map(|tag| &**tag).collect::<Vec<_>>(),
                ["hot", "storage"]
            );
            let left: Vec<String> = notes
                .left_out()
                .map(|(place, why)| format!("{place}: {why}"))
                .collect();
            assert_eq!(left[0], "device 2: it has no name");
            assert!(
                left[1].starts_with("device `a switch (old)`: its name cannot be that of a node: "),
                "{left:?}"
            );
        }
        let twice = r#"[{"name": "n1", "serial": "SN-100"}, {"name": "n2", "serial": "sn-100"}]"#;
        let problems = read(twice).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "device `n2`: `sn-100` is in a row above, too"
        );
    }

    #[test]
    fn a_state_of_terraform_names_machines_of_maas_and_ironic() {
        let state = r#"{"version": 4, "resources": [
            {"mode": "managed", "type": "maas_machine", "name": "compute", "instances": [
                {"index_key": 0, "attributes": {"hostname": "n1", "pxe_mac_address": "52:54:00:89:F5:3E",
                 "power_parameters": {"power_address": "10.0.0.1", "power_pass": "secret"}}},
                {"index_key": "b", "attributes": {"hostname": "n2", "pxe_mac_address": "52:54:00:89:f5:3f",
                 "power_parameters": "{\"power_address\": \"10.0.0.2\"}"}}]},
            {"mode": "managed", "type": "ironic_node_v1", "name": "control", "instances": [
                {"attributes": {"id": "5f6d-1", "name": "c1", "ports": [{"address": "52:54:00:00:00:01"}],
                 "driver_info": {"redfish_address": "https://[2001:db8::7]:8443", "redfish_password": "secret"}}}]},
            {"mode": "managed", "type": "null_resource", "name": "x", "instances": [{"attributes": {"id": "1"}}]}]}"#;
        let notes = read(state).unwrap();
        assert_eq!(about(&notes, "10.0.0.1").0, "n1");
        assert_eq!(about(&notes, "10.0.0.2").0, "n2");
        assert_eq!(about(&notes, "2001:db8::7").0, "c1");
        let identity = Identity::default().with_macs(["52:54:00:89:f5:3e"]);
        assert_eq!(
            &*notes.about("x", None, Some(&identity)).unwrap().name,
            "n1"
        );
        let identity = Identity::default().in_provisioner("5f6d-1");
        assert_eq!(
            &*notes.about("x", None, Some(&identity)).unwrap().name,
            "c1"
        );
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_reason() {
        for (text, why) in [
            (
                r#"{"count": 3, "results": [{"name": "n1"}]}"#,
                "the file: it is one page with 1 of 3 devices",
            ),
            (
                r#"{"version": 3, "resources": []}"#,
                "the file: it is a Terraform state of version 3",
            ),
            (
                r#"{"version": 4, "resources": []}"#,
                "the file: the Terraform state has no `maas_machine`",
            ),
            (
                r#"{"kind": "List"}"#,
                "the file: it is neither a list of NetBox's devices",
            ),
            (
                "[{\n\"name\": 7}]",
                "line 2: no list of machines can be read",
            ),
            (
                "[{\"name\": \"n1\"}",
                "line 1: no list of machines can be read",
            ),
        ] {
            let problems = read(text).unwrap_err();
            assert!(problems[0].to_string().starts_with(why), "{problems:?}");
        }
        assert_eq!(read("name,rack\nn1,r1\n").unwrap().names().count(), 1);
    }
}
