//! Machines of which only a summary is at hand: what selectors, groups and limits ask for, and digests.

use std::sync::Arc;

use super::{Addresses, Digests, MACHINE, NodeDesign, NodeName, OutOfBand, Sections};
use crate::diagnostic::{Mark, SourceId};
use crate::document::{DocumentId, Map, Node, Value};

/// A place for what was not read.
fn nowhere() -> Mark {
    Mark::new(SourceId(u32::MAX), 0)
}

impl NodeDesign {
    /// A machine of which only the name is known.
    #[must_use]
    pub fn summary(name: NodeName) -> Self {
        Self {
            document: DocumentId {
                schema: Arc::from(MACHINE),
                name: Arc::from(name.as_str()),
            },
            name,
            mark: nowhere(),
            rack: None,
            tags: Arc::default(),
            labels: Arc::default(),
            host_profiles: Arc::from([]),
            hardware_profile: None,
            out_of_band: OutOfBand::default(),
            addresses: Addresses::default(),
            disks: Arc::from([]),
            sections: Sections::default(),
            digests: Digests::default(),
            depends_on: Vec::new(),
        }
    }
}

/// The section of a machine that has boot actions, whichever they are.
#[must_use]
pub fn some_boot_actions() -> Node {
    let map = |key: &str, node| {
        let mut map = Map::new();
        map.set(key, node);
        Node::new(Value::Map(Arc::new(map)), nowhere())
    };
    map("boot_actions", map("", Node::new(Value::Null, nowhere())))
}
