//! Which fields of two values differ: the comparison that everything else here is made of.
//!
//! It goes down both trees at once and shares what they share: a subtree that both hold is equal without a
//! visit, and what does not differ costs nothing but its reading. Items of a list are paired by their identity where
//! they have one, else by their value, so that an insertion is one difference and not as many as items follow it. Nothing
//! below a secret is told apart: it is the same, or it is not.

use std::fmt::Write as _;
use std::sync::Arc;

use super::align::{Alignment, align};
use crate::document::{Key, KeyKind, Map, Node, Value};

/// Fields by which the items of a list are told apart, the first that all items have.
const IDENTITIES: [&str; 4] = ["name", "id", "key", "network"];

/// One difference between two values.
#[derive(Clone, Debug)]
pub(super) struct Difference<'n> {
    /// Where: in the value after, or for what was removed, in the one before.
    pub(super) path: Arc<str>,
    /// The value before; absent: not there.
    pub(super) before: Option<&'n Node>,
    /// The value after; absent: not there.
    pub(super) after: Option<&'n Node>,
    /// Where an item stood in its list, if it now stands elsewhere. What else differs in it is told by
    /// other differences.
    pub(super) moved_from: Option<Arc<str>>,
    /// Whether one side is secret, which makes the other one secret too.
    pub(super) is_secret: bool,
}

/// All differences between two values, in the order of keys and items.
///
/// Paths begin with `root`: `.data` gives `.data.groups[2].name`, an empty one `platform.kernel`.
pub(super) fn compare<'n>(root: &str, before: &'n Node, after: &'n Node) -> Vec<Difference<'n>> {
    let mut comparison = Comparison {
        path: root.to_owned(),
        found: Vec::new(),
    };
    comparison.nodes(before, after);
    comparison.found
}

struct Comparison<'n> {
    path: String,
    found: Vec<Difference<'n>>,
}

impl<'n> Comparison<'n> {
    fn nodes(&mut self, before: &'n Node, after: &'n Node) {
        if before.is_secret() || after.is_secret() {
            if before != after {
                self.tell(Some(before), Some(after));
            }
            return;
        }
        match (&before.value, &after.value) {
            (Value::Map(left), Value::Map(right)) => {
                if !Arc::ptr_eq(left, right) {
                    self.maps(left, right);
                }
            }
            (Value::List(left), Value::List(right)) => {
                if !Arc::ptr_eq(left, right) {
                    self.lists(left, right);
                }
            }
            (left, right) => {
                if left != right {
                    self.tell(Some(before), Some(after));
                }
            }
        }
    }

    fn maps(&mut self, before: &'n Map, after: &'n Map) {
        let mut open: Vec<(&Key, Option<&'n Node>, Option<&'n Node>)> = Vec::new();
        for (key, field) in before.iter() {
            let other = after.field_by_key(key).map(|field| &field.node);
            if !other.is_some_and(|other| is_surely_same(&field.node, other)) {
                open.push((key, Some(&field.node), other));
            }
        }
        for (key, field) in after.iter() {
            if before.field_by_key(key).is_none() {
                open.push((key, None, Some(&field.node)));
            }
        }
        open.sort_by_key(|(key, ..)| *key);
        for (key, before, after) in open {
            let length = self.path.len();
            push_key(&mut self.path, key);
            match (before, after) {
                (Some(before), Some(after)) => self.nodes(before, after),
                _ => self.tell(before, after),
            }
            self.path.truncate(length);
        }
    }

    fn lists(&mut self, before: &'n [Node], after: &'n [Node]) {
        let same = |(left, right): &(&Node, &Node)| left == right;
        let head = before.iter().zip(after).take_while(same).count();
        let (left, right) = (&before[head..], &after[head..]);
        let tail = left.iter().rev().zip(right.iter().rev());
        let tail = tail.take_while(same).count();
        let left = &left[..left.len() - tail];
        let right = &right[..right.len() - tail];
        if left.is_empty() && right.is_empty() {
            return;
        }
        // All items decide how they are paired, so that one edit does not change the way of it.
        let (alignment, is_by_identity) = match identity(before, after) {
            Some(field) => (align(&names(left, field), &names(right, field)), true),
            None => (align(&canonical(left), &canonical(right)), false),
        };
        self.aligned(head, left, right, &alignment, is_by_identity);
    }

