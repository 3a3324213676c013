//! Values to JSON and back.
//!
//! Keys that are no strings are written as Python's `json.dumps` writes them; dates are strings;
//! numbers that JSON does not have (`nan`, `inf`) are strings too. Integers of any size are digits.

use std::fmt::Write as _;
use std::sync::Arc;

use super::hidden::{is_command_mark, is_hidden};
use super::{Entries, Key, KeyKind, Map, Node, REDACTED, Value, python_float};
use crate::diagnostic::Mark;

/// How JSON is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// On one line, without blanks.
    Compact,
    /// One value a line, indented by two spaces.
    Pretty,
}

enum Open<'n> {
    Map(Entries<'n>),
    List(std::slice::Iter<'n, Node>),
}

/// Appends a value as JSON, without a line break at the end.
///
/// Secrets are written as [`REDACTED`] unless `show_secrets`.
pub fn write_json(node: &Node, show_secrets: bool, layout: JsonLayout, out: &mut String) {
    let mut open: Vec<Open<'_>> = Vec::new();
    begin(node, show_secrets, &mut open, out);
    let mut first = true;
    while let Some(top) = open.last_mut() {
        let (key, value, close) = match top {
            Open::Map(fields) => match fields.next() {
                Some((key, field)) => (Some(key), Some(&field.node), '}'),
                None => (None, None, '}'),
            },
            Open::List(items) => (None, items.next(), ']'),
        };
        let Some(value) = value else {
            open.pop();
            break_line(layout, open.len(), out);
            out.push(close);
            first = false;
            continue;
        };
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        break_line(layout, open.len(), out);
        if let Some(key) = key {
            write_json_string(&key_text(key), out);
            out.push_str(match layout {
                JsonLayout::Compact => ":",
                JsonLayout::Pretty => ": ",
            });
        }
        first = begin(value, show_secrets, &mut open, out);
    }
}

/// Writes a leaf, or opens a collection that is not empty; whether it did the latter.
fn begin<'n>(node: &'n Node, show: bool, open: &mut Vec<Open<'n>>, out: &mut String) -> bool {
    if node.is_secret() && !show {
        write_json_string(REDACTED, out);
        return false;
    }
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        Value::BigInteger(digits) => out.push_str(digits),
        Value::Float(number) if number.is_finite() => out.push_str(&python_float(*number)),
        Value::Float(number) => write_json_string(&python_float(*number), out),
        Value::String(text) | Value::Timestamp(text) => write_json_string(text, out),
        Value::List(list) if list.is_empty() => out.push_str("[]"),
        Value::Map(map) if map.is_empty() => out.push_str("{}"),
        Value::List(list) => {
            out.push('[');
            open.push(Open::List(list.iter()));
            return true;
        }
        Value::Map(map) => {
            out.push('{');
            open.push(Open::Map(map.iter()));
            return true;
        }
    }
    false
}

fn break_line(layout: JsonLayout, level: usize, out: &mut String) {
    if layout == JsonLayout::Pretty {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    }
}

/// A key as Python's `json.dumps` writes it.
fn key_text(key: &Key) -> Arc<str> {
    match (key.kind, &*key.text) {
        (KeyKind::Float, "inf") => Arc::from("Infinity"),
        (KeyKind::Float, "-inf") => Arc::from("-Infinity"),
        (KeyKind::Float, "nan") => Arc::from("NaN"),
        _ => key.text.clone(),
    }
}

