//! The stand-in of a secret in digests: where it comes from, and never its value.
//!
//! Digests of designs are in records, plans and refs that are pushed. A digest of a weak password would be as good as
//! the password. So a secret counts by its reference: the document and path that it is substituted from; or, if it
//! is written inline, by git's id of the file that holds it, which is in the repository anyway.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// Where a secret comes from.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretOrigin(Arc<Origin>);

#[derive(PartialEq, Eq, Hash)]
struct Origin {
    sum: [u8; 32],
    /// It is known by the file that it is written in.
    is_written: bool,
}

impl fmt::Debug for SecretOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretOrigin")
    }
}

impl SecretOrigin {
    pub(super) fn new(is_written: bool, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(Arc::new(Origin {
            sum: hash.finalize().into(),
            is_written,
        }))
    }

    /// A secret that is written in a file, by git's id of it, if that is known.
    #[must_use]
    pub fn in_file(blob: Option<[u8; 20]>) -> Self {
        let blob = blob.as_ref().map(<[u8; 20]>::as_slice);
        Self::new(true, &[b"file", blob.unwrap_or_default()])
    }

    /// The digest of the place, which stands for the secret.
    #[must_use]
    pub fn sum(&self) -> &[u8; 32] {
        &self.0.sum
    }

    /// Whether it is known by the file that it is written in.
    pub(super) fn is_written(&self) -> bool {
        self.0.is_written
    }
}
