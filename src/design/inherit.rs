//! Inheritance of host profiles, as Drydock has it.
//!
//! A value of a node goes before the one of its host profile, and so on up the chain. How two values
//! meet depends on the field ([`Rule`]); the fields, their rules and the section that each belongs to
//! are one table ([`FIELDS`]). A name with `!` before it removes what the parent has under that name,
//! and `!` or `-1` as a value unsets it. Two differences from Drydock, on purpose: a merged interface
//! keeps fields that Drydock drops (`sriov`), each inherited like a scalar, and a removal is taken out
//! also if there is no parent.

use std::sync::Arc;

use super::Section;
use crate::document::{Field as MapField, Key, Map, Node, Value};

/// How a child's value and its parent's become one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// The child's unless it is null; `!` and `-1` unset it.
    Scalar,
    /// A map: the parent's entries, then the child's over them; `!key` removes one.
    Pairs,
    /// A list: the child's items, then those of the parent's that it does not have; `!item` removes one.
    Items,
    /// Some fields by their own rules, all others as scalars.
    Fields(&'static [(&'static str, Self)]),
    /// Some fields by their own rules, all others as [`Rule::Pairs`].
    Parameters(&'static [(&'static str, Self)]),
    /// A map by name, each value by the rules of its fields; `!name` removes one.
    Named(&'static [(&'static str, Self)]),
    /// The same written as a list, its entries having a field `name`.
    NamedList(&'static [(&'static str, Self)]),
    /// Never inherited.
    Own,
}

/// A field of `drydock/BaremetalNode/v1` and `drydock/HostProfile/v1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Where it stands in `data`.
    pub(super) path: &'static [&'static str],
    /// The section that it belongs to.
    pub(super) section: Section,
    /// How it is inherited.
    pub(super) rule: Rule,
}

const FILE_SYSTEM: (&str, Rule) = ("filesystem", Rule::Fields(&[]));
const PARTITION: &[(&str, Rule)] = &[FILE_SYSTEM, ("labels", Rule::Pairs)];
const DEVICE: &[(&str, Rule)] = &[
    ("labels", Rule::Pairs),
    ("partitions", Rule::NamedList(PARTITION)),
];
const VOLUME_GROUP: &[(&str, Rule)] = &[("logical_volumes", Rule::NamedList(&[FILE_SYSTEM]))];
const STORAGE: &[(&str, Rule)] = &[
    ("physical_devices", Rule::Named(DEVICE)),
    ("volume_groups", Rule::Named(VOLUME_GROUP)),
];
const INTERFACE: &[(&str, Rule)] = &[("slaves", Rule::Items), ("networks", Rule::Items)];

/// Every field of a node and of a host profile, once.
///
/// `hardware_profile` stands for the data of the profile that it names, `addressing` for all
/// addresses but the one on the out-of-band network, which is part of [`Section::OutOfBand`].
pub(super) const FIELDS: [Field; 13] = {
    const fn field(path: &'static [&'static str], section: Section, rule: Rule) -> Field {
        Field {
            path,
            section,
            rule,
        }
    }
    [
        field(&["hardware_profile"], Section::Hardware, Rule::Scalar),
        field(
            &["platform"],
            Section::OperatingSystem,
            Rule::Fields(&[("kernel_params", Rule::Pairs)]),
        ),
        field(&["storage"], Section::Storage, Rule::Fields(STORAGE)),
        field(&["interfaces"], Section::Network, Rule::Named(INTERFACE)),
        field(&["primary_network"], Section::Network, Rule::Scalar),
        field(&["addressing"], Section::Network, Rule::Own),
        field(&["metadata", "owner_data"], Section::Labels, Rule::Pairs),
        field(
            &["oob"],
            Section::OutOfBand,
            Rule::Parameters(&[("type", Rule::Scalar)]),
        ),
        field(&["host_profile"], Section::Inventory, Rule::Own),
        field(&["metadata", "rack"], Section::Inventory, Rule::Scalar),
        field(&["metadata", "tags"], Section::Inventory, Rule::Items),
        field(&["metadata", "boot_mac"], Section::Inventory, Rule::Own),
        field(&["description"], Section::Inventory, Rule::Own),
    ]
};

