//! The manifest of a host, from the design of its machine: values only.
//!
//! How it is reached, from which address it boots, on which disk its system goes, what that system is.
//! Secret values (passwords, user data) are kept apart as a [`Secret`] and go into Secrets.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::resource::{Host, key};
use super::settings::{Controller, Inspect, Scheme, Settings};
use super::state::CLAIM;
use crate::backend::hardware::payload::{
    RootDevice, boot_address, cloud_config, designed_password, field, filled, root_device,
};
use crate::backend::hardware::written::{for_node, reference_for, url_host};
use crate::backend::{Secret, Secrets};
use crate::design::{NodeDesign, Section};
use crate::document::Node;

/// The names of what belongs to a host.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Its account.
    pub(super) account: String,
    /// Its user data.
    pub(super) user_data: String,
    /// Its network data.
    pub(super) network_data: String,
}

impl Names {
    pub(super) fn of(host: &str) -> Self {
        Self {
            account: format!("{host}-bmc"),
            user_data: format!("{host}-user-data"),
            network_data: format!("{host}-network-data"),
        }
    }
}

/// The address of the management controller, as the operator reads it.
///
/// # Errors
///
/// The design has no address of its controller.
pub(super) fn address(node: &NodeDesign, controller: &Controller) -> Result<String, String> {
    let address = node.out_of_band.address.as_deref().ok_or(
        "the operator needs the address of its controller: give it one on its out-of-band network",
    )?;
    let kind = node.out_of_band.kind.as_deref();
    let protocol = match (&controller.protocol, kind) {
        (Some(protocol), _) => &**protocol,
        (None, Some(kind @ ("redfish" | "ipmi"))) => kind,
        (None, kind) => {
            return Err(format!(
                "Metal3 does not know controllers of the kind `{}`: name a `controller.protocol`",
                kind.unwrap_or("(none)")
            ));
        }
    };
    let host = url_host(address);
    let port = controller
        .port
        .map_or_else(String::new, |port| format!(":{port}"));
    if protocol == "ipmi" {
        return Ok(format!("ipmi://{host}{port}"));
    }
    let scheme = match controller.scheme {
        Scheme::Http => "+http",
        Scheme::Https => "",
    };
    let own = field(node, Section::OutOfBand, &["oob", "system"]).and_then(Node::as_str);
    let system = for_node(own.unwrap_or(&controller.system), node);
    let system = system.trim_start_matches('/');
    Ok(format!("{protocol}{scheme}://{host}{port}/{system}"))
}

/// The account of the management controller: its name and password.
///
/// # Errors
///
/// Neither settings nor design have one, or the secret cannot be had.
pub(super) fn account(
    node: &NodeDesign,
    settings: &Settings,
    secrets: &dyn Secrets,
) -> Result<(Secret, Secret), String> {
    let name = node
        .out_of_band
        .account
        .as_ref()
        .or(settings.username.as_ref());
    let password = match &settings.password {
        Some(reference) => Some(reveal(reference, node, secrets)?),
        None => designed_password(node),
    };
    match (name, password) {
        (Some(name), Some(password)) => Ok((Secret::new(name.to_string()), password)),
        _ => Err("the operator needs an account for its controller: give `credentials`".to_owned()),
    }
}

fn reveal(
    reference: &crate::design::Reference,
    node: &NodeDesign,
    secrets: &dyn Secrets,
) -> Result<Secret, String> {
    let secret = secrets.reveal(&reference_for(reference, node));
    secret.map_err(|error| error.to_string())
}

/// The user data of a machine's system.
///
/// # Errors
///
/// The secret cannot be had.
pub(super) fn user_data(
    node: &NodeDesign,
    settings: &Settings,
    secrets: &dyn Secrets,
) -> Result<Secret, String> {
    if let Some(reference) = &settings.user_data {
        return reveal(reference, node, secrets);
    }
    Ok(Secret::new(cloud_config(node)))
}

/// The network data of a machine's system, if the settings have any.
///
/// # Errors
///
/// The secret cannot be had.
pub(super) fn network_data(
    node: &NodeDesign,
    settings: &Settings,
    secrets: &dyn Secrets,
) -> Result<Option<Secret>, String> {
    let reference = settings.network_data.as_ref();
    reference
        .map(|reference| reveal(reference, node, secrets))
        .transpose()
}

