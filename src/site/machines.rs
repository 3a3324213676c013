//! Machines as they are kept between two programs: all of their design but what only explains it.
//!
//! Values that many machines have in common, which is nearly everything, are written once and named by a number.
//! No secret is written: its place stays empty, and is filled with what a machine says there that has the
//! same secret and was loaded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::cache::Numbered;
use crate::design::{
    Addresses, Digests, MACHINE, NodeDesign, NodeName, OutOfBand, Section, SectionDigest, Sections,
};
use crate::diagnostic::{Mark, SourceId};
use crate::document::{DocumentId, Field, Key, KeyKind, Map, Node, Value, digest};

/// A number for each section, where it has one.
type PerSection = [Option<u32>; Section::ALL.len()];

/// Machines, in the order in which they were added.
#[derive(Serialize, Deserialize)]
pub(super) struct Machines<'a> {
    #[serde(borrow)]
    rows: Vec<Row<'a>>,
    #[serde(borrow)]
    texts: Vec<&'a str>,
    /// Lists of texts, by their numbers.
    lists: Vec<Vec<u32>>,
    #[serde(borrow)]
    trees: Vec<Tree<'a>>,
    /// Digests of sections, one behind the other.
    #[serde(borrow)]
    digests: Cow<'a, [u8]>,
}

