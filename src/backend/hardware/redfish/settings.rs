//! The settings of plain Redfish, as `hardware.redfish` of `trueup/Backends/v1` has them, and what a
//! node's own `oob` says beside them.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use crate::backend::hardware::written::{Account, or_default, seconds};
use crate::backend::http::Fingerprint;
use crate::design::{HardwareBackend, NodeDesign, Reference, Section};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Node, Seconds};

const CODE: &str = "schema-redfish";

/// The longest duration, in seconds: somewhat more than a month.
const LONGEST: f64 = 3e6;

/// How machines are driven by their controllers.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The account; absent: no login.
    pub(super) account: Option<Account>,
    /// The port; absent: the scheme's own.
    pub(super) port: Option<u16>,
    pub(super) scheme: Scheme,
    pub(super) sessions: Sessions,
    /// The system, by path, id, UUID or name, if a controller has more than one.
    pub(super) system: Option<Arc<str>>,
    /// Where the image is that machines boot from.
    pub(super) image: Option<Arc<str>>,
    /// An erase whose answer was lost may be asked for again.
    pub(super) may_repeat_erase: bool,
    /// How long a controller may take to show what was set.
    pub(super) settling: Duration,
    pub(super) authorities: Option<Marked<Reference>>,
    pub(super) fingerprints: Vec<Fingerprint>,
    pub(super) verify: bool,
    /// Bound of one request.
    pub(super) request: Duration,
    /// How long a system may take to shut down before it is switched off; zero: it is not asked to.
    pub(super) shutdown: Duration,
    /// The drive of the operating system: id, name or serial number.
    pub(super) system_drive: Option<Arc<str>>,
    pub(super) deploy: Deploy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scheme {
    #[default]
    Https,
    Http,
}

impl Scheme {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

/// Whether sessions are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sessions {
    /// Where the controller has them.
    #[default]
    Auto,
    /// Never: each request carries the account.
    Never,
}

/// How a machine is deployed.
#[derive(Clone, Debug)]
pub(super) struct Deploy {
    pub(super) from: Source,
    pub(super) mode: Option<Mode>,
    /// The TCP port on which the deployed system answers.
    pub(super) port: Option<u16>,
    /// Where the deployed system reports that it has come up; `{node}` stands for the node's name.
    pub(super) url: Option<Arc<str>>,
    /// How long firmware takes to boot, if it does not say.
    pub(super) boot_time: Duration,
}

impl Deploy {
    /// Whether something tells that the deployed system has come up.
    pub(super) fn is_proven(&self) -> bool {
        self.port.is_some() || self.url.is_some()
    }
}

/// The boot source of a deploy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Source {
    Pxe,
    VirtualMedia,
    UefiHttp,
}

/// How a machine boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Uefi,
    Legacy,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    /// Read where controllers are contacted (`ranges`).
    #[serde(default, rename = "networks")]
    _networks: serde::de::IgnoredAny,
    credentials: Option<Account>,
    port: Option<u16>,
    scheme: Scheme,
    session: Sessions,
    system: Option<Arc<str>>,
    image: Option<Arc<str>>,
    erase: WrittenErase,
    settling_time: Option<Marked<Seconds>>,
    ca: Option<Marked<Reference>>,
    fingerprints: Vec<Marked<Arc<str>>>,
    verify: Option<bool>,
    request_timeout: Option<Marked<Seconds>>,
    shutdown_time: Option<Marked<Seconds>>,
    operating_system_drive: Option<Arc<str>>,
    deploy: WrittenDeploy,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenErase {
    #[default]
    Once,
    Repeatable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenDeploy {
    from: Option<Source>,
    mode: Option<Mode>,
    port: Option<u16>,
    url: Option<Marked<Arc<str>>>,
    boot_time: Option<Marked<Seconds>>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `redfish`.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub(super) fn read(backend: &HardwareBackend) -> Result<Self, Box<Diagnostic>> {
        let written: Written = or_default(backend.settings.as_ref(), CODE)?;
        let otherwise = match written.image {
            Some(_) => Source::VirtualMedia,
            None => Source::Pxe,
        };
        Ok(Self {
            account: written.credentials,
            port: written.port,
            scheme: written.scheme,
            sessions: written.session,
            system: written.system,
            image: written.image,
            may_repeat_erase: written.erase == WrittenErase::Repeatable,
            settling: time(written.settling_time, 5)?,
            authorities: written.ca,
            fingerprints: written
                .fingerprints
                .iter()
                .map(fingerprint)
                .collect::<Result<_, _>>()?,
            verify: written.verify.unwrap_or(true),
            request: time(written.request_timeout, 60)?.max(Duration::from_millis(100)),
            shutdown: time(written.shutdown_time, 120)?,
            system_drive: written.operating_system_drive,
            deploy: Deploy {
                from: written.deploy.from.unwrap_or(otherwise),
                mode: written.deploy.mode,
                port: written.deploy.port,
                url: written.deploy.url.map(report_url).transpose()?,
                boot_time: time(written.deploy.boot_time, 300)?,
            },
        })
    }

    /// The longest time for which what was asked for can still come about after the process is gone.
    pub(super) fn longest_request(&self) -> Duration {
        self.request + self.settling
    }
}

/// The address at which a deployed system reports, as it is for some node.
fn report_url(written: Marked<Arc<str>>) -> Result<Arc<str>, Box<Diagnostic>> {
    match Url::parse(&written.value.replace("{node}", "node")) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(written.value),
        _ => {
            let message = "`deploy.url` is an address of the form `https://host/path`";
            Err(Box::new(Diagnostic::error(CODE, written.mark, message)))
        }
    }
}

fn fingerprint(written: &Marked<Arc<str>>) -> Result<Fingerprint, Box<Diagnostic>> {
    written.value.parse().map_err(|error| {
        let error: crate::backend::http::TrustError = error;
        Box::new(Diagnostic::error(CODE, written.mark, error.to_string()))
    })
}

fn time(written: Option<Marked<Seconds>>, otherwise: u64) -> Result<Duration, Box<Diagnostic>> {
    let otherwise = Duration::from_secs(otherwise);
    seconds(written, otherwise, ("a duration", LONGEST), CODE)
}

/// A parameter of the node's out-of-band management (`oob.address`, `oob.port`,
/// `oob.system`, `oob.uuid`, `oob.serial`).
pub(super) fn parameter(node: &NodeDesign, name: &str) -> Option<String> {
    let section = node.sections.get(&Section::OutOfBand)?;
    let value = section
        .at(&["oob", name])
        .filter(|value| !value.is_null())?;
    value.scalar_text().map(|text| text.into_owned())
}

/// A field of one of the node's sections.
pub(super) fn field<'n>(node: &'n NodeDesign, section: Section, path: &[&str]) -> Option<&'n Node> {
    let found = node.sections.get(&section)?.at(path)?;
    (!found.is_null()).then_some(found)
}
