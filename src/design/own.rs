//! The individual values of each machine, held in little memory: a site may have a hundred thousand of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::Section;
use crate::document::{Node, Value};

/// The sections of a machine, of all or of some.
///
/// The individual values of a machine in its network and out-of-band sections, its addresses, lie beside the fields
/// that it has from its profile, which so are shared.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    fields: [Option<Arc<Node>>; Section::ALL.len()],
    own: Option<Box<Own>>,
}

#[derive(Clone, Debug, Default)]
struct Own {
    network: Option<Node>,
    out_of_band: Option<Node>,
}

/// The fields of a section.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    fields: &'a Node,
    own: Option<(&'static str, &'a Node)>,
}

impl<'a> Fields<'a> {
    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        match self.own {
            Some((own, node)) if own == name => Some(node),
            _ => self.fields.get(name),
        }
    }

    /// The value down a list of names.
    #[must_use]
    pub fn at(&self, names: &[&str]) -> Option<&'a Node> {
        let (first, others) = names.split_first()?;
        self.get(first)?.at(others)
    }

    /// All of them as a map.
    #[must_use]
    pub fn to_node(&self) -> Cow<'a, Node> {
        let Some((name, own)) = self.own else {
            return Cow::Borrowed(self.fields);
        };
        let mut all = self.fields.as_map().cloned().unwrap_or_default();
        all.set(name, own.clone());
        Cow::Owned(Node::new(Value::Map(Arc::new(all)), self.fields.mark))
    }
}

impl Sections {
    /// The fields of a section.
    #[must_use]
    pub fn get(&self, section: &Section) -> Option<Fields<'_>> {
        let fields = self.shared(section)?;
        let own = self.own.as_ref().and_then(|own| match section {
            Section::Network => Some(("addressing", own.network.as_ref()?)),
            Section::OutOfBand => Some(("address", own.out_of_band.as_ref()?)),
            _ => None,
        });
        Some(Fields { fields, own })
    }

    /// The fields of a section without addresses.
    #[must_use]
    pub fn shared(&self, section: &Section) -> Option<&Arc<Node>> {
        self.fields[*section as usize].as_ref()
    }

    /// Sets the fields of a section, for the network and the out-of-band section those without addresses.
    pub fn insert(&mut self, section: Section, fields: Arc<Node>) {
        self.fields[section as usize] = Some(fields);
    }

    /// The addresses, by network on the machine, and that of its controller.
    #[must_use]
    pub fn addresses(&self) -> [Option<&Node>; 2] {
        let own = self.own.as_deref();
        let network = own.and_then(|own| own.network.as_ref());
        [network, own.and_then(|own| own.out_of_band.as_ref())]
    }

    /// Sets the addresses, by network on the machine, and that of its controller.
    pub fn set_addresses(&mut self, network: Option<Node>, out_of_band: Option<Node>) {
        self.own = (network.is_some() || out_of_band.is_some()).then(|| {
            Box::new(Own {
                network,
                out_of_band,
            })
        });
    }

    /// The sections that are there, with their fields.
    pub fn iter(&self) -> impl Iterator<Item = (Section, Fields<'_>)> {
        let sections = Section::ALL.into_iter();
        sections.filter_map(|section| Some((section, self.get(&section)?)))
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

    /// The networks, in their order, with the address on each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(network, address)| (network, address))
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

impl From<Vec<(Arc<str>, Arc<str>)>> for Addresses {
    /// The addresses by network, which are sorted here.
    fn from(mut addresses: Vec<(Arc<str>, Arc<str>)>) -> Self {
        addresses.sort_unstable();
        addresses.dedup_by(|one, other| one.0 == other.0);
        Self(addresses.into())
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
    use crate::document::Map;

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
            assert_eq!(fields.to_node().as_integer(), Some(number));
            assert_eq!(section, Section::ALL[number as usize]);
        }
        assert_eq!(sections.iter().count(), Section::ALL.len() - 1);
    }

    #[test]
    fn addresses_are_fields_of_their_sections() {
        let mark = Mark::new(SourceId(0), 0);
        let text = |text: &str| Node::new(Value::String(Arc::from(text)), mark);
        let map = |name: &str, node: Node| {
            let mut map = Map::new();
            map.set(name, node);
            Node::new(Value::Map(Arc::new(map)), mark)
        };
        let mut sections = Sections::default();
        sections.insert(
            Section::Network,
            Arc::new(map("primary_network", text("oam"))),
        );
        sections.insert(
            Section::OutOfBand,
            Arc::new(map("oob", map("type", text("ipmi")))),
        );
        sections.insert(Section::Labels, Arc::new(map("a", text("b"))));
        sections.set_addresses(Some(map("oam", text("10.0.0.1"))), None);
        let at = |section, path: &[&str]| sections.get(&section)?.at(path)?.as_str();
        assert_eq!(
            at(Section::Network, &["addressing", "oam"]),
            Some("10.0.0.1")
        );
        assert_eq!(at(Section::Network, &["primary_network"]), Some("oam"));
        assert_eq!(at(Section::OutOfBand, &["address"]), None);
        assert_eq!(at(Section::OutOfBand, &["oob", "type"]), Some("ipmi"));
        assert_eq!(at(Section::Labels, &["addressing"]), None);
        let network = sections.get(&Section::Network).unwrap().to_node();
        assert_eq!(network.as_map().unwrap().len(), 2);
        assert_eq!(
            network.at(&["addressing", "oam"]).and_then(Node::as_str),
            Some("10.0.0.1")
        );
    }
}
