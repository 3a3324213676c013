//! Values as text, as Python's `str` and `repr` write them.
//!
//! A pattern substitution puts any value into a string; sites rely on what Deckhand, being Python, writes
//! there: `True`, `None`, `3.2`, `{'key': 1}`.

use std::fmt::Write;

use crate::document::{Key, KeyKind, Node, Value};

/// A value as Python's `str` gives it.
pub(super) fn text(node: &Node) -> String {
    match &node.value {
        // `str` of a datetime separates with a blank what `isoformat` separates with `T`.
        Value::Timestamp(text) => text.replacen('T', " ", 1),
        Value::List(_) | Value::Map(_) => {
            let mut text = String::new();
            write_representation(&mut text, &node.value);
            text
        }
        scalar => scalar
            .scalar_text()
            .map_or_else(String::new, |text| text.into_owned()),
    }
}

fn write_representation(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_string(out, text),
        Value::Timestamp(text) => write_timestamp(out, text),
        Value::List(list) => {
            out.push('[');
            for (at, node) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_representation(out, &node.value);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (at, (key, field)) in map.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_key(out, key);
                out.push_str(": ");
                write_representation(out, &field.node.value);
            }
            out.push('}');
        }
        scalar => out.extend(scalar.scalar_text()),
    }
}

fn write_key(out: &mut String, key: &Key) {
    match key.kind {
        KeyKind::String => write_string(out, &key.text),
        _ => write_representation(out, &key.to_value()),
    }
}

/// Single quotes, unless the text has some and no double ones.
fn write_string(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => out.extend(['\\', quote]),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}

/// `datetime.date(2020, 1, 2)` and the like; a time with a zone stays a quoted text.
fn write_timestamp(out: &mut String, text: &str) {
    let numbers: Option<Vec<u32>> = text
        .split(['-', 'T', ' ', ':', '.'])
        .map(|part| part.parse().ok())
        .collect();
    let Some(numbers) = numbers.filter(|_| !text.contains(['+', 'Z'])) else {
        return write_string(out, text);
    };
    let kind = match numbers.len() {
        3 => "date",
        5..=7 => "datetime",
        _ => return write_string(out, text),
    };
    let mut numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
    // Seconds of zero are left out, as Python leaves them out.
    while numbers.len() > 5 && numbers.last().is_some_and(|last| last == "0") {
        numbers.pop();
    }
    let _ = write!(out, "datetime.{kind}({})", numbers.join(", "));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diagnostic::{Mark, SourceId};
    use crate::document::{Field, Map};

    fn node(value: Value) -> Node {
        Node::new(value, Mark::new(SourceId(0), 0))
    }

    fn list(values: Vec<Value>) -> Node {
        node(Value::List(Arc::new(
            values.into_iter().map(node).collect(),
        )))
    }

    #[test]
    fn every_value_is_written_as_python_writes_it() {
        let mut map = Map::new();
        map.set("k", node(Value::Integer(1)));
        map.set("it's", list(vec![Value::Bool(true), Value::Null]));
        let mark = Mark::new(SourceId(0), 0);
        let key = Key {
            text: Arc::from("8"),
            kind: KeyKind::Integer,
        };
        map.insert(
            key,
            Field {
                key_mark: mark,
                node: node(Value::string("a\n\"b'")),
            },
        );
        for (value, expected) in [
            (node(Value::Null), "None"),
            (node(Value::Bool(false)), "False"),
            (node(Value::Float(3.2)), "3.2"),
            (node(Value::string("it's")), "it's"),
            (
                node(Value::Timestamp(Arc::from("2001-12-14T21:59:43"))),
                "2001-12-14 21:59:43",
            ),
            (
                node(Value::Timestamp(Arc::from("2001-12-14"))),
                "2001-12-14",
            ),
            (
                list(vec![
                    Value::Timestamp(Arc::from("2001-12-14")),
                    Value::Timestamp(Arc::from("2001-12-14T21:59:00")),
                    Value::Float(1e16),
                ]),
                "[datetime.date(2001, 12, 14), datetime.datetime(2001, 12, 14, 21, 59), 1e+16]",
            ),
            (
                node(Value::Map(Arc::new(map))),
                r#"{'k': 1, "it's": [True, None], 8: 'a\n"b\''}"#,
            ),
            (list(vec![Value::string("\u{1}é\\")]), r"['\x01é\\']"),
        ] {
            assert_eq!(text(&node(value.value)), expected);
        }
    }
}
