//! Network links, and what interfaces put on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::super::Section;
use super::super::read::{Findings, items, text, text_of};
use super::machines::unknown_network;
use super::{Catalog, Design, kind};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Map, Node, Value};

/// As Drydock's code has them; its text says 1400 and 64000, which tunnels do not keep to.
const LEAST_MTU: i64 = 1280;
const LARGEST_MTU: i64 = 65_536;

/// The last of IEEE 802.1Q that may be used; 0 is that of untagged frames.
const LARGEST_VLAN: i64 = 4094;

pub(super) fn check(catalog: &Catalog<'_>, design: &Design, findings: &mut Findings) {
    let mut on_link: BTreeMap<Arc<str>, (Mark, Arc<str>)> = BTreeMap::new();
    for (_, data) in catalog.of(kind::NETWORK) {
        check_mtu(data, findings);
        check_vlan(data, findings);
    }
    let used = check_nodes(catalog, design, findings);
    for (document, data) in catalog.of(kind::NETWORK_LINK) {
        let mut found = Findings::default();
        check_mtu(data, &mut found);
        check_bonding(data, &mut found);
        check_trunking(data, document.mark, catalog, &mut found);
        for entry in items(data, "allowed_networks") {
            let Some(name) = text_of(entry) else {
                continue;
            };
            check_networks_mtu(entry, &name, data, catalog, &mut found);
            let link = &document.id.name;
            match on_link.get(&name) {
                Some((first, other)) if other != link => {
                    let message = format!("network `{name}` is also allowed on link `{other}`");
                    found.push(
                        Diagnostic::error("rule-network-on-two-links", entry.mark, message)
                            .hint("a network is on one link only")
                            .related(*first, "it is allowed here"),
                    );
                }
                Some(_) => {}
                None => {
                    on_link.insert(name, (entry.mark, link.clone()));
                }
            }
        }
        findings.take(found, used.contains(&document.id.name));
    }
}

/// Checks the interfaces of all machines; the links that they are on.
fn check_nodes(
    catalog: &Catalog<'_>,
    design: &Design,
    findings: &mut Findings,
) -> FxHashSet<Arc<str>> {
    let mut used = FxHashSet::default();
    let mut seen = FxHashSet::default();
    for node in design.nodes.values() {
        let interfaces = node.sections.get(&Section::Network);
        let interfaces = interfaces.and_then(|section| section.get("interfaces"));
        if let Some(Value::Map(map)) = interfaces.map(|node| &node.value)
            && seen.insert(Arc::as_ptr(map))
        {
            check_interfaces(map, catalog, findings);
            let interfaces = map.iter().map(|(_, field)| &field.node);
            used.extend(interfaces.filter_map(|each| text(each, "device_link")));
        }
    }
    used
}

fn check_mtu(data: &Node, findings: &mut Findings) {
    let Some(node) = data.get("mtu") else {
        return;
    };
    if let Some(mtu) = node.whole_number()
        && !(LEAST_MTU..=LARGEST_MTU).contains(&mtu)
    {
        let message = format!("an MTU is between {LEAST_MTU} and {LARGEST_MTU}, not {mtu}");
        findings.push(Diagnostic::error("rule-mtu", node.mark, message));
    }
}

fn check_vlan(data: &Node, findings: &mut Findings) {
    let Some(node) = data.get("vlan").filter(|node| !node.is_null()) else {
        return;
    };
    let number = match node.whole_number() {
        Some(number) => Some(number),
        None => node.as_str().and_then(|text| text.trim().parse().ok()),
    };
    if number.is_none_or(|number: i64| !(0..=LARGEST_VLAN).contains(&number)) {
        let message = format!("a VLAN is a number from 1 to {LARGEST_VLAN}");
        findings.push(
            Diagnostic::error("rule-vlan", node.mark, message)
                .hint("leave `vlan` out where the network is untagged"),
        );
    }
}

/// A network's packets must fit through its link, and the network has to be there.
fn check_networks_mtu(
    entry: &Node,
    name: &str,
    link: &Node,
    catalog: &Catalog<'_>,
    findings: &mut Findings,
) {
    let Some((_, network)) = catalog.get(kind::NETWORK, name) else {
        if let Some(finding) = unknown_network(entry, catalog) {
            findings.push(finding);
        }
        return;
    };
    let (Some(inner), Some(outer)) = (network.get("mtu"), link.get("mtu")) else {
        return;
    };
    if let (Some(packet), Some(limit)) = (inner.whole_number(), outer.whole_number())
        && packet > limit
    {
        let message =
            format!("the MTU {packet} of network `{name}` is above the {limit} of its link");
        findings.push(
            Diagnostic::error("rule-mtu", inner.mark, message)
                .related(outer.mark, "the link's is here"),
        );
    }
}

