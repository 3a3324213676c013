//! The payload for a machine, for all provisioners: values of its design, and files for cloud-init.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::backend::Secret;
use crate::design::{NodeDesign, Section};
use crate::document::{Node, Value as Written};

/// A field of one of the node's sections.
pub(super) fn field<'a>(node: &'a NodeDesign, section: Section, path: &[&str]) -> Option<&'a Node> {
    node.sections.get(&section)?.at(path)
}

/// A text of a map that is not empty.
pub(super) fn text(node: &Node, name: &str) -> Option<Arc<str>> {
    let text = node.get(name).and_then(Node::scalar_text)?;
    (!text.is_empty()).then(|| Arc::from(&*text))
}

/// The password that the machine's own design has (Drydock's `oob.credential`).
pub(super) fn designed_password(node: &NodeDesign) -> Option<Secret> {
    let text = field(node, Section::OutOfBand, &["oob", "credential"])?.as_str()?;
    (!text.is_empty()).then(|| Secret::new(text.to_owned()))
}

/// The MAC address from which the machine boots, if its design has one.
pub(super) fn boot_address(node: &NodeDesign) -> Option<Arc<str>> {
    let text = field(node, Section::Inventory, &["metadata", "boot_mac"])?.as_str()?;
    Some(Arc::from(
        text.trim().to_ascii_lowercase().replace('-', ":"),
    ))
}

/// A text with what the machine's platform names in the place of `{image}` and `{kernel}`.
pub(super) fn filled(text: &str, node: &NodeDesign) -> String {
    let platform = |name: &str| {
        let value = field(node, Section::OperatingSystem, &["platform", name]);
        value.and_then(Node::as_str).unwrap_or_default().to_owned()
    };
    let text = text.replace("{image}", &platform("image"));
    text.replace("{kernel}", &platform("kernel"))
}

/// By what the disk of the operating system is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RootDevice {
    /// By its name.
    Name(String),
    /// By host, channel, target and unit on a SCSI bus.
    Hctl(String),
}

/// By what the disk of the operating system is found: the one labelled `bootdrive`, by its address on the
/// bus if it is an alias of the hardware profile, else by its name. `None`: there is no such disk, or no
/// provisioner has a hint for an address on its bus.
pub(super) fn root_device(node: &NodeDesign) -> Option<RootDevice> {
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
        None => Some(RootDevice::Name(format!(
            "/dev/{}",
            name.text.trim_start_matches("/dev/")
        ))),
        Some(device) if text(device, "bus_type").as_deref() == Some("scsi") => {
            // `0:2.0.0` as lshw writes it is host, channel, target and unit.
            Some(RootDevice::Hctl(text(device, "address")?.replace('.', ":")))
        }
        // There is no hint for an address on another bus.
        Some(_) => None,
    }
}

/// The files that boot actions carry in themselves, as cloud-init writes them.
pub(super) fn files(node: &NodeDesign) -> Vec<Value> {
    let mut files = Vec::new();
    let actions = field(node, Section::BootActions, &["boot_actions"]).and_then(Node::as_map);
    for (_, action) in actions.into_iter().flat_map(|actions| actions.iter()) {
        let assets = action.node.get("assets").and_then(Node::as_list);
        files.extend(assets.unwrap_or_default().iter().filter_map(file));
    }
    files
}

/// The user data of a machine's system: its name, and the files that boot actions carry in themselves.
pub(super) fn cloud_config(node: &NodeDesign) -> String {
    let mut config = json!({"hostname": node.name.as_str()});
    let files = files(node);
    if !files.is_empty() {
        config["write_files"] = json!(files);
    }
    // JSON is YAML, and needs no quoting of its own.
    format!("#cloud-config\n{config}")
}

/// A file as cloud-init writes it; `None` if it has to be fetched or made from a template first.
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

/// Boot actions whose assets are not handed to cloud-init: they are fetched or made elsewhere.
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
