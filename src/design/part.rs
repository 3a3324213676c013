//! A field's effective value, kept once for all nodes that share it, with what is derived from it.
//!
//! Ten thousand nodes of ten host profiles hold ten copies of what the profiles say: nodes refer to
//! the same [`Part`], whose digest, section and look-ups of other documents are made at most once.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::canonical::{self, Sum};
use super::inherit::{FIELDS, Rule, inherit, position};
use super::network::NetworkUse;
use super::read::is_blank;
use super::{Dependence, Section, SectionDigest};
use crate::document::{DocumentId, Map, Node, Value};

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

/// What the hardware profile that a field names brings.
#[derive(Clone, Debug)]
pub(super) struct HardwareUse {
    pub(super) section: SectionValue,
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

/// What the fields written in `data` and those of the parent become.
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
            .map(|node| match at {
                OUT_OF_BAND => conceal(node),
                _ => node,
            })
            .map(|node| Rc::new(Part::new(node, owner.cloned())))
    })
}

const OUT_OF_BAND: usize = position("oob");

/// The password of a management controller is secret also where its document is not.
fn conceal(mut node: Node) -> Node {
    if let Value::Map(map) = &mut node.value
        && map.contains_key("credential")
        && let Some(credential) = Arc::make_mut(map).get_str_mut("credential")
    {
        credential.secret = true;
    }
    node
}

/// A map of fields under the names that they have in the documents.
pub(super) fn fields_of<'a>(
    mark: crate::diagnostic::Mark,
    fields: impl IntoIterator<Item = (&'a [&'a str], &'a Node)>,
) -> Node {
    let mut result = Map::new();
    for (path, node) in fields {
        match path {
            [name] => result.set(name, node.clone()),
            [outer, name] => {
                if !result.contains_key(outer) {
                    let inner = Value::Map(Arc::new(Map::new()));
                    result.set(outer, Node::new(inner, node.mark));
                }
                if let Some(Value::Map(inner)) =
                    result.get_str_mut(outer).map(|node| &mut node.value)
                {
                    Arc::make_mut(inner).set(name, node.clone());
                }
            }
            _ => {}
        }
    }
    Node::new(Value::Map(Arc::new(result)), mark)
}
