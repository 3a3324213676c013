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
    /// Firmware, settings of the BIOS and of the controller, and boot settings that Hardware documents enforce.
    Firmware,
    /// Those that Hardware documents only report, and the parts that they expect.
    Expected,
    /// RAID volumes and hot spares that Hardware documents enforce.
    Raid,
}

/// How far a change goes with a machine that is in service, from nothing to the loss of all disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// Nothing happens to the machine.
    Record,
    /// It is changed while it runs.
    Live,
    /// It is restarted, and no disk is touched.
    Restart,
    /// The disk of its system is written again, and the other disks are kept.
    Reinstall,
    /// All its disks are erased.
    Wipe,
}

impl Rung {
    /// All rungs, the lowest first.
    pub const ALL: [Self; 5] = [
        Self::Record,
        Self::Live,
        Self::Restart,
        Self::Reinstall,
        Self::Wipe,
    ];

    /// The rung of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rung| rung.as_str() == name)
    }

    /// Whether a machine does not serve meanwhile.
    #[must_use]
    pub fn is_disruptive(self) -> bool {
        self >= Self::Restart
    }

    /// The name as it stands in plans and policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Live => "live",
            Self::Restart => "restart",
            Self::Reinstall => "reinstall",
            Self::Wipe => "wipe",
        }
    }
}

impl std::fmt::Display for Rung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The consequence of a change in a section for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Nothing is done to the machine; its record is brought up to date.
    Record,
    /// Kubernetes labels are set.
    Relabel,
    /// The machine is drained, changed and restarted, and keeps its disks.
    Service,
    /// The machine is torn down and built again.
    Redeploy,
}

impl Section {
    /// All sections, in the order in which they are shown.
    pub const ALL: [Self; 11] = [
        Self::Hardware,
        Self::OperatingSystem,
        Self::Storage,
        Self::Network,
        Self::BootActions,
        Self::Labels,
        Self::OutOfBand,
        Self::Inventory,
        Self::Firmware,
        Self::Expected,
        Self::Raid,
    ];

    /// Sections of what a deploy puts on a machine or into its cluster, so that it can be otherwise than they say; not the
    /// volumes below it, which its controller has and shows.
    pub const ON_MACHINE: [Self; 6] = [
        Self::Hardware,
        Self::OperatingSystem,
        Self::Storage,
        Self::Network,
        Self::BootActions,
        Self::Labels,
    ];

    /// Sections that nearly every machine has for itself.
    pub const OWN: [Self; 3] = [Self::Network, Self::OutOfBand, Self::Inventory];

    /// The section of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|section| section.as_str() == name)
    }

    /// The lowest rung that can bring a difference in this section true.
    ///
    /// A backend that cannot keep the disks beside that of the system erases them all.
    #[must_use]
    pub fn lowest_rung(self) -> Rung {
        match self {
            Self::Storage | Self::Raid => Rung::Wipe,
            Self::Hardware | Self::OperatingSystem | Self::Network | Self::BootActions => {
                Rung::Reinstall
            }
            Self::Firmware => Rung::Restart,
            Self::Labels => Rung::Live,
            Self::OutOfBand | Self::Inventory | Self::Expected => Rung::Record,
        }
    }

    /// The consequence of a change in this section.
    #[must_use]
    pub fn class(self) -> Class {
        match self.lowest_rung() {
            Rung::Record => Class::Record,
            Rung::Live => Class::Relabel,
            Rung::Restart => Class::Service,
            Rung::Reinstall | Rung::Wipe => Class::Redeploy,
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
            Self::Firmware => "firmware",
            Self::Expected => "expected",
            Self::Raid => "raid",
        }
    }
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::boot_action::EFFECT_FIELDS;
    use super::super::inherit::FIELDS;
    use super::super::network::{LINK_FIELDS, NETWORK_FIELDS};

    fn fields(schema: &str) -> BTreeSet<String> {
        let json: serde_json::Value = serde_json::from_str(schema).unwrap();
        let mut names = BTreeSet::new();
        for (name, inner) in json["properties"].as_object().unwrap() {
            match inner["properties"].as_object() {
                Some(inner) if name == "metadata" => {
                    names.extend(inner.keys().map(|inner| format!("{name}.{inner}")));
                }
                _ => {
                    names.insert(name.clone());
                }
            }
        }
        names
    }

    #[test]
    fn every_field_of_a_node_and_its_profiles_belongs_to_one_section() {
        let table: Vec<String> = FIELDS.iter().map(|field| field.path.join(".")).collect();
        let sections: BTreeSet<String> = table.iter().cloned().collect();
        assert_eq!(table.len(), sections.len(), "a field is in two sections");
        let node = fields(include_str!("../../schemas/drydock.BaremetalNode.v1.json"));
        let profile = fields(include_str!("../../schemas/drydock.HostProfile.v1.json"));
        assert_eq!(node, sections);
        let own = ["addressing".to_owned()].into();
        assert_eq!(&node - &profile, own, "what a profile cannot say");
        assert_eq!(&profile - &node, BTreeSet::new(), "fields of profiles only");
    }

    #[test]
    fn a_deploy_puts_all_on_a_machine_that_is_changed_but_by_a_service() {
        use super::Class::{Record, Service};
        let all = super::Section::ALL.into_iter();
        let done: Vec<_> = all
            .filter(|section| !matches!(section.class(), Record | Service))
            .filter(|section| *section != super::Section::Raid)
            .collect();
        assert_eq!(done, super::Section::ON_MACHINE);
    }

    #[test]
    fn what_of_networks_links_and_boot_actions_is_on_no_machine_is_named() {
        let rest = |schema: &str, effect: &[&str]| -> Vec<String> {
            let mut all = fields(schema);
            for name in effect {
                assert!(all.remove(*name), "{name} is no field");
            }
            all.into_iter().collect()
        };
        let network = include_str!("../../schemas/drydock.Network.v1.json");
        let link = include_str!("../../schemas/drydock.NetworkLink.v1.json");
        let action = include_str!("../../schemas/drydock.BootAction.v1.json");
        assert_eq!(
            rest(network, &NETWORK_FIELDS),
            ["dhcp_relay", "labels", "ranges"]
        );
        assert_eq!(rest(link, &LINK_FIELDS), ["allowed_networks"]);
        assert_eq!(rest(action, &EFFECT_FIELDS), ["node_filter"]);
    }
}
