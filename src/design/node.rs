//! Machines: the effective fields of each, in sections with digests.
//!
//! A node shares with the other nodes of its host profile whatever it does not say itself. Only what
//! is its own (addresses, rack, tags, the address of its controller) is put together for each node.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::boot_action::assign;
use super::canonical::{self, Sum};
use super::catalog::{Catalog, Input};
use super::inherit::{FIELDS, position};
use super::network::Networks;
use super::part::{HardwareUse, Part, Parts, SectionValue, fields_of, inherit_parts};
use super::profile::Profiles;
use super::read::{Findings, text, text_of};
use super::{Dependence, Design, NodeDesign, NodeName, OutOfBand, Section, kind};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{DocumentId, Field, Key, Map, Node, Value};

const HARDWARE: usize = position("hardware_profile");
const PLATFORM: usize = position("platform");
const STORAGE: usize = position("storage");
const INTERFACES: usize = position("interfaces");
const PRIMARY: usize = position("primary_network");
const LABELS: usize = position("owner_data");
const OUT_OF_BAND: usize = position("oob");
const RACK: usize = position("rack");
const TAGS: usize = position("tags");
const HOST_PROFILE: usize = position("host_profile");
const BOOT_MAC: usize = position("boot_mac");
const DESCRIPTION: usize = position("description");

/// Puts all machines into the design.
pub(super) fn add_nodes(catalog: &Catalog<'_>, design: &mut Design, findings: &mut Findings) {
    let mut builder = Builder {
        catalog,
        networks: Networks::new(catalog),
        hardware: FxHashMap::default(),
        no_labels: Arc::default(),
        no_disks: Arc::from([]),
        nothing: FxHashMap::default(),
    };
    let mut profiles = Profiles::new(catalog);
    for input in catalog.of(kind::HOST_PROFILE) {
        let profile = profiles.resolve(input, findings);
        builder.look_up(&profile.parts, findings);
    }
    for (document, data) in catalog.of(kind::NODE) {
        let profile = profiles.named_in(data, findings);
        let parts = inherit_parts(data, profile.as_ref().map(|profile| &profile.parts), None);
        let mut node = builder.node((document, data), &parts, findings);
        if let Some(profile) = profile {
            node.host_profiles = profile.chain.clone();
            node.depends_on.push(profile.depends_on.clone());
        }
        design.nodes.insert(node.name.clone(), node);
    }
    let sets = assign(catalog, design);
    for (node, set) in design.nodes.values_mut().zip(sets) {
        node.sections
            .insert(Section::BootActions, set.section.fields.clone());
        node.digests
            .insert(Section::BootActions, set.section.digest.clone());
        if !set.depends_on.is_empty() {
            node.depends_on.push(set.depends_on.clone());
        }
    }
}

struct Builder<'a> {
    catalog: &'a Catalog<'a>,
    networks: Networks<'a>,
    hardware: FxHashMap<Arc<str>, Option<SectionValue>>,
    no_labels: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    no_disks: Arc<[Arc<str>]>,
    /// Sections without fields.
    nothing: FxHashMap<Section, SectionValue>,
}

/// The addresses of a node, and where they go.
#[derive(Default)]
struct Addresses {
    /// Static addresses by network.
    by_network: BTreeMap<Arc<str>, Arc<str>>,
    /// What is written to the machine, as network → address.
    inside: Option<Node>,
    /// The entry on the out-of-band network.
    controller: Option<Node>,
}

