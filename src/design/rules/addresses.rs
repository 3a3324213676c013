//! Networks, their ranges and routes, and the addresses on them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::read::{Findings, items, text, text_of, texts};
use super::{Catalog, Design, kind};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::Node;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    network: IpAddr,
    prefix: u32,
}

impl Cidr {
    /// Reads `10.0.0.0/24`, host bits taken off; a single address is a range of one.
    fn parse(text: &str) -> Option<(Self, bool)> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            Some(_) => return None,
            None => width,
        };
        if prefix > width {
            return None;
        }
        let network = masked(address, prefix);
        Some((Self { network, prefix }, network != address))
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.network.is_ipv4() && masked(address, self.prefix) == self.network
    }
}

fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

struct Network<'a> {
    name: &'a str,
    cidr: Option<Cidr>,
    mark: Mark,
    /// Addresses that a machine may be given.
    fixed: Ranges,
    /// Whether machines are given addresses of some ranges only.
    has_static: bool,
    /// Addresses that a DHCP server gives out.
    dhcp: Ranges,
    gateways: FxHashMap<IpAddr, Mark>,
}

pub(super) fn check(catalog: &Catalog<'_>, design: &Design, findings: &mut Findings) {
    let domains: BTreeSet<Arc<str>> = catalog
        .of(kind::NETWORK)
        .filter_map(|(_, data)| text(data, "routedomain"))
        .collect();
    let mut networks: BTreeMap<&str, Network<'_>> = BTreeMap::new();
    for (document, data) in catalog.of(kind::NETWORK) {
        let mut network = Network {
            name: &document.id.name,
            cidr: cidr_of(data, findings),
            mark: data.get("cidr").map_or(document.mark, |node| node.mark),
            fixed: Ranges::default(),
            has_static: false,
            dhcp: Ranges::default(),
            gateways: FxHashMap::default(),
        };
        read_ranges(data, &mut network, findings);
        read_routes(data, &mut network, &domains, findings);
        networks.insert(&document.id.name, network);
    }
    check_overlaps(catalog, &networks, findings);
    let mut seen: FxHashMap<IpAddr, (Mark, Arc<str>)> = FxHashMap::default();
    for node in design.nodes.values() {
        let Some((_, data)) = catalog.get(kind::NODE, node.name.as_str()) else {
            continue;
        };
        for entry in items(data, "addressing") {
            let (Some(network), Some(written)) =
                (entry.get("network").and_then(text_of), entry.get("address"))
            else {
                continue;
            };
            if written.as_str() == Some("dhcp") {
                continue;
            }
            let Some(address) = address_of(written, findings) else {
                continue;
            };
            if let Some(network) = networks.get(&*network)
                && check_inside(address, written.mark, network, findings)
            {
                check_free(address, written.mark, network, findings);
            }
            let name: Arc<str> = Arc::from(node.name.as_str());
            if let Some((first, who)) = seen.get(&address) {
                let message = format!("`{address}` is also an address of `{who}`");
                findings.push(
                    Diagnostic::error("rule-address-repeated", written.mark, message)
                        .related(*first, "it is here"),
                );
            } else {
                seen.insert(address, (written.mark, name));
            }
        }
    }
}

fn cidr_of(data: &Node, findings: &mut Findings) -> Option<Cidr> {
    let node = data.get("cidr")?;
    let text = text_of(node)?;
    let Some((cidr, host_bits)) = Cidr::parse(&text) else {
        let message = "this is no range of addresses";
        findings.push(
            Diagnostic::error("rule-cidr", node.mark, message).hint("for example `10.23.21.0/24`"),
        );
        return None;
    };
    if host_bits {
        let message = format!("`{text}` has host bits");
        let hint = format!("the network is `{}/{}`", cidr.network, cidr.prefix);
        findings.push(Diagnostic::error("rule-cidr-host-bits", node.mark, message).hint(hint));
    }
    Some(cidr)
}

