//! The settings of a service: who may call it, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Deserialize;

use super::address::Address;
use super::{Error, Rights, Role};
use crate::backend::address_range;

/// The longest time for a set of documents, in seconds.
const LONGEST: u64 = 3600;

/// The settings, as the operator's file has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// TLS on every port.
    pub tls: Option<TlsSettings>,
    /// Users of this machine, by their ids, who connect to the Unix socket; none: the user of the service alone, as
    /// `admin`.
    pub peers: BTreeMap<u32, Rights>,
    /// Callers with a certificate, by a name of it, as `dns:NAME` or `uri:NAME`.
    pub certificates: BTreeMap<String, Rights>,
    /// Tokens of Keystone.
    pub keystone: Option<KeystoneSettings>,
    /// Where design references may lead besides this repository.
    pub deckhand: Option<DeckhandSettings>,
    /// Bearer tokens of OpenID Connect.
    pub oidc: Option<OidcSettings>,
    /// The rights of all users of this machine who connect to a port of loopback.
    pub loopback: Option<Rights>,
    /// Images for the controllers of the site.
    pub images: Option<ImageSettings>,
    /// Bounds.
    pub limits: LimitSettings,
}

/// The files of TLS, as PEM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate of the service, and those between it and its CA.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities of callers' certificates.
    pub client_ca: Option<PathBuf>,
}

/// How tokens of Keystone are validated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeystoneSettings {
    /// Its identity API, version 3.
    pub url: String,
    /// The project that tokens have to be scoped to, by its id or as `DOMAIN/NAME`.
    pub project: String,
    /// Roles by the names of Keystone's.
    #[serde(default = "keystone_roles")]
    pub roles: BTreeMap<String, Rights>,
}

/// The roles of Airship's charts.
fn keystone_roles() -> BTreeMap<String, Rights> {
    [
        ("admin", Role::Admin),
        ("admin_ucp", Role::Admin),
        ("admin_ucp_viewer", Role::Viewer),
    ]
    .map(|(name, role)| (name.to_owned(), Rights::everywhere(role)))
    .into()
}

/// The Deckhands whose rendered documents a design reference may name, each asked with the token of the caller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeckhandSettings {
    /// Scheme, host and port of each, as `https://HOST:PORT`; `http` only if it is written.
    pub hosts: Vec<String>,
    /// The authorities of their certificates, as PEM, besides those of the system.
    pub ca: Option<PathBuf>,
    /// How long a set of documents may take, in seconds.
    #[serde(default = "deckhand_timeout")]
    pub timeout: u64,
}

impl DeckhandSettings {
    fn check(&self, has_keystone: bool) -> Result<(), Error> {
        let text = match () {
            () if !has_keystone => {
                "`deckhand` needs `keystone`: it is asked with the tokens of callers"
            }
            () if self.hosts.is_empty() => "`deckhand.hosts` is empty",
            () if !(1..=LONGEST).contains(&self.timeout) => "`deckhand.timeout` is from 1 to 3600",
            () => return Ok(()),
        };
        Err(Error::Settings(text.to_owned()))
    }
}

/// As Promenade waits.
fn deckhand_timeout() -> u64 {
    600
}

/// How bearer tokens are validated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcSettings {
    /// The issuer, as tokens name it.
    pub issuer: String,
    /// The audience that tokens have to be for.
    pub audience: String,
    /// The address of the issuer's keys.
    pub jwks: String,
    /// The claim that lists the caller's roles.
    #[serde(default = "roles_claim")]
    pub roles_claim: String,
    /// Roles by the values of that claim.
    pub roles: BTreeMap<String, Rights>,
}

fn roles_claim() -> String {
    "roles".to_owned()
}

/// A folder of images, which needs no proof of those who fetch them but their addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSettings {
    /// The folder.
    pub folder: PathBuf,
    /// The addresses that may fetch them besides the controllers.
    #[serde(default, deserialize_with = "ranges")]
    pub allow: Vec<IpNet>,
}

fn ranges<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let ranges = texts.iter().map(|text| {
        address_range(text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no range of addresses, such as `10.20.0.0/16`"
            ))
        })
    });
    ranges.collect()
}

/// Bounds that a site may want others of.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// Most connections at once.
    pub connections: usize,
    /// Most streams of events at once; each holds a connection, and one is always left for other requests.
    pub streams: usize,
    /// Most requests a second from one caller.
    pub requests_per_second: u32,
    /// Most bytes of a body.
    pub body_bytes: usize,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            connections: 512,
            streams: 128,
            requests_per_second: 50,
            body_bytes: 1 << 20,
        }
    }
}

/// The contents of the files that settings name.
#[derive(Clone, Default)]
pub struct Files {
    /// The certificate and the key of the service.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The authorities of callers' certificates.
    pub client_ca: Option<Vec<u8>>,
    /// The authorities of Deckhand's certificate.
    pub deckhand_ca: Option<Vec<u8>>,
}