impl Builder<'_> {
    /// Finds what the fields of a host profile refer to, whether or not a node uses it.
    fn look_up(&mut self, parts: &Parts, findings: &mut Findings) {
        if let Some(part) = &parts[HARDWARE] {
            self.hardware(part, findings);
        }
        if let Some(part) = &parts[INTERFACES] {
            self.networks.of(part, findings);
        }
    }

    fn node(&mut self, (document, data): Input<'_>, parts: &Parts, findings: &mut Findings) -> NodeDesign {
        let mut node = NodeDesign {
            name: NodeName::from(document.id.name.clone()),
            document: document.id.clone(),
            mark: document.mark,
            rack: parts[RACK].as_ref().and_then(|part| text_of(&part.node)),
            tags: parts[TAGS].as_ref().map(|part| set_of(&part.node)).unwrap_or_default(),
            labels: self.labels(parts[LABELS].as_deref()),
            host_profiles: Arc::from([]),
            hardware_profile: parts[HARDWARE].as_ref().and_then(|part| text_of(&part.node)),
            out_of_band: OutOfBand::default(),
            addresses: BTreeMap::new(),
            disks: self.disks(parts[STORAGE].as_deref()),
            sections: BTreeMap::new(),
            digests: BTreeMap::new(),
            depends_on: own_dependences(&document.id, data),
        };
        for (section, at) in [
            (Section::OperatingSystem, PLATFORM),
            (Section::Storage, STORAGE),
            (Section::Labels, LABELS),
        ] {
            let value = match &parts[at] {
                Some(part) => section_of_field(part, at),
                None => self.nothing(section, data.mark),
            };
            put(&mut node, section, value);
        }
        let hardware = parts[HARDWARE].as_ref().and_then(|part| self.hardware(part, findings));
        let section = match hardware {
            Some(hardware) => {
                node.depends_on.push(hardware.depends_on.clone());
                hardware.section.clone()
            }
            None => self.nothing(Section::Hardware, data.mark),
        };
        put(&mut node, Section::Hardware, section);
        self.add_network(&mut node, data, parts, findings);
        let inventory = inventory(data, parts);
        let sum = canonical::sum(&inventory);
        let value = SectionValue::new(Section::Inventory, inventory, [("", &sum)]);
        put(&mut node, Section::Inventory, value);
        node
    }

    fn add_network(&self, node: &mut NodeDesign, data: &Node, parts: &Parts, findings: &mut Findings) {
        let used = parts[INTERFACES].as_ref().map(|part| self.networks.of(part, findings));
        let oob = parts[OUT_OF_BAND].as_ref().map(|part| &part.node);
        let controller = oob
            .and_then(|oob| text(oob, "network"))
            .filter(|name| !used.as_ref().is_some_and(|used| used.names.contains(name)));
        let oob_network = oob.and_then(|oob| text(oob, "network"));
        let addresses = self.addresses(data, controller.as_deref(), findings);
        node.out_of_band = OutOfBand {
            kind: oob.and_then(|oob| text(oob, "type")),
            address: oob_network.and_then(|name| addresses.by_network.get(&name).cloned()),
            account: oob.and_then(|oob| text(oob, "account")),
        };
        node.addresses = addresses.by_network;

        let mut fields: Vec<(&[&str], &Node)> = Vec::new();
        let mut sums: Vec<(&str, Sum)> = Vec::new();
        for at in [INTERFACES, PRIMARY] {
            if let Some(part) = &parts[at] {
                fields.push((FIELDS[at].path, &part.node));
                sums.push((FIELDS[at].path[0], *part.sum()));
            }
        }
        if let Some(inside) = &addresses.inside {
            fields.push((&["addressing"], inside));
            sums.push(("addressing", canonical::sum(inside)));
        }
        if let Some(used) = &used {
            fields.push((&["networks"], &used.networks));
            fields.push((&["links"], &used.links));
            sums.push(("networks", used.networks_sum));
            sums.push(("links", used.links_sum));
            node.depends_on.push(used.depends_on.clone());
        }
        let section = fields_of(data.mark, fields);
        let sums = sums.iter().map(|(name, sum)| (*name, sum));
        put(node, Section::Network, SectionValue::new(Section::Network, section, sums));

        let mut fields: Vec<(&[&str], &Node)> = Vec::new();
        let mut sums: Vec<(&str, Sum)> = Vec::new();
        if let Some(part) = &parts[OUT_OF_BAND] {
            fields.push((FIELDS[OUT_OF_BAND].path, &part.node));
            sums.push(("oob", *part.sum()));
        }
        if let Some(controller) = &addresses.controller {
            fields.push((&["address"], controller));
            sums.push(("address", canonical::sum(controller)));
        }
        let section = fields_of(data.mark, fields);
        let sums = sums.iter().map(|(name, sum)| (*name, sum));
        put(node, Section::OutOfBand, SectionValue::new(Section::OutOfBand, section, sums));
    }

    fn addresses(&self, data: &Node, controller: Option<&str>, findings: &mut Findings) -> Addresses {
        let mut result = Addresses::default();
        let Some(list) = data.get("addressing") else {
            return result;
        };
        let mut inside: BTreeMap<Arc<str>, Vec<&Node>> = BTreeMap::new();
        for entry in list.as_list().unwrap_or_default() {
            let (Some(network), Some(address)) = (entry.get("network"), entry.get("address"))
            else {
                continue;
            };
            let (Some(name), Some(text)) = (text_of(network), text_of(address)) else {
                continue;
            };
            if self.catalog.get(kind::NETWORK, &name).is_none() {
                findings.push(self.networks.unknown_network(network, &name));
            }
            if &*text != "dhcp" {
                result.by_network.entry(name.clone()).or_insert(text);
            }
            if controller == Some(&*name) && result.controller.is_none() {
                result.controller = Some(address.clone());
            } else {
                inside.entry(name).or_default().push(address);
            }
        }
        if inside.is_empty() {
            return result;
        }
        let mut map = Map::new();
        for (name, addresses) in inside {
            let node = match addresses[..] {
                [one] => one.clone(),
                _ => {
                    let all = addresses.iter().map(|address| (*address).clone()).collect();
                    Node::new(Value::List(Arc::new(all)), addresses[0].mark)
                }
            };
            let key_mark = node.mark;
            map.insert(Key::string(name), Field { key_mark, node });
        }
        result.inside = Some(Node::new(Value::Map(Arc::new(map)), list.mark));
        result
    }

    fn hardware(&mut self, part: &Rc<Part>, findings: &mut Findings) -> Option<Rc<HardwareUse>> {
        part.hardware
            .get_or_init(|| {
                let name = text_of(&part.node)?;
                let found = self.hardware.entry(name.clone()).or_insert_with(|| {
                    let (_, data) = self.catalog.get(kind::HARDWARE_PROFILE, &name)?;
                    let fields = fields_of(data.mark, [(FIELDS[HARDWARE].path, data)]);
                    let sum = canonical::sum(data);
                    Some(SectionValue::new(Section::Hardware, fields, [("", &sum)]))
                });
                let Some(section) = found.clone() else {
                    let message = format!("there is no hardware profile `{name}`");
                    findings.push(
                        Diagnostic::error("reference-hardware-profile", part.node.mark, message)
                            .did_you_mean(&name, self.catalog.names(kind::HARDWARE_PROFILE)),
                    );
                    return None;
                };
                let edge = Dependence {
                    dependent: part.owner.clone(),
                    on: DocumentId {
                        schema: Arc::from(kind::HARDWARE_PROFILE),
                        name,
                    },
                    by: Arc::from("hardware_profile"),
                    mark: part.node.mark,
                };
                Some(Rc::new(HardwareUse {
                    section,
                    depends_on: Arc::from([edge]),
                }))
            })
            .clone()
    }

    fn labels(&self, part: Option<&Part>) -> Arc<BTreeMap<Arc<str>, Arc<str>>> {
        let Some(part) = part else {
            return self.no_labels.clone();
        };
        part.labels
            .get_or_init(|| {
                let fields = part.node.as_map().into_iter().flat_map(Map::iter);
                Arc::new(
                    fields
                        .filter_map(|(key, field)| Some((key.text.clone(), text_of(&field.node)?)))
                        .collect(),
                )
            })
            .clone()
    }

    fn disks(&self, part: Option<&Part>) -> Arc<[Arc<str>]> {
        let Some(part) = part else {
            return self.no_disks.clone();
        };
        part.disks
            .get_or_init(|| {
                let devices = part.node.get("physical_devices").and_then(Node::as_map);
                devices
                    .into_iter()
                    .flat_map(Map::keys)
                    .map(|key| key.text.clone())
                    .collect()
            })
            .clone()
    }

    fn nothing(&mut self, section: Section, mark: Mark) -> SectionValue {
        self.nothing
            .entry(section)
            .or_insert_with(|| SectionValue::new(section, fields_of(mark, []), []))
            .clone()
    }
}

