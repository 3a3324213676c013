//! The networks and links that interfaces use, as far as they are about the machine.
//!
//! A network's ranges and its DHCP relay are about the provisioner, and a link's allowed networks
//! are a rule for the documents; none of them is written to a machine, so a change in them rebuilds
//! none ([`NETWORK_FIELDS`], [`LINK_FIELDS`]). Routes of a routing domain are written out: a network
//! with a route of a domain has one to each other network in it, as Drydock renders them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::canonical::{self, Sum};
use super::catalog::Catalog;
use super::part::{NetworkUse, Part};
use super::read::{Findings, items, text, text_of};
use super::{Dependence, kind};
use crate::diagnostic::Diagnostic;
use crate::document::{DocumentId, Field, Key, Map, Node, Value};

/// The fields of a network that end up on a machine.
pub(super) const NETWORK_FIELDS: [&str; 6] =
    ["cidr", "vlan", "mtu", "dns", "routes", "routedomain"];

/// The fields of a link that end up on a machine.
pub(super) const LINK_FIELDS: [&str; 5] = ["bonding", "mtu", "linkspeed", "trunking", "labels"];

#[derive(Debug)]
struct Effective {
    node: Node,
    sum: Sum,
    depends_on: Vec<Dependence>,
}

/// All networks and links of the site.
#[derive(Debug)]
pub(super) struct Networks<'a> {
    catalog: &'a Catalog<'a>,
    /// Routing domain → its networks (name, address range), sorted by name.
    domains: BTreeMap<Arc<str>, Vec<(&'a DocumentId, Node)>>,
    networks: RefCell<FxHashMap<Arc<str>, Option<Rc<Effective>>>>,
    links: RefCell<FxHashMap<Arc<str>, Option<Rc<Effective>>>>,
}

impl<'a> Networks<'a> {
    /// Reads the routing domains.
    pub(super) fn new(catalog: &'a Catalog<'a>) -> Self {
        let mut domains: BTreeMap<Arc<str>, Vec<_>> = BTreeMap::new();
        for (document, data) in catalog.of(kind::NETWORK) {
            if let (Some(domain), Some(cidr)) = (text(data, "routedomain"), data.get("cidr")) {
                let member = (&document.id, cidr.clone());
                domains.entry(domain).or_default().push(member);
            }
        }
        Self {
            catalog,
            domains,
            networks: RefCell::default(),
            links: RefCell::default(),
        }
    }

    /// The networks that the interfaces of a part use.
    pub(super) fn of(&self, interfaces: &Part, findings: &mut Findings) -> Rc<NetworkUse> {
        interfaces
            .network
            .get_or_init(|| Rc::new(self.find(interfaces, findings)))
            .clone()
    }

    fn find(&self, interfaces: &Part, findings: &mut Findings) -> NetworkUse {
        let mut networks = BTreeMap::new();
        let mut links = BTreeMap::new();
        let mut depends_on = Vec::new();
        for (interface, field) in interfaces.node.as_map().into_iter().flat_map(Map::iter) {
            for reference in items(&field.node, "networks") {
                let Some(name) = text_of(reference) else {
                    continue;
                };
                let Some(effective) = self.network(&name) else {
                    findings.push(self.unknown_network(reference, &name));
                    continue;
                };
                if networks.insert(name.clone(), effective.clone()).is_none() {
                    let by = format!("interfaces.{}.networks", interface.text);
                    depends_on.push(dependence(interfaces, kind::NETWORK, &name, by, reference));
                    depends_on.extend(effective.depends_on.iter().cloned());
                }
            }
            let Some(reference) = field.node.get("device_link") else {
                continue;
            };
            let Some(name) = text_of(reference) else {
                continue;
            };
            let Some(effective) = self.link(&name) else {
                let message = format!("there is no network link `{name}`");
                findings.push(
                    Diagnostic::error("reference-network-link", reference.mark, message)
                        .did_you_mean(&name, self.catalog.names(kind::NETWORK_LINK)),
                );
                continue;
            };
            if links.insert(name.clone(), effective).is_none() {
                let by = format!("interfaces.{}.device_link", interface.text);
                let kind = kind::NETWORK_LINK;
                depends_on.push(dependence(interfaces, kind, &name, by, reference));
            }
        }
        let mark = interfaces.node.mark;
        let (networks_sum, links_sum) = (sum_of(&networks), sum_of(&links));
        NetworkUse {
            names: networks.keys().cloned().collect(),
            networks: Node::new(map_of(&networks), mark),
            networks_sum,
            links: Node::new(map_of(&links), mark),
            links_sum,
            depends_on: depends_on.into(),
        }
    }

