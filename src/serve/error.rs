//! The errors that keep a service from starting.

use std::sync::Arc;

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its settings cannot be used.
    #[error("the settings of the service: {0}")]
    Settings(String),
    /// Images cannot be served.
    #[error("{0}")]
    Images(String),
    /// An address is none that it listens on.
    #[error("`{address}` is no address: {why}")]
    Address {
        /// The address as it was given.
        address: Arc<str>,
        /// Why.
        why: Arc<str>,
    },
    /// An address that others reach lacks TLS or authentication.
    #[error("`{address}` can be reached by other machines, and {lacks}")]
    Open {
        /// The address.
        address: Arc<str>,
        /// The missing part.
        lacks: &'static str,
    },
    /// No request to an address could ever be authenticated.
    #[error("no caller of `{address}` can be authenticated")]
    NoCallers {
        /// The address.
        address: Arc<str>,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address.
        address: Arc<str>,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// The way out.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Settings(_) | Self::Images(_) | Self::Listen { .. } => None,
            Self::Address { .. } => {
                Some("it is `unix:PATH` or an IP address with its port, such as `127.0.0.1:9443`")
            }
            Self::Open { .. } => Some(
                "set `tls` and one of `tls.client_ca`, `keystone` and `oidc` in the file of `--config`, or listen on a \
                 Unix socket or on loopback",
            ),
            Self::NoCallers { .. } => Some(
                "set `tls.client_ca`, `keystone`, `oidc` or `loopback` in the file of `--config`, or listen on a Unix \
                 socket, whose callers are known by their user ids",
            ),
        }
    }
}
