//! Which boot actions a node has, by Drydock's node filters.
//!
//! No filter, an empty set of filters, and a filter without criteria mean all nodes. Inside a filter
//! the criteria meet by `filter_type`, the filters by `filter_set_type`; absent, both are an
//! intersection. `rack_labels` is not evaluated, as in Drydock. A node's section holds what its
//! actions do, not how they select it: a filter that is written otherwise and selects the same nodes
//! changes none of them.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::canonical::{self, Sum};
use super::catalog::Catalog;
use super::part::SectionValue;
use super::read::items;
use super::{Dependence, Design, Section, Selector, kind};
use crate::diagnostic::Mark;
use crate::document::{DocumentId, Field, Key, Map, Node, Value};

/// The fields of a boot action that are about what it does.
pub(super) const EFFECT_FIELDS: [&str; 2] = ["assets", "signaling"];

/// The meaning of a set of boot actions for a node.
#[derive(Debug)]
pub(super) struct ActionSet {
    pub(super) section: SectionValue,
    pub(super) depends_on: Arc<[Dependence]>,
}

struct BootAction {
    id: DocumentId,
    effect: Node,
    sum: Sum,
    filter_mark: Mark,
}

/// For each node, in the order of names, the boot actions that select it.
pub(super) fn assign(catalog: &Catalog<'_>, design: &Design) -> Vec<Rc<ActionSet>> {
    let mut actions = Vec::new();
    let mut of_nodes: Vec<Vec<u32>> = vec![Vec::new(); design.nodes.len()];
    for (document, data) in catalog.of(kind::BOOT_ACTION) {
        let filter = data.get("node_filter").filter(|filter| !filter.is_null());
        let at = actions.len() as u32;
        match filter.and_then(|filter| selected(filter, design)) {
            Some(positions) => {
                for position in positions {
                    of_nodes[position as usize].push(at);
                }
            }
            None => of_nodes.iter_mut().for_each(|node| node.push(at)),
        }
        let effect = effect_of(data);
        actions.push(BootAction {
            id: document.id.clone(),
            sum: canonical::sum(&effect),
            effect,
            filter_mark: filter.map_or(document.mark, |filter| filter.mark),
        });
    }
    let mut sets: FxHashMap<Vec<u32>, Rc<ActionSet>> = FxHashMap::default();
    of_nodes
        .into_iter()
        .map(|chosen| match sets.get(&chosen) {
            Some(set) => set.clone(),
            None => {
                let set = Rc::new(action_set(&actions, &chosen));
                sets.insert(chosen, set.clone());
                set
            }
        })
        .collect()
}

fn effect_of(data: &Node) -> Node {
    let mut fields = Map::new();
    for (key, field) in data.as_map().into_iter().flat_map(Map::iter) {
        if EFFECT_FIELDS.contains(&&*key.text) {
            fields.insert(key.clone(), field.clone());
        }
    }
    Node {
        value: Value::Map(Arc::new(fields)),
        mark: data.mark,
        secret: data.secret.clone(),
    }
}

fn action_set(actions: &[BootAction], chosen: &[u32]) -> ActionSet {
    let chosen = || chosen.iter().map(|at| &actions[*at as usize]);
    let mut fields = Map::new();
    for action in chosen() {
        let field = Field {
            key_mark: action.effect.mark,
            node: action.effect.clone(),
        };
        fields.insert(Key::string(action.id.name.clone()), field);
    }
    let mark = chosen()
        .next()
        .map_or_else(no_mark, |action| action.effect.mark);
    let actions = Node::new(Value::Map(Arc::new(fields)), mark);
    let mut section = Map::new();
    section.set("boot_actions", actions);
    ActionSet {
        section: SectionValue::new(
            Section::BootActions,
            Node::new(Value::Map(Arc::new(section)), mark),
            chosen().map(|action| (&*action.id.name, &action.sum)),
        ),
        depends_on: chosen()
            .map(|action| Dependence {
                dependent: None,
                on: action.id.clone(),
                selects: true,
                by: Arc::from("node_filter"),
                mark: action.filter_mark,
            })
            .collect(),
    }
}

/// The mark of a value that is not in any document.
fn no_mark() -> Mark {
    Mark::new(crate::diagnostic::SourceId(u32::MAX), 0)
}

/// The positions that a filter selects; `None`: all.
fn selected(filter: &Node, design: &Design) -> Option<Vec<u32>> {
    let filters = items(filter, "filter_set");
    let union = is_union(filter, "filter_set_type");
    let mut result: Option<Vec<u32>> = None;
    for each in filters {
        match (selected_by(each, design), &mut result) {
            // All nodes: the end of a union, and nothing to an intersection.
            (None, _) if union => return None,
            (None, _) => {}
            (Some(more), Some(positions)) if union => positions.extend(more),
            (Some(more), Some(positions)) => {
                positions.retain(|position| more.binary_search(position).is_ok());
            }
            (Some(more), slot @ None) => *slot = Some(more),
        }
    }
    result.map(|mut positions| {
        positions.sort_unstable();
        positions.dedup();
        positions
    })
}

/// Evaluates one filter of the set.
fn selected_by(filter: &Node, design: &Design) -> Option<Vec<u32>> {
    let selector = Selector::read(filter);
    if selector.is_all() {
        return None;
    }
    let index = design.index();
    if !is_union(filter, "filter_type") {
        return Some(index.select(&selector, design));
    }
    let Selector {
        node_names,
        node_tags,
        node_labels,
        rack_names,
    } = selector;
    let each = [
        Selector {
            node_names,
            ..Selector::default()
        },
        Selector {
            node_tags,
            ..Selector::default()
        },
        Selector {
            node_labels,
            ..Selector::default()
        },
        Selector {
            rack_names,
            ..Selector::default()
        },
    ];
    let given: Vec<Selector> = each.into_iter().filter(|one| !one.is_all()).collect();
    Some(index.select_any(&given, design))
}

fn is_union(node: &Node, key: &str) -> bool {
    node.get(key).and_then(Node::as_str) == Some("union")
}
