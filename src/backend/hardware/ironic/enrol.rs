//! Requests to Ironic from the design of a machine: values only.
//!
//! Enrolment holds how the machine is reached and what it is; a deploy holds what is put on it. Values that
//! Ironic must not be told (a password in a text that is shown) is kept apart as a [`Secret`].

use serde_json::{Map, Value, json};

use super::settings::{Enrolment, Image};
use crate::backend::hardware::payload::{
    RootDevice, designed_password, field, files, filled, root_device,
};
use crate::backend::hardware::written::url_host;
use crate::backend::{Secret, Secrets};
use crate::design::{NodeDesign, Section};
use crate::document::Node;

/// The keys of `driver_info` for the address and account of a management controller.
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
            let host = url_host(address);
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

/// The URLs of what is put on the machine, and of its checksum if that is one.
pub(super) fn images(node: &NodeDesign, image: &Image) -> Vec<String> {
    let texts = [Some(&image.source), image.checksum.as_ref()];
    let texts = texts.into_iter().flatten();
    texts.map(|text| filled(text, node)).collect()
}

/// The system for the machine, as fields of `instance_info`.
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
    match root_device(node) {
        Some(RootDevice::Name(name)) => {
            info.insert("root_device".to_owned(), json!({ "name": name }));
        }
        Some(RootDevice::Hctl(hctl)) => {
            info.insert("root_device".to_owned(), json!({ "hctl": hctl }));
        }
        None => {}
    }
    info
}

/// The config drive: names, and the files that boot actions carry in themselves.
pub(super) fn config_drive(node: &NodeDesign) -> Value {
    let files = files(node);
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
