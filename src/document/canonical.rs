//! One spelling for each value, for digests.
//!
//! Where a value was written and the order of its keys do not count; its type does (`1`, `1.0` and `"1"` differ).
//! Secrets count with their value, to compare values in memory ([`write_canonical`], [`digest`]), or by where they come
//! from, for every digest that is kept ([`write_without_secrets`]).

use std::io::Write as _;
use std::vec::IntoIter;

use sha2::{Digest, Sha256};

use super::{Field, Key, KeyKind, Node, SecretOrigin, Value};

enum Open<'n> {
    Map(IntoIter<(&'n Key, &'n Field)>),
    List(std::slice::Iter<'n, Node>),
}

/// Appends the canonical form.
///
/// Null is `n`, booleans `t` and `f`, an integer `i` digits `;`, a float `d` and the 16 hexadecimal
/// digits of its bits, a string `s` length `:` bytes, a date `z` in the same way; a list is `l`
/// count `:` items, a map `m` count `:` and for each key, in order of text, the letter of its kind,
/// length `:` text and the value.
pub fn write_canonical(node: &Node, out: &mut Vec<u8>) {
    write(node, true, out);
}

/// Appends the canonical form, in which a secret is `x` and the 32 bytes that stand for it. Behind it follows what is
/// in it and does not come from the same place.
pub fn write_without_secrets(node: &Node, out: &mut Vec<u8>) {
    write(node, false, out);
}

fn write(node: &Node, shows_secrets: bool, out: &mut Vec<u8>) {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut next = Some(node);
    loop {
        match next {
            Some(Node {
                secret: Some(origin),
                value,
                ..
            }) if !shows_secrets => {
                out.push(b'x');
                out.extend_from_slice(origin.sum());
                write_others(value, origin, out);
            }
            Some(node) => begin(node, &mut open, out),
            None => {}
        }
        let Some(top) = open.last_mut() else {
            return;
        };
        next = match top {
            Open::List(items) => items.next(),
            Open::Map(fields) => fields.next().map(|(key, field)| {
                write_key(key, out);
                &field.node
            }),
        };
        if next.is_none() {
            open.pop();
        }
    }
}

fn write_key(key: &Key, out: &mut Vec<u8>) {
    let kind = match key.kind {
        KeyKind::String => b's',
        KeyKind::Null => b'n',
        KeyKind::Bool => b'b',
        KeyKind::Integer => b'i',
        KeyKind::Float => b'd',
        KeyKind::Timestamp => b'z',
    };
    counted(kind, key.text.len(), key.text.as_bytes(), out);
}

/// Appends what is in a secret and does not come from where it comes from itself.
fn write_others(value: &Value, origin: &SecretOrigin, out: &mut Vec<u8>) {
    let below = |node: &Node, out: &mut Vec<u8>| match node.secret.as_ref() == Some(origin) {
        true => write_others(&node.value, origin, out),
        false => write(node, false, out),
    };
    match value {
        Value::List(list) => list.iter().for_each(|item| below(item, out)),
        Value::Map(map) => {
            for (key, field) in map.sorted() {
                let start = out.len();
                write_key(key, out);
                let end = out.len();
                below(&field.node, out);
                if out.len() == end {
                    out.truncate(start);
                }
            }
        }
        _ => {}
    }
}

fn begin<'n>(node: &'n Node, open: &mut Vec<Open<'n>>, out: &mut Vec<u8>) {
    match &node.value {
        Value::Null => out.push(b'n'),
        Value::Bool(truth) => out.push(if *truth { b't' } else { b'f' }),
        Value::Integer(number) => {
            let _ = write!(out, "i{number};");
        }
        Value::BigInteger(digits) => {
            let _ = write!(out, "i{digits};");
        }
        Value::Float(number) => {
            let number = if number.is_nan() { f64::NAN } else { *number };
            let _ = write!(out, "d{:016x}", number.to_bits());
        }
        Value::String(text) => counted(b's', text.len(), text.as_bytes(), out),
        Value::Timestamp(text) => counted(b'z', text.len(), text.as_bytes(), out),
        Value::List(list) => {
            counted(b'l', list.len(), b"", out);
            open.push(Open::List(list.iter()));
        }
        Value::Map(map) => {
            counted(b'm', map.len(), b"", out);
            open.push(Open::Map(map.sorted().into_iter()));
        }
    }
}

fn counted(kind: u8, count: usize, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    let _ = write!(out, "{count}:");
    out.extend_from_slice(bytes);
}

/// SHA-256 of the canonical form, secrets with their values: never to be kept.
#[must_use]
pub fn digest(node: &Node) -> [u8; 32] {
    let mut bytes = Vec::new();
    write_canonical(node, &mut bytes);
    Sha256::digest(&bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::SourceId;
    use crate::document::{Limits, load_values};

    fn canonical(text: &str) -> String {
        let node = load_values(SourceId(0), text, &Limits::default())
            .0
            .remove(0);
        let mut out = Vec::new();
        write_canonical(&node, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_form_is_fixed() {
        assert_eq!(
            canonical("{b: [1, ~, yes], a: 'x', 1: 1.5, c: 2001-01-01, d: {}}"),
            "m5:i1:1d3ff8000000000000s1:as1:xs1:bl3:i1;nts1:cz10:2001-01-01s1:dm0:"
        );
    }

    #[test]
    fn order_and_style_do_not_count_but_types_do() {
        assert_eq!(canonical("{a: 1, b: x}"), canonical("b: 'x'\na: 0x1\n"));
        let distinct = [
            "1", "1.0", "'1'", "[1]", "{1: ~}", "{'1': ~}", "[1, 1]", "[[1], 1]", "[]", "{}",
        ];
        let forms: std::collections::BTreeSet<_> = distinct.iter().map(|t| canonical(t)).collect();
        assert_eq!(forms.len(), distinct.len());
    }
}
