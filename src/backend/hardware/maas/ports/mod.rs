//! Interfaces as a design has them, one request at a time: bonds, VLANs, links to subnets with their addresses.
//!
//! MAAS's own subnets and VLANs are used, found by the address range of a network; none is made. What MAAS has of an
//! interface that the design names is corrected, and bonds and VLANs that it does not have are removed.

mod drift;

use std::sync::Arc;

use reqwest::Method;

use super::change::{Area, Change, Fields, field};
use super::machine::Machine;
use super::shown::{BusDevice, Gateways, Interface, Link, Nets, Subnet};
use crate::backend::hardware::payload::{self, text};
use crate::design::{NodeDesign, Section};
use crate::document::{Map, Node};

/// The interfaces of a design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ports(Vec<Port>);

/// An interface of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Port {
    name: Arc<str>,
    cards: Vec<Card>,
    /// The options of a bond, by MAAS's names; `None`: it is none.
    bond: Option<Vec<(&'static str, Arc<str>)>>,
    mtu: Option<u32>,
    untagged: Vec<Net>,
    tagged: Vec<Net>,
}

/// By what a network card is found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Card {
    /// By its name, or its MAC address.
    Named(Arc<str>),
    /// By its address on the PCI bus.
    Pci(Arc<str>),
}

/// A network on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Net {
    name: Arc<str>,
    cidr: Arc<str>,
    vlan: Option<u16>,
    mtu: Option<u32>,
    address: Address,
    is_primary: bool,
}

/// The address on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Static(Arc<str>),
    Dhcp,
    None,
}

/// The parts of a region and of a machine that its interfaces are told by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) nets: &'a Nets,
    pub(super) devices: &'a [BusDevice],
}

impl Ports {
    /// The interfaces of a node's design; parts that MAAS cannot do go to `unsupported`, parts that are left to it to
    /// `left_out`.
    pub(super) fn of(
        node: &NodeDesign,
        unsupported: &mut Vec<String>,
        left_out: &mut Vec<String>,
    ) -> Self {
        let field = |path: &[&str]| payload::field(node, Section::Network, path);
        let interfaces = field(&["interfaces"]).and_then(Node::as_map);
        let mut routed = Vec::new();
        let mut ports = Vec::new();
        for (name, interface) in interfaces.into_iter().flat_map(Map::iter) {
            match Port::read(node, &name.text, &interface.node) {
                Ok(port) => {
                    let nets = port.untagged.iter().chain(&port.tagged);
                    routed.extend(nets.map(|net| net.name.clone()));
                    ports.push(port);
                }
                Err(why) => unsupported.push(why),
            }
        }
        routed.retain(|net| {
            let routes = field(&["networks", net, "routes"]).and_then(Node::as_list);
            routes.is_some_and(|routes| !routes.is_empty())
        });
        if !routed.is_empty() {
            left_out.push(format!(
                "routes of networks, which MAAS has with its subnets: {}",
                routed.join(", ")
            ));
        }
        Self(ports)
    }

    /// Whether the design has any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a card is named by its address on a bus.
    pub(super) fn names_bus(&self) -> bool {
        let mut cards = self.0.iter().flat_map(|port| &port.cards);
        cards.any(|card| matches!(card, Card::Pci(_)))
    }

    /// The networks that MAAS has no subnet of, with the reason.
    pub(super) fn unknown(&self, nets: &Nets) -> Option<String> {
        let all = self
            .0
            .iter()
            .flat_map(|port| port.untagged.iter().chain(&port.tagged));
        all.map(|net| net.subnet(nets)).find_map(Result::err)
    }

    /// The next request that brings a machine's interfaces to the design; `None`: they are as it has them.
    ///
    /// # Errors
    ///
    /// MAAS has no such card or subnet.
    pub(super) fn next(
        &self,
        machine: &Machine,
        around: Around<'_>,
    ) -> Result<Option<Change>, String> {
        let shown = &machine.interface_set;
        let mut placed = Vec::new();
        for port in &self.0 {
            let cards = port.cards.iter();
            let cards = cards.map(|card| card.find(shown, around.devices));
            let cards = cards.collect::<Result<Vec<_>, _>>()?;
            placed.push((port, cards));
        }
        if let Some(change) = self.surplus(shown, &placed) {
            return Ok(Some(change));
        }
        for (port, cards) in &placed {
            let change = port.next(shown, cards, around.nets, &machine.default_gateways)?;
            if change.is_some() {
                return Ok(change);
            }
        }
        Ok(None)
    }