fn check_bonding(data: &Node, findings: &mut Findings) {
    const CODE: &str = "rule-bonding";
    let Some(bonding) = data.get("bonding") else {
        return;
    };
    let mode = text(bonding, "mode").unwrap_or_else(|| Arc::from("disabled"));
    let excluded: &[&str] = match &*mode {
        "disabled" => &["hash", "peer_rate", "mon_rate", "up_delay", "down_delay"],
        "active-backup" | "balanced-rr" => &["hash", "peer_rate"],
        _ => &[],
    };
    for (key, field) in bonding.as_map().into_iter().flat_map(Map::iter) {
        if excluded.contains(&&*key.text) && !field.node.is_null() {
            let message = format!(
                "`{}` has no meaning where the bonding mode is `{mode}`",
                key.text
            );
            findings.push(Diagnostic::error(CODE, field.key_mark, message));
        }
    }
    if &*mode == "disabled" {
        return;
    }
    let number = |name: &str| {
        let node = bonding.get(name)?;
        let value = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => return None,
        };
        Some((node, value))
    };
    let Some((_, rate)) = number("mon_rate") else {
        return;
    };
    for name in ["up_delay", "down_delay"] {
        if let Some((node, delay)) = number(name)
            && delay < rate
        {
            let message = format!("`{name}` ({delay}) must be at least `mon_rate` ({rate})");
            findings.push(Diagnostic::error(CODE, node.mark, message));
        }
    }
}

fn check_trunking(data: &Node, whole: Mark, catalog: &Catalog<'_>, findings: &mut Findings) {
    const CODE: &str = "rule-trunking";
    let trunking = data.get("trunking");
    let default = trunking.and_then(|trunking| trunking.get("default_network"));
    let default = default.and_then(|node| Some((node, text_of(node)?)));
    let network = default.as_ref().and_then(|(node, name)| {
        if let Some(finding) = unknown_network(node, catalog) {
            findings.push(finding);
        }
        catalog.get(kind::NETWORK, name)
    });
    let mode = trunking.and_then(|trunking| trunking.get("mode"));
    if mode
        .and_then(Node::as_str)
        .is_some_and(|mode| mode != "disabled")
    {
        return;
    }
    let mark = mode.or(trunking).map_or(whole, |node| node.mark);
    let allowed = items(data, "allowed_networks");
    if allowed.len() > 1 {
        let count = allowed.len();
        let message = format!("{count} networks on one link need trunking, which is disabled");
        findings.push(Diagnostic::error(CODE, mark, message).hint("write `mode: 802.1q`"));
    } else if default.is_none() && !allowed.is_empty() {
        let message = "a link without trunking needs a `default_network`";
        findings.push(Diagnostic::error(CODE, mark, message));
    }
    if let (Some((node, name)), Some((_, network))) = (&default, network)
        && let Some(vlan) = network.get("vlan").filter(|vlan| !vlan.is_null())
    {
        let message =
            format!("network `{name}` has a VLAN, and cannot be the untagged one of this link");
        findings.push(
            Diagnostic::error(CODE, node.mark, message).related(vlan.mark, "the VLAN is here"),
        );
    }
}

fn check_interfaces(interfaces: &Map, catalog: &Catalog<'_>, findings: &mut Findings) {
    for (name, field) in interfaces.iter() {
        let Some(link) = text(&field.node, "device_link").filter(|link| !link.is_empty()) else {
            if let Some(first) = items(&field.node, "networks").first() {
                let message = format!(
                    "interface `{}` has networks, and no `device_link`",
                    name.text
                );
                findings.push(Diagnostic::error(
                    "rule-network-not-on-link",
                    first.mark,
                    message,
                ));
            }
            continue;
        };
        let Some((_, data)) = catalog.get(kind::NETWORK_LINK, &link) else {
            continue;
        };
        let allowed: FxHashSet<Arc<str>> = items(data, "allowed_networks")
            .iter()
            .filter_map(text_of)
            .collect();
        for entry in items(&field.node, "networks") {
            let Some(network) = text_of(entry).filter(|network| !allowed.contains(network)) else {
                continue;
            };
            let message = format!(
                "interface `{}` has network `{network}`, which its link `{link}` does not allow",
                name.text
            );
            let list = data
                .get("allowed_networks")
                .map_or(data.mark, |list| list.mark);
            findings.push(
                Diagnostic::error("rule-network-not-on-link", entry.mark, message)
                    .related(list, "the link's networks are here"),
            );
        }
    }
}
