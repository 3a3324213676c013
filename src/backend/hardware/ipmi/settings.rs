//! The settings of plain IPMI, as `hardware.ipmi` of `trueup/Backends/v1` has them.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::design::{HardwareBackend, NodeDesign, Reference};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, from_node};

const CODE: &str = "schema-ipmi";

/// The longest settling time, in seconds.
const LONGEST: f64 = 3600.0;

/// How controllers are reached.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The account; absent: each node's own `oob.account` and `oob.credential`.
    pub(super) account: Option<Account>,
    /// The UDP port.
    pub(super) port: u16,
    pub(super) interface: Interface,
    /// The cipher suite; absent: what ipmitool chooses.
    pub(super) cipher_suite: Option<u8>,
    /// How long a controller may take to show what was set.
    pub(super) settling: Duration,
}

/// Who logs in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Account {
    pub(super) username: Arc<str>,
    /// With `{node}` in the place of the node's name.
    pub(super) password: Reference,
}

/// The interface of ipmitool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Interface {
    /// IPMI 2.0.
    #[default]
    Lanplus,
    /// IPMI 1.5.
    Lan,
}

impl Interface {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Lanplus => "lanplus",
            Self::Lan => "lan",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    credentials: Option<Account>,
    port: Option<u16>,
    interface: Interface,
    cipher_suite: Option<u8>,
    settling_time: Option<Marked<f64>>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `ipmi`.
    ///
    /// # Errors
    ///
    /// What does not fit, with its place.
    pub(super) fn read(backend: &HardwareBackend) -> Result<Self, Box<Diagnostic>> {
        let written = backend.settings.as_ref().filter(|node| !node.is_null());
        let written: Written = match written {
            None => Written::default(),
            Some(node) => {
                from_node(node).map_err(|mismatch| Box::new(mismatch.into_diagnostic(CODE)))?
            }
        };
        let settling = match written.settling_time {
            None => Duration::from_secs(5),
            Some(Marked { value, .. }) if (0.0..=LONGEST).contains(&value) => {
                Duration::from_secs_f64(value)
            }
            Some(Marked { mark, .. }) => {
                let message = format!("a settling time is from 0 to {LONGEST} seconds");
                return Err(Box::new(Diagnostic::error(CODE, mark, message)));
            }
        };
        Ok(Self {
            account: written.credentials,
            port: written.port.unwrap_or(623),
            interface: written.interface,
            cipher_suite: written.cipher_suite,
            settling,
        })
    }
}

/// A reference with the node's name in the place of `{node}`.
pub(super) fn reference_for(reference: &Reference, node: &NodeDesign) -> Reference {
    let put = |text: &Arc<str>| Arc::from(text.replace("{node}", node.name.as_str()));
    match reference {
        Reference::Env(name) => Reference::Env(put(name)),
        Reference::File(path) => Reference::File(put(path)),
        Reference::Exec(words) => Reference::Exec(words.iter().map(put).collect()),
    }
}
