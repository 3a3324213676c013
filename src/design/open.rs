//! Fields of adopted machines that could not be observed, and that no document fills yet (`trueup/Adoption/v1`).

use serde::{Deserialize, Serialize};

use super::catalog::Catalog;
use super::read::{items, text_of};
use super::{Design, NodeDesign, NodeName, Section, Selector, kind};
use crate::diagnostic::Mark;
use crate::document::{Map, Node};

/// A field that a deploy needs, and that no backend shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OpenField {
    /// The profile of its hardware.
    #[serde(rename = "hardware_profile")]
    HardwareProfile,
    /// The image that runs.
    #[serde(rename = "platform.image")]
    Image,
    /// The kernel that runs.
    #[serde(rename = "platform.kernel")]
    Kernel,
    /// Partitions and file systems.
    #[serde(rename = "storage")]
    Storage,
    /// Interfaces and their networks.
    #[serde(rename = "interfaces")]
    Interfaces,
    /// The network of its default route.
    #[serde(rename = "primary_network")]
    PrimaryNetwork,
    /// Its addresses.
    #[serde(rename = "addressing")]
    Addressing,
    /// The actions of a first boot.
    #[serde(rename = "boot_actions")]
    BootActions,
}

impl OpenField {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::HardwareProfile,
        Self::Image,
        Self::Kernel,
        Self::Storage,
        Self::Interfaces,
        Self::PrimaryNetwork,
        Self::Addressing,
        Self::BootActions,
    ];

    /// Those that no machine is deployed without: if a machine is adopted whose documents have no value of theirs, they
    /// are open, with or without a document that lists them.
    pub const NEEDED: [Self; 3] = [Self::Image, Self::Storage, Self::Interfaces];

    /// Its name in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HardwareProfile => "hardware_profile",
            Self::Image => "platform.image",
            Self::Kernel => "platform.kernel",
            Self::Storage => "storage",
            Self::Interfaces => "interfaces",
            Self::PrimaryNetwork => "primary_network",
            Self::Addressing => "addressing",
            Self::BootActions => "boot_actions",
        }
    }

    /// Fields as messages name them.
    #[must_use]
    pub fn in_words(fields: &[Self]) -> String {
        let named = fields.iter().map(|field| format!("`{}`", field.as_str()));
        named.collect::<Vec<_>>().join(", ")
    }

    /// The section that it is of.
    #[must_use]
    pub fn section(self) -> Section {
        match self {
            Self::HardwareProfile => Section::Hardware,
            Self::Image | Self::Kernel => Section::OperatingSystem,
            Self::Storage => Section::Storage,
            Self::Interfaces | Self::PrimaryNetwork | Self::Addressing => Section::Network,
            Self::BootActions => Section::BootActions,
        }
    }

    /// Whether the documents of a machine fill it.
    #[must_use]
    pub fn is_filled(self, node: &NodeDesign) -> bool {
        let path: &[&str] = match self {
            Self::HardwareProfile => return node.hardware_profile.is_some(),
            Self::Storage => return !node.disks.is_empty(),
            Self::Addressing => return node.addresses.iter().next().is_some(),
            Self::Image => &["platform", "image"],
            Self::Kernel => &["platform", "kernel"],
            Self::Interfaces => &["interfaces"],
            Self::PrimaryNetwork => &["primary_network"],
            Self::BootActions => &["boot_actions"],
        };
        let fields = node.sections.get(&self.section());
        let found = fields.and_then(|fields| fields.at(path));
        let is_empty = |found: &Node| {
            found.is_null()
                || found.as_map().is_some_and(Map::is_empty)
                || found.as_str().is_some_and(|text| text.trim().is_empty())
        };
        found.is_some_and(|found| !is_empty(found))
    }
}

/// Adopted machines, and what was not observed of them.
#[derive(Clone, Debug)]
pub(super) struct Adoption {
    selector: Selector,
    /// Each with its place.
    pub(super) open: Vec<(OpenField, Mark)>,
    pub(super) assumed: Vec<(OpenField, Mark)>,
}

/// The entries of all documents.
pub(super) fn read(catalog: &Catalog<'_>) -> Vec<Adoption> {
    let documents = catalog.of(kind::ADOPTION);
    let entries = documents.flat_map(|(_, data)| items(data, "machines"));
    entries.map(Adoption::read).collect()
}

/// The fields of a list; others are the schema's to tell.
fn fields(entry: &Node, list: &str) -> Vec<(OpenField, Mark)> {
    let named = |item: &Node| {
        let name = text_of(item)?;
        let mut all = OpenField::ALL.into_iter();
        Some((all.find(|field| field.as_str() == &*name)?, item.mark))
    };
    items(entry, list).iter().filter_map(named).collect()
}

impl Adoption {
    /// Reads an entry.
    pub(super) fn read(entry: &Node) -> Self {
        Self {
            selector: Selector::read(entry),
            open: fields(entry, "open"),
            assumed: fields(entry, "assumed"),
        }
    }

    /// The machines whose documents do not fill a field.
    pub(super) fn lacking<'a>(
        &'a self,
        field: OpenField,
        design: &'a Design,
    ) -> impl Iterator<Item = &'a NodeName> {
        let names = self.selector.nodes(design).into_iter();
        names.filter(move |name| {
            let node = design.nodes.get(*name);
            node.is_some_and(|node| !field.is_filled(node))
        })
    }
}

impl Design {
    /// The fields of a machine that no document fills: those that are open by its documents, and those that were when it was
    /// adopted (`before`) and that no document calls assumed.
    #[must_use]
    pub fn open_fields(&self, name: &NodeName, before: &[OpenField]) -> Vec<OpenField> {
        let Some(node) = self.nodes.get(name) else {
            return Vec::new();
        };
        let of_node = |adoption: &&Adoption| adoption.selector.matches(node);
        let adoptions: Vec<&Adoption> = self.adoptions.iter().filter(of_node).collect();
        let among = |list: fn(&Adoption) -> &[(OpenField, Mark)], field| {
            let mut all = adoptions.iter().flat_map(|adoption| list(adoption));
            all.any(|(each, _)| *each == field)
        };
        let is_open = |field: &OpenField| {
            let was_open = before.contains(field) && !among(|each| &each.assumed, *field);
            (was_open || among(|each| &each.open, *field)) && !field.is_filled(node)
        };
        OpenField::ALL.into_iter().filter(is_open).collect()
    }
}
