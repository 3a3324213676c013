//! Machines as they are kept between two programs: all of their design but what only explains it.
//!
//! Values that many machines have in common, which is nearly everything, are written once and named by a number.
//! No secret is written: its place stays empty, and is filled with what a machine says there that has the
//! same secret and was loaded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::cache::Numbered;
use crate::design::{
    Addresses, Digests, MACHINE, NodeDesign, NodeName, OutOfBand, OwnAddresses, Section,
    SectionDigest, Sections,
};
use crate::diagnostic::{Mark, SourceId};
use crate::document::{DocumentId, Field, Key, KeyKind, Map, Node, Value, digest};

/// A number for each section, if it has one.
type PerSection = [Option<u32>; Section::ALL.len()];

/// About so many bytes a row has: memory for all rows that is allocated once is not copied when they grow.
const ROW: usize = 192;

/// The bytes of a digest.
type Sum = [u8; 32];

/// Machines, in the order in which they were added.
#[derive(Serialize, Deserialize)]
pub(super) struct Machines<'a> {
    /// For each machine the number of what it has in common with others.
    common: Vec<u32>,
    /// For each machine the end of its row.
    ends: Vec<u32>,
    /// The [`Row`]s of all machines, one behind the other.
    #[serde(borrow)]
    rows: Cow<'a, [u8]>,
    commons: Vec<Common>,
    #[serde(borrow)]
    texts: Vec<&'a str>,
    /// Lists of texts, by their numbers.
    lists: Vec<Vec<u32>>,
    #[serde(borrow)]
    trees: Vec<Tree<'a>>,
}

/// The part of a machine that many have in common.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Common {
    rack: Option<u32>,
    tags: u32,
    /// Keys and values in turn.
    labels: u32,
    host_profiles: u32,
    hardware_profile: Option<u32>,
    out_of_band_kind: Option<u32>,
    account: Option<u32>,
    disks: u32,
    /// All but the inventory.
    sections: PerSection,
    /// Those of all sections but [`Section::OWN`].
    digests: [Option<Sum>; Section::ALL.len()],
}

/// The part of a machine that is its own.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    name: &'a str,
    controller: Option<&'a str>,
    #[serde(borrow)]
    addresses: Vec<(u32, &'a str)>,
    inventory: Option<u32>,
    /// Those of [`Section::OWN`].
    digests: [Option<Sum>; Section::OWN.len()],
    #[serde(borrow)]
    own: Option<Own<'a>>,
}

/// The addresses of a machine as its document has them.
#[derive(Serialize, Deserialize)]
struct Own<'a> {
    #[serde(borrow)]
    inside: Vec<(u32, OwnAddress<'a>)>,
    #[serde(borrow)]
    controller: Option<OwnAddress<'a>>,
}

#[derive(Serialize, Deserialize)]
enum OwnAddress<'a> {
    /// The text that the row has, too.
    Known,
    #[serde(borrow)]
    Other(Tree<'a>),
}

impl<'a> OwnAddress<'a> {
    fn of(node: &'a Node, known: Option<&str>) -> Option<Self> {
        match &node.value {
            Value::String(text) if !node.is_secret() && known == Some(&**text) => Some(Self::Known),
            _ => Tree::of(node, &mut |_| None).map(Self::Other),
        }
    }

    fn to_node(&self, known: Option<&Arc<str>>) -> Option<Node> {
        match self {
            Self::Known => Some(Node::new(Value::String(known?.clone()), nowhere())),
            Self::Other(tree) => tree.to_node(&|_| None),
        }
    }
}

