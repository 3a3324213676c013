//! The format of the records in their tree.

/// The version of the format that is written.
pub const FORMAT_VERSION: u32 = 1;

/// The file with the state of the whole site, or the content of a marker.
pub(super) const SITE: &str = "site.json";
