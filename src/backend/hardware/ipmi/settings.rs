//! The settings of plain IPMI, as `hardware.ipmi` of `trueup/Backends/v1` has them.

use std::time::Duration;

use serde::Deserialize;

use super::program::LANPLUS;
use crate::backend::hardware::written::{Account, or_default, settling_time};
use crate::design::HardwareBackend;
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Seconds};

const CODE: &str = "schema-ipmi";

/// How controllers are reached.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The account; absent: each node's own `oob.account` and `oob.credential`.
    pub(super) account: Option<Account>,
    /// The UDP port of nodes that have none of their own.
    pub(super) port: u16,
    pub(super) interface: Interface,
    /// The cipher suite; absent: the one that worked, or what ipmitool chooses.
    pub(super) cipher_suite: Option<u8>,
    /// How long a controller may take to show what was set.
    pub(super) settling: Duration,
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
            Self::Lanplus => LANPLUS,
            Self::Lan => "lan",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    /// Read where controllers are contacted (`ranges`).
    #[serde(default, rename = "networks")]
    _networks: serde::de::IgnoredAny,
    credentials: Option<Account>,
    port: Option<u16>,
    interface: Interface,
    cipher_suite: Option<u8>,
    settling_time: Option<Marked<Seconds>>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `ipmi`.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub(super) fn read(backend: &HardwareBackend) -> Result<Self, Box<Diagnostic>> {
        let written: Written = or_default(backend.settings.as_ref(), CODE)?;
        Ok(Self {
            account: written.credentials,
            port: written
                .port
                .or(backend.kind.controller_port(true))
                .unwrap_or_default(),
            interface: written.interface,
            cipher_suite: written.cipher_suite,
            settling: settling_time(written.settling_time, CODE)?,
        })
    }
}
