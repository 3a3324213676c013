//! The settings of the Ironic backend, as `hardware.ironic` of `trueup/Backends/v1` has them.
//!
//! The schema has checked the form if a site was validated; what is read here is strict all the
//! same. Secrets stay references until a request needs them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::backend::http::Endpoint;
use crate::design::{HardwareBackend, Reference};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Seconds, from_node};

pub(super) const CODE: &str = "schema-ironic";

/// The longest bound of one request, in seconds.
const LONGEST: f64 = 3600.0;

/// Where Ironic is, who asks, and how machines are enrolled and deployed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where its API is.
    pub endpoint: Endpoint,
    /// The credentials.
    pub account: Account,
    /// Certificates to trust besides the system's, by reference.
    pub authorities: Option<Marked<Reference>>,
    /// Whether certificates are verified.
    pub verify: bool,
    /// The bound of one request.
    pub request_timeout: Duration,
    /// How machines are enrolled that Ironic does not know; absent: they are not.
    pub enrolment: Option<Enrolment>,
    /// Whether machines are inspected before they are made available.
    pub inspect: bool,
    /// The image to deploy; absent: the driver's default.
    pub image: Option<Image>,
    /// The runbook that services machines; absent: steps of their settings do.
    pub runbook: Option<Arc<str>>,
}

/// The credentials for Ironic.
#[derive(Clone, Debug)]
pub enum Account {
    /// No authentication.
    None,
    /// An account, by HTTP Basic.
    Basic {
        /// Its name.
        username: Arc<str>,
        /// Its password.
        password: Marked<Reference>,
    },
    /// A token, in `X-Auth-Token`.
    Token(Marked<Reference>),
}

/// How machines are enrolled.
#[derive(Clone, Debug, Default)]
pub struct Enrolment {
    /// The driver.
    pub driver: Arc<str>,
    /// Its information, besides address and account of the management controller.
    pub driver_info: BTreeMap<Arc<str>, Value>,
    /// How management controllers are reached.
    pub controller: Controller,
    /// Interfaces by field (`deploy_interface`), if they are not the driver's own choice.
    pub interfaces: BTreeMap<Arc<str>, Arc<str>>,
    /// The resource class.
    pub resource_class: Option<Arc<str>>,
    /// Traits.
    pub traits: Vec<Arc<str>>,
    /// Properties.
    pub properties: BTreeMap<Arc<str>, Value>,
}

/// How management controllers are reached by Ironic.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    /// The account, if the machine's design names none.
    pub username: Option<Arc<str>>,
    /// Its password; absent: the one that the machine's design has.
    pub password: Option<Reference>,
    /// `https` or `http`.
    pub scheme: Option<Arc<str>>,
    /// The port, if it is not the scheme's own.
    pub port: Option<u16>,
    /// The path of the system, if a controller has more than one.
    pub system: Option<Arc<str>>,
    /// Whether Ironic verifies certificates.
    pub verify: Option<bool>,
}

/// The image to deploy. `{image}` and `{kernel}` stand for the values of the machine's platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub source: Arc<str>,
    /// Its checksum, or where that is.
    pub checksum: Option<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Read where controllers are contacted (`ranges`).
    #[serde(default, rename = "networks")]
    _networks: serde::de::IgnoredAny,
    endpoint: Marked<Arc<str>>,
    credentials: Option<WrittenCredentials>,
    token: Option<Marked<Reference>>,
    ca: Option<Marked<Reference>>,
    #[serde(default = "yes")]
    verify: bool,
    request_timeout: Option<Marked<Seconds>>,
    driver: Option<Arc<str>>,
    #[serde(default)]
    driver_info: BTreeMap<Arc<str>, Value>,
    #[serde(default)]
    controller: WrittenController,
    #[serde(default)]
    interfaces: BTreeMap<Arc<str>, Arc<str>>,
    resource_class: Option<Arc<str>>,
    #[serde(default)]
    traits: Vec<Arc<str>>,
    #[serde(default)]
    properties: BTreeMap<Arc<str>, Value>,
    #[serde(default)]
    inspect: bool,
    image: Option<WrittenImage>,
    runbook: Option<Arc<str>>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCredentials {
    username: Arc<str>,
    password: Marked<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenController {
    username: Option<Arc<str>>,
    password: Option<Reference>,
    scheme: Option<Arc<str>>,
    port: Option<u16>,
    system: Option<Arc<str>>,
    verify: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenImage {
    source: Option<Arc<str>>,
    checksum: Option<Arc<str>>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `ironic`; `written`: if the document names it.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub fn read(backend: &HardwareBackend, written: Mark) -> Result<Self, Box<Diagnostic>> {
        let Some(node) = backend.settings.as_ref().filter(|node| !node.is_null()) else {
            let message = "the backend `ironic` needs its `endpoint`";
            let hint = "for example `ironic: {endpoint: https://ironic.example:6385}`";
            return Err(Box::new(
                Diagnostic::error(CODE, written, message).hint(hint),
            ));
        };
        let written: Written =
            from_node(node).map_err(|mismatch| Box::new(mismatch.into_diagnostic(CODE)))?;
        let refuse = |mark: Mark, message: String| Box::new(Diagnostic::error(CODE, mark, message));
        let endpoint = written.endpoint.value.trim_end_matches('/');
        // Clients of Ironic are often given its address with the version behind it.
        let endpoint = Endpoint::parse(endpoint.strip_suffix("/v1").unwrap_or(endpoint))
            .map_err(|error| refuse(written.endpoint.mark, error.to_string()))?;
        let account = match (written.credentials, written.token) {
            (Some(_), Some(token)) => {
                let message = "an account and a token: Ironic takes one of them".to_owned();
                return Err(refuse(token.mark, message));
            }
            (Some(WrittenCredentials { username, password }), None) => {
                Account::Basic { username, password }
            }
            (None, Some(token)) => Account::Token(token),
            (None, None) => Account::None,
        };
        let request_timeout = match written.request_timeout {
            None => Duration::from_secs(60),
            Some(Marked { value, .. }) if value.get() > 0.0 && value.get() <= LONGEST => {
                Duration::from_secs_f64(value.get())
            }
            Some(Marked { mark, .. }) => {
                let message =
                    format!("a request is bounded by more than 0 and at most {LONGEST} s");
                return Err(refuse(mark, message));
            }
        };
        let is_secret = |key: &&Arc<str>| key.contains("password") || key.contains("secret");
        if let Some(key) = written.driver_info.keys().find(is_secret) {
            let mark = node.get("driver_info").map_or(node.mark, |node| node.mark);
            let message =
                format!("`{key}` is a secret: give it by reference, as `controller.password`");
            return Err(refuse(mark, message));
        }
        let controller = written.controller;
        let enrolment = written.driver.map(|driver| Enrolment {
            driver,
            driver_info: written.driver_info,
            controller: Controller {
                username: controller.username,
                password: controller.password,
                scheme: controller.scheme,
                port: controller.port,
                system: controller.system,
                verify: controller.verify,
            },
            interfaces: written.interfaces,
            resource_class: written.resource_class,
            traits: written.traits,
            properties: written.properties,
        });
        let image = written.image.and_then(|image| {
            Some(Image {
                source: image.source?,
                checksum: image.checksum,
            })
        });
        Ok(Self {
            endpoint,
            account,
            authorities: written.ca,
            verify: written.verify,
            request_timeout,
            enrolment,
            inspect: written.inspect,
            image,
            runbook: written.runbook,
        })
    }
}
