//! An Ironic that answers anything, for the fuzzers.

use http::StatusCode;
use serde_json::Value;

use super::api::{Page, Words, marker};
use super::mark::Marker;
use super::node::{Node, disks_of_inventory};
use crate::backend::http::{Answer, Dialect};

/// Reads the same bytes as an error, a page of nodes, one node and an inventory.
pub fn answer(data: &[u8]) {
    let answer = Answer::invented(StatusCode::CONFLICT, data);
    Words.words(&answer);
    let page: Option<Page> = answer.json().ok();
    let nodes = page.into_iter().flat_map(|page| {
        if let Some(marker) = page.next.as_deref().and_then(marker) {
            assert!(!marker.contains(['/', '&', '?', '%']), "{marker}");
        }
        page.nodes
    });
    for node in nodes.chain(answer.json::<Node>().ok()) {
        let seen = node.observed(true);
        let shown = [seen.retired, seen.maintenance, seen.last_error];
        let no_controls = |text: &str| !text.chars().any(char::is_control);
        assert!(shown.iter().flatten().all(|text| no_controls(text)));
        assert!(no_controls(&node.state_name()) && no_controls(&node.doing()));
        assert!(no_controls(&node.failed()));
        node.is_idle();
        Marker::of(&node);
    }
    if let Ok(inventory) = answer.json::<Value>() {
        disks_of_inventory(&inventory);
    }
}