/// The position of a field in [`FIELDS`], by its last name.
pub(super) const fn position(name: &str) -> usize {
    let mut at = 0;
    while at < FIELDS.len() {
        let path = FIELDS[at].path;
        if same(path[path.len() - 1], name) {
            return at;
        }
        at += 1;
    }
    panic!("no such field")
}

const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The result of a child's value and its parent's; `None` is an absent field.
pub(super) fn inherit(child: Option<&Node>, parent: Option<&Node>, rule: Rule) -> Option<Node> {
    if let Rule::Own = rule {
        return child.filter(|node| !node.is_null()).cloned();
    }
    let Some(child) = child.filter(|node| !node.is_null()) else {
        return parent.cloned();
    };
    if let Rule::Scalar = rule {
        return (!unsets(child)).then(|| child.clone());
    }
    if parent.is_none() && !holds_removal(child) {
        return Some(child.clone());
    }
    let value = match (rule, &child.value) {
        (Rule::Items, Value::List(items)) => list(items, parent.and_then(Node::as_list)),
        (Rule::NamedList(fields), Value::List(items)) => {
            named_list(items, parent.and_then(Node::as_list), fields)
        }
        (Rule::Pairs, Value::Map(map)) => pairs(map, parent.and_then(Node::as_map)),
        (Rule::Fields(fields), Value::Map(map)) => {
            fields_of(map, parent.and_then(Node::as_map), fields)
        }
        (Rule::Parameters(fields), Value::Map(map)) => {
            parameters(map, parent.and_then(Node::as_map), fields)
        }
        (Rule::Named(fields), Value::Map(map)) => named(map, parent.and_then(Node::as_map), fields),
        // The wrong type; its schema has an error for it.
        _ => return Some(child.clone()),
    };
    Some(Node {
        value,
        mark: child.mark,
        secret: child
            .secret
            .as_ref()
            .or(parent.and_then(|node| node.secret.as_ref()))
            .cloned(),
    })
}

/// Whether a value means that the field is unset.
fn unsets(node: &Node) -> bool {
    match &node.value {
        Value::String(text) => &**text == "!" || &**text == "-1",
        Value::Integer(number) => *number == -1,
        _ => false,
    }
}

/// Whether there is anything in a tree that could be a removal.
fn holds_removal(node: &Node) -> bool {
    match &node.value {
        Value::List(items) => items.iter().any(holds_removal),
        Value::Map(map) => map
            .iter()
            .any(|(key, field)| key.text.starts_with('!') || holds_removal(&field.node)),
        Value::String(text) => text.starts_with('!') || &**text == "-1",
        Value::Integer(number) => *number == -1,
        _ => false,
    }
}

fn removes(map: &Map, name: &str) -> bool {
    !map.is_empty() && map.contains_key(&format!("!{name}"))
}

fn list(child: &[Node], parent: Option<&[Node]>) -> Value {
    let text = |node: &Node| node.as_str().map(str::to_owned);
    let removed: std::collections::BTreeSet<String> = child
        .iter()
        .filter_map(|item| Some(item.as_str()?.strip_prefix('!')?.to_owned()))
        .collect();
    let mut result: Vec<Node> = child
        .iter()
        .filter(|item| !item.as_str().is_some_and(|text| text.starts_with('!')))
        .cloned()
        .collect();
    let there: std::collections::BTreeSet<String> = result.iter().filter_map(text).collect();
    for item in parent.unwrap_or_default() {
        let keep = match item.as_str() {
            Some(text) => !removed.contains(text) && !there.contains(text),
            None => !result.contains(item),
        };
        if keep {
            result.push(item.clone());
        }
    }
    Value::List(Arc::new(result))
}

