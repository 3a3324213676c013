//! Fields of adopted machines that could not be observed, and that no document fills yet (`trueup/Adoption/v1`).

use super::catalog::Catalog;
use super::read::{items, text_of};
use super::{Design, NodeDesign, NodeName, Section, Selector, kind};
use crate::diagnostic::Mark;
use crate::document::{Map, Node};

/// A field that a deploy needs, and that no backend shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenField {
    /// The image that runs.
    Image,
    /// Partitions and file systems.
    Storage,
    /// Interfaces and their networks.
    Interfaces,
    /// The actions of a first boot.
    BootActions,
}

impl OpenField {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Image,
        Self::Storage,
        Self::Interfaces,
        Self::BootActions,
    ];

    /// Its name in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "platform.image",
            Self::Storage => "storage",
            Self::Interfaces => "interfaces",
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
            Self::Image => Section::OperatingSystem,
            Self::Storage => Section::Storage,
            Self::Interfaces => Section::Network,
            Self::BootActions => Section::BootActions,
        }
    }

    /// Whether the documents of a machine fill it.
    #[must_use]
    pub fn is_filled(self, node: &NodeDesign) -> bool {
        let path: &[&str] = match self {
            Self::Image => &["platform", "image"],
            Self::Storage => return !node.disks.is_empty(),
            Self::Interfaces => &["interfaces"],
            Self::BootActions => &["boot_actions"],
        };
        let fields = node.sections.get(&self.section());
        let found = fields.and_then(|fields| fields.at(path));
        found.is_some_and(|found| !found.is_null() && !found.as_map().is_some_and(Map::is_empty))
    }
}

/// Adopted machines, and what was not observed of them.
#[derive(Clone, Debug)]
pub(super) struct Adoption {
    pub(super) selector: Selector,
    /// Each with its place.
    pub(super) open: Vec<(OpenField, Mark)>,
}

/// The entries of all documents.
pub(super) fn read(catalog: &Catalog<'_>) -> Vec<Adoption> {
    let documents = catalog.of(kind::ADOPTION);
    let entries = documents.flat_map(|(_, data)| items(data, "machines"));
    entries.map(Adoption::read).collect()
}

/// The fields of a list; others are the schema's to tell.
pub(super) fn fields(entry: &Node, list: &str) -> Vec<(OpenField, Mark)> {
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
    /// The fields of a machine that are open.
    #[must_use]
    pub fn open_fields(&self, name: &NodeName) -> Vec<OpenField> {
        let Some(node) = self.nodes.get(name) else {
            return Vec::new();
        };
        let of_node = |adoption: &&Adoption| adoption.selector.matches(node);
        let fields = self.adoptions.iter().filter(of_node);
        let fields = fields.flat_map(|adoption| &adoption.open);
        let open = fields.filter(|(field, _)| !field.is_filled(node));
        open.map(|(field, _)| *field).collect()
    }
}
