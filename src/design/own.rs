//! The individual values of each machine, held in little memory: a site may have a hundred thousand of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};

use super::Section;
use crate::diagnostic::Mark;
use crate::document::{Field, Key, Map, Node, Value};

/// The sections of a machine, of all or of some.
///
/// The individual values of a machine in its network and out-of-band sections, its addresses, lie beside the fields
/// that it has from its profile, which so are shared.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    fields: [Option<Arc<Node>>; Section::ALL.len()],
    own: Option<Box<OwnAddresses>>,
}

/// The addresses of a machine as its document has them.
#[derive(Clone, Debug)]
pub struct OwnAddresses {
    /// Those on the machine, each with its network, sorted by networks.
    inside: Box<[(Arc<str>, Node)]>,
    /// Where their list begins.
    mark: Mark,
    controller: Option<Node>,
    /// Those on the machine as a field, once that was asked for.
    field: OnceLock<Option<Box<Node>>>,
}

impl OwnAddresses {
    /// The addresses on the machine, each with its network, of a list at a place, and that of its controller.
    #[must_use]
    pub fn new(mut inside: Vec<(Arc<str>, Node)>, mark: Mark, controller: Option<Node>) -> Self {
        inside.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            inside: inside.into(),
            mark,
            controller,
            field: OnceLock::new(),
        }
    }

    /// The addresses on the machine, each with its network.
    pub fn inside(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Node)> {
        self.inside
            .iter()
            .map(|(network, address)| (network, address))
    }

    /// The address of its controller.
    #[must_use]
    pub fn controller(&self) -> Option<&Node> {
        self.controller.as_ref()
    }

    /// The addresses on the machine as the field of its network section: a map from network to address, or to a list of
    /// several; `None` without any.
    #[must_use]
    pub fn to_field(&self) -> Option<Node> {
        let mut map = Map::new();
        for addresses in self.inside.chunk_by(|(one, _), (other, _)| one == other) {
            let (network, first) = addresses.first()?;
            let node = match addresses {
                [_] => first.clone(),
                _ => {
                    let all = addresses.iter().map(|(_, address)| address.clone());
                    Node::new(Value::List(Arc::new(all.collect())), first.mark)
                }
            };
            let key_mark = node.mark;
            map.insert(Key::string(network.clone()), Field { key_mark, node });
        }
        (!map.is_empty()).then(|| Node::new(Value::Map(Arc::new(map)), self.mark))
    }

    /// The field of a section that is made of them.
    fn field(&self, section: Section) -> Option<&Node> {
        match section {
            Section::OutOfBand => self.controller(),
            _ => {
                let field = self.field.get_or_init(|| self.to_field().map(Box::new));
                field.as_deref()
            }
        }
    }
}

/// The fields of a section.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    fields: &'a Node,
    /// The section and the addresses of which it has a field of this name.
    own: Option<(&'static str, Section, &'a OwnAddresses)>,
}

impl<'a> Fields<'a> {
    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        match self.own {
            Some((own, section, addresses)) if own == name => addresses.field(section),
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
        let own = self
            .own
            .and_then(|(name, section, addresses)| Some((name, addresses.field(section)?)));
        let Some((name, own)) = own else {
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
        let own = self.own.as_deref().and_then(|own| match section {
            Section::Network => Some(("addressing", *section, own)),
            Section::OutOfBand => Some(("address", *section, own)),
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

    /// The addresses, if there are any.
    #[must_use]
    pub fn addresses(&self) -> Option<&OwnAddresses> {
        self.own.as_deref()
    }

    /// Sets the addresses.
    pub fn set_addresses(&mut self, own: OwnAddresses) {
        let any = !own.inside.is_empty() || own.controller.is_some();
        self.own = any.then(|| Box::new(own));
    }

    /// Takes the hardware that the machine is compared with from other sections.
    pub(super) fn compare_as(&mut self, now: &Self) {
        let hardware = Section::Hardware as usize;
        self.fields[hardware].clone_from(&now.fields[hardware]);
    }

    /// Takes how the machine is reached, and where it stands, from other sections.
    pub(super) fn reach_as(&mut self, now: &Self) {
        // What is expected has a say in whether it is deployed.
        for section in [Section::OutOfBand, Section::Inventory, Section::Expected] {
            self.fields[section as usize].clone_from(&now.fields[section as usize]);
        }
        let controller = now.own.as_deref().and_then(|own| own.controller.clone());
        match (self.own.as_deref().cloned(), now.own.as_deref()) {
            (Some(own), _) => self.set_addresses(OwnAddresses { controller, ..own }),
            (None, Some(now)) => {
                self.set_addresses(OwnAddresses::new(Vec::new(), now.mark, controller));
            }
            (None, None) => {}
        }
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
    use crate::diagnostic::SourceId;

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
        let inside = vec![
            (Arc::from("storage"), text("10.1.0.1")),
            (Arc::from("oam"), text("10.0.0.1")),
            (Arc::from("storage"), text("10.1.0.2")),
        ];
        sections.set_addresses(OwnAddresses::new(inside, mark, None));
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
        let several = network.at(&["addressing", "storage"]).unwrap().as_list();
        let several: Vec<_> = several.unwrap().iter().filter_map(Node::as_str).collect();
        assert_eq!(several, ["10.1.0.1", "10.1.0.2"]);
    }
}
