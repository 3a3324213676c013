//! The digests of a machine's sections: what a record is compared with, many times and for every machine.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{Recent, Section, canonical};
use crate::document::Node;

const BYTES: usize = 32;

/// The digest of a section, or of a value in one: a SHA-256, written in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionDigest(pub [u8; BYTES]);

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 lower-case hexadecimal digits")]
pub struct NoDigest;

impl SectionDigest {
    /// The digest of a value.
    #[must_use]
    pub fn of(value: &Node) -> Self {
        Self(canonical::sum(value))
    }
}

impl fmt::Display for SectionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&HEXLOWER.encode_display(&self.0), f)
    }
}

impl fmt::Debug for SectionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SectionDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let mut sum = [0; BYTES];
        if text.len() != 2 * BYTES {
            return Err(NoDigest);
        }
        match HEXLOWER.decode_mut(text.as_bytes(), &mut sum) {
            Ok(BYTES) => Ok(Self(sum)),
            _ => Err(NoDigest),
        }
    }
}

impl Serialize for SectionDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SectionDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = SectionDigest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a digest")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SectionDigest, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// A field of a machine's design that differs from what is on the machine, and its value now.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct DesignDifference {
    /// Which section.
    pub section: Section,
    /// Where in the section.
    pub path: Arc<str>,
    /// The digest of the designed value; absent: the design has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<SectionDigest>,
}

/// A difference that is accepted, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Acceptance {
    /// Which.
    pub difference: DesignDifference,
    /// Why.
    pub reason: Arc<str>,
}

/// The differences of a machine that are accepted from now on, and what is on it instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct AcceptedDesign {
    /// The commit whose design is on the machine.
    pub revision: Arc<str>,
    /// The digests of its record: of what is on it, and of the rest as it was or is brought up to date.
    pub digests: Digests,
    /// All differences that are accepted; none: no more.
    pub differences: Vec<Acceptance>,
}

/// Digests of what machines have in common that were made lately.
const SLOTS: usize = 1 << 8;

type All = [Option<SectionDigest>; Section::ALL.len()];

/// The digests of the sections of a machine, of all or of some; in JSON a map from section to digest.
///
/// Clones share them until one is changed: a design and the record of it have the same. Machines share those of the
/// sections that they have from their profiles.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Digests {
    /// Those of [`Section::OWN`].
    own: Arc<[Option<SectionDigest>; Section::OWN.len()]>,
    /// All others.
    common: Arc<All>,
}

/// Where the digest of a section is among those of [`Section::OWN`].
fn own(section: Section) -> Option<usize> {
    Section::OWN.iter().position(|own| *own == section)
}

impl Digests {
    /// The digest of a section.
    #[must_use]
    pub fn get(&self, section: &Section) -> Option<&SectionDigest> {
        match own(*section) {
            Some(own) => self.own[own].as_ref(),
            None => self.common[*section as usize].as_ref(),
        }
    }

    /// Sets the digest of a section.
    pub fn insert(&mut self, section: Section, digest: SectionDigest) {
        match own(section) {
            Some(own) => Arc::make_mut(&mut self.own)[own] = Some(digest),
            None => {
                let mut common = *self.common;
                common[section as usize] = Some(digest);
                self.common = shared(&common);
            }
        }
    }

    /// Takes the digest of a section away.
    pub fn remove(&mut self, section: Section) {
        match own(section) {
            Some(own) => Arc::make_mut(&mut self.own)[own] = None,
            None => {
                let mut common = *self.common;
                common[section as usize] = None;
                self.common = shared(&common);
            }
        }
    }

    /// Takes all digests away.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no section has a digest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The sections that have a digest, with it.
    pub fn iter(&self) -> impl Iterator<Item = (Section, SectionDigest)> {
        let sections = Section::ALL.into_iter();
        sections.filter_map(|section| Some((section, *self.get(&section)?)))
    }
}

/// The digests of what machines have in common, held once for many of them.
fn shared(common: &All) -> Arc<All> {
    thread_local! {
        static RECENT: RefCell<Recent<All, SLOTS>> = const { RefCell::new(Recent::new()) };
    }
    RECENT.with_borrow_mut(|recent| recent.get(common, |known| known == common, || *common))
}

impl Default for Digests {
    fn default() -> Self {
        Self::from([None; Section::ALL.len()])
    }
}

impl From<All> for Digests {
    /// The digests of all sections, in their order.
    fn from(mut digests: All) -> Self {
        let own = Section::OWN.map(|section| digests[section as usize].take());
        Self {
            own: Arc::new(own),
            common: shared(&digests),
        }
    }
}

impl FromIterator<(Section, SectionDigest)> for Digests {
    fn from_iter<I: IntoIterator<Item = (Section, SectionDigest)>>(digests: I) -> Self {
        let mut result = [None; Section::ALL.len()];
        for (section, digest) in digests {
            result[section as usize] = Some(digest);
        }
        Self::from(result)
    }
}

impl fmt::Debug for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Digests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Digests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Digests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("digests by section")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Digests, A::Error> {
                let mut digests = [None; Section::ALL.len()];
                while let Some((section, digest)) = map.next_entry::<Section, _>()? {
                    digests[section as usize] = Some(digest);
                }
                Ok(Digests::from(digests))
            }
        }

        deserializer.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_written_by_section_and_read_again() {
        let digests: Digests = Section::ALL
            .into_iter()
            .zip(0..)
            .skip(1)
            .map(|(section, byte)| (section, SectionDigest([byte * 17; BYTES])))
            .collect();
        for (section, at) in Section::ALL.into_iter().zip(0..) {
            assert_eq!(section as usize, at);
        }
        let json = serde_json::to_string(&digests).unwrap();
        let second = "11".repeat(BYTES);
        assert!(json.starts_with(&format!("{{\"operating-system\":\"{second}\",")));
        assert_eq!(serde_json::from_str::<Digests>(&json).unwrap(), digests);
        assert_eq!(digests.get(&Section::Hardware), None);
        assert_eq!(
            digests.get(&Section::OperatingSystem).unwrap().to_string(),
            second
        );
        for text in [
            "",
            "1",
            &second[1..],
            &"1A".repeat(BYTES),
            &"ä".repeat(BYTES),
        ] {
            assert_eq!(text.parse::<SectionDigest>(), Err(NoDigest), "{text}");
        }
    }
}
