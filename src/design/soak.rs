//! The soak behind each wave, in which what a site runs has to stay healthy.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::read::{text, texts};
use crate::document::{Node, Seconds};

/// The soak behind each wave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoakPolicy {
    /// Its seconds; 0: there is none.
    pub seconds: u64,
    /// The namespaces in which no pod may crash again and again.
    pub namespaces: BTreeSet<Arc<str>>,
}

impl SoakPolicy {
    /// Reads the field of a Policy.
    pub(super) fn read(data: &Node) -> Self {
        let Some(soak) = data.get("soak") else {
            return Self::default();
        };
        let time = text(soak, "time").and_then(|time| time.parse::<Seconds>().ok()?.whole());
        Self {
            seconds: time.unwrap_or_default(),
            namespaces: texts(soak, "namespaces").collect(),
        }
    }
}
