//! How much one file, and all files of a site, may ask of the machine.
//!
//! Documents come from any pull request. Every limit is far above the needs of a real
//! site needs, and has a diagnostic code of its own when it is reached.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a file (`yaml-file-too-large`).
    pub file_bytes: usize,
    /// Lists and maps inside one another (`yaml-too-deep`).
    pub depth: usize,
    /// Values in a file (`yaml-too-many-values`).
    pub values: usize,
    /// Documents in a file, broken ones counted (`yaml-too-many-documents`).
    pub documents: usize,
    /// Nodes that aliases stand for in a file, were they written out (`yaml-too-many-aliases`).
    /// Long texts count as one more node for each 64 bytes.
    pub expanded_nodes: usize,
    /// Errors, and also warnings, that are listed for a file (`yaml-too-many-problems`).
    pub problems: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            depth: 100,
            values: 4_000_000,
            documents: 100_000,
            expanded_nodes: 1_000_000,
            problems: 1_000,
        }
    }
}

/// How much the files of a site may have together (`yaml-site-too-large`), counted while several threads read them.
///
/// It does not count in which order they come: once more was taken than there is, nothing of the site is used.
#[derive(Debug)]
pub struct SiteLimits {
    bytes: AtomicU64,
    values: AtomicU64,
}

impl SiteLimits {
    /// Bytes of all files.
    pub const BYTES: u64 = 256 << 20;

    /// Values in all files, those that aliases stand for among them.
    pub const VALUES: u64 = 20_000_000;

    /// The allowance of a site before anything is read.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: AtomicU64::new(Self::BYTES),
            values: AtomicU64::new(Self::VALUES),
        }
    }

    /// Takes the bytes of a file; whether there were as many.
    pub fn take_bytes(&self, bytes: u64) -> bool {
        take(&self.bytes, bytes)
    }

    /// Takes the values of a file; whether there were as many.
    pub fn take_values(&self, values: u64) -> bool {
        take(&self.values, values)
    }

    /// Whether more was taken than there is.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        let is_over = |left: &AtomicU64| left.load(Ordering::Relaxed) == OVER;
        is_over(&self.bytes) || is_over(&self.values)
    }
}

impl Default for SiteLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// The rest of an allowance that was exceeded.
const OVER: u64 = u64::MAX;

fn take(left: &AtomicU64, count: u64) -> bool {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(match left {
            OVER => OVER,
            left => left.checked_sub(count).unwrap_or(OVER),
        })
    });
    taken.is_ok_and(|before| before != OVER && before >= count)
}

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSettings {
    /// Upper bounds for each file.
    pub limits: Limits,
    /// Whether the site is a flat folder: `metadata.schema`, `metadata.layeringDefinition` and
    /// `metadata.storagePolicy` may then be left out (layer `site`, concrete, cleartext).
    pub flat: bool,
    /// Whether the documents were rendered by another program, which gives them out with an `id` and a `status`: what is
    /// said there about layering and substitution was done already.
    pub rendered: bool,
    /// Git's id of the bytes of the file, which stands in digests for the secrets that are written in it.
    pub blob: Option<[u8; 20]>,
}

impl LoadSettings {
    /// The same, for the file with an id.
    #[must_use]
    pub fn of_file(&self, blob: [u8; 20]) -> Self {
        Self {
            blob: Some(blob),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_too_much_was_asked_for_it_stays_too_much() {
        let limits = SiteLimits::new();
        assert!(limits.take_bytes(SiteLimits::BYTES) && limits.take_values(SiteLimits::VALUES - 1));
        assert!(limits.take_values(1) && !limits.is_exceeded());
        assert!(!limits.take_values(1) && limits.is_exceeded());
        assert!(!limits.take_values(0));
    }

    #[test]
    fn a_site_of_a_hundred_thousand_machines_is_within_the_limits() {
        let limits = SiteLimits::new();
        assert!((0..100_000).all(|_| limits.take_bytes(2_000) && limits.take_values(200)));
    }
}
