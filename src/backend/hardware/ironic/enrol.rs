//! What Ironic is told about a machine, from its design: values only.
//!
//! Enrolment says how the machine is reached and what it is; a deploy says what is put on it. What
//! Ironic must not be told (a password in a text that is shown) is kept apart as a [`Secret`].

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::settings::{Enrolment, Image};
use crate::backend::{Secret, Secrets};
use crate::design::{NodeDesign, Section};
use crate::document::{Node, Value as Written};

/// Which keys of `driver_info` say how a management controller is reached.
struct Keys {
    drivers: &'static [&'static str],
    prefix: &'static str,
    /// Whether the address is a whole URL.
    is_url: bool,
}

const KEYS: [Keys; 2] = [
    Keys {
        drivers: &["redfish", "idrac"],
        prefix: "redfish",
        is_url: true,
    },
    Keys {
        drivers: &["ipmi"],
        prefix: "ipmi",
        is_url: false,
    },
];

/// How a machine is reached, as `driver_info`, and the password in it.
pub(super) struct Reach {
    pub(super) driver_info: Map<String, Value>,
    pub(super) password: Option<Secret>,
}

/// How a machine is reached.
///
/// # Errors
///
/// The driver needs an address that the design does not have, or a secret cannot be had.
pub(super) fn reach(
    node: &NodeDesign,
    enrolment: &Enrolment,
    secrets: &dyn Secrets,
) -> Result<Reach, String> {
    let mut driver_info = Map::new();
    let mut password = None;
    let driver = &*enrolment.driver;
    if let Some(keys) = KEYS.iter().find(|keys| keys.drivers.contains(&driver)) {
        let controller = &enrolment.controller;
        let address = node.out_of_band.address.as_deref();
        let address = address.ok_or_else(|| {
            format!("the driver `{driver}` needs the address of its controller: give it one on its out-of-band network")
        })?;
        let mut set = |name: &str, value: Value| {
            driver_info.insert(format!("{}_{name}", keys.prefix), value);
        };
        if keys.is_url {
            let scheme = controller.scheme.as_deref().unwrap_or("https");
            let host = match address.contains(':') {
                true => format!("[{address}]"),
                false => address.to_owned(),
            };
            let port = controller
                .port
                .map_or_else(String::new, |port| format!(":{port}"));
            set("address", json!(format!("{scheme}://{host}{port}")));
            if let Some(verify) = controller.verify {
                set("verify_ca", json!(verify));
            }
            if let Some(system) = &controller.system {
                set("system_id", json!(system));
            }
        } else {
            set("address", json!(address));
            if let Some(port) = controller.port {
                set("port", json!(port));
            }
        }
        let username = node
            .out_of_band
            .account
            .as_ref()
            .or(controller.username.as_ref());
        if let Some(username) = username {
            set("username", json!(username));
        }
        password = match &controller.password {
            Some(reference) => Some(
                secrets
                    .reveal(reference)
                    .map_err(|error| error.to_string())?,
            ),
            None => designed_password(node),
        };
        if let Some(password) = &password {
            set("password", json!(password.reveal()));
        }
    }
    for (key, value) in &enrolment.driver_info {
        driver_info.insert(key.to_string(), value.clone());
    }
    Ok(Reach {
        driver_info,
        password,
    })
}

/// The password that the machine's own design has (Drydock's `oob.credential`).
fn designed_password(node: &NodeDesign) -> Option<Secret> {
    let text = field(node, Section::OutOfBand, &["oob", "credential"])?.as_str()?;
    (!text.is_empty()).then(|| Secret::new(text.to_owned()))
}

fn field<'a>(node: &'a NodeDesign, section: Section, path: &[&str]) -> Option<&'a Node> {
    node.sections.get(&section)?.at(path)
}

/// The node as it is enrolled.
pub(super) fn enrolled(
    node: &NodeDesign,
    name: &str,
    enrolment: &Enrolment,
    reach: &Reach,
    automated_clean: Option<bool>,
    marker: &Value,
) -> Value {
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(name));
    body.insert("driver".to_owned(), json!(enrolment.driver));
    body.insert("driver_info".to_owned(), json!(reach.driver_info));
    body.insert("extra".to_owned(), json!({ super::node::MARKER: marker }));
    let mut properties: Map<String, Value> = Map::new();
    let boot_mode = field(node, Section::Hardware, &["hardware_profile", "boot_mode"]);
    if let Some(boot_mode) = boot_mode.and_then(Node::as_str) {
        properties.insert(
            "capabilities".to_owned(),
            json!(format!("boot_mode:{boot_mode}")),
        );
    }
    for (key, value) in &enrolment.properties {
        properties.insert(key.to_string(), value.clone());
    }
    body.insert("properties".to_owned(), json!(properties));
    if let Some(class) = &enrolment.resource_class {
        body.insert("resource_class".to_owned(), json!(class));
    }
    if let Some(automated) = automated_clean {
        body.insert("automated_clean".to_owned(), json!(automated));
    }
    for (interface, chosen) in &enrolment.interfaces {
        body.insert(interface.to_string(), json!(chosen));
    }
    Value::Object(body)
}