    /// The removal of a bond, VLAN or bridge that the design does not have.
    fn surplus(&self, shown: &[Interface], placed: &[(&Port, Vec<&Interface>)]) -> Option<Change> {
        let is_bond = |interface: &Interface| {
            placed.iter().any(|(port, cards)| {
                port.bond.is_some() && port.name == interface.name && is_made_of(interface, cards)
            })
        };
        let is_vlan = |interface: &Interface| {
            let [parent] = &interface.parents[..] else {
                return false;
            };
            let vid = interface.vlan.map(|vlan| vlan.vid);
            placed.iter().any(|(port, cards)| {
                let is_on = match (&port.bond, &cards[..]) {
                    (None, [card]) => card.name == *parent,
                    _ => port.name == *parent,
                };
                is_on && !is_misnamed(interface) && port.tagged.iter().any(|net| net.vlan == vid)
            })
        };
        // What stands on another first.
        let surplus = ["vlan", "bridge", "bond"].iter().find_map(|kind| {
            let mut of_kind = shown.iter().filter(|each| *each.kind == **kind);
            of_kind.find(|each| match *kind {
                "vlan" => !is_vlan(each),
                "bond" => !is_bond(each),
                _ => true,
            })
        })?;
        let said = format!("removing {} `{}`", surplus.kind, surplus.name);
        let rest = format!("interfaces/{}/", surplus.id);
        Some(Change::post(said, Area::Node, rest, Vec::new()).with(Method::DELETE))
    }
}

impl Port {
    fn read(node: &NodeDesign, name: &Arc<str>, interface: &Node) -> Result<Self, String> {
        let in_section = |path: &[&str]| payload::field(node, Section::Network, path);
        let link = text(interface, "device_link");
        let link = link.and_then(|link| in_section(&["links", &link]));
        let slaves = texts(interface, "slaves");
        let cards = match slaves.is_empty() {
            true => vec![Card::read(node, name)?],
            false => slaves
                .iter()
                .map(|slave| Card::read(node, slave))
                .collect::<Result<_, _>>()?,
        };
        let bond = link.and_then(|link| bond_of(link.get("bonding")?));
        if bond.is_none() && cards.len() > 1 {
            return Err(format!(
                "interface `{name}` has several cards, and its link no bond"
            ));
        }
        let trunk = link.and_then(|link| link.get("trunking"));
        let is_trunk = trunk
            .and_then(|trunk| text(trunk, "mode"))
            .is_some_and(|mode| &*mode != "disabled");
        let default = trunk.and_then(|trunk| text(trunk, "default_network"));
        let (mut untagged, mut tagged) = (Vec::new(), Vec::new());
        for network in texts(interface, "networks") {
            let net = Net::read(node, &network)?;
            match is_trunk && default.as_ref() != Some(&network) {
                true if net.vlan.is_none() => {
                    return Err(format!(
                        "network `{network}` is tagged on interface `{name}`, and has no VLAN"
                    ));
                }
                true => tagged.push(net),
                false => untagged.push(net),
            }
        }
        Ok(Self {
            name: name.clone(),
            cards,
            bond,
            mtu: link.and_then(|link| number(link, "mtu")),
            untagged,
            tagged,
        })
    }

    /// The next request for this interface, whose cards are known.
    fn next(
        &self,
        shown: &[Interface],
        cards: &[&Interface],
        nets: &Nets,
        gateways: &Gateways,
    ) -> Result<Option<Change>, String> {
        let vlan = self.own_vlan(nets)?;
        let base = match (&self.bond, cards) {
            (None, [card]) => card,
            _ => {
                let mut bonds = shown.iter().filter(|each| *each.kind == *"bond");
                match bonds.find(|bond| bond.name == self.name) {
                    Some(bond) => bond,
                    None => return Ok(Some(self.bonded(cards, vlan))),
                }
            }
        };
        if self.bond.is_some() {
            let own = |card: &&Interface| surplus_link(card, &[]);
            if let Some(change) = cards.iter().find_map(own) {
                return Ok(Some(change));
            }
        }
        let mut fields = Vec::new();
        for (option, value) in self.bond.iter().flatten() {
            if base.parameter(option).as_deref() != Some(value) {
                fields.push(field(option, value.to_string()));
            }
        }
        if vlan.is_some() && base.vlan.map(|vlan| vlan.id) != vlan {
            fields.extend(vlan.map(|vlan| field("vlan", vlan.to_string())));
        }
        fields.extend(mtu_of(base, self.mtu));
        if !fields.is_empty() {
            return Ok(Some(updated(base, fields)));
        }
        let change = linked(base, &self.untagged, nets, gateways)?;
        if change.is_some() {
            return Ok(change);
        }
        for net in &self.tagged {
            let change = self.tagged(base, net, (shown, nets), gateways)?;
            if change.is_some() {
                return Ok(change);
            }
        }
        Ok(None)
    }

