//! The identity of a machine: values only.
//!
//! An [`Identity`] is named by a document, observed by a backend or kept in a record. Values that many
//! boards share (zeros, a vendor's dummy text) are dropped as an identity is built, so that they never
//! prove anything.

mod registry;
mod values;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use registry::{Registry, Verdict};
pub use values::{is_placeholder, mac, serial, uuid};

/// Which part of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The UUID of the board, or the GUID of its controller.
    Uuid,
    /// The serial number.
    Serial,
    /// The id in the provisioner.
    Provisioner,
    /// A MAC address.
    Mac,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uuid => "UUID",
            Self::Serial => "serial number",
            Self::Provisioner => "provisioner id",
            Self::Mac => "MAC address",
        })
    }
}

/// The identity of a machine, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// UUID of the board, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Arc<str>>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<Arc<str>>,
    /// Id in the provisioner: the UUID of a node in Ironic, the UID of a `BareMetalHost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioner: Option<Arc<str>>,
    /// MAC addresses of its boot interfaces, or of all its interfaces if those are not known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub macs: BTreeSet<Arc<str>>,
    /// It was recorded without proof that it is the machine that the document means.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

/// Values that several machines have.
pub type Shared = BTreeSet<(Kind, Arc<str>)>;

/// The first few of a list.
fn some(macs: &BTreeSet<Arc<str>>) -> String {
    let macs: Vec<&str> = macs.iter().map(|mac| &**mac).take(8).collect();
    macs.join(", ")
}

/// How an observed identity compares with an expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// At least one value is the same, and none differs.
    Same,
    /// Nothing can be compared.
    Unknown,
    /// Values differ, in words.
    Differs(String),
}

impl Identity {
    /// An identity of texts as they are written or reported; placeholders are dropped.
    #[must_use]
    pub fn of(uuid: Option<&str>, serial: Option<&str>) -> Self {
        Self {
            uuid: uuid.and_then(values::uuid),
            serial: serial.and_then(values::serial),
            ..Self::default()
        }
    }

    /// Adds an id in the provisioner.
    #[must_use]
    pub fn in_provisioner(mut self, id: &str) -> Self {
        self.provisioner = values::serial(id);
        self
    }

