//! Racks: those that nodes stand in, and the networks that they have to themselves.

use rustc_hash::FxHashSet;

use super::super::Section;
use super::super::read::{Findings, items, text_of};
use super::machines::unknown_network;
use super::selectors::near;
use super::{Catalog, Design, kind};
use crate::diagnostic::Diagnostic;

/// A site without racks among its documents may name them as it likes.
pub(super) fn check(catalog: &Catalog<'_>, design: &Design, findings: &mut Findings) {
    let racks: Vec<&str> = catalog.names(kind::RACK).collect();
    if racks.is_empty() {
        return;
    }
    let mut used = FxHashSet::default();
    for node in design.nodes.values() {
        let Some(rack) = node.rack.as_deref().filter(|rack| !rack.is_empty()) else {
            continue;
        };
        if racks.binary_search(&rack).is_ok() {
            used.insert(rack);
            continue;
        }
        let field = node.sections.get(&Section::Inventory);
        let field = field.and_then(|section| section.at(&["metadata", "rack"]));
        let message = format!("there is no rack `{rack}`");
        findings.push(
            Diagnostic::error(
                "reference-rack",
                field.map_or(node.mark, |field| field.mark),
                message,
            )
            .did_you_mean(rack, near(rack, &racks)),
        );
    }
    for (document, data) in catalog.of(kind::RACK) {
        let mut found = Findings::default();
        for entry in items(data, "local_networks") {
            if text_of(entry).is_some()
                && let Some(finding) = unknown_network(entry, catalog)
            {
                found.push(finding);
            }
        }
        findings.take(found, used.contains(&*document.id.name));
    }
}