    /// Tells the differences between one kept pair and the next, all along both lists.
    fn aligned(
        &mut self,
        head: usize,
        before: &'n [Node],
        after: &'n [Node],
        alignment: &Alignment,
        is_by_identity: bool,
    ) {
        let (mut from, mut to) = (0, 0);
        let ends = std::iter::once((before.len(), after.len()));
        for (left, right) in alignment.kept.iter().copied().chain(ends) {
            let gone = (from..left).filter(|at| !alignment.is_before_paired[*at]);
            let mut gone = gone.peekable();
            for (at, new) in after.iter().enumerate().take(right).skip(to) {
                if let Some(old) = alignment.partner[at] {
                    self.item(head + at, |this| this.moved(head + old, &before[old], new));
                    continue;
                }
                let pair = gone.next_if(|old| !is_by_identity && is_alike(&before[*old], new));
                self.item(head + at, |this| match pair {
                    Some(old) => this.nodes(&before[old], new),
                    None => this.tell(None, Some(new)),
                });
            }
            for old in gone {
                self.item(head + old, |this| this.tell(Some(&before[old]), None));
            }
            if left < before.len() && right < after.len() {
                self.item(head + right, |this| {
                    this.nodes(&before[left], &after[right]);
                });
            }
            (from, to) = (left + 1, right + 1);
        }
    }

    /// Tells that an item stood elsewhere in its list, and how it differs besides.
    fn moved(&mut self, from: usize, before: &'n Node, after: &'n Node) {
        let length = self.path.rfind('[').unwrap_or_default();
        let moved_from = format!("{}[{from}]", &self.path[..length]);
        self.found.push(Difference {
            path: Arc::from(self.path.as_str()),
            before: Some(before),
            after: Some(after),
            moved_from: Some(Arc::from(moved_from)),
            is_secret: before.is_secret() || after.is_secret(),
        });
        self.nodes(before, after);
    }

    fn item(&mut self, at: usize, compare: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let _ = write!(self.path, "[{at}]");
        compare(self);
        self.path.truncate(length);
    }

    fn tell(&mut self, before: Option<&'n Node>, after: Option<&'n Node>) {
        let is_secret = |node: Option<&Node>| node.is_some_and(Node::is_secret);
        self.found.push(Difference {
            path: Arc::from(self.path.as_str()),
            before,
            after,
            moved_from: None,
            is_secret: is_secret(before) || is_secret(after),
        });
    }
}

/// Whether two values are the same at a glance.
fn is_surely_same(before: &Node, after: &Node) -> bool {
    match (&before.value, &after.value) {
        (Value::Map(left), Value::Map(right)) => Arc::ptr_eq(left, right),
        (Value::List(left), Value::List(right)) => Arc::ptr_eq(left, right),
        (left, right) => left == right,
    }
}

/// Whether one value can have become the other, rather than one having gone and the other come.
fn is_alike(before: &Node, after: &Node) -> bool {
    std::mem::discriminant(&before.value) == std::mem::discriminant(&after.value)
        || !matches!(before.value, Value::List(_) | Value::Map(_))
            && !matches!(after.value, Value::List(_) | Value::Map(_))
}

/// The field by which the items of both lists are told apart, if they all have one of their own.
fn identity(before: &[Node], after: &[Node]) -> Option<&'static str> {
    let is_distinct = |items: &[Node], field: &str| {
        let mut seen = rustc_hash::FxHashSet::default();
        items.iter().all(|item| {
            let name = item.get(field).filter(|_| !item.is_secret());
            let name = name.filter(|name| !name.is_secret()).and_then(Node::as_str);
            name.is_some_and(|name| seen.insert(name))
        })
    };
    IDENTITIES
        .into_iter()
        .find(|field| is_distinct(before, field) && is_distinct(after, field))
}

fn names<'n>(items: &'n [Node], field: &str) -> Vec<&'n str> {
    let name = |item: &'n Node| item.get(field).and_then(Node::as_str);
    items.iter().filter_map(name).collect()
}

fn canonical(items: &[Node]) -> Vec<Vec<u8>> {
    let form = |item| {
        let mut bytes = Vec::new();
        crate::document::write_canonical(item, &mut bytes);
        bytes
    };
    items.iter().map(form).collect()
}

/// The path of a value in maps, by the names of its fields, as plans write it.
pub fn path_of<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut path = String::new();
    for name in names {
        push_key(&mut path, &Key::string(name));
    }
    path
}

/// Adds a key as the path language writes it.
fn push_key(path: &mut String, key: &Key) {
    let text = &*key.text;
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '@');
    if key.kind == KeyKind::String && !text.is_empty() && text.chars().all(is_plain) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(text);
        return;
    }
    path.push('[');
    if key.kind == KeyKind::String {
        path.push('\'');
        for letter in text.chars() {
            match letter {
                '\'' | '\\' => path.extend(['\\', letter]),
                _ if letter.is_control() => path.extend(letter.escape_default()),
                _ => path.push(letter),
            }
        }
        path.push('\'');
    } else {
        path.push_str(text);
    }
    path.push(']');
}
