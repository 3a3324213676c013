//! A field's effective value, kept once for all nodes that share it, with what is derived from it.
//!
//! Ten thousand nodes of ten host profiles hold ten copies of what the profiles say: nodes refer to
//! the same [`Part`], whose digest, section and look-ups of other documents are made at most once.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::canonical::{self, Sum};
use super::inherit::{FIELDS, Rule, inherit};
use super::read::is_blank;
use super::{Dependence, Section, SectionDigest};
use crate::diagnostic::Mark;
use crate::document::{DocumentId, Field, Key, Map, Node, Value};

/// A section's fields and their digest.
#[derive(Clone, Debug)]
pub(super) struct SectionValue {
    pub(super) fields: Arc<Node>,
    pub(super) digest: SectionDigest,
}

impl SectionValue {
    /// A section of the given fields; the digests of the parts are those of their values.
    pub(super) fn new<'a>(
        section: Section,
        fields: Node,
        parts: impl IntoIterator<Item = (&'a str, &'a Sum)>,
    ) -> Self {
        let sum = canonical::combine(section.as_str(), parts);
        Self {
            fields: Arc::new(fields),
            digest: SectionDigest(sum),
        }
    }
}

/// The values from the hardware profile that a field names.
#[derive(Clone, Debug)]
pub(super) struct HardwareUse {
    pub(super) section: SectionValue,
    pub(super) depends_on: Arc<[Dependence]>,
}

/// The networks and links that some interfaces use.
#[derive(Debug)]
pub(super) struct NetworkUse {
    /// Effective networks by name.
    pub(super) networks: Node,
    pub(super) networks_sum: Sum,
    /// Effective links by name.
    pub(super) links: Node,
    pub(super) links_sum: Sum,
    /// The names of the networks.
    pub(super) names: BTreeSet<Arc<str>>,
    pub(super) depends_on: Arc<[Dependence]>,
}

/// The effective value of one field.
#[derive(Debug)]
pub(super) struct Part {
    /// The value.
    pub(super) node: Node,
    /// The host profile in which it was last written; absent: the node itself.
    pub(super) owner: Option<DocumentId>,
    sum: OnceCell<Sum>,
    pub(super) section: OnceCell<SectionValue>,
    /// The fields of a section that consists of it and of what is each machine's own.
    pub(super) fields: OnceCell<Arc<Node>>,
    pub(super) labels: OnceCell<Arc<BTreeMap<Arc<str>, Arc<str>>>>,
    pub(super) disks: OnceCell<Arc<[Arc<str>]>>,
    pub(super) hardware: OnceCell<Option<Rc<HardwareUse>>>,
    pub(super) network: OnceCell<Rc<NetworkUse>>,
}

impl Part {
    fn new(node: Node, owner: Option<DocumentId>) -> Self {
        Self {
            node,
            owner,
            sum: OnceCell::new(),
            section: OnceCell::new(),
            fields: OnceCell::new(),
            labels: OnceCell::new(),
            disks: OnceCell::new(),
            hardware: OnceCell::new(),
            network: OnceCell::new(),
        }
    }

    /// Its digest.
    pub(super) fn sum(&self) -> &Sum {
        self.sum.get_or_init(|| canonical::sum(&self.node))
    }
}

/// The effective fields of a node or a host profile, in the order of [`FIELDS`].
pub(super) type Parts = [Option<Rc<Part>>; FIELDS.len()];

/// Merges the fields written in `data` with those of the parent.
///
/// A field that the child does not write is the parent's very part. Fields that are never inherited
/// are left out; who needs them reads them in `data`.
pub(super) fn inherit_parts(
    data: &Node,
    parent: Option<&Parts>,
    owner: Option<&DocumentId>,
) -> Parts {
    std::array::from_fn(|at| {
        let field = &FIELDS[at];
        if let Rule::Own = field.rule {
            return None;
        }
        let own = data.at(field.path).filter(|node| !node.is_null());
        let above = parent.and_then(|parts| parts[at].as_ref());
        if own.is_none() {
            return above.cloned();
        }
        inherit(own, above.map(|part| &part.node), field.rule)
            .filter(|node| !is_blank(node))
            .map(|node| Rc::new(Part::new(node, owner.cloned())))
    })
}

/// A map of fields under the names that they have in the documents, no larger than it has to be: there
/// are several of it for each machine.
pub(super) fn fields_of(mark: Mark, fields: &[(&'static [&'static str], &Node)]) -> Node {
    let names = fields.iter().enumerate();
    let names = names.filter(|(at, (path, _))| !holds(&fields[..*at], path[0]));
    let mut result = Map::with_capacity(names.count());
    for (path, node) in fields {
        let (key, inner) = (key(path[0]), path.get(1));
        let Some(inner) = inner else {
            let key_mark = node.mark;
            let node = (*node).clone();
            result.insert(key, Field { key_mark, node });
            continue;
        };
        if !result.contains_key(path[0]) {
            let count = fields.iter().filter(|(other, _)| other[0] == path[0]);
            let inner = Value::Map(Arc::new(Map::with_capacity(count.count())));
            let node = Node::new(inner, node.mark);
            let key_mark = node.mark;
            result.insert(key, Field { key_mark, node });
        }
        if let Some(Value::Map(map)) = result.get_str_mut(path[0]).map(|node| &mut node.value)
            && let Some(map) = Arc::get_mut(map)
        {
            let key_mark = node.mark;
            let node = (*node).clone();
            map.insert(self::key(inner), Field { key_mark, node });
        }
    }
    Node::new(Value::Map(Arc::new(result)), mark)
}

fn holds(fields: &[(&'static [&'static str], &Node)], name: &str) -> bool {
    fields.iter().any(|(path, _)| path[0] == name)
}

/// The key of a field's name, which all machines share that are put together on a thread.
fn key(name: &'static str) -> Key {
    thread_local! {
        static TEXTS: RefCell<FxHashMap<&'static str, Arc<str>>> = RefCell::default();
    }
    let text = TEXTS.with_borrow_mut(|texts| {
        let text = texts.entry(name).or_insert_with(|| Arc::from(name));
        text.clone()
    });
    Key::string(text)
}
