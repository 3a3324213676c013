//! The settings of the MAAS backend, as `hardware.maas` of `trueup/Backends/v1` has them.
//!
//! The schema has checked the form if a site was validated; what is read here is strict all the
//! same. Secrets stay references until a request needs them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::backend::hardware::written::seconds;
use crate::backend::http::Endpoint;
use crate::design::{HardwareBackend, Reference};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Seconds, from_node};

pub(super) const CODE: &str = "schema-maas";

/// The bound of one request if nothing is written: a region takes long to list a thousand machines.
pub(super) const REQUEST: Duration = Duration::from_secs(180);

/// Where MAAS is, with which key, and how machines are created, tested and erased.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is, `/MAAS` included.
    pub endpoint: Endpoint,
    /// The API key.
    pub api_key: Marked<Reference>,
    /// Certificates to trust besides the system's, by reference.
    pub authorities: Option<Marked<Reference>>,
    /// Whether certificates are verified.
    pub verify: bool,
    /// The bound of one request.
    pub request_timeout: Duration,
    /// How machines are created that MAAS does not know; absent: they are not.
    pub creation: Option<Creation>,
    /// Scripts of a commissioning; absent: those that MAAS runs by itself.
    pub commissioning_scripts: Option<Vec<Arc<str>>>,
    /// Scripts of the tests after it; absent: those that MAAS runs by itself, empty: none.
    pub testing_scripts: Option<Vec<Arc<str>>>,
    /// How disks are erased.
    pub erase: Erase,
    /// The release script that erases the disk of the operating system and no other.
    pub system_disk_script: Option<Arc<str>>,
    /// Whether deployed machines are locked.
    pub lock: bool,
}

/// How machines are created.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The power type, such as `redfish`.
    pub power_type: Arc<str>,
    /// The architecture.
    pub architecture: Arc<str>,
    /// Parameters of the power type, besides address and account of the management controller.
    pub power_parameters: BTreeMap<Arc<str>, Arc<str>>,
    /// The account, if the machine's design names none.
    pub username: Option<Arc<str>>,
    /// Its password, with `{node}` in the place of the node's name; absent: the one that the machine's design has.
    pub password: Option<Reference>,
}

/// How MAAS erases the disks of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Erase {
    /// By the drive's own erasure if it has one, else everything is overwritten.
    #[default]
    Secure,
    /// By the drive's own erasure if it has one, else both ends are overwritten.
    SecureElseQuick,
    /// Both ends are overwritten.
    Quick,
    /// Everything is overwritten.
    Overwrite,
}

impl Erase {
    /// The flags of a release: secure and quick. All are sent, since MAAS puts options of its own in the place of
    /// absent ones.
    #[must_use]
    pub const fn flags(self) -> (bool, bool) {
        match self {
            Self::Secure => (true, false),
            Self::SecureElseQuick => (true, true),
            Self::Quick => (false, true),
            Self::Overwrite => (false, false),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Read where controllers are contacted (`ranges`).
    #[serde(default, rename = "networks")]
    _networks: serde::de::IgnoredAny,
    endpoint: Marked<Arc<str>>,
    api_key: Marked<Reference>,
    ca: Option<Marked<Reference>>,
    #[serde(default = "yes")]
    verify: bool,
    request_timeout: Option<Marked<Seconds>>,
    power_type: Option<Arc<str>>,
    architecture: Option<Arc<str>>,
    #[serde(default)]
    power_parameters: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    controller: WrittenController,
    commissioning_scripts: Option<Vec<Arc<str>>>,
    testing_scripts: Option<Vec<Arc<str>>>,
    #[serde(default)]
    erase: Erase,
    system_disk_script: Option<Arc<str>>,
    #[serde(default = "yes")]
    lock: bool,
}

fn yes() -> bool {
    true
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenController {
    username: Option<Arc<str>>,
    password: Option<Reference>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `maas`; `written`: if the document names it.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub fn read(backend: &HardwareBackend, written: Mark) -> Result<Self, Box<Diagnostic>> {
        let Some(node) = backend.settings.as_ref().filter(|node| !node.is_null()) else {
            let message = "the backend `maas` needs its `endpoint` and an `api_key`";
            let hint = "for example `maas: {endpoint: https://maas.example:5443/MAAS, api_key: {env: MAAS_API_KEY}}`";
            return Err(Box::new(
                Diagnostic::error(CODE, written, message).hint(hint),
            ));
        };
        let written: Written =
            from_node(node).map_err(|mismatch| Box::new(mismatch.into_diagnostic(CODE)))?;
        let refuse = |mark: Mark, message: String| Box::new(Diagnostic::error(CODE, mark, message));
        let endpoint = Endpoint::parse(&base(&written.endpoint.value))
            .map_err(|error| refuse(written.endpoint.mark, error.to_string()))?;
        let is_secret = |key: &&Arc<str>| {
            ["pass", "secret", "key"]
                .iter()
                .any(|each| key.contains(each))
        };
        if let Some(key) = written.power_parameters.keys().find(is_secret) {
            let mark = node
                .get("power_parameters")
                .map_or(node.mark, |node| node.mark);
            let message =
                format!("`{key}` is a secret: give it by reference, as `controller.password`");
            return Err(refuse(mark, message));
        }
        let request = ("the bound of a request", 3600.0);
        let request_timeout = seconds(written.request_timeout, REQUEST, request, CODE)?;
        let creation = written.power_type.map(|power_type| Creation {
            power_type,
            architecture: written
                .architecture
                .unwrap_or_else(|| Arc::from("amd64/generic")),
            power_parameters: written.power_parameters,
            username: written.controller.username,
            password: written.controller.password,
        });
        Ok(Self {
            endpoint,
            api_key: written.api_key,
            authorities: written.ca,
            verify: written.verify,
            request_timeout,
            creation,
            commissioning_scripts: written.commissioning_scripts,
            testing_scripts: written.testing_scripts,
            erase: written.erase,
            system_disk_script: written.system_disk_script,
            lock: written.lock,
        })
    }
}

/// The address without the version of the API, which clients of MAAS are often given with it.
fn base(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    let endpoint = endpoint.strip_suffix("/api/2.0").unwrap_or(endpoint);
    let is_bare = endpoint.matches('/').count() <= 2;
    match is_bare {
        true => format!("{endpoint}/MAAS"),
        false => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_be_given_with_the_version_of_the_api_and_without_a_path() {
        for (written, expected) in [
            ("http://h:5240", "http://h:5240/MAAS"),
            ("http://h:5240/", "http://h:5240/MAAS"),
            ("http://h:5240/MAAS/", "http://h:5240/MAAS"),
            ("https://h/MAAS/api/2.0/", "https://h/MAAS"),
            ("https://h/proxy/maas", "https://h/proxy/maas"),
        ] {
            assert_eq!(base(written), expected, "{written}");
        }
    }
}
