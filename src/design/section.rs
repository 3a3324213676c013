//! The sections of a node, and what a change in each of them means for the machine.
//!
//! Every field of a node and of its profiles belongs to exactly one section, and every section to
//! exactly one class. That is the whole of the rule which tells a relabel from a redeploy.

use serde::{Deserialize, Serialize};

/// A part of a node's rendered design that changes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// The hardware profile: vendor, firmware, boot mode, device aliases.
    Hardware,
    /// Image, kernel, kernel parameters.
    OperatingSystem,
    /// Disks, partitions, file systems, volume groups.
    Storage,
    /// Interfaces, addresses, and the networks and links that they use.
    Network,
    /// Boot actions that apply to the node, with their assets.
    BootActions,
    /// Kubernetes labels (Drydock's owner data).
    Labels,
    /// Out-of-band type, address, credentials and parameters.
    OutOfBand,
    /// Rack, tags, description and all else that is about the machine, not in it.
    Inventory,
}

/// What a change in a section means for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Nothing is done to the machine; its record is brought up to date.
    Record,
    /// Kubernetes labels are set.
    Relabel,
    /// The machine is torn down and built again.
    Redeploy,
}

impl Section {
    /// All sections, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Hardware,
        Self::OperatingSystem,
        Self::Storage,
        Self::Network,
        Self::BootActions,
        Self::Labels,
        Self::OutOfBand,
        Self::Inventory,
    ];

    /// What a change in this section means.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Self::Hardware
            | Self::OperatingSystem
            | Self::Storage
            | Self::Network
            | Self::BootActions => Class::Redeploy,
            Self::Labels => Class::Relabel,
            Self::OutOfBand | Self::Inventory => Class::Record,
        }
    }

    /// The name as it stands in plans and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::OperatingSystem => "operating-system",
            Self::Storage => "storage",
            Self::Network => "network",
            Self::BootActions => "boot-actions",
            Self::Labels => "labels",
            Self::OutOfBand => "out-of-band",
            Self::Inventory => "inventory",
        }
    }
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