/// Appends a text as a JSON string; characters that drive a terminal or a pipeline, or are invisible, are escaped.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, character) in text.char_indices() {
        let escape = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\t' => "\\t",
            '\r' => "\\r",
            '#' if is_command_mark(text.as_bytes(), at) => "",
            other if is_hidden(other) => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + character.len_utf8();
        out.push_str(escape);
        if escape.is_empty() {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// The value for a JSON Schema validator: **with** secrets, so nothing that the validator says about
/// a secret value may be shown.
///
/// Integers beyond 64 bits become floating-point numbers.
#[must_use]
pub fn to_json(node: &Node) -> serde_json::Value {
    use serde_json::Value as Json;
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Integer(number) => Json::from(*number),
        Value::BigInteger(digits) => match digits.parse::<u64>() {
            Ok(number) => Json::from(number),
            Err(_) => digits.parse::<f64>().map_or(Json::Null, Json::from),
        },
        Value::Float(number) if number.is_finite() => Json::from(*number),
        Value::Float(number) => Json::from(python_float(*number)),
        Value::String(text) | Value::Timestamp(text) => Json::from(&**text),
        Value::List(list) => Json::Array(list.iter().map(to_json).collect()),
        Value::Map(map) => Json::Object(
            map.iter()
                .map(|(key, field)| (key_text(key).to_string(), to_json(&field.node)))
                .collect(),
        ),
    }
}

/// A JSON value as one that was written at `mark`, all of it.
#[must_use]
pub fn node_from_json(json: &serde_json::Value, mark: Mark) -> Node {
    use serde_json::Value as Json;
    let value = match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Integer(number),
            (None, Some(number)) => Value::BigInteger(Arc::from(number.to_string())),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(list) => {
            let list = list.iter().map(|item| node_from_json(item, mark)).collect();
            Value::List(Arc::new(list))
        }
        Json::Object(object) => {
            let mut map = Map::new();
            for (key, value) in object {
                map.set(key, node_from_json(value, mark));
            }
            Value::Map(Arc::new(map))
        }
    };
    Node::new(value, mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::SourceId;
    use crate::document::{Limits, load_values};

    fn node(text: &str) -> Node {
        load_values(SourceId(0), text, &Limits::default())
            .0
            .remove(0)
    }

    fn json(node: &Node, layout: JsonLayout) -> String {
        let mut out = String::new();
        write_json(node, false, layout, &mut out);
        out
    }

    #[test]
    fn all_kinds_of_values_and_keys_have_a_form() {
        let text = "{a: [1, -2.5, 1e3, .inf, 123456789012345678901, 2001-01-01, ~, yes], 1: {}, no: [], ~: x, 1.5: \"\\x07\\u0085ü\\\"\"}";
        let expected = r#"{"a":[1,-2.5,"1e3","inf",123456789012345678901,"2001-01-01",null,true],"1":{},"false":[],"null":"x","1.5":"\u0007\u0085ü\""}"#;
        assert_eq!(json(&node(text), JsonLayout::Compact), expected);
    }

    #[test]
    fn what_cannot_be_seen_or_would_be_a_command_is_escaped_and_reads_back_the_same() {
        let text = "\u{7}\u{9b}\u{ad}\u{3164}\u{1d173}\u{e0001} ##[a]b ##vso[c] ü";
        let mut out = String::new();
        write_json_string(text, &mut out);
        assert_eq!(
            out,
            r##""\u0007\u009b\u00ad\u3164\ud834\udd73\udb40\udc01 #\u0023[a]b #\u0023vso[c] ü""##
        );
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
    }

    #[test]
    fn pretty_json_is_what_serde_writes() {
        let node = node("{a: [1, {b: c}, []], d: {}}");
        let expected = serde_json::to_string_pretty(&to_json(&node)).unwrap();
        assert_eq!(json(&node, JsonLayout::Pretty), expected);
    }

    #[test]
    fn secrets_are_left_out() {
        let mut node = node("{a: x}");
        node.hide(&crate::document::SecretOrigin::in_file(None));
        assert_eq!(json(&node, JsonLayout::Compact), "\"(secret)\"");
    }

    #[test]
    fn json_becomes_a_value_and_json_again() {
        let text = r#"{"a":[1,18446744073709551615,1.5,"x",null,true,{}]}"#;
        let parsed: serde_json::Value = serde_json::from_str(text).unwrap();
        let node = node_from_json(&parsed, Mark::new(SourceId(0), 0));
        assert_eq!(to_json(&node), parsed);
        assert_eq!(json(&node, JsonLayout::Compact), text);
    }
}
