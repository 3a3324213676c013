//! Answers of etcd's JSON gateway, as on the wire.
//!
//! 64-bit numbers are strings, since readers of JSON that know only doubles would bend them; what is
//! false, 0 or empty is left out. Identifiers are carried on as hexadecimal text, as etcd's own tools
//! print them.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::backend::http::plain;
use crate::observed::{EtcdAlarm, EtcdMemberSeen};

/// The longest error of a member that is carried on, in letters.
const LONGEST_ERROR: usize = 200;

/// A 64-bit number, written as a string or as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number(pub(super) u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit number, or its digits as a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                text.parse()
                    .map(Number)
                    .map_err(|_| E::custom(format!("`{text}` is not a 64-bit number")))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }
        }
        deserializer.deserialize_any(Digits)
    }
}

/// An identifier of a cluster or member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Id(Number);

impl Id {
    /// Its hexadecimal digits.
    pub(super) fn text(self) -> Arc<str> {
        Arc::from(format!("{:x}", self.0.0))
    }

    /// The identifier of hexadecimal digits as the gateway wants it.
    pub(super) fn for_gateway(text: &str) -> Option<String> {
        let number = u64::from_str_radix(text, 16).ok()?;
        Some(number.to_string())
    }
}

/// The header of every answer.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Header {
    pub(super) cluster_id: Id,
    pub(super) member_id: Id,
}

/// An answer of which only the head counts.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Headed {
    #[serde(rename = "header")]
    pub(super) _header: Header,
}

/// The answer of `/v3/maintenance/status`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) header: Header,
    pub(super) version: String,
    #[serde(default)]
    pub(super) db_size: Number,
    pub(super) leader: Option<Id>,
    #[serde(default)]
    pub(super) raft_index: Number,
    #[serde(default)]
    pub(super) raft_applied_index: Number,
    #[serde(default)]
    pub(super) raft_term: Number,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    pub(super) is_learner: bool,
}

impl Status {
    /// The errors that the member reports of itself.
    pub(super) fn errors(&self) -> Vec<Arc<str>> {
        let errors = self.errors.iter();
        let errors = errors.map(|error| Arc::from(plain(error, LONGEST_ERROR)));
        errors.collect()
    }
}

/// The answer of `/v3/cluster/member/list` and of `/v3/cluster/member/remove`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Members {
    pub(super) header: Header,
    #[serde(default)]
    members: Vec<Member>,
}

#[derive(Clone, Debug, Deserialize)]
struct Member {
    #[serde(rename = "ID")]
    id: Id,
    #[serde(default)]
    name: Arc<str>,
    #[serde(default, rename = "peerURLs")]
    peer_urls: Vec<Arc<str>>,
    #[serde(default, rename = "clientURLs")]
    client_urls: Vec<Arc<str>>,
    #[serde(default, rename = "isLearner")]
    learner: bool,
}

impl Members {
    /// The members, sorted by id.
    pub(super) fn seen(self) -> Vec<EtcdMemberSeen> {
        let sorted = |mut urls: Vec<Arc<str>>| {
            urls.sort();
            urls
        };
        let members = self.members.into_iter();
        let mut members: Vec<_> = members
            .map(|member| EtcdMemberSeen {
                id: member.id.text(),
                name: member.name,
                peer_urls: sorted(member.peer_urls),
                client_urls: sorted(member.client_urls),
                learner: member.learner,
            })
            .collect();
        members.sort();
        members
    }

    /// Whether a member is among them, by its hexadecimal digits.
    pub(super) fn has(&self, id: &str) -> bool {
        self.members.iter().any(|member| *member.id.text() == *id)
    }
}

/// The answer of `/v3/maintenance/alarm`; an empty one without alarms, in old versions even
/// without a head.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Alarms {
    #[serde(default)]
    alarms: Vec<Alarm>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Alarm {
    #[serde(rename = "memberID")]
    member: Id,
    alarm: Option<String>,
}

impl Alarms {
    /// The alarms, sorted.
    pub(super) fn seen(self) -> Vec<EtcdAlarm> {
        let alarms = self.alarms.into_iter();
        let mut alarms: Vec<_> = alarms
            .filter_map(|alarm| {
                Some(EtcdAlarm {
                    member: alarm.member.text(),
                    kind: Arc::from(alarm.alarm?),
                })
            })
            .collect();
        alarms.sort();
        alarms
    }
}