/// The MAC address from which the machine boots, where its design has one.
pub(super) fn boot_address(node: &NodeDesign) -> Option<Arc<str>> {
    let text = field(node, Section::Inventory, &["metadata", "boot_mac"])?.as_str()?;
    Some(Arc::from(text.to_ascii_lowercase()))
}

/// What is put on the machine, as fields of `instance_info`.
pub(super) fn instance_info(node: &NodeDesign, image: Option<&Image>) -> Map<String, Value> {
    let mut info = Map::new();
    if let Some(image) = image {
        info.insert(
            "image_source".to_owned(),
            json!(filled(&image.source, node)),
        );
        if let Some(checksum) = &image.checksum {
            info.insert("image_checksum".to_owned(), json!(filled(checksum, node)));
        }
    }
    if let Some(hints) = root_device(node) {
        info.insert("root_device".to_owned(), hints);
    }
    info
}

/// A text with what the machine's platform names in the place of `{image}` and `{kernel}`.
fn filled(text: &str, node: &NodeDesign) -> String {
    let platform = |name: &str| {
        let value = field(node, Section::OperatingSystem, &["platform", name]);
        value.and_then(Node::as_str).unwrap_or_default().to_owned()
    };
    let text = text.replace("{image}", &platform("image"));
    text.replace("{kernel}", &platform("kernel"))
}

/// By what Ironic finds the disk of the operating system: the one labelled `bootdrive`, by its address on
/// the bus where it is an alias of the hardware profile, else by its name.
fn root_device(node: &NodeDesign) -> Option<Value> {
    let devices = field(node, Section::Storage, &["storage", "physical_devices"])?;
    let (name, _) = devices.as_map()?.iter().find(|(_, device)| {
        let label = device.node.at(&["labels", "bootdrive"]);
        label.and_then(Node::as_str) == Some("true")
    })?;
    let alias = field(
        node,
        Section::Hardware,
        &["hardware_profile", "device_aliases", &name.text],
    );
    let text = |device: &Node, key: &str| device.get(key).and_then(Node::as_str).map(str::to_owned);
    match alias {
        None => Some(json!({"name": format!("/dev/{}", name.text.trim_start_matches("/dev/"))})),
        Some(device) if text(device, "bus_type").as_deref() == Some("scsi") => {
            // `0:2.0.0` as lshw writes it is host, channel, target and unit.
            Some(json!({"hctl": text(device, "address")?.replace('.', ":")}))
        }
        // Ironic has no hint for an address on another bus.
        Some(_) => None,
    }
}

/// The config drive: names, and the files that boot actions carry in themselves.
pub(super) fn config_drive(node: &NodeDesign) -> Value {
    let mut files = Vec::new();
    let actions = field(node, Section::BootActions, &["boot_actions"]).and_then(Node::as_map);
    for (_, action) in actions.into_iter().flat_map(|actions| actions.iter()) {
        let assets = action.node.get("assets").and_then(Node::as_list);
        files.extend(assets.unwrap_or_default().iter().filter_map(file));
    }
    let mut drive = json!({
        "meta_data": {"name": node.name.as_str(), "hostname": node.name.as_str()},
    });
    if !files.is_empty() {
        // JSON is YAML, and needs no quoting of its own.
        let cloud_config = format!("#cloud-config\n{}", json!({"write_files": files}));
        drive["user_data"] = json!(cloud_config);
    }
    drive
}

/// A file as cloud-init writes it; `None` where it has to be fetched or made from a template first.
fn file(asset: &Node) -> Option<Value> {
    let text = |key: &str| asset.get(key).and_then(Node::as_str);
    let (path, data) = (text("path")?, text("data")?);
    let mut encoding = None;
    let pipeline = asset.get("data_pipeline").and_then(Node::as_list);
    for stage in pipeline.unwrap_or_default() {
        match stage.as_str()? {
            "utf8_encode" | "utf8_decode" => {}
            "base64_decode" if encoding.is_none() => encoding = Some("b64"),
            _ => return None,
        }
    }
    let mut file = json!({"path": path, "content": data});
    if let Some(permissions) = text("permissions") {
        file["permissions"] = json!(format!("{permissions:0>4}"));
    }
    if let Some(encoding) = encoding {
        file["encoding"] = json!(encoding);
    }
    Some(file)
}

/// Boot actions whose assets the config drive does not carry: they are fetched or made by somebody else.
pub(super) fn not_carried(node: &NodeDesign) -> Vec<Arc<str>> {
    let actions = field(node, Section::BootActions, &["boot_actions"]).map(|node| &node.value);
    let Some(Written::Map(actions)) = actions else {
        return Vec::new();
    };
    let is_carried = |action: &Node| {
        let assets = action.get("assets").and_then(Node::as_list);
        assets
            .unwrap_or_default()
            .iter()
            .all(|asset| file(asset).is_some())
    };
    actions
        .iter()
        .filter(|(_, action)| !is_carried(&action.node))
        .map(|(name, _)| name.text.clone())
        .collect()
}