fn put(node: &mut NodeDesign, section: Section, value: SectionValue) {
    node.sections.insert(section, value.fields);
    node.digests.insert(section, value.digest);
}

fn section_of_field(part: &Part, at: usize) -> SectionValue {
    part.section
        .get_or_init(|| {
            let field = &FIELDS[at];
            let fields = fields_of(part.node.mark, [(field.path, &part.node)]);
            SectionValue::new(field.section, fields, [("", part.sum())])
        })
        .clone()
}

fn set_of(list: &Node) -> BTreeSet<Arc<str>> {
    let items = list.as_list().unwrap_or_default();
    items.iter().filter_map(text_of).collect()
}

/// Host profile, rack, tags and the rest that is about the machine; the order of tags does not count.
fn inventory(data: &Node, parts: &Parts) -> Node {
    let mut fields: Vec<(&[&str], &Node)> = Vec::new();
    for at in [HOST_PROFILE, BOOT_MAC, DESCRIPTION] {
        let own = data.at(FIELDS[at].path).filter(|node| !node.is_null());
        fields.extend(own.map(|node| (FIELDS[at].path, node)));
    }
    if let Some(rack) = &parts[RACK] {
        fields.push((FIELDS[RACK].path, &rack.node));
    }
    let sorted = parts[TAGS].as_ref().map(|part| {
        let items = part.node.as_list().unwrap_or_default();
        let by_text: BTreeMap<Arc<str>, &Node> = items
            .iter()
            .filter_map(|item| Some((text_of(item)?, item)))
            .collect();
        let tags = by_text
            .into_iter()
            .map(|(tag, item)| Node::new(Value::String(tag), item.mark))
            .collect();
        Node::new(Value::List(Arc::new(tags)), part.node.mark)
    });
    if let Some(sorted) = &sorted {
        fields.push((FIELDS[TAGS].path, sorted));
    }
    fields_of(data.mark, fields)
}

fn own_dependences(id: &DocumentId, data: &Node) -> Vec<Arc<[Dependence]>> {
    let Some(profile) = data.get("host_profile") else {
        return Vec::new();
    };
    let Some(name) = text_of(profile) else {
        return Vec::new();
    };
    let edge = Dependence {
        dependent: Some(id.clone()),
        on: DocumentId {
            schema: Arc::from(kind::HOST_PROFILE),
            name,
        },
        by: Arc::from("host_profile"),
        mark: profile.mark,
    };
    vec![Arc::from([edge])]
}