    /// The VLAN of the interface itself: that of its untagged network, else the untagged one beside its tagged ones.
    fn own_vlan(&self, nets: &Nets) -> Result<Option<u64>, String> {
        if let Some(net) = self.untagged.first() {
            return Ok(Some(net.subnet(nets)?.vlan.id));
        }
        let Some(net) = self.tagged.first() else {
            return Ok(None);
        };
        let subnet = net.subnet(nets)?;
        let mut fabrics = nets.fabrics.iter();
        let has = |fabric: &&super::shown::Fabric| {
            fabric.vlans.iter().any(|vlan| vlan.id == subnet.vlan.id)
        };
        let fabric = fabrics.find(has);
        let untagged = fabric.and_then(|fabric| fabric.vlans.iter().find(|vlan| vlan.vid == 0));
        Ok(untagged.map(|vlan| vlan.id))
    }

    /// The request that makes the bond.
    fn bonded(&self, cards: &[&Interface], vlan: Option<u64>) -> Change {
        let mut fields = vec![field("name", self.name.to_string())];
        fields.extend(
            cards
                .iter()
                .map(|card| field("parents", card.id.to_string())),
        );
        fields.extend(vlan.map(|vlan| field("vlan", vlan.to_string())));
        let options = self.bond.iter().flatten();
        fields.extend(options.map(|(name, value)| field(name, value.to_string())));
        fields.extend(self.mtu.map(|mtu| field("mtu", mtu.to_string())));
        let said = format!("making bond `{}`", self.name);
        Change::post(said, Area::Node, "interfaces/?op=create_bond", fields)
    }

    /// The next request for a tagged network.
    fn tagged(
        &self,
        base: &Interface,
        net: &Net,
        (shown, nets): (&[Interface], &Nets),
        gateways: &Gateways,
    ) -> Result<Option<Change>, String> {
        let subnet = net.subnet(nets)?;
        let is_it = |each: &&Interface| {
            *each.kind == *"vlan"
                && each.parents.iter().eq([&base.name])
                && each.vlan.map(|vlan| vlan.id) == Some(subnet.vlan.id)
        };
        let Some(vlan) = shown.iter().find(is_it) else {
            let mut fields = vec![
                field("parent", base.id.to_string()),
                field("vlan", subnet.vlan.id.to_string()),
            ];
            fields.extend(net.mtu.map(|mtu| field("mtu", mtu.to_string())));
            let said = format!("making VLAN {} on `{}`", subnet.vlan.vid, base.name);
            let rest = "interfaces/?op=create_vlan";
            return Ok(Some(Change::post(said, Area::Node, rest, fields)));
        };
        if let Some(mtu) = mtu_of(vlan, net.mtu) {
            return Ok(Some(updated(vlan, vec![mtu])));
        }
        linked(vlan, std::slice::from_ref(net), nets, gateways)
    }
}

impl Card {
    fn read(node: &NodeDesign, name: &Arc<str>) -> Result<Self, String> {
        let alias = ["hardware_profile", "device_aliases", name];
        let Some(alias) = payload::field(node, Section::Hardware, &alias) else {
            return Ok(Self::Named(name.clone()));
        };
        match (text(alias, "bus_type").as_deref(), text(alias, "address")) {
            (Some("pci"), Some(address)) => Ok(Self::Pci(address)),
            (bus, _) => Err(format!(
                "card `{name}` is found on the bus `{}`, and MAAS finds cards by their name or on `pci`",
                bus.unwrap_or("unknown")
            )),
        }
    }

