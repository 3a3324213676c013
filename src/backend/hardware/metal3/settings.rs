//! The settings of the Metal3 backend, as `hardware.metal3` of `trueup/Backends/v1` has them.
//!
//! Where the management cluster is stands under `clusters` of the same document; `cluster` names it.
//! Secrets stay references until a request needs them.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::backend::hardware::written::settling_time;
use crate::design::{HardwareBackend, Reference};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Seconds, from_node};

pub(super) const CODE: &str = "schema-metal3";

/// Which hosts, and how they are made and deployed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which of `clusters` the management cluster is.
    pub cluster: Marked<Arc<str>>,
    /// The namespace of the hosts.
    pub namespace: Arc<str>,
    /// The account of the management controllers, if the machine's design names none.
    pub username: Option<Arc<str>>,
    /// Its password, with `{node}` in the place of the node's name; absent: the one that the design has.
    pub password: Option<Reference>,
    /// How the operator reaches the management controllers.
    pub controller: Controller,
    /// Whether missing hosts are created.
    pub create: bool,
    /// When the operator inspects a machine.
    pub inspect: Inspect,
    /// The image to deploy; absent: no deploys.
    pub image: Option<Image>,
    /// The user data, with `{node}` in the place of the node's name; absent: the files of boot actions.
    pub user_data: Option<Reference>,
    /// The network data, with `{node}` in the place of the node's name.
    pub network_data: Option<Reference>,
    /// How often the operator may fail at something before the step does.
    pub error_limit: u64,
    /// How long power has to stay as wanted.
    pub settling: Duration,
}

/// How management controllers are reached by the operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Controller {
    /// The protocol, such as `redfish-virtualmedia`; absent: the machine's own kind.
    pub protocol: Option<Arc<str>>,
    /// `https` or `http`.
    pub scheme: Scheme,
    /// The port, if it is not the scheme's own.
    pub port: Option<u16>,
    /// The path of the system, with `{node}` in the place of the node's name.
    pub system: Arc<str>,
    /// Whether the operator verifies certificates.
    pub verify: bool,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            protocol: None,
            scheme: Scheme::Https,
            port: None,
            system: Arc::from("/redfish/v1/Systems/1"),
            verify: true,
        }
    }
}

/// How a controller's HTTP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// With TLS.
    Https,
    /// Without.
    Http,
}

/// When the operator inspects a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inspect {
    /// When it registers it.
    #[default]
    Once,
    /// Each time that it is prepared.
    Always,
    /// Never.
    Never,
}

/// The image to deploy. `{image}` and `{kernel}` stand for the values of the machine's platform.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Where it is.
    pub source: Arc<str>,
    /// Its checksum, or where that is.
    pub checksum: Option<Arc<str>>,
    /// The kind of checksum.
    pub checksum_type: Option<Arc<str>>,
    /// Its format.
    pub format: Option<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Read where controllers are contacted (`ranges`).
    #[serde(default, rename = "networks")]
    _networks: serde::de::IgnoredAny,
    cluster: Marked<Arc<str>>,
    namespace: Option<Arc<str>>,
    #[serde(default)]
    credentials: WrittenCredentials,
    #[serde(default)]
    controller: Controller,
    create: Option<bool>,
    #[serde(default)]
    inspect: Inspect,
    image: Option<Image>,
    user_data: Option<Reference>,
    network_data: Option<Reference>,
    error_limit: Option<u64>,
    settling_time: Option<Marked<Seconds>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenCredentials {
    username: Option<Arc<str>>,
    password: Option<Reference>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `metal3`; `written`: if the document names it.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub fn read(backend: &HardwareBackend, written: Mark) -> Result<Self, Box<Diagnostic>> {
        let Some(node) = backend.settings.as_ref().filter(|node| !node.is_null()) else {
            let message = "the backend `metal3` needs to know its management `cluster`";
            let hint =
                "for example `metal3: {cluster: management}`, and `management` under `clusters`";
            return Err(Box::new(
                Diagnostic::error(CODE, written, message).hint(hint),
            ));
        };
        let written: Written =
            from_node(node).map_err(|mismatch| Box::new(mismatch.into_diagnostic(CODE)))?;
        Ok(Self {
            cluster: written.cluster,
            namespace: written.namespace.unwrap_or_else(|| Arc::from("metal3")),
            username: written.credentials.username,
            password: written.credentials.password,
            controller: written.controller,
            create: written.create.unwrap_or(true),
            inspect: written.inspect,
            image: written.image,
            user_data: written.user_data,
            network_data: written.network_data,
            error_limit: written.error_limit.unwrap_or(3).max(1),
            settling: settling_time(written.settling_time, CODE)?,
        })
    }
}
