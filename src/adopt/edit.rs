//! Values into the texts of documents, at the places where they come from: all else of a text stays byte by byte.
//!
//! A scalar is replaced where it stands, or a field is put at the beginning of the map that lacks it. What cannot be edited
//! so (a block of several lines, an anchor, a list) is refused, and its text stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::document::{Node, Value, inline_text, write_yaml};

/// A replacement of a part of a text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edit {
    /// Where the part begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The text in its place.
    pub text: String,
}

/// Fields that a document gets, as a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Fields {
    /// A value.
    Value(Value),
    /// A map.
    Map(BTreeMap<Arc<str>, Self>),
}

impl Default for Fields {
    fn default() -> Self {
        Self::Map(BTreeMap::new())
    }
}

impl Fields {
    /// Puts a value down a path; whether it is free.
    pub fn put(&mut self, path: &[Arc<str>], value: Value) -> bool {
        let Self::Map(fields) = self else {
            return false;
        };
        match path {
            [] => false,
            [last] => fields.insert(last.clone(), Self::Value(value)).is_none(),
            [first, rest @ ..] => fields.entry(first.clone()).or_default().put(rest, value),
        }
    }

    /// The fields on one line.
    fn inline(&self) -> String {
        match self {
            Self::Value(value) => inline_value(value),
            Self::Map(fields) => {
                let fields = fields.iter();
                let fields =
                    fields.map(|(key, field)| format!("{}: {}", inline_text(key), field.inline()));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A scalar on one line.
fn inline_value(value: &Value) -> String {
    if let Value::String(text) = value {
        return inline_text(text);
    }
    let mut text = String::new();
    let nowhere = crate::diagnostic::Mark::new(crate::diagnostic::SourceId(u32::MAX), 0);
    write_yaml(&Node::new(value.clone(), nowhere), true, &mut text);
    text.trim_end().to_owned()
}

/// The replacement of a scalar that begins at an offset of a text; `None` if it is not written there on one line as it is.
#[must_use]
pub fn replacement(text: &str, start: usize, old: &Value, new: &Value) -> Option<Edit> {
    let rest = text.get(start..)?;
    let old = old.scalar_text().filter(|old| !old.contains('\n'))?;
    // The value of a block begins behind the line with its sign.
    let before = text[..start].trim_end().rsplit(char::is_whitespace).next();
    if before.is_some_and(|word| word.starts_with(['|', '>'])) {
        return None;
    }
    let quote = rest
        .chars()
        .next()
        .filter(|letter| matches!(letter, '\'' | '"'));
    let length = match quote {
        None => rest.starts_with(&*old).then_some(old.len())?,
        Some(quote) => {
            let inner = rest[1..].strip_prefix(&*old)?;
            inner.starts_with(quote).then_some(old.len() + 2)?
        }
    };
    // The text behind a plain scalar would belong to it.
    let behind = rest[length..].chars().next();
    if length == 0
        || !behind.is_none_or(|letter| matches!(letter, '\n' | '\r' | ' ' | ',' | ']' | '}'))
    {
        return None;
    }
    let written = inline_value(new);
    let is_plain = !written.starts_with(['\'', '"']);
    let text = match (quote, new) {
        // The quotes of the author stay.
        (Some(quote), Value::String(_)) if is_plain && !written.contains(['\\', '\'', '"']) => {
            format!("{quote}{written}{quote}")
        }
        _ => written,
    };
    Some(Edit {
        start,
        end: start + length,
        text,
    })
}

/// The edits that put fields into a map of a text.
///
/// # Errors
///
/// A field stands there already, or the map is not written as one that has fields; names the field.
pub fn insertions(text: &str, map: &Node, fields: &Fields) -> Result<Vec<Edit>, String> {
    let mut edits = Vec::new();
    insert(text, map, fields, &mut String::new(), &mut edits)?;
    Ok(edits)
}

fn insert(
    text: &str,
    map: &Node,
    fields: &Fields,
    path: &mut String,
    edits: &mut Vec<Edit>,
) -> Result<(), String> {
    let Fields::Map(fields) = fields else {
        return Err(format!("`{path}` has a value of its own"));
    };
    let mut new = Vec::new();
    for (key, field) in fields {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        match (map.get(key), field) {
            (None, field) => new.push(format!("{}: {}", inline_text(key), field.inline())),
            (Some(there), Fields::Map(_)) if there.as_map().is_some_and(|map| !map.is_empty()) => {
                insert(text, there, field, path, edits)?;
            }
            (Some(_), _) => return Err(format!("`{path}` stands there already, in another form")),
        }
        path.truncate(length);
    }
    if new.is_empty() {
        return Ok(());
    }
    let refused = || format!("the map of `{path}` is not written field by field");
    let start = usize::try_from(map.mark.offset).map_err(|_| refused())?;
    let before = text.get(..start).ok_or_else(refused)?;
    let text = match text[start..].starts_with('{') {
        true => {
            let text = format!("{}, ", new.join(", "));
            edits.push(Edit {
                start: start + 1,
                end: start + 1,
                text,
            });
            return Ok(());
        }
        false => {
            let line = before.rfind('\n').map_or(0, |end| end + 1);
            let indent = &before[line..];
            if !indent.bytes().all(|byte| byte == b' ')
                || text[start..].starts_with(['&', '*', '!'])
            {
                return Err(refused());
            }
            let lines = new.iter().map(|field| format!("{field}\n{indent}"));
            lines.collect::<String>()
        }
    };
    edits.push(Edit {
        start,
        end: start,
        text,
    });
    Ok(())
}

/// A text with edits, which do not overlap.
#[must_use]
pub fn edited(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort();
    edits.dedup();
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        result.push_str(text.get(at..edit.start)?);
        result.push_str(&edit.text);
        at = edit.end;
    }
    result.push_str(text.get(at..)?);
    Some(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::design::fixture::value;

    fn path(text: &str) -> Vec<Arc<str>> {
        text.split('.').map(Arc::from).collect()
    }

    /// Replaces the scalar at a path.
    fn replaced(text: &str, at: &str, new: &str) -> Option<String> {
        let document = value(text);
        let keys: Vec<&str> = at.split('.').collect();
        let old = document.at(&keys).unwrap();
        let edit = replacement(
            text,
            old.mark.offset as usize,
            &old.value,
            &Value::string(new),
        )?;
        edited(text, vec![edit])
    }

    fn with(text: &str, fields: &[(&str, &str)]) -> Result<String, String> {
        let mut tree = Fields::default();
        for (at, value) in fields {
            assert!(tree.put(&path(at), Value::string(*value)));
        }
        insertions(text, &value(text), &tree).map(|edits| edited(text, edits).unwrap())
    }

    #[test]
    fn a_scalar_is_replaced_where_it_stands_and_comments_and_quotes_stay() {
        for (text, at, new, expected) in [
            ("a: b # why\n", "a", "c", Some("a: c # why\n")),
            (
                "x: {a: b, c: d}\n",
                "x.a",
                "e f",
                Some("x: {a: e f, c: d}\n"),
            ),
            ("a: \"b\"\n", "a", "c", Some("a: \"c\"\n")),
            ("a: 'b'\n", "a", "it's", Some("a: it's\n")),
            ("a: b\n", "a", "1.0", Some("a: '1.0'\n")),
            ("a: b\n", "a", "c: d", Some("a: 'c: d'\n")),
            ("a:\n  b", "a", "c", Some("a:\n  c")),
            ("a: 0x1f\n", "a", "c", None),
            ("a: |\n  b\n", "a", "c", None),
            ("a: |-\n  b\n", "a", "c", None),
            ("a: >-\n  b\n", "a", "c", None),
            ("a: &x b\nc: *x\n", "c", "d", None),
            ("a: b\n  c\n", "a", "d", None),
            ("a: ''\n", "a", "d", Some("a: 'd'\n")),
        ] {
            assert_eq!(replaced(text, at, new).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_field_is_put_into_the_innermost_map_that_is_there() {
        for (text, fields, expected) in [
            ("a: 1\n", &[("p.q", "x")][..], Some("p: {q: x}\na: 1\n")),
            (
                "# c\nm:\n  # d\n  r: 1 # e\n",
                &[("m.o.k", "v")],
                Some("# c\nm:\n  # d\n  o: {k: v}\n  r: 1 # e\n"),
            ),
            (
                "m: {r: 1}\n",
                &[("m.o.k", "v"), ("m.o.l", "w")],
                Some("m: {o: {k: v, l: w}, r: 1}\n"),
            ),
            ("m: {}\n", &[("m.k", "v")], None),
            ("m: 1\n", &[("m.k", "v")], None),
            ("m: {k: 1}\n", &[("m.k", "v")], None),
        ] {
            assert_eq!(with(text, fields).ok().as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_edited_text_has_the_new_values_and_no_other_change(
            old in "[a-z]{1,6}|'[a-z ]{1,4}'|\"[a-z]{1,4}\"|[0-9]{1,3}",
            new in "[ -~é]{0,8}|true|1.5|null",
            is_flow in proptest::bool::ANY,
        ) {
            let text = match is_flow {
                true => format!("# top\ns: {{one: {old}, two: 2}} # end\nt: 3\n"),
                false => format!("# top\ns:\n  one: {old} # here\n  two: 2\nt: 3\n"),
            };
            if let Some(result) = replaced(&text, "s.one", &new) {
                let document = value(&result);
                prop_assert_eq!(document.at(&["s", "one"]).unwrap().as_str(), Some(&*new), "{}", result);
                prop_assert_eq!(document.at(&["s", "two"]).unwrap().as_integer(), Some(2));
                prop_assert_eq!(document.get("t").unwrap().as_integer(), Some(3));
                prop_assert_eq!(text.matches('#').count(), result.matches('#').count() - new.matches('#').count());
            }
            let result = with(&text, &[("s.new.x", &new)]).unwrap();
            let document = value(&result);
            prop_assert_eq!(document.at(&["s", "new", "x"]).unwrap().as_str(), Some(&*new), "{}", result);
            prop_assert_eq!(document.at(&["s", "two"]).unwrap().as_integer(), Some(2));
        }
    }
}