#[derive(Serialize, Deserialize)]
struct Row<'a> {
    name: &'a str,
    rack: Option<u32>,
    tags: u32,
    /// Keys and values in turn.
    labels: u32,
    host_profiles: u32,
    hardware_profile: Option<u32>,
    /// Kind, address and account.
    #[serde(borrow)]
    out_of_band: (Option<u32>, Option<&'a str>, Option<u32>),
    #[serde(borrow)]
    addresses: Vec<(u32, &'a str)>,
    disks: u32,
    sections: PerSection,
    digests: PerSection,
    /// Its addresses as the network and the out-of-band section have them.
    #[serde(borrow)]
    own: [Option<Tree<'a>>; 2],
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
        if node.secret {
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
                    *known = lender.filter(|node| node.secret).cloned();
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
    rows: Vec<Row<'a>>,
    texts: Numbered<&'a str>,
    lists: Numbered<Vec<u32>>,
    /// By how they are written.
    trees: Numbered<Vec<u8>, Tree<'a>>,
    /// The numbers of trees, by where they are in memory.
    places: FxHashMap<usize, u32>,
    secrets: Numbered<[u8; 32], ()>,
    digests: Numbered<SectionDigest>,
}

impl<'a> Collected<'a> {
    /// Adds machines; whether all of them can be kept. If not, none is.
    pub(super) fn add(&mut self, nodes: &'a [Arc<NodeDesign>]) -> bool {
        let before = self.rows.len();
        for node in nodes {
            let Some(row) = self.row(node) else {
                self.rows.truncate(before);
                return false;
            };
            self.rows.push(row);
        }
        true
    }

    /// All of them, to be written.
    pub(super) fn finish(self) -> Machines<'a> {
        let digests = self.digests.into_values().into_iter();
        Machines {
            rows: self.rows,
            texts: self.texts.into_values(),
            lists: self.lists.into_values(),
            trees: self.trees.into_values(),
            digests: digests
                .flat_map(|digest| digest.0)
                .collect::<Vec<u8>>()
                .into(),
        }
    }

    fn row(&mut self, node: &'a NodeDesign) -> Option<Row<'a>> {
        // Fields beside the sections are made of these.
        let is_hidden = |section: &Section| {
            let fields = node.sections.shared(section);
            fields.is_some_and(|fields| fields.has_secret())
        };
        let account = node.sections.get(&Section::OutOfBand);
        let account = account.and_then(|fields| fields.at(&["oob", "account"]));
        let named = [Section::Labels, Section::Inventory, Section::Storage];
        if named.iter().any(is_hidden) || account.is_some_and(|account| account.secret) {
            return None;
        }
        let mut sections = PerSection::default();
        for section in Section::ALL {
            if let Some(fields) = node.sections.shared(&section) {
                sections[section as usize] = Some(self.tree(fields)?);
            }
        }
        let mut digests = PerSection::default();
        for (section, digest) in node.digests.iter() {
            digests[section as usize] = Some(self.digests.number(&digest));
        }
        let mut own = [None, None];
        for (own, node) in own.iter_mut().zip(node.sections.addresses()) {
            *own = match node {
                Some(node) => Some(Tree::of(node, &mut |_| None)?),
                None => None,
            };
        }
        let addresses = node.addresses.iter();
        let out_of_band = &node.out_of_band;
        Some(Row {
            name: node.name.as_str(),
            rack: self.text(node.rack.as_ref()),
            tags: self.list(node.tags.iter()),
            labels: self.list(node.labels.iter().flat_map(|(key, value)| [key, value])),
            host_profiles: self.list(node.host_profiles.iter()),
            hardware_profile: self.text(node.hardware_profile.as_ref()),
            out_of_band: (
                self.text(out_of_band.kind.as_ref()),
                out_of_band.address.as_deref(),
                self.text(out_of_band.account.as_ref()),
            ),
            addresses: addresses
                .map(|(network, address)| (self.texts.number(&&**network), &**address))
                .collect(),
            disks: self.list(node.disks.iter()),
            sections,
            digests,
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

/// The common values of machines, made where they are asked for first.
struct Made<T>(Vec<Option<T>>);

impl<T: Clone> Made<T> {
    fn new(count: usize) -> Self {
        Self(vec![None; count])
    }

    fn get(&mut self, number: u32, make: impl FnOnce() -> Option<T>) -> Option<T> {
        let slot = self.0.get_mut(number as usize)?;
        if slot.is_none() {
            *slot = make();
        }
        slot.clone()
    }
}

/// Makes designs of what was kept.
pub(super) struct Restored<'m, 'a> {
    machines: &'m Machines<'a>,
    secrets: BTreeMap<u32, Option<Node>>,
    texts: Vec<Arc<str>>,
    tags: Made<Arc<BTreeSet<Arc<str>>>>,
    labels: Made<Arc<BTreeMap<Arc<str>, Arc<str>>>>,
    lists: Made<Arc<[Arc<str>]>>,
    trees: Made<Arc<Node>>,
    schema: Arc<str>,
}

impl<'a> Machines<'a> {
    /// How many machines there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Of some machines those that have to be loaded, since they have secrets that others have too.
    pub(super) fn lenders(&self, rows: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut known = vec![false; self.trees.len()];
        let (mut secrets, mut lenders) = (BTreeMap::new(), Vec::new());
        for row in rows {
            let before = secrets.len();
            let numbers = self.rows.get(row).into_iter().flat_map(|row| row.sections);
            for number in numbers.flatten() {
                let Some(known) = known.get_mut(number as usize) else {
                    continue;
                };
                if !std::mem::replace(known, true) {
                    self.trees[number as usize].lend(None, &mut secrets);
                }
            }
            if secrets.len() > before {
                lenders.push(row);
            }
        }
        lenders
    }

    /// Begins to make designs, with the secrets of `lenders`, which were loaded; `known` may know the name and
    /// the digests of a machine already: what is the same is shared.
    pub(super) fn restored(&self, lenders: &[(usize, Arc<NodeDesign>)]) -> Restored<'_, 'a> {
        let mut secrets = BTreeMap::new();
        for (row, lender) in lenders {
            let sections = self.rows.get(*row).map(|row| row.sections);
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
            tags: Made::new(self.lists.len()),
            labels: Made::new(self.lists.len()),
            lists: Made::new(self.lists.len()),
            trees: Made::new(self.trees.len()),
            schema: Arc::from(MACHINE),
        }
    }

    /// The name of a machine.
    pub(super) fn name(&self, row: usize) -> Option<&'a str> {
        self.rows.get(row).map(|row| row.name)
    }
}

impl Restored<'_, '_> {
    /// The design of a machine; `None` where something of it is missing.
    pub(super) fn design(&mut self, row: usize, mark: Mark) -> Option<Arc<NodeDesign>> {
        let machines = self.machines;
        let row = machines.rows.get(row)?;
        let mut sections = Sections::default();
        for (section, number) in Section::ALL.into_iter().zip(row.sections) {
            if let Some(number) = number {
                sections.insert(section, self.tree(number)?);
            }
        }
        let [network, controller] = row.own.each_ref().map(|own| match own {
            Some(tree) => tree.to_node(&|_| None).map(Some),
            None => Some(None),
        });
        sections.set_addresses(network?, controller?);
        let (known, _) = machines.digests.as_chunks();
        let mut digests = [None; Section::ALL.len()];
        for (digest, number) in digests.iter_mut().zip(row.digests) {
            *digest = match number {
                Some(number) => Some(SectionDigest(*known.get(number as usize)?)),
                None => None,
            };
        }
        let mut addresses = Vec::with_capacity(row.addresses.len());
        for (network, address) in &row.addresses {
            addresses.push((self.text(*network)?, Arc::from(*address)));
        }
        let (kind, address, account) = row.out_of_band;
        let name = NodeName::from(row.name);
        Some(Arc::new(NodeDesign {
            document: DocumentId {
                schema: self.schema.clone(),
                name: name.clone().into(),
            },
            name,
            mark,
            rack: self.some_text(row.rack)?,
            tags: self.tags(row.tags)?,
            labels: self.labels(row.labels)?,
            host_profiles: self.list(row.host_profiles)?,
            hardware_profile: self.some_text(row.hardware_profile)?,
            out_of_band: OutOfBand {
                kind: self.some_text(kind)?,
                address: address.map(Arc::from),
                account: self.some_text(account)?,
            },
            addresses: Addresses::from(addresses),
            disks: self.list(row.disks)?,
            sections,
            digests: Digests::from(digests),
            depends_on: Vec::new(),
        }))
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
