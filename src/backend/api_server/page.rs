//! A page of a list, whatever it lists, and how what a server leaves out is read.

use serde::{Deserialize, Deserializer};

/// Reads null as the empty value.
pub(in crate::backend) fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) metadata: PageMetadata,
    #[serde(
        default = "Vec::new",
        deserialize_with = "or_empty",
        bound = "T: Deserialize<'de>"
    )]
    pub(super) items: Vec<T>,
}

/// Where a list stands.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMetadata {
    #[serde(rename = "continue", deserialize_with = "or_empty")]
    pub(super) next: String,
    #[serde(deserialize_with = "or_empty")]
    pub(super) resource_version: String,
}
