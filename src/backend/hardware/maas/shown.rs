//! Disks, volume groups and interfaces as MAAS shows them. Nothing is trusted to be there.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::design::Section;
use crate::observed::PartDrift;

/// A value that may be `null`.
pub(super) fn or_none<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A text that may be `null`.
pub(super) fn or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    let text: Option<Arc<str>> = Option::deserialize(from)?;
    Ok(text.unwrap_or_default())
}

/// Texts in their order; `none` without any.
pub(super) fn listed(mut texts: Vec<String>) -> String {
    texts.sort_unstable();
    match texts.is_empty() {
        true => "none".to_owned(),
        false => texts.join(", "),
    }
}

/// A part of a machine that is otherwise than its design.
pub(super) fn drift_of(
    section: Section,
    field: impl Into<String>,
    observed: impl Into<String>,
    designed: impl Into<String>,
) -> PartDrift {
    PartDrift {
        section,
        field: field.into().into(),
        observed: observed.into().into(),
        designed: designed.into().into(),
    }
}

/// An interface of a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Interface {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    /// `physical`, `bond`, `vlan`, `bridge`.
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub(super) kind: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) mac_address: Arc<str>,
    /// The names of the interfaces that it is made of.
    #[serde(deserialize_with = "or_none")]
    pub(super) parents: Vec<Arc<str>>,
    pub(super) vlan: Option<Vlan>,
    #[serde(deserialize_with = "or_none")]
    pub(super) links: Vec<Link>,
    /// Parameters, such as those of a bond; an empty text in old versions.
    params: Value,
    pub(super) effective_mtu: Option<u32>,
}

impl Interface {
    /// A parameter, as text.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        match self.params.get(name)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// A VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Vlan {
    pub(super) id: u64,
    /// Its number on the wire; 0: untagged.
    pub(super) vid: u16,
    pub(super) fabric_id: Option<u64>,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Subnet {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) cidr: Arc<str>,
    #[serde(deserialize_with = "or_none")]
    pub(super) vlan: Vlan,
    pub(super) gateway_ip: Option<Arc<str>>,
}

/// A fabric: VLANs that can be on one cable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Fabric {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_none")]
    pub(super) vlans: Vec<Vlan>,
}

/// The networks of a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nets {
    pub(super) subnets: Vec<Subnet>,
    pub(super) fabrics: Vec<Fabric>,
}

/// A link of an interface to a subnet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Link {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) mode: Arc<str>,
    pub(super) subnet: Option<Subnet>,
    pub(super) ip_address: Option<Arc<str>>,
}

/// The gateways that a machine takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Gateways {
    #[serde(deserialize_with = "or_none")]
    pub(super) ipv4: Gateway,
    #[serde(deserialize_with = "or_none")]
    pub(super) ipv6: Gateway,
}

/// The link whose subnet has the gateway, if one was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Gateway {
    pub(super) link_id: Option<u64>,
}

/// A device on a bus of a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct BusDevice {
    pub(super) pci_address: Option<Arc<str>>,
    physical_interface: Value,
}

impl BusDevice {
    /// The id of the interface that it is.
    pub(super) fn interface(&self) -> Option<u64> {
        let id = self.physical_interface.get("id");
        id.unwrap_or(&self.physical_interface).as_u64()
    }
}

/// A disk of a machine, or a logical volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) serial: Arc<str>,
    #[serde(deserialize_with = "or_none")]
    pub(super) size: u64,
    #[serde(deserialize_with = "or_none")]
    pub(super) available_size: u64,
    pub(super) filesystem: Option<FileSystem>,
    #[serde(deserialize_with = "or_none")]
    pub(super) partitions: Vec<Partition>,
}

impl Block {
    /// Its file systems, and those of its partitions.
    pub(super) fn file_systems(&self) -> impl Iterator<Item = &FileSystem> {
        let parts = self.partitions.iter();
        let parts = parts.filter_map(|part| part.filesystem.as_ref());
        self.filesystem.iter().chain(parts)
    }
}

/// A partition of a disk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Partition {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_none")]
    pub(super) size: u64,
    pub(super) filesystem: Option<FileSystem>,
}

/// A file system, or that of a part of a volume group (`lvm-pv`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct FileSystem {
    #[serde(deserialize_with = "or_empty")]
    pub(super) fstype: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    pub(super) mount_point: Arc<str>,
}

/// A volume group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct VolumeGroup {
    pub(super) id: u64,
    #[serde(deserialize_with = "or_empty")]
    pub(super) name: Arc<str>,
    #[serde(deserialize_with = "or_none")]
    pub(super) size: u64,
    #[serde(deserialize_with = "or_none")]
    pub(super) available_size: u64,
    #[serde(deserialize_with = "or_none")]
    pub(super) devices: Vec<GroupDevice>,
    #[serde(deserialize_with = "or_none")]
    pub(super) logical_volumes: Vec<Block>,
}

impl VolumeGroup {
    /// The logical volume of a name; MAAS shows it behind the name of its group.
    pub(super) fn volume(&self, name: &str) -> Option<&Block> {
        let full = format!("{}-{name}", self.name);
        let mut volumes = self.logical_volumes.iter();
        volumes.find(|volume| *volume.name == *full || *volume.name == *name)
    }
}

/// A disk or partition that a volume group is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(super) struct GroupDevice {
    /// `physical` or `partition`.
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub(super) kind: Arc<str>,
    pub(super) id: u64,
}

/// The disk that a machine boots from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct BootDisk {
    pub(super) id: u64,
}
