//! Reading with a [`Path`]: the first match or all of them, in the order of the data.
//!
//! Whatever lies below a secret value is secret itself, so a match carries the secrecy of all that is
//! above it.

use std::ops::ControlFlow;

use crate::document::{Key, Node, SecretOrigin, Value};

use super::{Path, Segment};

/// A value that a path led to.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The value.
    pub node: &'a Node,
    /// Where the nearest secret above it comes from, if there is one.
    above: Option<&'a SecretOrigin>,
}

impl Found<'_> {
    /// The value as one of its own: secret also if only something above it was marked.
    #[must_use]
    pub fn to_node(&self) -> Node {
        let mut node = self.node.clone();
        if !node.is_secret() {
            node.secret = self.above.cloned();
        }
        node
    }
}

/// Where a path that found nothing stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence<'a> {
    /// The key that was looked for.
    pub wanted: &'a str,
    /// The keys that are there instead; none below a secret value.
    pub present: Vec<&'a str>,
}

/// A step from a value to one below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(Key),
    Index(usize),
}

impl Path {
    /// The first value that the path leads to.
    #[must_use]
    pub fn first<'a>(&self, root: &'a Node) -> Option<Found<'a>> {
        let mut first = None;
        let _ = visit(root, None, &self.segments, &mut |found| {
            first = Some(found);
            ControlFlow::Break(())
        });
        first
    }

    /// All values that the path leads to.
    #[must_use]
    pub fn all<'a>(&self, root: &'a Node) -> Vec<Found<'a>> {
        let mut all = Vec::new();
        let _ = visit(root, None, &self.segments, &mut |found| {
            all.push(found);
            ControlFlow::Continue(())
        });
        all
    }

    /// How many values the path leads to.
    pub(in crate::render) fn count(&self, root: &Node) -> usize {
        let mut count = 0;
        let _ = visit(root, None, &self.segments, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    /// How many list items at most a write creates that does not find its place.
    pub(in crate::render) fn padding(&self, root: &Node) -> usize {
        let mut below = Some(root);
        let mut padding = 0;
        for segment in &self.segments {
            below = match (segment, below.map(|node| &node.value)) {
                (Segment::Key(key), Some(Value::Map(map))) => map.get(key),
                (Segment::Index(index), list) => {
                    let list = match list {
                        Some(Value::List(list)) => list.as_slice(),
                        _ => &[],
                    };
                    let index = usize::try_from(*index).unwrap_or_default();
                    padding += (index + 1).saturating_sub(list.len());
                    list.get(index)
                }
                _ => None,
            };
        }
        padding
    }

    /// Where a path of plain keys and indexes stops short, if it stops at a key.
    #[must_use]
    pub fn absence<'a>(&'a self, root: &'a Node) -> Option<Absence<'a>> {
        let mut node = root;
        let mut is_secret = false;
        for segment in &self.segments {
            is_secret |= node.is_secret();
            match (segment, &node.value) {
                (Segment::Key(wanted), Value::Map(map)) => match map.get(wanted) {
                    Some(below) => node = below,
                    None => {
                        let keys = map.keys().map(|key| &*key.text);
                        return Some(Absence {
                            wanted,
                            present: if is_secret {
                                Vec::new()
                            } else {
                                keys.take(1000).collect()
                            },
                        });
                    }
                },
                (Segment::Index(index), Value::List(list)) => {
                    node = list.get(position(*index, list.len())?)?;
                }
                _ => return None,
            }
        }
        None
    }

    /// The way to each value that the path leads to.
    pub(super) fn locate(&self, root: &Node) -> Vec<Vec<Step>> {
        let mut locations = Vec::new();
        let mut way = Vec::new();
        locate(root, &self.segments, &mut way, &mut locations);
        locations
    }
}

/// A list index counted from the start, if the list has it.
pub(super) fn position(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(index).ok()?
    };
    (at < length).then_some(at)
}