/// Networks on one link, and those of one routing domain, have ranges of their own.
fn check_overlaps(
    catalog: &Catalog<'_>,
    networks: &BTreeMap<&str, Network<'_>>,
    findings: &mut Findings,
) {
    let links = catalog.of(kind::NETWORK_LINK);
    let mut together: Vec<BTreeSet<Arc<str>>> = links
        .map(|(_, data)| texts(data, "allowed_networks").collect())
        .collect();
    let mut domains: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for (document, data) in catalog.of(kind::NETWORK) {
        if let Some(domain) = text(data, "routedomain") {
            let members = domains.entry(domain).or_default();
            members.insert(document.id.name.clone());
        }
    }
    together.extend(domains.into_values());
    for names in together {
        let named = names.iter().filter_map(|name| networks.get(&**name));
        let mut ranges: Vec<(Cidr, &Network<'_>)> = named
            .filter_map(|network| Some((network.cidr?, network)))
            .collect();
        // Of two ranges one is in the other, or they have nothing in common.
        ranges.sort_by_key(|(cidr, _)| (cidr.network, cidr.prefix));
        let mut widest: Option<(Cidr, &Network<'_>)> = None;
        for (cidr, network) in ranges {
            match widest {
                Some((outer, other)) if outer.contains(cidr.network) => {
                    let message = format!(
                        "the range of network `{}` overlaps that of network `{}`, which is `{}/{}`",
                        network.name, other.name, outer.network, outer.prefix
                    );
                    findings.push(
                        Diagnostic::error("rule-cidr-overlap", network.mark, message)
                            .hint("networks on one link, or in one routing domain, need ranges of their own")
                            .related(other.mark, "the other range is here"),
                    );
                }
                _ => widest = Some((cidr, network)),
            }
        }
    }
}

fn address_of(node: &Node, findings: &mut Findings) -> Option<IpAddr> {
    let text = text_of(node)?;
    let address = text.parse().ok();
    if address.is_none() {
        let message = "this is no IP address";
        findings.push(Diagnostic::error("rule-address", node.mark, message));
    }
    address
}

/// Whether an address is in its network, as far as the network has a range.
fn check_inside(
    address: IpAddr,
    mark: Mark,
    network: &Network<'_>,
    findings: &mut Findings,
) -> bool {
    let Some(cidr) = network.cidr.filter(|cidr| !cidr.contains(address)) else {
        return true;
    };
    let message = format!(
        "`{address}` is not in network `{}`, which is `{}/{}`",
        network.name, cidr.network, cidr.prefix
    );
    findings.push(
        Diagnostic::error("rule-address-outside", mark, message)
            .related(network.mark, "the network is here"),
    );
    false
}

/// Whether a machine can have an address to itself.
fn check_free(address: IpAddr, mark: Mark, network: &Network<'_>, findings: &mut Findings) {
    let name = network.name;
    if let Some(gateway) = network.gateways.get(&address) {
        let message = format!("`{address}` is a gateway of network `{name}`");
        findings.push(
            Diagnostic::error("rule-address-gateway", mark, message)
                .hint("give the machine an address of its own")
                .related(*gateway, "the gateway is here"),
        );
    } else if let Some(range) = network.dhcp.holding(address) {
        let message = format!("`{address}` is in a DHCP range of network `{name}`");
        findings.push(
            Diagnostic::error("rule-address-dhcp", mark, message)
                .hint("the DHCP server may give it to another machine: write an address of a static range, or `dhcp`")
                .related(range, "the range is here"),
        );
    } else if network.has_static && network.fixed.holding(address).is_none() {
        let message = format!("`{address}` is in no range of network `{name}`");
        findings.push(
            Diagnostic::warning("rule-address-range", mark, message).hint(format!(
                "its static and reserved ranges are {}",
                network.fixed
            )),
        );
    }
}

/// Ranges of addresses, sorted by their first one.
#[derive(Default)]
struct Ranges {
    ranges: Vec<(IpAddr, IpAddr, Mark)>,
    /// For each range, the position of the one up to it that ends last.
    last: Vec<usize>,
}

impl Ranges {
    fn new(mut ranges: Vec<(IpAddr, IpAddr, Mark)>) -> Self {
        ranges.sort_by_key(|(start, end, _)| (*start, *end));
        let mut last = Vec::with_capacity(ranges.len());
        for at in 0..ranges.len() {
            let longest = match last.last() {
                Some(&before) if ends_later(&ranges[before], &ranges[at]) => before,
                _ => at,
            };
            last.push(longest);
        }
        Self { ranges, last }
    }

    /// Where a range that holds an address is written.
    fn holding(&self, address: IpAddr) -> Option<Mark> {
        let begun = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (_, end, mark) = self.ranges[self.last[begun.checked_sub(1)?]];
        (end >= address).then_some(mark)
    }
}

/// Whether one range reaches as far as another one that begins behind it. Those of IPv4 sort before those of IPv6.
fn ends_later(one: &(IpAddr, IpAddr, Mark), other: &(IpAddr, IpAddr, Mark)) -> bool {
    one.1 >= other.1
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        for (at, (start, end, _)) in self.ranges.iter().take(SHOWN).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{start} to {end}")?;
        }
        match self.ranges.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn read_ranges(data: &Node, network: &mut Network<'_>, findings: &mut Findings) {
    let (mut fixed, mut dhcp) = (Vec::new(), Vec::new());
    for range in items(data, "ranges") {
        let ends = ["start", "end"].map(|end| {
            let node = range.get(end)?;
            let address = address_of(node, findings)?;
            check_inside(address, node.mark, network, findings);
            Some(address)
        });
        let [Some(start), Some(end)] = ends else {
            continue;
        };
        if start > end {
            let message = format!("this range ends (`{end}`) before it begins (`{start}`)");
            findings.push(Diagnostic::error("rule-range", range.mark, message));
            continue;
        }
        // Its network, which is of one family, has an error for the other end already.
        if start.is_ipv4() != end.is_ipv4() {
            continue;
        }
        match text(range, "type").as_deref() {
            Some("dhcp") => dhcp.push((start, end, range.mark)),
            purpose => {
                network.has_static |= purpose == Some("static");
                fixed.push((start, end, range.mark));
            }
        }
    }
    network.fixed = Ranges::new(fixed);
    network.dhcp = Ranges::new(dhcp);
}

fn read_routes(
    data: &Node,
    network: &mut Network<'_>,
    domains: &BTreeSet<Arc<str>>,
    findings: &mut Findings,
) {
    const CODE: &str = "rule-route-gateway";
    for route in items(data, "routes") {
        let domain = route.get("routedomain");
        if let Some((node, name)) = domain.and_then(|node| Some((node, text_of(node)?)))
            && !domains.contains(&name)
        {
            let message = format!("no network is in the routing domain `{name}`");
            findings.push(
                Diagnostic::error("reference-routing-domain", node.mark, message)
                    .did_you_mean(&name, domains.iter().map(|domain| &**domain)),
            );
        }
        let Some(node) = route.get("gateway").filter(|node| !node.is_null()) else {
            findings.push(Diagnostic::error(
                CODE,
                route.mark,
                "this route has no gateway",
            ));
            continue;
        };
        let Some(gateway) = address_of(node, findings) else {
            continue;
        };
        network.gateways.entry(gateway).or_insert(node.mark);
        if let Some(cidr) = network.cidr.filter(|cidr| !cidr.contains(gateway)) {
            let message = format!(
                "the gateway `{gateway}` is not in its network, which is `{}/{}`",
                cidr.network, cidr.prefix
            );
            findings.push(
                Diagnostic::error(CODE, node.mark, message)
                    .related(network.mark, "the network is here"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_addresses_are_read_with_and_without_host_bits() {
        let table = [
            ("10.0.0.0/24", Some(("10.0.0.0", 24, false))),
            ("10.0.0.7/24", Some(("10.0.0.0", 24, true))),
            ("10.0.0.7", Some(("10.0.0.7", 32, false))),
            ("0.0.0.0/0", Some(("0.0.0.0", 0, false))),
            ("10.0.0.0/0", Some(("0.0.0.0", 0, true))),
            ("fd00::/8", Some(("fd00::", 8, false))),
            ("fd00::1/64", Some(("fd00::", 64, true))),
            ("::/0", Some(("::", 0, false))),
            ("10.0.0.0/33", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("10.0.0/8", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found =
                Cidr::parse(text).map(|(cidr, bits)| (cidr.network.to_string(), cidr.prefix, bits));
            let expected =
                expected.map(|(network, prefix, bits)| (network.to_owned(), prefix, bits));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_range_is_found_however_ranges_overlap() {
        let mark = |at| Mark::new(crate::diagnostic::SourceId(0), at);
        let given = [
            ("10.0.0.50", "10.0.0.60", 3),
            ("10.0.0.10", "10.0.0.90", 1),
            ("10.0.0.20", "10.0.0.30", 2),
            ("fd00::1", "fd00::9", 4),
        ];
        let ranges = Ranges::new(
            given
                .iter()
                .map(|(start, end, at)| (start.parse().unwrap(), end.parse().unwrap(), mark(*at)))
                .collect(),
        );
        for (address, expected) in [
            ("10.0.0.9", None),
            ("10.0.0.10", Some(1)),
            ("10.0.0.25", Some(1)),
            ("10.0.0.70", Some(1)),
            ("10.0.0.90", Some(1)),
            ("10.0.0.91", None),
            ("255.0.0.1", None),
            ("fd00::", None),
            ("fd00::9", Some(4)),
            ("fd00::a", None),
        ] {
            let found = ranges.holding(address.parse().unwrap());
            assert_eq!(found, expected.map(mark), "{address}");
        }
        let shown = "10.0.0.10 to 10.0.0.90, 10.0.0.20 to 10.0.0.30, 10.0.0.50 to 10.0.0.60, fd00::1 to fd00::9";
        assert_eq!(ranges.to_string(), shown);
        assert!(
            Ranges::default()
                .holding("10.0.0.1".parse().unwrap())
                .is_none()
        );
    }
}
