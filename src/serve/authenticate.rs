//! The caller of a request: who it is by whichever proof it brings, and its rights.
//!
//! A caller that brings a token is judged by it alone: a token that is wrong, or that no service here could validate,
//! is a refusal, also if the connection would prove its caller.

use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};

use super::answer::Refusal;
use super::keystone::Keystone;
use super::listen::Peer;
use super::oidc::Oidc;
use super::settings::Settings;
use super::subject::Subject;
use super::{Error, Rights, Role};
use crate::backend::http::is_loopback;

/// The header of Keystone's tokens.
const TOKEN: &str = "x-auth-token";

/// How callers on loopback are known.
const LOOPBACK: &str = "loopback";

/// The longest token, in bytes.
const LONGEST: usize = 8 << 10;

/// Authenticates callers.
pub(super) struct Authenticator {
    settings: Settings,
    /// The user of the service.
    own_uid: u32,
    keystone: Option<Keystone>,
    oidc: Option<Oidc>,
}

impl Authenticator {
    pub(super) fn new(settings: &Settings, own_uid: u32) -> Result<Self, Error> {
        Ok(Self {
            keystone: settings.keystone.as_ref().map(Keystone::new).transpose()?,
            oidc: settings.oidc.as_ref().map(Oidc::new).transpose()?,
            settings: settings.clone(),
            own_uid,
        })
    }

    /// The caller; `now`: seconds since 1970.
    pub(super) async fn subject(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        now: u64,
    ) -> Result<Subject, Refusal> {
        let token = one(headers, TOKEN)?;
        let bearer = one(headers, AUTHORIZATION.as_str())?;
        match (token, bearer) {
            (Some(_), Some(_)) => Err(Refusal::unauthenticated("two tokens were sent")),
            (Some(token), None) => match &self.keystone {
                Some(keystone) => keystone.subject(token, now).await,
                None => Err(Refusal::unauthenticated(
                    "tokens of Keystone are not taken here",
                )),
            },
            (None, Some(value)) => match (&self.oidc, value.split_once(' ')) {
                (Some(oidc), Some((scheme, token))) if scheme.eq_ignore_ascii_case("bearer") => {
                    oidc.subject(token.trim(), now).await
                }
                _ => Err(Refusal::unauthenticated(
                    "bearer tokens of this kind are not taken here",
                )),
            },
            (None, None) => {
                let subject = self.subject_of_peer(peer)?;
                if subject.by == LOOPBACK && !names_this_machine(headers) {
                    let text = "`Host` is no address of this machine";
                    return Err(Refusal::unauthenticated(text));
                }
                Ok(subject)
            }
        }
    }

    /// The caller by its connection.
    fn subject_of_peer(&self, peer: &Peer) -> Result<Subject, Refusal> {
        match peer {
            #[cfg(unix)]
            Peer::Unix { uid } => {
                let peers = &self.settings.peers;
                let rights = match peers.is_empty() && *uid == self.own_uid {
                    true => Some(Rights::everywhere(Role::Admin)),
                    false => peers.get(uid).cloned(),
                };
                let name = format!("uid {uid}");
                known(
                    &name,
                    "peer",
                    rights,
                    "no role is set for the user of this connection",
                )
            }
            Peer::Tcp {
                certificate: Some(names),
                ..
            } => {
                let rights = &self.settings.certificates;
                let named = names
                    .0
                    .iter()
                    .filter_map(|name| Some((name, rights.get(name)?)));
                let best = named.clone().max_by_key(|(_, rights)| rights.highest());
                let name = best.map_or("", |(name, _)| name.as_str());
                let rights = Rights::all_of(named.map(|(_, rights)| rights));
                known(
                    name,
                    "certificate",
                    rights,
                    "no role is set for a name of the certificate",
                )
            }
            Peer::Tcp { address, .. } if address.ip().is_loopback() => {
                let rights = self.settings.loopback.clone();
                known(LOOPBACK, LOOPBACK, rights, "no token was sent")
            }
            Peer::Tcp { .. } => Err(Refusal::unauthenticated("no token was sent")),
        }
    }
}

fn known(
    name: &str,
    by: &'static str,
    rights: Option<Rights>,
    otherwise: &str,
) -> Result<Subject, Refusal> {
    let rights = rights.ok_or_else(|| Refusal::unauthenticated(otherwise))?;
    // The names of certificates are written with their kind.
    let plain = name.split_once(':').map_or(name, |(_, plain)| plain);
    Ok(Subject {
        name: Arc::from(name),
        principals: [Arc::from(name), Arc::from(plain)].into(),
        by,
        rights,
    })
}

