//! Reservations: machines that persons work on, which every plan leaves alone until a time.
//!
//! The file that the ref of a site's reservations holds, as a value. Every account that can push to the remote can write it: it is
//! bounded and checked before it counts, and what cannot be read is an error, since no machine may be taken for free by it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{NodeName, SiteName, name_problem};
use crate::document::Instant;

/// The version of the format that is written.
const FORMAT_VERSION: u32 = 1;
/// The largest file that is read: that of 10,000 machines with long reasons is of half that size.
pub const MOST_BYTES: u64 = 16 << 20;
/// The longest text in it, in bytes.
const MOST_TEXT: usize = 2_000;
/// The longest reservation, in days. A spare part takes a week or two to arrive; what lasts longer is the state of a machine and
/// belongs into the documents, if it is reviewed, and a reservation that its author forgot is to end by itself.
pub const MOST_DAYS: i64 = 14;

/// A machine that a person works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// By whom, as runs name their actor.
    pub by: Arc<str>,
    /// Their mail address.
    pub email: Arc<str>,
    /// Since when.
    pub since: Instant,
    /// Until when.
    pub until: Instant,
    /// Why.
    pub reason: Arc<str>,
}

impl Reservation {
    /// A reservation, with its texts as they may stand in the file.
    #[must_use]
    pub fn new((by, email): (&str, &str), (since, until): (i64, i64), reason: &str) -> Self {
        Self {
            by: bounded(by),
            email: bounded(email),
            since: Instant(since),
            until: Instant(until),
            reason: bounded(reason.trim()),
        }
    }

    /// Whether it holds at a time.
    #[must_use]
    pub fn holds_at(&self, now: i64) -> bool {
        self.until.0 > now
    }

    /// Whether it is of the same person as another one.
    #[must_use]
    pub fn is_of_same_person(&self, other: &Self) -> bool {
        (&self.by, &self.email) == (&other.by, &other.email)
    }

    /// Why a machine is left alone, and the command that ends that.
    #[must_use]
    pub fn left_alone(&self, node: &NodeName) -> String {
        format!("is {self}; `trueup release {node}` ends that")
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            by, until, reason, ..
        } = self;
        write!(f, "reserved by {by} until {until}: {reason}")
    }
}

/// A text without control characters, cut to the length that one may have.
fn bounded(text: &str) -> Arc<str> {
    let plain = text
        .chars()
        .map(|each| if each.is_control() { ' ' } else { each });
    plain.take(MOST_TEXT / 4).collect::<String>().into()
}

/// The reservations of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// By node.
    pub nodes: BTreeMap<NodeName, Reservation>,
}

/// The file of the reservations of a site.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format_version: u32,
    site: SiteName,
    nodes: BTreeMap<NodeName, Reservation>,
}

/// Why reservations cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the reservations of site `{site}` cannot be used: {why}")]
pub struct ReservationsError {
    /// Which site.
    pub site: SiteName,
    /// Why.
    pub why: String,
}

impl Reservations {
    /// Reads the file of a site.
    ///
    /// # Errors
    ///
    /// It is no such file of this site.
    pub fn read(site: &SiteName, bytes: &[u8]) -> Result<Self, ReservationsError> {
        let refused = |why: String| ReservationsError {
            site: site.clone(),
            why,
        };
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let broken = |error: serde_json::Error| refused(format!("they cannot be read: {error}"));
        let version: Version = serde_json::from_slice(bytes).map_err(broken)?;
        if version.format_version > FORMAT_VERSION {
            return Err(refused(format!(
                "they were written in format {} by a newer trueup; this one reads format {FORMAT_VERSION}",
                version.format_version
            )));
        }
        let written: Written = serde_json::from_slice(bytes).map_err(broken)?;
        if written.site != *site {
            let other = bounded(written.site.as_str());
            return Err(refused(format!("they are those of site `{other}`")));
        }
        for (node, reservation) in &written.nodes {
            if let Some(problem) = name_problem(node.as_str()) {
                let name = bounded(node.as_str());
                return Err(refused(format!("the name of a node `{name}` {problem}")));
            }
            let Reservation {
                by, email, reason, ..
            } = reservation;
            let is_bad =
                |text: &Arc<str>| text.len() > MOST_TEXT || text.chars().any(char::is_control);
            if [by, email, reason].into_iter().any(is_bad) {
                return Err(refused(format!(
                    "a text of `{node}` is too long, or has control characters"
                )));
            }
        }
        Ok(Self {
            nodes: written.nodes,
        })
    }

    /// The bytes of the file of a site.
    ///
    /// # Errors
    ///
    /// They cannot be written, which does not happen.
    pub fn write(&self, site: &SiteName) -> Result<Vec<u8>, ReservationsError> {
        let written = Written {
            format_version: FORMAT_VERSION,
            site: site.clone(),
            nodes: self.nodes.clone(),
        };
        serde_json::to_vec_pretty(&written).map_err(|error| ReservationsError {
            site: site.clone(),
            why: error.to_string(),
        })
    }

    /// Those that hold at a time.
    #[must_use]
    pub fn holding_at(mut self, now: i64) -> Self {
        self.nodes
            .retain(|_, reservation| reservation.holds_at(now));
        self
    }

    /// The reservation of a node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&Reservation> {
        self.nodes.get(node)
    }
}