/// The image of a machine's system: where it is, and how a host names it. What is not said is taken off a
/// host that has it.
pub(super) fn image(node: &NodeDesign, settings: &Settings) -> Option<(String, Value)> {
    let image = settings.image.as_ref()?;
    let url = filled(&image.source, node);
    let checksum = image.checksum.as_ref().map(|text| filled(text, node));
    let written = json!({
        "url": url,
        "checksum": checksum,
        "checksumType": image.checksum_type,
        "format": image.format,
    });
    Some((url, written))
}

/// Whether disks are cleaned when a system is taken off, as a host names it.
pub(super) fn cleaning(cleans: bool) -> &'static str {
    if cleans { "metadata" } else { "disabled" }
}

/// The inputs of the manifest of a node's host.
pub(super) struct HostDesign<'a> {
    pub(super) node: &'a NodeDesign,
    pub(super) site: &'a str,
    pub(super) namespace: &'a str,
    pub(super) settings: &'a Settings,
    /// Whether disks are cleaned when a system is taken off.
    pub(super) cleans: bool,
}

impl HostDesign<'_> {
    /// The part of a host's spec that does not depend on its state. `seen`: the observed host; some fields
    /// cannot be changed once they are set.
    fn lasting(&self, name: &str, seen: Option<&Host>) -> Result<Map<String, Value>, String> {
        let Self {
            node,
            site,
            namespace,
            settings,
            ..
        } = self;
        let mut spec = Map::new();
        let mut set = |name: &str, value: Value| {
            spec.insert(name.to_owned(), value);
        };
        let address = address(node, &settings.controller)?;
        let is_reached = seen.is_some_and(|host| *host.spec.bmc.address == *address);
        let account = Names::of(name).account;
        let has_account = seen.is_some_and(|host| *host.spec.bmc.credentials_name == *account);
        if !(is_reached && has_account) {
            set(
                "bmc",
                json!({
                    "address": address,
                    "credentialsName": account,
                    "disableCertificateVerification": !settings.controller.verify,
                }),
            );
        }
        let has_address = seen.is_some_and(|host| !host.spec.boot_mac_address.is_empty());
        if let Some(address) = boot_address(node).filter(|_| !has_address) {
            set("bootMACAddress", json!(address));
        }
        let mode = field(node, Section::Hardware, &["hardware_profile", "boot_mode"]);
        match mode.and_then(Node::as_str) {
            Some("uefi") => set("bootMode", json!("UEFI")),
            Some("bios") => set("bootMode", json!("legacy")),
            _ => {}
        }
        match root_device(node) {
            Some(RootDevice::Name(name)) => set("rootDeviceHints", json!({"deviceName": name})),
            Some(RootDevice::Hctl(hctl)) => set("rootDeviceHints", json!({"hctl": hctl})),
            None => {}
        }
        if settings.inspect == Inspect::Never {
            set("inspectionMode", json!("disabled"));
        }
        set(
            "consumerRef",
            json!({"apiVersion": CLAIM.0, "kind": CLAIM.1, "namespace": namespace, "name": site}),
        );
        Ok(spec)
    }

    /// The manifest of a missing host.
    ///
    /// # Errors
    ///
    /// The design has no address of its controller.
    pub(super) fn created(&self, name: &Arc<str>, marker: &str) -> Result<Value, String> {
        let mut spec = self.lasting(name, None)?;
        spec.insert("online".to_owned(), json!(false));
        spec.insert(
            "automatedCleaningMode".to_owned(),
            json!(cleaning(self.cleans)),
        );
        Ok(json!({
            "apiVersion": super::HOST_API,
            "kind": "BareMetalHost",
            "metadata": {"name": name, "annotations": {key::CREATED: self.site, key::STEP: marker}},
            "spec": spec,
        }))
    }

    /// The change that makes a host what its design says, if nothing is deployed on it.
    ///
    /// # Errors
    ///
    /// The design has no address of its controller.
    pub(super) fn refreshed(&self, seen: &Host) -> Result<Value, String> {
        let mut spec = self.lasting(&seen.metadata.name, Some(seen))?;
        // Disks that are to be kept are kept until the next deploy has ended.
        if seen.annotation(key::PRESERVED).is_none() {
            spec.insert(
                "automatedCleaningMode".to_owned(),
                json!(cleaning(self.cleans)),
            );
        }
        Ok(json!({ "spec": spec }))
    }
}
