//! One digest for one meaning: the same value gives the same bytes wherever, and in whatever order,
//! it was written.
//!
//! Marks, the order of keys and whether a value is secret do not count. Every value is written with
//! its type and length in front, so that no two values share an encoding. A digest of a whole is
//! made of the digests of its parts ([`combine`]), so that what many nodes share is hashed once.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Digest;
use crate::document::{KeyKind, Node, Value};

/// A SHA-256 as bytes.
pub(super) type Sum = [u8; 32];

/// The digest of a value.
pub(super) fn sum(node: &Node) -> Sum {
    let mut bytes = Vec::with_capacity(256);
    write(node, &mut bytes);
    Sha256::digest(&bytes).into()
}

/// The digest of a whole whose parts have digests already; the order of the parts counts.
pub(super) fn combine<'a>(title: &str, parts: impl IntoIterator<Item = (&'a str, &'a Sum)>) -> Sum {
    let mut bytes = Vec::with_capacity(256);
    write_text(b'T', title, &mut bytes);
    for (name, sum) in parts {
        write_text(b'P', name, &mut bytes);
        bytes.extend_from_slice(sum);
    }
    Sha256::digest(&bytes).into()
}

/// Lower-case hexadecimal.
pub(super) fn hexadecimal(sum: &Sum) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(64);
    for byte in sum {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    Arc::from(text)
}

fn write_text(tag: u8, text: &str, bytes: &mut Vec<u8>) {
    bytes.push(tag);
    bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn write(node: &Node, bytes: &mut Vec<u8>) {
    match &node.value {
        Value::Null => bytes.push(b'0'),
        Value::Bool(truth) => bytes.extend_from_slice(&[b'b', u8::from(*truth)]),
        Value::Integer(number) => {
            bytes.push(b'i');
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        Value::BigInteger(digits) => write_text(b'I', digits, bytes),
        Value::Float(number) => {
            bytes.push(b'f');
            bytes.extend_from_slice(&canonical_bits(*number).to_be_bytes());
        }
        Value::String(text) => write_text(b's', text, bytes),
        Value::Timestamp(text) => write_text(b't', text, bytes),
        Value::List(items) => {
            bytes.push(b'l');
            bytes.extend_from_slice(&(items.len() as u64).to_be_bytes());
            for item in items.iter() {
                write(item, bytes);
            }
        }
        Value::Map(map) => {
            bytes.push(b'm');
            bytes.extend_from_slice(&(map.len() as u64).to_be_bytes());
            for (key, field) in map.sorted() {
                write_text(key_tag(key.kind), &key.text, bytes);
                write(&field.node, bytes);
            }
        }
    }
}

/// Zero has one form and so has what is no number.
fn canonical_bits(number: f64) -> u64 {
    if number == 0.0 {
        0
    } else if number.is_nan() {
        f64::NAN.to_bits()
    } else {
        number.to_bits()
    }
}

fn key_tag(kind: KeyKind) -> u8 {
    match kind {
        KeyKind::String => b'S',
        KeyKind::Null => b'N',
        KeyKind::Bool => b'B',
        KeyKind::Integer => b'J',
        KeyKind::Float => b'F',
        KeyKind::Timestamp => b'D',
    }
}