/// The positions that a slice takes of a list, as Python takes them.
fn slice(
    start: Option<i64>,
    end: Option<i64>,
    step: usize,
    length: usize,
) -> impl Iterator<Item = usize> {
    let clamp = |bound: i64| {
        let distance = usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX);
        if bound < 0 {
            length.saturating_sub(distance)
        } else {
            distance.min(length)
        }
    };
    let start = start.map_or(0, clamp);
    let end = end.map_or(length, clamp);
    (start..end).step_by(step)
}

fn visit<'a>(
    node: &'a Node,
    above: Option<&'a SecretOrigin>,
    segments: &[Segment],
    found: &mut impl FnMut(Found<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some((segment, rest)) = segments.split_first() else {
        return found(Found { node, above });
    };
    let below_secret = node.secret.as_ref().or(above);
    match (segment, &node.value) {
        (Segment::Key(key), Value::Map(map)) => match map.get(key) {
            Some(below) => visit(below, below_secret, rest, found),
            None => ControlFlow::Continue(()),
        },
        (Segment::Keys(keys), Value::Map(map)) => keys
            .iter()
            .filter_map(|key| map.get(key))
            .try_for_each(|below| visit(below, below_secret, rest, found)),
        (Segment::EveryKey, Value::Map(map)) => map
            .iter()
            .try_for_each(|(_, field)| visit(&field.node, below_secret, rest, found)),
        (Segment::Index(index), Value::List(list)) => {
            match position(*index, list.len()).and_then(|at| list.get(at)) {
                Some(below) => visit(below, below_secret, rest, found),
                None => ControlFlow::Continue(()),
            }
        }
        (Segment::Slice { start, end, step }, Value::List(list)) => {
            slice(*start, *end, *step, list.len())
                .filter_map(|at| list.get(at))
                .try_for_each(|below| visit(below, below_secret, rest, found))
        }
        (Segment::Descendants, value) => {
            visit(node, above, rest, found)?;
            match value {
                Value::Map(map) => map
                    .iter()
                    .try_for_each(|(_, field)| visit(&field.node, below_secret, segments, found)),
                Value::List(list) => list
                    .iter()
                    .try_for_each(|below| visit(below, below_secret, segments, found)),
                _ => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    }
}

fn locate(node: &Node, segments: &[Segment], way: &mut Vec<Step>, all: &mut Vec<Vec<Step>>) {
    let Some((segment, rest)) = segments.split_first() else {
        all.push(way.clone());
        return;
    };
    let mut step = |step: Step, below: &Node, rest: &[Segment]| {
        way.push(step);
        locate(below, rest, way, all);
        way.pop();
    };
    match (segment, &node.value) {
        (Segment::Key(key), Value::Map(map)) => {
            if let Some(below) = map.get(key) {
                step(Step::Key(Key::string(key.clone())), below, rest);
            }
        }
        (Segment::Keys(keys), Value::Map(map)) => {
            for key in keys {
                if let Some(below) = map.get(key) {
                    step(Step::Key(Key::string(key.clone())), below, rest);
                }
            }
        }
        (Segment::EveryKey, Value::Map(map)) => {
            for (key, field) in map.iter() {
                step(Step::Key(key.clone()), &field.node, rest);
            }
        }
        (Segment::Index(index), Value::List(list)) => {
            if let Some(at) = position(*index, list.len()) {
                step(Step::Index(at), &list[at], rest);
            }
        }
        (
            Segment::Slice {
                start,
                end,
                step: by,
            },
            Value::List(list),
        ) => {
            for at in slice(*start, *end, *by, list.len()) {
                step(Step::Index(at), &list[at], rest);
            }
        }
        (Segment::Descendants, _) => {
            locate(node, rest, way, all);
            let mut step = |step: Step, below: &Node| {
                way.push(step);
                locate(below, segments, way, all);
                way.pop();
            };
            for (key, field) in node.as_map().into_iter().flat_map(|map| map.iter()) {
                step(Step::Key(key.clone()), &field.node);
            }
            for (at, below) in node.as_list().into_iter().flatten().enumerate() {
                step(Step::Index(at), below);
            }
        }
        _ => {}
    }
}
