//! Interfaces of a deployed machine that are otherwise than its design: bonds, VLANs, addresses.
//!
//! Links of MAAS's name their subnet, so that nothing has to be asked for. A card that the design names by its address
//! on a bus is not found by that, and is left out.

use std::collections::BTreeMap;

use super::{Card, Net, Port, Ports};
use crate::backend::hardware::maas::machine::Machine;
use crate::backend::hardware::maas::shown::{Interface, Link, drift_of, listed};
use crate::backend::http::plain;
use crate::design::Section;
use crate::observed::PartDrift;

impl Ports {
    /// The parts of a machine's interfaces that differ.
    pub(in super::super) fn drift(&self, machine: &Machine) -> Vec<PartDrift> {
        let mut drift = Vec::new();
        if self.is_empty() {
            return drift;
        }
        let shown = &machine.interface_set;
        let mut known: Vec<u64> = Vec::new();
        for port in &self.0 {
            let Some(base) = port.base(shown, &mut drift) else {
                continue;
            };
            known.push(base.id);
            mtu_differs(base, port.mtu, &mut drift);
            links_differ(base, &port.untagged, &mut drift);
            for net in &port.tagged {
                known.extend(tagged_differs(base, net, shown, &mut drift));
            }
        }
        let bases = |name: &str| {
            known.iter().any(|id| {
                shown
                    .iter()
                    .any(|each| each.id == *id && *each.name == *name)
            })
        };
        let surplus = shown.iter().filter(|each| match &*each.kind {
            "bond" | "bridge" => !known.contains(&each.id),
            // A VLAN on what is not compared is not, either.
            "vlan" => !known.contains(&each.id) && each.parents.iter().any(|parent| bases(parent)),
            _ => false,
        });
        for each in surplus {
            drift.push(part(each_of(each), of_parents(each), "none"));
        }
        drift
    }
}

impl Port {
    /// The interface that has its addresses, where MAAS has it; how its bond differs.
    fn base<'a>(
        &self,
        shown: &'a [Interface],
        drift: &mut Vec<PartDrift>,
    ) -> Option<&'a Interface> {
        let named = |card: &Card| match card {
            Card::Named(_) => Some(card.find(shown, &[])),
            Card::Pci(_) => None,
        };
        let Some(options) = &self.bond else {
            let found = named(self.cards.first()?)?;
            if found.is_err() {
                drift.push(part(
                    format!("network card `{}`", self.name),
                    "not found",
                    "in use",
                ));
            }
            return found.ok();
        };
        let name = &self.name;
        let cards: Option<Vec<_>> = self.cards.iter().map(named).collect();
        let wanted = cards.map(|cards| {
            let names = cards.into_iter().zip(&self.cards);
            let names = names.map(|(found, card)| match (found, card) {
                (Ok(found), _) => plain(&found.name, 60),
                (Err(_), Card::Named(name) | Card::Pci(name)) => name.to_string(),
            });
            listed(names.collect())
        });
        let mut bonds = shown.iter().filter(|each| *each.kind == *"bond");
        let Some(bond) = bonds.find(|bond| bond.name == *name) else {
            let wanted = wanted.unwrap_or_else(|| "in use".to_owned());
            drift.push(part(format!("bond `{name}`"), "none", wanted));
            return None;
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != of_parents(bond)) {
            drift.push(part(
                format!("cards of the bond `{name}`"),
                of_parents(bond),
                wanted,
            ));
        }
        for (option, wanted) in options {
            let is = bond.parameter(option);
            if is.as_deref() != Some(wanted) {
                let is = is.map_or_else(|| "none".to_owned(), |is| plain(&is, 60));
                drift.push(part(
                    format!("`{option}` of the bond `{name}`"),
                    is,
                    &**wanted,
                ));
            }
        }
        Some(bond)
    }
}

/// How a tagged network differs; the interface that has it.
fn tagged_differs(
    base: &Interface,
    net: &Net,
    shown: &[Interface],
    drift: &mut Vec<PartDrift>,
) -> Option<u64> {
    let is_it = |each: &&Interface| {
        *each.kind == *"vlan"
            && each.parents.iter().eq([&base.name])
            && each.vlan.map(|vlan| vlan.vid) == net.vlan
    };
    let Some(vlan) = shown.iter().find(is_it) else {
        let number = net.vlan.unwrap_or_default();
        let of = format!("VLAN {number} on `{}`", plain(&base.name, 60));
        drift.push(part(of, "none", format!("network `{}`", net.name)));
        return None;
    };
    mtu_differs(vlan, net.mtu, drift);
    links_differ(vlan, std::slice::from_ref(net), drift);
    Some(vlan.id)
}

fn mtu_differs(interface: &Interface, wanted: Option<u32>, drift: &mut Vec<PartDrift>) {
    let Some(wanted) = wanted.filter(|wanted| interface.effective_mtu != Some(*wanted)) else {
        return;
    };
    let is = interface.effective_mtu;
    let is = is.map_or_else(|| "unknown".to_owned(), |is| is.to_string());
    drift.push(part(
        format!("MTU of `{}`", plain(&interface.name, 60)),
        is,
        wanted.to_string(),
    ));
}

/// How the addresses of an interface differ, by the ranges that they are in.
fn links_differ(interface: &Interface, nets: &[Net], drift: &mut Vec<PartDrift>) {
    let shown = interface.links.iter().filter_map(|link| {
        let Link {
            mode,
            subnet,
            ip_address,
            ..
        } = link;
        let cidr = plain(&subnet.as_ref()?.cidr, 60);
        let address = match (&**mode, ip_address) {
            ("link_up", _) => return None,
            ("static", Some(address)) => plain(address, 60),
            (mode, _) => plain(mode, 20),
        };
        Some((cidr, address))
    });
    let wanted = nets.iter().filter_map(|net| match net.mode() {
        ("static", Some(address)) => Some((net.cidr.to_string(), address.to_string())),
        ("dhcp", _) => Some((net.cidr.to_string(), "dhcp".to_owned())),
        _ => None,
    });
    let (shown, wanted) = (by_range(shown), by_range(wanted));
    let mut ranges: Vec<&String> = shown.keys().chain(wanted.keys()).collect();
    ranges.sort_unstable();
    ranges.dedup();
    for range in ranges {
        let is = |all: &BTreeMap<String, Vec<String>>| {
            listed(all.get(range).cloned().unwrap_or_default())
        };
        if is(&shown) != is(&wanted) {
            let of = format!("address of `{}` in {range}", plain(&interface.name, 60));
            drift.push(part(of, is(&shown), is(&wanted)));
        }
    }
}

fn by_range(addresses: impl Iterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    for (range, address) in addresses {
        all.entry(range).or_default().push(address);
    }
    all
}

fn each_of(interface: &Interface) -> String {
    let vid = interface.vlan.map_or(0, |vlan| vlan.vid);
    match &*interface.kind {
        "vlan" => format!("VLAN {vid} on {}", of_parents(interface)),
        kind => format!("{} `{}`", plain(kind, 20), plain(&interface.name, 60)),
    }
}

fn of_parents(interface: &Interface) -> String {
    let parents = interface.parents.iter();
    listed(parents.map(|parent| plain(parent, 60)).collect())
}

fn part(
    field: impl Into<String>,
    observed: impl Into<String>,
    designed: impl Into<String>,
) -> PartDrift {
    drift_of(Section::Network, field, observed, designed)
}
