//! One digest for one meaning: the same value gives the same bytes wherever, and in whatever order,
//! it was written.
//!
//! Marks and the order of keys do not count, and a secret counts by where it comes from, never by its value
//! ([`write_without_secrets`]): these digests are recorded and pushed. A digest of a whole is made of the digests of its parts ([`combine`]), so that what many nodes share is
//! hashed once.

use sha2::{Digest as _, Sha256};

use crate::document::{Node, write_without_secrets};

/// A SHA-256 as bytes.
pub(super) type Sum = [u8; 32];

/// The digest of a value.
pub(super) fn sum(node: &Node) -> Sum {
    let mut bytes = Vec::with_capacity(256);
    write_without_secrets(node, &mut bytes);
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

fn write_text(tag: u8, text: &str, bytes: &mut Vec<u8>) {
    bytes.push(tag);
    bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}