    /// Adds MAC addresses; placeholders are dropped.
    #[must_use]
    pub fn with_macs<'a>(mut self, macs: impl IntoIterator<Item = &'a str>) -> Self {
        self.macs = macs.into_iter().filter_map(values::mac).collect();
        self
    }

    /// Whether it names nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.uuid.is_none()
            && self.serial.is_none()
            && self.provisioner.is_none()
            && self.macs.is_empty()
    }

    /// Its values one by one.
    pub fn values(&self) -> impl Iterator<Item = (Kind, &Arc<str>)> {
        let single = [
            (Kind::Uuid, &self.uuid),
            (Kind::Serial, &self.serial),
            (Kind::Provisioner, &self.provisioner),
        ];
        let single = single
            .into_iter()
            .filter_map(|(kind, value)| Some((kind, value.as_ref()?)));
        single.chain(self.macs.iter().map(|mac| (Kind::Mac, mac)))
    }

    fn single(&self, kind: Kind) -> Option<&Arc<str>> {
        match kind {
            Kind::Uuid => self.uuid.as_ref(),
            Kind::Serial => self.serial.as_ref(),
            Kind::Provisioner => self.provisioner.as_ref(),
            Kind::Mac => None,
        }
    }

    /// Compares an observed identity with this one; what is `shared` by several machines proves nothing.
    #[must_use]
    pub fn compare(&self, observed: &Self, shared: &Shared) -> Match {
        let mut same = false;
        let mut differing = Vec::new();
        for kind in [Kind::Uuid, Kind::Serial, Kind::Provisioner] {
            let (Some(expected), Some(found)) = (self.single(kind), observed.single(kind)) else {
                continue;
            };
            if !expected.eq_ignore_ascii_case(found) {
                differing.push(format!("its {kind} is {found}, expected {expected}"));
            } else if !shared.contains(&(kind, found.clone())) {
                same = true;
            }
        }
        if !self.macs.is_empty() && !observed.macs.is_empty() {
            let mut common = self.macs.intersection(&observed.macs).peekable();
            if common.peek().is_none() {
                differing.push(format!(
                    "it has no interface {}, but {}",
                    some(&self.macs),
                    some(&observed.macs)
                ));
            } else {
                same |= common.any(|mac| !shared.contains(&(Kind::Mac, mac.clone())));
            }
        }
        match (differing.is_empty(), same) {
            (false, _) => Match::Differs(differing.join("; ")),
            (true, true) => Match::Same,
            (true, false) => Match::Unknown,
        }
    }

    /// Whether another identity is surely of another machine: a value differs that both have.
    #[must_use]
    pub fn is_distinct_from(&self, other: &Self) -> bool {
        let differs = |kind: Kind| match (self.single(kind), other.single(kind)) {
            (Some(one), Some(other)) => !one.eq_ignore_ascii_case(other),
            _ => false,
        };
        // Controllers show interfaces of their own, with the same address on all boards of a make.
        let macs = !self.macs.is_subset(&other.macs) && !other.macs.is_subset(&self.macs);
        differs(Kind::Uuid) || differs(Kind::Serial) || macs
    }

    /// Whether it names every kind of value that another one has, MAC addresses left out.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        [Kind::Uuid, Kind::Serial, Kind::Provisioner]
            .into_iter()
            .all(|kind| other.single(kind).is_none() || self.single(kind).is_some())
    }

    /// Keeps only the MAC addresses of the boot interfaces, if a document names one of them.
    #[must_use]
    pub fn of_boot_interfaces(&self, designed: &Self) -> Self {
        let mut kept = self.clone();
        if !designed.macs.is_disjoint(&kept.macs) {
            kept.macs.retain(|mac| designed.macs.contains(mac));
        }
        kept
    }

    /// Adds what it does not name yet.
    pub fn complete(&mut self, other: &Self) {
        let put = |own: &mut Option<Arc<str>>, other: &Option<Arc<str>>| {
            if own.is_none() {
                own.clone_from(other);
            }
        };
        put(&mut self.uuid, &other.uuid);
        put(&mut self.serial, &other.serial);
        put(&mut self.provisioner, &other.provisioner);
        if self.macs.is_empty() {
            self.macs.clone_from(&other.macs);
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, value) in self.values() {
            write!(f, "{separator}{kind} {value}")?;
            separator = ", ";
        }
        if separator.is_empty() {
            f.write_str("nothing that identifies it")?;
        }
        if self.unverified {
            f.write_str(" (unverified)")?;
        }
        Ok(())
    }
}

/// Whether the machine behind a controller was proven to be the one that the document means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// It was, or nothing has to be proven (a simulated machine).
    #[default]
    Proven,
    /// Nothing that document or record names could be compared; why.
    Unverified(Arc<str>),
    /// It is another machine, or cannot be distinguished from another one; why.
    Refused(Arc<str>),
}

impl Proof {
    /// Whether it was proven.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        *self == Self::Proven
    }
}

/// The prefix of the note that holds the identity of a step's machine.
const NOTE: &str = "identity ";

/// The note of a step that keeps the identity of its machine.
#[must_use]
pub fn note(identity: &Identity) -> String {
    // Texts only, which can always be written.
    let json = serde_json::to_string(identity).unwrap_or_default();
    format!("{NOTE}{json}")
}

/// The identity that the notes of a step keep.
#[must_use]
pub fn noted(notes: &[Arc<str>]) -> Option<Identity> {
    let mut latest = notes.iter().rev();
    latest.find_map(|note| serde_json::from_str(note.strip_prefix(NOTE)?).ok())
}

#[cfg(test)]
mod tests;