fn pairs(child: &Map, parent: Option<&Map>) -> Value {
    let mut result = Map::new();
    for (key, field) in parent.into_iter().flat_map(Map::iter) {
        if !removes(child, &key.text) {
            result.insert(key.clone(), field.clone());
        }
    }
    for (key, field) in child.iter() {
        if !key.text.starts_with('!') {
            result.insert(key.clone(), field.clone());
        }
    }
    Value::Map(Arc::new(result))
}

fn rule_of(fields: &[(&str, Rule)], name: &str) -> Option<Rule> {
    fields
        .iter()
        .find(|(field, _)| *field == name)
        .map(|(_, rule)| *rule)
}

fn fields_of(child: &Map, parent: Option<&Map>, fields: &[(&str, Rule)]) -> Value {
    Value::Map(Arc::new(merge_fields(child, parent, |name| {
        rule_of(fields, name).unwrap_or(Rule::Scalar)
    })))
}

fn parameters(child: &Map, parent: Option<&Map>, fields: &[(&str, Rule)]) -> Value {
    let Value::Map(others) = pairs(child, parent) else {
        return Value::Null;
    };
    let mut result = Arc::unwrap_or_clone(others);
    for (name, rule) in fields {
        let both = parent.and_then(|map| map.get(name));
        match inherit(child.get(name), both, *rule) {
            Some(node) => result.set(name, node),
            None => {
                result.remove(name);
            }
        }
    }
    Value::Map(Arc::new(result))
}

fn merge_fields(child: &Map, parent: Option<&Map>, rule: impl Fn(&str) -> Rule) -> Map {
    let mut result = Map::new();
    let mut put = |key: &Key, field: &MapField, node: Option<Node>| {
        if let Some(node) = node {
            let key_mark = field.key_mark;
            result.insert(key.clone(), MapField { key_mark, node });
        }
    };
    for (key, field) in parent.into_iter().flat_map(Map::iter) {
        match child.field_by_key(key) {
            Some(own) => {
                let node = inherit(Some(&own.node), Some(&field.node), rule(&key.text));
                put(key, own, node);
            }
            None if removes(child, &key.text) => {}
            None => put(key, field, Some(field.node.clone())),
        }
    }
    for (key, field) in child.iter() {
        let inherited = parent.is_some_and(|map| map.field_by_key(key).is_some());
        if !inherited && !key.text.starts_with('!') {
            put(
                key,
                field,
                inherit(Some(&field.node), None, rule(&key.text)),
            );
        }
    }
    result
}

fn named(child: &Map, parent: Option<&Map>, fields: &'static [(&'static str, Rule)]) -> Value {
    Value::Map(Arc::new(merge_fields(child, parent, |_| {
        Rule::Fields(fields)
    })))
}