    /// The error for an unknown network.
    pub(super) fn unknown_network(&self, reference: &Node, name: &str) -> Diagnostic {
        let message = format!("there is no network `{name}`");
        Diagnostic::error("reference-network", reference.mark, message)
            .did_you_mean(name, self.catalog.names(kind::NETWORK))
    }

    fn link(&self, name: &Arc<str>) -> Option<Rc<Effective>> {
        let mut known = self.links.borrow_mut();
        let make = || {
            let (_, data) = self.catalog.get(kind::NETWORK_LINK, name)?;
            let node = only(data, &LINK_FIELDS);
            Some(Rc::new(Effective {
                sum: canonical::sum(&node),
                node,
                depends_on: Vec::new(),
            }))
        };
        known.entry(name.clone()).or_insert_with(make).clone()
    }

    fn network(&self, name: &Arc<str>) -> Option<Rc<Effective>> {
        let mut known = self.networks.borrow_mut();
        let make = || {
            let (document, data) = self.catalog.get(kind::NETWORK, name)?;
            Some(Rc::new(self.write_out(&document.id, data)))
        };
        known.entry(name.clone()).or_insert_with(make).clone()
    }

    /// A network with the routes of its routing domains written out.
    fn write_out(&self, id: &DocumentId, data: &Node) -> Effective {
        let mut node = only(data, &NETWORK_FIELDS);
        let mut depends_on = Vec::new();
        if let Some(routes) = data.get("routes").filter(|routes| names_domain(routes)) {
            let mut written = Vec::new();
            for route in routes.as_list().unwrap_or_default() {
                let Some(domain) = text(route, "routedomain") else {
                    written.push(route.clone());
                    continue;
                };
                let networks = self.domains.get(&domain).into_iter().flatten();
                for (other, cidr) in networks.filter(|(other, _)| **other != *id) {
                    written.push(route_to(route, cidr));
                    depends_on.push(Dependence {
                        dependent: Some(id.clone()),
                        on: (*other).clone(),
                        selects: false,
                        by: Arc::from("routes"),
                        mark: route.mark,
                    });
                }
            }
            if let Value::Map(map) = &mut node.value {
                let routes = Node::new(Value::List(Arc::new(written)), routes.mark);
                Arc::make_mut(map).set("routes", routes);
            }
        }
        Effective {
            sum: canonical::sum(&node),
            node,
            depends_on,
        }
    }
}

fn dependence(
    interfaces: &Part,
    kind: &str,
    name: &Arc<str>,
    by: String,
    field: &Node,
) -> Dependence {
    Dependence {
        dependent: interfaces.owner.clone(),
        on: DocumentId {
            schema: Arc::from(kind),
            name: name.clone(),
        },
        selects: false,
        by: Arc::from(by),
        mark: field.mark,
    }
}

fn names_domain(routes: &Node) -> bool {
    routes
        .as_list()
        .unwrap_or_default()
        .iter()
        .any(|route| route.get("routedomain").is_some())
}

/// The route of a domain written out for one of its networks.
fn route_to(route: &Node, cidr: &Node) -> Node {
    let mut fields = Map::new();
    fields.set("subnet", cidr.clone());
    for name in ["gateway", "metric"] {
        if let Some(node) = route.get(name) {
            fields.set(name, node.clone());
        }
    }
    Node::new(Value::Map(Arc::new(fields)), route.mark)
}

fn only(data: &Node, names: &[&str]) -> Node {
    let mut fields = Map::new();
    for (key, field) in data.as_map().into_iter().flat_map(Map::iter) {
        if names.contains(&&*key.text) {
            fields.insert(key.clone(), field.clone());
        }
    }
    Node {
        value: Value::Map(Arc::new(fields)),
        mark: data.mark,
        secret: data.secret.clone(),
    }
}

fn map_of(used: &BTreeMap<Arc<str>, Rc<Effective>>) -> Value {
    let mut map = Map::new();
    for (name, effective) in used {
        let field = Field {
            key_mark: effective.node.mark,
            node: effective.node.clone(),
        };
        map.insert(Key::string(name.clone()), field);
    }
    Value::Map(Arc::new(map))
}

fn sum_of(used: &BTreeMap<Arc<str>, Rc<Effective>>) -> Sum {
    canonical::combine(
        "used",
        used.iter()
            .map(|(name, effective)| (&**name, &effective.sum)),
    )
}