/// Whether a request is addressed to loopback by its name there: a page whose own name leads to loopback makes a browser
/// send requests that bear that name.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<http::uri::Authority>().ok());
    host.is_some_and(|host| is_loopback(host.host()))
}

/// The token of Keystone's that a request brings, which was validated if its caller is known.
pub(super) fn token_of(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    one(headers, TOKEN)
}

/// The one value of a header.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|text| text.len() <= LONGEST);
    match (text, values.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => Err(Refusal::unauthenticated("the token is no token")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::certificate::Names;
    use crate::serve::policy::Operation;
    use http::HeaderValue;

    const SETTINGS: &str = "tls: {certificate: c, key: k, client_ca: a}\n\
                            certificates: {'dns:ship': operator, 'uri:spiffe://a/b': admin}\n\
                            peers: {1000: viewer}\n";

    fn ask(
        settings: &str,
        peer: &Peer,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Subject, Refusal> {
        let authenticator = Authenticator::new(&Settings::parse(settings).unwrap(), 7).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(authenticator.subject(peer, &map, 0))
    }

    fn role(settings: &str, peer: &Peer) -> Option<Role> {
        let subject = ask(settings, peer, &[]).ok()?;
        Some(subject.rights.highest())
    }

    fn port(names: Option<&[&str]>) -> Peer {
        let names = names.map(|names| Names(names.iter().map(|name| (*name).to_owned()).collect()));
        Peer::Tcp {
            address: "10.0.0.9:5".parse().unwrap(),
            certificate: names.map(Arc::new),
        }
    }

    #[test]
    fn a_connection_proves_its_user_or_its_certificate() {
        for (settings, uid, expected) in [
            ("", 7, Some(Role::Admin)),
            ("", 0, None),
            ("", 8, None),
            (SETTINGS, 1000, Some(Role::Viewer)),
            // The list replaces the default.
            (SETTINGS, 7, None),
        ] {
            assert_eq!(role(settings, &Peer::Unix { uid }), expected, "{uid}");
        }
        assert_eq!(role(SETTINGS, &port(None)), None);
        assert_eq!(role(SETTINGS, &port(Some(&[]))), None);
        assert_eq!(role(SETTINGS, &port(Some(&["dns:other"]))), None);
        assert_eq!(
            role(SETTINGS, &port(Some(&["dns:ship"]))),
            Some(Role::Operator)
        );
        let both = port(Some(&["dns:ship", "uri:spiffe://a/b"]));
        assert_eq!(role(SETTINGS, &both), Some(Role::Admin));
    }

    #[test]
    fn loopback_has_the_role_that_is_set_and_no_other() {
        let peer = Peer::Tcp {
            address: "127.0.0.1:5".parse().unwrap(),
            certificate: None,
        };
        assert_eq!(role("", &peer), None);
        for (host, is_admitted) in [
            ("127.0.0.1:9", true),
            ("localhost", true),
            ("[::1]:9", true),
            ("evil.example", false),
        ] {
            let asked = ask("loopback: operator", &peer, &[("host", host)]);
            assert_eq!(asked.is_ok(), is_admitted, "{host}");
        }
        assert_eq!(role("loopback: operator", &peer), None);
        assert_eq!(role("loopback: operator", &port(None)), None);
    }

    #[test]
    fn a_token_that_cannot_be_validated_is_refused_whoever_sends_it() {
        let peer = Peer::Unix { uid: 7 };
        for headers in [
            &[("x-auth-token", "x")][..],
            &[("authorization", "Bearer x")],
            &[("authorization", "Basic eDp5")],
            &[("x-auth-token", "x"), ("authorization", "Bearer x")],
            &[("x-auth-token", "x"), ("x-auth-token", "x")],
        ] {
            assert!(ask("", &peer, headers).is_err(), "{headers:?}");
        }
    }

    #[test]
    fn a_role_has_the_rights_of_those_before_it() {
        let may = |role, operation: Operation| {
            let subject = Subject {
                name: Arc::from("a"),
                principals: [].into(),
                by: "peer",
                rights: Rights::everywhere(role),
            };
            subject.may(operation).is_ok()
        };
        let table = [
            (Operation::EtcdHealth, [true, true, true]),
            (Operation::ReadAction, [true, true, true]),
            (Operation::Drain, [false, true, true]),
            (Operation::ClearLabels, [false, true, true]),
            (Operation::RemoveEtcd, [false, false, true]),
            (Operation::ShutdownKubelet, [false, false, true]),
            (Operation::RemoveFromCluster, [false, false, true]),
            (Operation::Decommission, [false, false, true]),
        ];
        for (operation, expected) in table {
            let found =
                [Role::Viewer, Role::Operator, Role::Admin].map(|role| may(role, operation));
            assert_eq!(found, expected, "{operation:?}");
        }
    }
}
