//! What every machine has of its own, held in little room: a site may have a hundred thousand of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::Section;
use crate::document::Node;

/// The sections of a machine, of all or of some.
#[derive(Clone, Debug, Default)]
pub struct Sections([Option<Arc<Node>>; Section::ALL.len()]);

impl Sections {
    /// The fields of a section.
    #[must_use]
    pub fn get(&self, section: &Section) -> Option<&Arc<Node>> {
        self.0[*section as usize].as_ref()
    }

    /// Sets the fields of a section.
    pub fn insert(&mut self, section: Section, fields: Arc<Node>) {
        self.0[section as usize] = Some(fields);
    }

    /// The sections that are there, with their fields.
    pub fn iter(&self) -> impl Iterator<Item = (Section, &Arc<Node>)> {
        let sections = Section::ALL.into_iter().zip(&self.0);
        sections.filter_map(|(section, fields)| Some((section, fields.as_ref()?)))
    }
}

impl FromIterator<(Section, Arc<Node>)> for Sections {
    fn from_iter<I: IntoIterator<Item = (Section, Arc<Node>)>>(sections: I) -> Self {
        let mut result = Self::default();
        for (section, fields) in sections {
            result.insert(section, fields);
        }
        result
    }
}

/// The fixed addresses of a machine by network, sorted by the networks' names; in JSON a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(Box<[(Arc<str>, Arc<str>)]>);

impl Addresses {
    /// The address on a network.
    #[must_use]
    pub fn get(&self, network: &str) -> Option<&Arc<str>> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(network));
        Some(&self.0[found.ok()?].1)
    }

    /// All addresses, in the order of their networks.
    pub fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(_, address)| address)
    }
}

impl From<BTreeMap<Arc<str>, Arc<str>>> for Addresses {
    fn from(addresses: BTreeMap<Arc<str>, Arc<str>>) -> Self {
        Self(addresses.into_iter().collect())
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(network, address)| (network, address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Mark, SourceId};
    use crate::document::Value;

    #[test]
    fn addresses_are_found_by_network_and_written_as_a_map() {
        let pairs = [("oob", "10.0.0.2"), ("calico", "10.0.0.1")];
        let pairs = pairs.map(|(network, address)| (Arc::from(network), Arc::from(address)));
        let addresses = Addresses::from(BTreeMap::from(pairs));
        assert_eq!(addresses.get("oob").map(|text| &**text), Some("10.0.0.2"));
        assert_eq!(addresses.get("oam"), None);
        assert_eq!(
            serde_json::to_string(&addresses).unwrap(),
            r#"{"calico":"10.0.0.1","oob":"10.0.0.2"}"#
        );
    }

    #[test]
    fn each_section_has_its_place() {
        let node = |number| {
            let mark = Mark::new(SourceId(0), 0);
            Arc::new(Node::new(Value::Integer(number), mark))
        };
        let mut sections = Sections::default();
        for (section, number) in Section::ALL.into_iter().zip(0..).skip(1) {
            sections.insert(section, node(number));
        }
        assert!(sections.get(&Section::ALL[0]).is_none());
        let found = sections.iter().zip(1..);
        for ((section, fields), number) in found {
            assert_eq!(fields.as_integer(), Some(number));
            assert_eq!(section, Section::ALL[number as usize]);
        }
        assert_eq!(sections.iter().count(), Section::ALL.len() - 1);
    }
}
