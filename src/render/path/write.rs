//! Writing and removing with a [`Path`].
//!
//! A path that leads somewhere writes to every value it leads to. A path that leads nowhere creates what
//! is missing, if it is made of keys and indexes only: maps for keys, lists padded with `{}` for indexes.
//! It never goes through a scalar or a null. A write that fails has changed nothing.

use std::sync::Arc;

use crate::diagnostic::Mark;
use crate::document::{Map, Node, Value};

use super::read::Step;
use super::{Path, Segment};

/// Why a value cannot be written if a path says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The path does not begin at the root.
    #[error("the path must begin with `.` or `$.`")]
    NotAnchored,
    /// The path leads nowhere and has wildcards, slices or the like, which create nothing.
    #[error(
        "there is nothing that it matches, and a path with wildcards or slices creates nothing"
    )]
    NothingMatches,
    /// A list directly in a list would have to be created.
    #[error("a list directly within a list cannot be created")]
    ListInList,
    /// A key below a value that is no map, or an index below a value that is no list.
    #[error("{wanted} is wanted where a {found} is")]
    Through {
        /// The required kind: `a map` or `a list`.
        wanted: &'static str,
        /// The actual kind.
        found: &'static str,
    },
}

impl Path {
    /// Writes a value to all places that the path leads to, or creates the place; returns the number of places.
    ///
    /// Maps and padding of lists that are created on the way are marked as written at `created`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if there is no such place and it cannot be created; nothing is changed then.
    pub fn set(&self, root: &mut Node, value: Node, created: Mark) -> Result<usize, WriteError> {
        if !self.anchored {
            return Err(WriteError::NotAnchored);
        }
        let locations = self.locate(root);
        if locations.is_empty() {
            *create(root, &self.segments, created)? = value;
            return Ok(1);
        }
        for location in &locations {
            if let Some(node) = node_at(root, location) {
                *node = value.clone();
            }
        }
        Ok(locations.len())
    }

    /// Hands every value that the path leads to to `change`; returns their number.
    ///
    /// # Errors
    ///
    /// The error of `change`, at once; earlier places stay changed.
    pub fn update<E>(
        &self,
        root: &mut Node,
        mut change: impl FnMut(&mut Node) -> Result<(), E>,
    ) -> Result<usize, E> {
        let locations = self.locate(root);
        for location in &locations {
            if let Some(node) = node_at(root, location) {
                change(node)?;
            }
        }
        Ok(locations.len())
    }

    /// Removes everything that the path leads to; returns the number of places. The root becomes `{}`.
    pub fn remove(&self, root: &mut Node) -> usize {
        let locations = self.locate(root);
        // Last first, so that what is removed moves nothing that is still to be removed.
        for location in locations.iter().rev() {
            match location.split_last() {
                None => *root = Node::new(Value::Map(Arc::default()), root.mark),
                Some((last, above)) => {
                    let Some(node) = node_at(root, above) else {
                        continue;
                    };
                    match (&mut node.value, last) {
                        (Value::Map(map), Step::Key(key)) => {
                            Arc::make_mut(map).remove_key(key);
                        }
                        (Value::List(list), Step::Index(at)) if *at < list.len() => {
                            Arc::make_mut(list).remove(*at);
                        }
                        _ => {}
                    }
                }
            }
        }
        locations.len()
    }
}

/// The value at the end of a way, to be changed; copies only what is shared on the way.
fn node_at<'a>(root: &'a mut Node, way: &[Step]) -> Option<&'a mut Node> {
    way.iter()
        .try_fold(root, |node, step| match (&mut node.value, step) {
            (Value::Map(map), Step::Key(key)) => Arc::make_mut(map).get_mut(key),
            (Value::List(list), Step::Index(at)) => Arc::make_mut(list).get_mut(*at),
            _ => None,
        })
}

/// Creates what is missing on the way, and gives the value at its end.
fn create<'a>(
    root: &'a mut Node,
    segments: &[Segment],
    created: Mark,
) -> Result<&'a mut Node, WriteError> {
    check_creation(root, segments)?;
    let mut node = root;
    for (at, segment) in segments.iter().enumerate() {
        let found = node.value.type_name();
        node = match (segment, &mut node.value) {
            (Segment::Key(key), Value::Map(map)) => {
                let map = Arc::make_mut(map);
                if !map.contains_key(key) {
                    map.set(key, Node::new(fresh(segments.get(at + 1)), created));
                }
                map.get_str_mut(key)
            }
            (Segment::Index(index), Value::List(list)) => {
                let index = usize::try_from(*index).map_err(|_| WriteError::NothingMatches)?;
                let list = Arc::make_mut(list);
                if list.len() <= index {
                    list.resize(index + 1, Node::new(fresh(None), created));
                }
                list.get_mut(index)
            }
            _ => None,
        }
        .ok_or(WriteError::Through {
            wanted: wanted(segment),
            found,
        })?;
    }
    Ok(node)
}

/// The value that is created for the step after it.
fn fresh(next: Option<&Segment>) -> Value {
    match next {
        Some(Segment::Index(_)) => Value::List(Arc::default()),
        _ => Value::Map(Arc::new(Map::new())),
    }
}

fn wanted(segment: &Segment) -> &'static str {
    match segment {
        Segment::Index(_) | Segment::Slice { .. } => "a list",
        _ => "a map",
    }
}