    fn find<'a>(
        &self,
        shown: &'a [Interface],
        devices: &[BusDevice],
    ) -> Result<&'a Interface, String> {
        let mut physical = shown.iter().filter(|each| *each.kind == *"physical");
        let found = match self {
            Self::Named(name) => physical
                .find(|each| each.name == *name || each.mac_address.eq_ignore_ascii_case(name)),
            Self::Pci(address) => {
                let device = devices.iter().find(|device| {
                    let at = device.pci_address.as_deref();
                    at.is_some_and(|at| at.eq_ignore_ascii_case(address))
                });
                let id = device.and_then(BusDevice::interface);
                physical.find(|each| Some(each.id) == id)
            }
        };
        found.ok_or_else(|| {
            let (Self::Named(name) | Self::Pci(name)) = self;
            let physical = shown.iter().filter(|each| *each.kind == *"physical");
            let names: Vec<&str> = physical.map(|each| &*each.name).collect();
            format!(
                "MAAS has no network card `{name}` of it; it has: {}",
                names.join(", ")
            )
        })
    }
}

impl Net {
    fn read(node: &NodeDesign, name: &Arc<str>) -> Result<Self, String> {
        let field = |path: &[&str]| payload::field(node, Section::Network, path);
        let network = field(&["networks", name]);
        let cidr = network.and_then(|network| text(network, "cidr"));
        let cidr = cidr.ok_or_else(|| {
            format!("network `{name}` has no `cidr`, by which MAAS's subnets are found")
        })?;
        let address = field(&["addressing", name]);
        let address = address.and_then(|address| match address.as_list() {
            Some(list) => list.first().and_then(Node::as_str),
            None => address.as_str(),
        });
        let primary = field(&["primary_network"]).and_then(Node::as_str);
        Ok(Self {
            name: name.clone(),
            cidr,
            vlan: network
                .and_then(|network| number(network, "vlan"))
                .and_then(|vlan| u16::try_from(vlan).ok())
                .filter(|vlan| *vlan != 0),
            mtu: network.and_then(|network| number(network, "mtu")),
            address: match address {
                None | Some("") => Address::None,
                Some("dhcp") => Address::Dhcp,
                Some(address) => Address::Static(Arc::from(address)),
            },
            is_primary: primary == Some(name),
        })
    }

    /// MAAS's subnet of it.
    fn subnet<'a>(&self, nets: &'a Nets) -> Result<&'a Subnet, String> {
        let (name, cidr) = (&self.name, &self.cidr);
        let found = nets.subnets.iter().find(|subnet| subnet.cidr == *cidr);
        let subnet = found.ok_or_else(|| {
            format!("MAAS has no subnet {cidr}, which is network `{name}`: make it in MAAS")
        })?;
        let vid = subnet.vlan.vid;
        match self.vlan {
            Some(vlan) if vid != 0 && vid != vlan => Err(format!(
                "network `{name}` is VLAN {vlan}, and MAAS has its subnet {cidr} on VLAN {vid}"
            )),
            _ => Ok(subnet),
        }
    }

    /// The mode of its link, and its address.
    fn mode(&self) -> (&'static str, Option<&Arc<str>>) {
        match &self.address {
            Address::Static(address) => ("static", Some(address)),
            Address::Dhcp => ("dhcp", None),
            Address::None => ("link_up", None),
        }
    }

    /// Whether a link of MAAS's is the one to its subnet.
    fn is_linked_by(&self, link: &Link, subnet: &Subnet) -> bool {
        let (mode, address) = self.mode();
        let is_on = link.subnet.as_ref().map(|subnet| subnet.id) == Some(subnet.id);
        *link.mode == *mode && is_on && (address.is_none() || link.ip_address.as_ref() == address)
    }
}