/// A value without marks.
#[derive(Serialize, Deserialize)]
enum Tree<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    BigInteger(&'a str),
    Float(f64),
    String(&'a str),
    Timestamp(&'a str),
    #[serde(borrow)]
    List(Vec<Self>),
    #[serde(borrow)]
    Map(Vec<(&'a str, KeyKind, Self)>),
    /// A secret, by its number.
    Secret(u32),
}

impl<'a> Tree<'a> {
    /// The tree of a value; `secret` numbers a secret in it, or refuses it.
    fn of(node: &'a Node, secret: &mut dyn FnMut(&Node) -> Option<u32>) -> Option<Self> {
        if node.is_secret() {
            return secret(node).map(Self::Secret);
        }
        Some(match &node.value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Integer(value) => Self::Integer(*value),
            Value::BigInteger(text) => Self::BigInteger(text),
            Value::Float(value) => Self::Float(*value),
            Value::String(text) => Self::String(text),
            Value::Timestamp(text) => Self::Timestamp(text),
            Value::List(items) => {
                let items = items.iter().map(|item| Self::of(item, secret));
                Self::List(items.collect::<Option<_>>()?)
            }
            Value::Map(map) => {
                let fields = map.iter().map(|(key, field)| {
                    Some((&*key.text, key.kind, Self::of(&field.node, secret)?))
                });
                Self::Map(fields.collect::<Option<_>>()?)
            }
        })
    }

    /// The value; `secret` gives those that are not written.
    fn to_node(&self, secret: &dyn Fn(u32) -> Option<Node>) -> Option<Node> {
        let value = match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::BigInteger(text) => Value::BigInteger(Arc::from(*text)),
            Self::Float(value) => Value::Float(*value),
            Self::String(text) => Value::String(Arc::from(*text)),
            Self::Timestamp(text) => Value::Timestamp(Arc::from(*text)),
            Self::List(items) => {
                let items = items.iter().map(|item| item.to_node(secret));
                Value::List(Arc::new(items.collect::<Option<_>>()?))
            }
            Self::Map(fields) => {
                let mut map = Map::with_capacity(fields.len());
                for (text, kind, tree) in fields {
                    let key = Key {
                        text: Arc::from(*text),
                        kind: *kind,
                    };
                    let (key_mark, node) = (nowhere(), tree.to_node(secret)?);
                    map.insert(key, Field { key_mark, node });
                }
                Value::Map(Arc::new(map))
            }
            Self::Secret(number) => return secret(*number),
        };
        Some(Node::new(value, nowhere()))
    }

    /// The secrets that are missing in it, and what a machine that has them says in their places.
    fn lend(&self, lender: Option<&Node>, found: &mut BTreeMap<u32, Option<Node>>) {
        match self {
            Self::Secret(number) => {
                let known = found.entry(*number).or_default();
                if known.is_none() {
                    *known = lender.filter(|node| node.is_secret()).cloned();
                }
            }
            Self::List(items) => {
                let own = lender.and_then(Node::as_list);
                for (at, item) in items.iter().enumerate() {
                    item.lend(own.and_then(|own| own.get(at)), found);
                }
            }
            Self::Map(fields) => {
                let own = lender.and_then(Node::as_map);
                for (text, kind, tree) in fields {
                    let key = Key {
                        text: Arc::from(*text),
                        kind: *kind,
                    };
                    let field = own.and_then(|own| own.field_by_key(&key));
                    tree.lend(field.map(|field| &field.node), found);
                }
            }
            _ => {}
        }
    }
}

/// The mark of what was read from no file.
fn nowhere() -> Mark {
    Mark::new(SourceId(u32::MAX), 0)
}

/// Collects machines that are to be kept.
#[derive(Default)]
pub(super) struct Collected<'a> {
    common: Vec<u32>,
    ends: Vec<u32>,
    rows: Vec<u8>,
    commons: Numbered<Common>,
    texts: Numbered<&'a str>,
    lists: Numbered<Vec<u32>>,
    /// By how they are written.
    trees: Numbered<Vec<u8>, Tree<'a>>,
    /// The numbers of trees, by where they are in memory.
    places: FxHashMap<usize, u32>,
    secrets: Numbered<[u8; 32], ()>,
}

impl<'a> Collected<'a> {
    /// None yet; there will be about so many.
    pub(super) fn with_capacity(machines: usize) -> Self {
        Self {
            common: Vec::with_capacity(machines),
            ends: Vec::with_capacity(machines),
            rows: Vec::with_capacity(machines.saturating_mul(ROW)),
            ..Self::default()
        }
    }

    /// Adds machines; whether all of them can be kept. If not, none is.
    pub(super) fn add(&mut self, nodes: &[&'a NodeDesign]) -> bool {
        let (machines, bytes) = (self.ends.len(), self.rows.len());
        let are_kept = nodes.iter().all(|node| self.add_one(node).is_some());
        if !are_kept {
            self.rows.truncate(bytes);
            self.ends.truncate(machines);
            self.common.truncate(machines);
        }
        are_kept
    }

    /// All of them, to be written.
    pub(super) fn finish(self) -> Machines<'a> {
        Machines {
            common: self.common,
            ends: self.ends,
            rows: Cow::Owned(self.rows),
            commons: self.commons.into_values(),
            texts: self.texts.into_values(),
            lists: self.lists.into_values(),
            trees: self.trees.into_values(),
        }
    }

    /// Adds a machine; `None` if it cannot be kept.
    fn add_one(&mut self, node: &'a NodeDesign) -> Option<()> {
        // Fields beside the sections are made of these.
        let is_hidden = |section: &Section| {
            let fields = node.sections.shared(section);
            fields.is_some_and(|fields| fields.has_secret())
        };
        let account = node.sections.get(&Section::OutOfBand);
        let account = account.and_then(|fields| fields.at(&["oob", "account"]));
        let named = [Section::Labels, Section::Inventory, Section::Storage];
        if named.iter().any(is_hidden) || account.is_some_and(Node::is_secret) {
            return None;
        }
        let common = self.common_of(node)?;
        let row = self.row(node)?;
        self.rows = postcard::to_extend(&row, std::mem::take(&mut self.rows)).ok()?;
        self.ends.push(u32::try_from(self.rows.len()).ok()?);
        self.common.push(self.commons.number(&common));
        Some(())
    }

    fn common_of(&mut self, node: &'a NodeDesign) -> Option<Common> {
        let mut sections = PerSection::default();
        for section in Section::ALL {
            if section != Section::Inventory
                && let Some(fields) = node.sections.shared(&section)
            {
                sections[section as usize] = Some(self.tree(fields)?);
            }
        }
        let mut digests = [None; Section::ALL.len()];
        for (section, digest) in node.digests.iter() {
            if !Section::OWN.contains(&section) {
                digests[section as usize] = Some(digest.0);
            }
        }
        let out_of_band = &node.out_of_band;
        Some(Common {
            rack: self.text(node.rack.as_ref()),
            tags: self.list(node.tags.iter()),
            labels: self.list(node.labels.iter().flat_map(|(key, value)| [key, value])),
            host_profiles: self.list(node.host_profiles.iter()),
            hardware_profile: self.text(node.hardware_profile.as_ref()),
            out_of_band_kind: self.text(out_of_band.kind.as_ref()),
            account: self.text(out_of_band.account.as_ref()),
            disks: self.list(node.disks.iter()),
            sections,
            digests,
        })
    }

    fn row(&mut self, node: &'a NodeDesign) -> Option<Row<'a>> {
        let controller = node.out_of_band.address.as_deref();
        let own = match node.sections.addresses() {
            Some(own) => {
                let inside = own.inside().map(|(network, address)| {
                    let known = node.addresses.get(network).map(|text| &**text);
                    let network = self.texts.number(&&**network);
                    Some((network, OwnAddress::of(address, known)?))
                });
                Some(Own {
                    inside: inside.collect::<Option<_>>()?,
                    controller: match own.controller() {
                        Some(address) => Some(OwnAddress::of(address, controller)?),
                        None => None,
                    },
                })
            }
            None => None,
        };
        let inventory = match node.sections.shared(&Section::Inventory) {
            Some(fields) => Some(self.tree(fields)?),
            None => None,
        };
        let addresses = node.addresses.iter();
        Some(Row {
            name: node.name.as_str(),
            controller,
            addresses: addresses
                .map(|(network, address)| (self.texts.number(&&**network), &**address))
                .collect(),
            inventory,
            digests: Section::OWN.map(|section| node.digests.get(&section).map(|digest| digest.0)),
            own,
        })
    }

    fn text(&mut self, text: Option<&'a Arc<str>>) -> Option<u32> {
        text.map(|text| self.texts.number(&&**text))
    }

    fn list(&mut self, texts: impl Iterator<Item = &'a Arc<str>>) -> u32 {
        let list: Vec<u32> = texts.map(|text| self.texts.number(&&**text)).collect();
        self.lists.number(&list)
    }

    fn tree(&mut self, fields: &'a Arc<Node>) -> Option<u32> {
        let place = Arc::as_ptr(fields).addr();
        if let Some(known) = self.places.get(&place) {
            return Some(*known);
        }
        let secrets = &mut self.secrets;
        let mut secret = |node: &Node| Some(secrets.number_of(digest(node), || ()));
        let tree = Tree::of(fields, &mut secret)?;
        let written = postcard::to_allocvec(&tree).ok()?;
        let number = self.trees.number_of(written, || tree);
        self.places.insert(place, number);
        Some(number)
    }
}

/// The common values of machines, made if they are asked for first.
struct Made<T>(Vec<Option<T>>);

impl<T: Clone> Made<T> {
    fn new(count: usize) -> Self {
        Self(vec![None; count])
    }

    fn known(&self, number: u32) -> Option<T> {
        self.0.get(number as usize)?.clone()
    }

    fn get(&mut self, number: u32, make: impl FnOnce() -> Option<T>) -> Option<T> {
        let slot = self.0.get_mut(number as usize)?;
        if slot.is_none() {
            *slot = make();
        }
        slot.clone()
    }
}

/// The parts that machines have in common, as their designs have them.
struct CommonParts {
    rack: Option<Arc<str>>,
    tags: Arc<BTreeSet<Arc<str>>>,
    labels: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    host_profiles: Arc<[Arc<str>]>,
    hardware_profile: Option<Arc<str>>,
    out_of_band_kind: Option<Arc<str>>,
    account: Option<Arc<str>>,
    disks: Arc<[Arc<str>]>,
    sections: Sections,
    digests: [Option<SectionDigest>; Section::ALL.len()],
}

/// Makes designs of what was kept.
pub(super) struct Restored<'m, 'a> {
    machines: &'m Machines<'a>,
    secrets: BTreeMap<u32, Option<Node>>,
    texts: Vec<Arc<str>>,
    commons: Made<Rc<CommonParts>>,
    tags: Made<Arc<BTreeSet<Arc<str>>>>,
    labels: Made<Arc<BTreeMap<Arc<str>, Arc<str>>>>,
    lists: Made<Arc<[Arc<str>]>>,
    trees: Made<Arc<Node>>,
    schema: Arc<str>,
}

impl<'a> Machines<'a> {
    /// How many machines there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn common_of(&self, row: usize) -> Option<&Common> {
        self.commons.get(*self.common.get(row)? as usize)
    }

    /// The bytes of a row.
    fn bytes(&self, row: usize) -> Option<&[u8]> {
        let start = match row.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.rows.get(start as usize..*self.ends.get(row)? as usize)
    }

    /// Of some machines those that have to be loaded, since they have secrets that others have too.
    pub(super) fn lenders(&self, rows: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut known = vec![false; self.commons.len()];
        let (mut secrets, mut lenders) = (BTreeMap::new(), Vec::new());
        for row in rows {
            let number = self.common.get(row).map(|number| *number as usize);
            let Some(known) = number.and_then(|number| known.get_mut(number)) else {
                continue;
            };
            if std::mem::replace(known, true) {
                continue;
            }
            let before = secrets.len();
            let sections = self.common_of(row).into_iter().flat_map(|all| all.sections);
            for tree in sections
                .flatten()
                .filter_map(|number| self.trees.get(number as usize))
            {
                tree.lend(None, &mut secrets);
            }
            if secrets.len() > before {
                lenders.push(row);
            }
        }
        lenders
    }

    /// Begins to make designs, with the secrets of `lenders`, which were loaded.
    pub(super) fn restored(&self, lenders: &[(usize, Arc<NodeDesign>)]) -> Restored<'_, 'a> {
        let mut secrets = BTreeMap::new();
        for (row, lender) in lenders {
            let sections = self.common_of(*row).map(|common| common.sections);
            for (section, number) in Section::ALL.iter().zip(sections.unwrap_or_default()) {
                let tree = number.and_then(|number| self.trees.get(number as usize));
                if let Some(tree) = tree {
                    let fields = lender.sections.shared(section);
                    tree.lend(fields.map(|fields| &**fields), &mut secrets);
                }
            }
        }
        Restored {
            machines: self,
            secrets,
            texts: self.texts.iter().map(|text| Arc::from(*text)).collect(),
            commons: Made::new(self.commons.len()),
            tags: Made::new(self.lists.len()),
            labels: Made::new(self.lists.len()),
            lists: Made::new(self.lists.len()),
            trees: Made::new(self.trees.len()),
            schema: Arc::from(MACHINE),
        }
    }

    /// The name of a machine.
    pub(super) fn name(&self, row: usize) -> Option<&str> {
        // The first field of a row.
        let (name, _) = postcard::take_from_bytes(self.bytes(row)?).ok()?;
        Some(name)
    }
}

impl Restored<'_, '_> {
    /// The design of a machine; `None` if something of it is missing.
    pub(super) fn design(&mut self, at: usize, mark: Mark) -> Option<Arc<NodeDesign>> {
        let machines = self.machines;
        let row: Row<'_> = postcard::from_bytes(machines.bytes(at)?).ok()?;
        let common = self.common(*machines.common.get(at)?)?;
        let mut addresses = Vec::with_capacity(row.addresses.len());
        for (network, address) in &row.addresses {
            addresses.push((self.text(*network)?, Arc::from(*address)));
        }
        let addresses = Addresses::from(addresses);
        let on_its_network = |address: &str| addresses.values().find(|each| ***each == *address);
        let controller = row
            .controller
            .map(|address| on_its_network(address).map_or_else(|| Arc::from(address), Arc::clone));
        let mut sections = common.sections.clone();
        if let Some(number) = row.inventory {
            sections.insert(Section::Inventory, self.tree(number)?);
        }
        if let Some(own) = &row.own {
            sections.set_addresses(self.own(own, &addresses, controller.as_ref())?);
        }
        let mut digests = common.digests;
        for (section, digest) in Section::OWN.into_iter().zip(row.digests) {
            digests[section as usize] = digest.map(SectionDigest);
        }
        let name = NodeName::from(row.name);
        Some(Arc::new(NodeDesign {
            document: DocumentId {
                schema: self.schema.clone(),
                name: name.clone().into(),
            },
            name,
            mark,
            rack: common.rack.clone(),
            tags: common.tags.clone(),
            labels: common.labels.clone(),
            host_profiles: common.host_profiles.clone(),
            hardware_profile: common.hardware_profile.clone(),
            out_of_band: OutOfBand {
                kind: common.out_of_band_kind.clone(),
                address: controller,
                account: common.account.clone(),
            },
            addresses,
            disks: common.disks.clone(),
            sections,
            digests: Digests::from(digests),
            depends_on: Vec::new(),
        }))
    }

    fn own(
        &self,
        own: &Own<'_>,
        addresses: &Addresses,
        controller: Option<&Arc<str>>,
    ) -> Option<OwnAddresses> {
        let inside = own.inside.iter().map(|(network, address)| {
            let network = self.text(*network)?;
            let address = address.to_node(addresses.get(&network))?;
            Some((network, address))
        });
        let controller = match &own.controller {
            Some(address) => Some(address.to_node(controller)?),
            None => None,
        };
        let inside = inside.collect::<Option<_>>()?;
        Some(OwnAddresses::new(inside, nowhere(), controller))
    }

    fn common(&mut self, number: u32) -> Option<Rc<CommonParts>> {
        if let Some(known) = self.commons.known(number) {
            return Some(known);
        }
        let machines = self.machines;
        let common = machines.commons.get(number as usize)?;
        let mut sections = Sections::default();
        for (section, number) in Section::ALL.into_iter().zip(common.sections) {
            if let Some(number) = number {
                sections.insert(section, self.tree(number)?);
            }
        }
        let parts = Rc::new(CommonParts {
            rack: self.some_text(common.rack)?,
            tags: self.tags(common.tags)?,
            labels: self.labels(common.labels)?,
            host_profiles: self.list(common.host_profiles)?,
            hardware_profile: self.some_text(common.hardware_profile)?,
            out_of_band_kind: self.some_text(common.out_of_band_kind)?,
            account: self.some_text(common.account)?,
            disks: self.list(common.disks)?,
            sections,
            digests: common.digests.map(|digest| digest.map(SectionDigest)),
        });
        self.commons.get(number, || Some(parts))
    }

    fn text(&self, number: u32) -> Option<Arc<str>> {
        self.texts.get(number as usize).cloned()
    }

    #[expect(
        clippy::option_option,
        reason = "it may be absent, and it may be damaged"
    )]
    fn some_text(&self, number: Option<u32>) -> Option<Option<Arc<str>>> {
        match number {
            Some(number) => self.text(number).map(Some),
            None => Some(None),
        }
    }

    fn tree(&mut self, number: u32) -> Option<Arc<Node>> {
        let (machines, secrets) = (self.machines, &self.secrets);
        self.trees.get(number, || {
            let secret = |number| secrets.get(&number)?.clone();
            let tree = machines.trees.get(number as usize)?;
            tree.to_node(&secret).map(Arc::new)
        })
    }

    fn list(&mut self, number: u32) -> Option<Arc<[Arc<str>]>> {
        let (machines, texts) = (self.machines, &self.texts);
        self.lists
            .get(number, || texts_of(machines, texts, number).map(Arc::from))
    }

    fn tags(&mut self, number: u32) -> Option<Arc<BTreeSet<Arc<str>>>> {
        let (machines, texts) = (self.machines, &self.texts);
        self.tags.get(number, || {
            let tags = texts_of(machines, texts, number)?;
            Some(Arc::new(tags.into_iter().collect()))
        })
    }

    fn labels(&mut self, number: u32) -> Option<Arc<BTreeMap<Arc<str>, Arc<str>>>> {
        let (machines, texts) = (self.machines, &self.texts);
        self.labels.get(number, || {
            let texts = texts_of(machines, texts, number)?;
            let pairs = texts.chunks_exact(2);
            let labels = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
            Some(Arc::new(labels.collect()))
        })
    }
}

/// The texts of a list.
fn texts_of(machines: &Machines<'_>, texts: &[Arc<str>], list: u32) -> Option<Vec<Arc<str>>> {
    let numbers = machines.lists.get(list as usize)?.iter();
    let texts = numbers.map(|number| texts.get(*number as usize).cloned());
    texts.collect()
}