fn named_list(
    child: &[Node],
    parent: Option<&[Node]>,
    fields: &'static [(&'static str, Rule)],
) -> Value {
    let name = |node: &Node| {
        node.get("name")
            .and_then(Node::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let own: std::collections::BTreeMap<String, &Node> =
        child.iter().map(|item| (name(item), item)).collect();
    let mut inherited = std::collections::BTreeSet::new();
    let mut result = Vec::new();
    for item in parent.unwrap_or_default() {
        let its_name = name(item);
        if own.contains_key(&format!("!{its_name}")) {
            continue;
        }
        let merged = match own.get(&its_name) {
            Some(own) => inherit(Some(own), Some(item), Rule::Fields(fields)),
            None => Some(item.clone()),
        };
        inherited.insert(its_name);
        result.extend(merged);
    }
    for item in child {
        let its_name = name(item);
        if !its_name.starts_with('!') && !inherited.contains(&its_name) {
            result.extend(inherit(Some(item), None, Rule::Fields(fields)));
        }
    }
    Value::List(Arc::new(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::value;

    #[test]
    fn every_rule_inherits_as_drydock_does() {
        let storage = Rule::Fields(STORAGE);
        let interfaces = Rule::Named(INTERFACE);
        let oob = Rule::Parameters(&[("type", Rule::Scalar)]);
        let table: &[(&str, Rule, &str, &str, &str)] = &[
            ("a scalar is the child's", Rule::Scalar, "b", "a", "b"),
            ("a null inherits", Rule::Scalar, "null", "a", "a"),
            ("`!` unsets a scalar", Rule::Scalar, "'!'", "a", "null"),
            ("-1 unsets a scalar", Rule::Scalar, "-1", "a", "null"),
            (
                "a removal goes also without a parent",
                Rule::Scalar,
                "'!'",
                "null",
                "null",
            ),
            (
                "maps meet",
                Rule::Pairs,
                "{b: 2, c: 3}",
                "{a: 1, b: 1}",
                "{a: 1, b: 2, c: 3}",
            ),
            (
                "`!key` removes an entry",
                Rule::Pairs,
                "{'!a': x, c: 3}",
                "{a: 1, b: 1}",
                "{b: 1, c: 3}",
            ),
            (
                "a map keeps nulls",
                Rule::Pairs,
                "{a: null}",
                "{a: 1}",
                "{a: null}",
            ),
            (
                "a list begins with the child's items",
                Rule::Items,
                "[c, a]",
                "[a, b]",
                "[c, a, b]",
            ),
            (
                "`!item` removes an item",
                Rule::Items,
                "['!a', c]",
                "[a, b]",
                "[c, b]",
            ),
            (
                "a list without parent loses its removals",
                Rule::Items,
                "['!a', c]",
                "null",
                "[c]",
            ),
            (
                "oob unsets its type and merges the rest",
                oob,
                "{type: '!', account: x}",
                "{type: ipmi, network: oob}",
                "{network: oob, account: x}",
            ),
            (
                "interfaces meet by name",
                interfaces,
                "{pxe: {networks: ['!oam', pxe]}, '!bond1': {}, eth9: {device_link: nine}}",
                "{pxe: {device_link: pxe, networks: [oam, oob], sriov: {vf_count: 2}}, bond1: {device_link: b}, bond0: {slaves: [e1]}}",
                "{pxe: {device_link: pxe, networks: [pxe, oob], sriov: {vf_count: 2}}, bond0: {slaves: [e1]}, eth9: {device_link: nine}}",
            ),
            (
                "partitions meet by name, deep down",
                storage,
                "{physical_devices: {sda: {labels: {'!x': '', z: '1'}, partitions: [{name: root, size: 10g, filesystem: {mountpoint: '!'}}, {name: '!var'}, {name: new}]}}}",
                "{physical_devices: {sda: {labels: {x: '1', y: '1'}, partitions: [{name: var}, {name: root, size: 5g, bootable: true, filesystem: {mountpoint: /, fstype: ext4}}]}, sdb: {volume_group: vg}}}",
                "{physical_devices: {sda: {labels: {y: '1', z: '1'}, partitions: [{name: root, size: 10g, bootable: true, filesystem: {fstype: ext4}}, {name: new}]}, sdb: {volume_group: vg}}}",
            ),
            (
                "`!name` removes a disk",
                storage,
                "{physical_devices: {'!sda': {}}}",
                "{physical_devices: {sda: {volume_group: a}}, volume_groups: {a: {vg_uuid: u}}}",
                "{physical_devices: {}, volume_groups: {a: {vg_uuid: u}}}",
            ),
            (
                "the wrong type is left alone",
                Rule::Items,
                "text",
                "[a]",
                "text",
            ),
        ];
        for (what, rule, child, parent, expected) in table {
            let (child, parent, expected) = (value(child), value(parent), value(expected));
            let parent = Some(&parent).filter(|node| !node.is_null());
            let result = inherit(Some(&child), parent, *rule);
            assert_eq!(result, (!expected.is_null()).then_some(expected), "{what}");
        }
    }

    #[test]
    fn what_the_child_does_not_write_is_shared_with_the_parent() {
        let parent = value("{a: {b: 1}}");
        let result = inherit(None, Some(&parent), Rule::Pairs).unwrap();
        let (Value::Map(ours), Value::Map(theirs)) = (&result.value, &parent.value) else {
            panic!("no maps");
        };
        assert!(Arc::ptr_eq(ours, theirs));
    }
}
