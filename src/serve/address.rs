//! The addresses that a service listens on.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use super::error::Error;

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A port.
    Tcp(SocketAddr),
}

impl Address {
    /// Whether only this machine reaches it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |why: &str| Error::Address {
            address: Arc::from(text),
            why: Arc::from(why),
        };
        match text.strip_prefix("unix:") {
            Some("") => Err(refused("the path is missing")),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => match text.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => Err(refused(
                    "neither a Unix socket nor an IP address with a port",
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unix_sockets_or_ports() {
        let parse = |text: &str| text.parse::<Address>();
        assert_eq!(
            parse("unix:/run/x").unwrap(),
            Address::Unix("/run/x".into())
        );
        for (text, is_local) in [
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("127.9.9.9:80", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("10.0.0.1:80", false),
        ] {
            let address = parse(text).unwrap();
            assert_eq!(
                (address.is_local(), address.to_string()),
                (is_local, text.to_owned())
            );
        }
        for wrong in [
            "",
            "unix:",
            "localhost:80",
            "127.0.0.1",
            ":80",
            "http://127.0.0.1:80",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