impl Settings {
    /// Reads settings.
    ///
    /// # Errors
    ///
    /// They are no YAML, hold unknown keys, or contradict each other.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let settings: Option<Self> =
            serde_yaml::from_str(text).map_err(|error| Error::Settings(error.to_string()))?;
        let settings = settings.unwrap_or_default();
        let has_ca = settings
            .tls
            .as_ref()
            .is_some_and(|tls| tls.client_ca.is_some());
        if has_ca == settings.certificates.is_empty() {
            let text = "`tls.client_ca` and `certificates` belong together: one decides which certificates are valid, \
                        the other what their holders may do";
            return Err(Error::Settings(text.to_owned()));
        }
        let stray = settings
            .certificates
            .keys()
            .find(|name| !name.starts_with("dns:") && !name.starts_with("uri:"));
        if let Some(name) = stray {
            let text = format!("`certificates`: `{name}` is neither `dns:NAME` nor `uri:NAME`");
            return Err(Error::Settings(text));
        }
        if let Some(deckhand) = &settings.deckhand {
            deckhand.check(settings.keystone.is_some())?;
        }
        let LimitSettings {
            connections,
            requests_per_second,
            body_bytes,
            ..
        } = settings.limits;
        if connections == 0 || requests_per_second == 0 || body_bytes == 0 {
            return Err(Error::Settings("`limits`: each is at least 1".to_owned()));
        }
        Ok(settings)
    }

    /// The words of all parts of the site that rights are bound to.
    pub(super) fn parts(&self) -> BTreeSet<Arc<str>> {
        let keystone = self.keystone.iter().flat_map(|it| it.roles.values());
        let oidc = self.oidc.iter().flat_map(|it| it.roles.values());
        let others = self.peers.values().chain(self.certificates.values());
        let all = others.chain(&self.loopback).chain(keystone).chain(oidc);
        all.flat_map(Rights::words).cloned().collect()
    }

    /// Whether there is a way to authenticate that needs neither a Unix socket nor loopback.
    pub(super) fn has_authentication(&self) -> bool {
        !self.certificates.is_empty() || self.has_tokens()
    }

    /// Whether requests go to other services.
    #[must_use]
    pub fn asks_services(&self) -> bool {
        self.has_tokens() || self.deckhand.is_some()
    }

    /// Whether callers come with tokens.
    pub(super) fn has_tokens(&self) -> bool {
        self.keystone.is_some() || self.oidc.is_some()
    }

    /// Refuses an address that is open to callers who are not authenticated.
    ///
    /// # Errors
    ///
    /// [`Error::Open`], [`Error::NoCallers`].
    pub fn admits(&self, address: &Address) -> Result<(), Error> {
        let named = || Arc::from(address.to_string());
        let open = |lacks| Error::Open {
            address: named(),
            lacks,
        };
        match address {
            Address::Unix(_) => Ok(()),
            _ if !address.is_local() && self.tls.is_none() => Err(open("TLS is not configured")),
            _ if !address.is_local() && !self.has_authentication() => {
                Err(open("no authentication is configured"))
            }
            _ if !self.has_authentication() && self.loopback.is_none() => {
                Err(Error::NoCallers { address: named() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(settings: &str, address: &str) -> Option<String> {
        let settings = Settings::parse(settings).unwrap();
        let admitted = settings.admits(&address.parse().unwrap());
        admitted.err().map(|error| error.to_string())
    }

    #[test]
    fn no_address_is_open_to_callers_who_are_not_authenticated() {
        let tls = "tls: {certificate: c, key: k}\n";
        let keystone = "keystone: {url: 'https://k/v3', project: p}\n";
        let both = format!("{tls}{keystone}");
        let mutual =
            "tls: {certificate: c, key: k, client_ca: a}\ncertificates: {'dns:a': admin}\n";
        let (local, open) = ("127.0.0.1:1", "0.0.0.0:1");
        for (settings, address, lacks) in [
            ("", "unix:/x", None),
            ("", local, Some("authenticated")),
            ("loopback: viewer", local, None),
            (keystone, local, None),
            ("loopback: admin", open, Some("TLS")),
            (keystone, open, Some("TLS")),
            (tls, open, Some("no authentication")),
            (
                &format!("{tls}loopback: admin"),
                open,
                Some("no authentication"),
            ),
            (&both, open, None),
            (mutual, open, None),
        ] {
            let refused = refusal(settings, address);
            match lacks {
                None => assert_eq!(refused, None, "{settings} {address}"),
                Some(part) => {
                    assert!(
                        refused.is_some_and(|why| why.contains(part)),
                        "{settings} {address}"
                    );
                }
            }
        }
    }

    #[test]
    fn settings_that_say_less_than_they_seem_to_are_refused() {
        for wrong in [
            "peer: {1: admin}",
            "peers: {root: admin}",
            "peers: {1: owner}",
            "peers: {1: {operator: []}}",
            "certificates: {'dns:a': admin}",
            "tls: {certificate: c, key: k, client_ca: a}",
            "tls: {certificate: c, key: k, client_ca: a}\ncertificates: {a: admin}",
            "limits: {connections: 0}",
            "images: {}",
            "images: {folder: x, allow: [10.0.0.0/33]}",
            "keystone: {url: 'https://k/v3'}",
            "deckhand: {hosts: ['https://d']}",
            "deckhand: {hosts: []}\nkeystone: {url: 'https://k/v3', project: p}",
            "deckhand: {hosts: ['https://d'], timeout: 0}\nkeystone: {url: 'https://k/v3', project: p}",
            "[]",
        ] {
            assert!(Settings::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Settings::parse("").unwrap().peers.is_empty());
    }
}