/// Whether [`create`] can go all the way, found out before anything is changed.
fn check_creation(root: &Node, segments: &[Segment]) -> Result<(), WriteError> {
    let creates = |segment: &Segment| match segment {
        Segment::Key(_) => true,
        Segment::Index(index) => *index >= 0,
        _ => false,
    };
    if !segments.iter().all(creates) {
        return Err(WriteError::NothingMatches);
    }
    let mut node = root;
    for (at, segment) in segments.iter().enumerate() {
        let below = match (segment, &node.value) {
            (Segment::Key(key), Value::Map(map)) => map.get(key),
            (Segment::Index(index), Value::List(list)) => {
                usize::try_from(*index).ok().and_then(|at| list.get(at))
            }
            (_, value) => {
                return Err(WriteError::Through {
                    wanted: wanted(segment),
                    found: value.type_name(),
                });
            }
        };
        let Some(below) = below else {
            // From here on everything is new.
            let nested = segments[at..]
                .windows(2)
                .any(|pair| matches!(pair, [Segment::Index(_), Segment::Index(_)]));
            return if nested {
                Err(WriteError::ListInList)
            } else {
                Ok(())
            };
        };
        node = below;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::SourceId;
    use crate::document::{Limits, load_values};

    fn value(text: &str) -> Node {
        load_values(SourceId(0), text, &Limits::default())
            .0
            .remove(0)
    }

    /// Data, path, the data after `x` is written there, or why it is not.
    const WRITES: &str = r#"
{} | .a.b | {a: {b: x}}
{} | .a[1].b | {a: [{}, {b: x}]}
{a: [p]} | .a[2] | {a: [p, {}, x]}
{a: [p, q]} | .a[-1] | {a: [p, x]}
{a: [p, q]} | .a[*] | {a: [x, x]}
{a: [p, q, r]} | .a[1:] | {a: [p, x, x]}
{a: [p, q, r]} | .a[:-1] | {a: [x, x, r]}
{a: [p, q, r]} | .a[::2] | {a: [x, q, x]}
{a: {b: 1, c: 2}} | .a.* | {a: {b: x, c: x}}
{a: {b: 1, c: 2}} | $.a|b | {a: x}
{a: {b: 1}, c: [{b: 2}]} | ..b | {a: {b: x}, c: [{b: x}]}
{} | .'a.b'.c | {a.b: {c: x}}
{} | .['a b'] | {a b: x}
[p] | .[0] | [x]
text | . | x
{} | a.b | the path must begin with `.` or `$.`
[p] | $[0] | the path must begin with `.` or `$.`
{} | .a[*] | there is nothing that it matches, and a path with wildcards or slices creates nothing
{a: []} | .a[-1] | there is nothing that it matches, and a path with wildcards or slices creates nothing
{} | .a[0][0] | a list directly within a list cannot be created
{a: text} | .a.b | a map is wanted where a string is
{a: null} | .a.b | a map is wanted where a null is
{a: {}} | .a[0] | a list is wanted where a map is
[p] | .a | a map is wanted where a list is
"#;

    #[test]
    fn a_write_changes_every_match_or_creates_the_way_or_changes_nothing() {
        for line in WRITES.lines().skip(1) {
            let cells: Vec<_> = line.splitn(3, " | ").collect();
            let [data, path, expected] = cells[..] else {
                panic!("{line}");
            };
            let before = value(data);
            let mut after = before.clone();
            let path = Path::parse(path).unwrap();
            match path.set(&mut after, value("x"), before.mark) {
                Ok(_) => assert_eq!(after, value(expected), "{line}"),
                Err(error) => {
                    assert_eq!(error.to_string(), expected, "{line}");
                    assert_eq!(after, before, "{line}");
                }
            }
            assert_eq!(before, value(data), "{line}");
        }
    }

    #[test]
    fn removal_removes_all_that_the_path_names_and_nothing_else() {
        for (data, path, expected, count) in [
            ("{a: 1, b: 1}", ".b", "{a: 1}", 1),
            ("{a: [x, y, x]}", ".a[2]", "{a: [x, y]}", 1),
            ("{a: [x, y, x]}", ".a[::2]", "{a: [y]}", 2),
            ("{a: {b: {b: 1}}, b: 1}", "..b", "{a: {}}", 3),
            ("{a: 1}", ".b", "{a: 1}", 0),
            ("{a: 1}", ".", "{}", 1),
            ("text", ".", "{}", 1),
        ] {
            let mut after = value(data);
            assert_eq!(
                Path::parse(path).unwrap().remove(&mut after),
                count,
                "{data} {path}"
            );
            assert_eq!(after, value(expected), "{data} {path}");
        }
    }

    #[test]
    fn a_write_copies_only_the_way_to_what_it_writes() {
        let before = value("{a: {b: 1}, c: {d: 1}}");
        let mut after = before.clone();
        let path = Path::parse(".a.b").unwrap();
        path.set(&mut after, value("x"), before.mark).unwrap();
        let shared = |key: &str| match (
            &before.get(key).unwrap().value,
            &after.get(key).unwrap().value,
        ) {
            (Value::Map(left), Value::Map(right)) => Arc::ptr_eq(left, right),
            _ => false,
        };
        assert!(shared("c") && !shared("a"));
    }
}