/// The next request that links an interface to the subnets of its networks, and to no other.
fn linked(
    interface: &Interface,
    nets: &[Net],
    known: &Nets,
    gateways: &Gateways,
) -> Result<Option<Change>, String> {
    let mut wanted = Vec::new();
    for net in nets {
        wanted.push((net, net.subnet(known)?));
    }
    if let Some(change) = surplus_link(interface, &wanted) {
        return Ok(Some(change));
    }
    for (net, subnet) in wanted {
        let (mode, address) = net.mode();
        let links = &interface.links;
        let Some(link) = links.iter().find(|link| net.is_linked_by(link, subnet)) else {
            // An interface without an address is up by itself.
            if net.address == Address::None {
                continue;
            }
            let mut fields = vec![
                field("mode", mode.to_ascii_uppercase()),
                field("subnet", subnet.id.to_string()),
            ];
            fields.extend(address.map(|address| field("ip_address", address.to_string())));
            let said = format!("linking `{}` to {}", interface.name, subnet.cidr);
            let rest = format!("interfaces/{}/?op=link_subnet", interface.id);
            return Ok(Some(Change::post(said, Area::Node, rest, fields)));
        };
        let gateway = match subnet.cidr.contains(':') {
            true => gateways.ipv6,
            false => gateways.ipv4,
        };
        let has_gateway = net.is_primary && subnet.gateway_ip.is_some() && address.is_some();
        if has_gateway && gateway.link_id != Some(link.id) {
            let fields = vec![field("link_id", link.id.to_string())];
            let said = format!("taking the gateway of {}", subnet.cidr);
            let rest = format!("interfaces/{}/?op=set_default_gateway", interface.id);
            return Ok(Some(Change::post(said, Area::Node, rest, fields)));
        }
    }
    Ok(None)
}

/// The removal of a link with an address that is not wanted.
fn surplus_link(interface: &Interface, wanted: &[(&Net, &Subnet)]) -> Option<Change> {
    let is_surplus = |link: &&Link| {
        let is_wanted = |(net, subnet): &(&Net, &Subnet)| net.is_linked_by(link, subnet);
        *link.mode != *"link_up" && !wanted.iter().any(is_wanted)
    };
    let link = interface.links.iter().find(is_surplus)?;
    let fields = vec![field("id", link.id.to_string())];
    let said = format!("removing a link of `{}`", interface.name);
    let rest = format!("interfaces/{}/?op=unlink_subnet", interface.id);
    Some(Change::post(said, Area::Node, rest, fields))
}

/// The request that changes fields of an interface.
fn updated(interface: &Interface, fields: Fields<'static>) -> Change {
    let said = format!("configuring `{}`", interface.name);
    let rest = format!("interfaces/{}/", interface.id);
    Change::post(said, Area::Node, rest, fields).with(Method::PUT)
}

/// The field that sets the largest packet of an interface, if it is another.
fn mtu_of(
    interface: &Interface,
    wanted: Option<u32>,
) -> Option<(
    std::borrow::Cow<'static, str>,
    std::borrow::Cow<'static, str>,
)> {
    let wanted = wanted.filter(|wanted| interface.effective_mtu != Some(*wanted))?;
    Some(field("mtu", wanted.to_string()))
}

/// Whether a VLAN has the name that MAAS gives to another on the same interface.
fn is_misnamed(interface: &Interface) -> bool {
    let vid = interface
        .name
        .rsplit_once('.')
        .map(|(_, vid)| vid.parse::<u16>());
    matches!((vid, interface.vlan), (Some(Ok(vid)), Some(vlan)) if vlan.vid != vid)
}

/// Whether an interface is made of these cards and no others.
fn is_made_of(interface: &Interface, cards: &[&Interface]) -> bool {
    let mut names: Vec<&Arc<str>> = cards.iter().map(|card| &card.name).collect();
    let mut parents: Vec<&Arc<str>> = interface.parents.iter().collect();
    names.sort_unstable();
    parents.sort_unstable();
    names == parents
}

/// The options of a bond by MAAS's names; `None`: there is no bond.
fn bond_of(bonding: &Node) -> Option<Vec<(&'static str, Arc<str>)>> {
    const OPTIONS: &[(&str, &str)] = &[
        ("mode", "bond_mode"),
        ("hash", "bond_xmit_hash_policy"),
        ("peer_rate", "bond_lacp_rate"),
        ("mon_rate", "bond_miimon"),
        ("up_delay", "bond_updelay"),
        ("down_delay", "bond_downdelay"),
    ];
    text(bonding, "mode").filter(|mode| &**mode != "disabled")?;
    let option = |(own, name): &(&str, &'static str)| Some((*name, text(bonding, own)?));
    Some(OPTIONS.iter().filter_map(option).collect())
}

fn texts(node: &Node, name: &str) -> Vec<Arc<str>> {
    let list = node.get(name).and_then(Node::as_list).unwrap_or_default();
    let texts = list.iter().filter_map(Node::scalar_text);
    texts.map(|text| Arc::from(&*text)).collect()
}

fn number(node: &Node, name: &str) -> Option<u32> {
    text(node, name)?.parse().ok()
}
