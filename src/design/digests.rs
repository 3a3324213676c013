//! The digests of a machine's sections: what a record is compared with, many times and for every machine.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::Section;

const BYTES: usize = 32;

/// The digest of a section: a SHA-256, written in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionDigest(pub [u8; BYTES]);

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 lower-case hexadecimal digits")]
pub struct NoDigest;

impl fmt::Display for SectionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal(&self.0))
    }
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

impl fmt::Debug for SectionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SectionDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(NoDigest),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut sum = [0; BYTES];
        if !rest.is_empty() || pairs.len() != BYTES {
            return Err(NoDigest);
        }
        for (byte, [high, low]) in sum.iter_mut().zip(pairs) {
            *byte = value(*high)? * 16 + value(*low)?;
        }
        Ok(Self(sum))
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

/// The digests of the sections of a machine, of all or of some; in JSON a map from section to digest.
///
/// Clones share them until one is changed: a design and the record of it have the same.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Digests(Arc<[Option<SectionDigest>; Section::ALL.len()]>);

impl Digests {
    /// The digest of a section.
    #[must_use]
    pub fn get(&self, section: &Section) -> Option<&SectionDigest> {
        self.0[*section as usize].as_ref()
    }

    /// Sets the digest of a section.
    pub fn insert(&mut self, section: Section, digest: SectionDigest) {
        Arc::make_mut(&mut self.0)[section as usize] = Some(digest);
    }

    /// Takes all digests away.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no section has a digest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The sections that have a digest, with it.
    pub fn iter(&self) -> impl Iterator<Item = (Section, SectionDigest)> {
        let sections = Section::ALL.into_iter().zip(&*self.0);
        sections.filter_map(|(section, digest)| Some((section, (*digest)?)))
    }
}

impl FromIterator<(Section, SectionDigest)> for Digests {
    fn from_iter<I: IntoIterator<Item = (Section, SectionDigest)>>(digests: I) -> Self {
        let mut result = Self::default();
        for (section, digest) in digests {
            result.insert(section, digest);
        }
        result
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
                let mut digests = Digests::default();
                while let Some((section, digest)) = map.next_entry()? {
                    digests.insert(section, digest);
                }
                Ok(digests)
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
