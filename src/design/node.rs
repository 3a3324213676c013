//! Machines: the effective fields of each, in sections with digests.
//!
//! A node shares with the other nodes of its host profile whatever it does not say itself. Only what
//! is its own (addresses, rack, tags, the address of its controller) is put together for each node.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::boot_action::assign;
use super::canonical::{self, Sum};
use super::catalog::{Catalog, Input};
use super::hardware::add_hardware;
use super::inherit::{FIELDS, position};
use super::network::Networks;
use super::part::{HardwareUse, NetworkUse, Part, Parts, SectionValue, fields_of, inherit_parts};
use super::profile::Profiles;
use super::read::{Findings, text, text_of};
use super::shared::Shared;
use super::{
    Dependence, Design, Digests, NodeDesign, NodeName, OutOfBand, OwnAddresses, Section,
    SectionDigest, Sections, kind,
};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{DocumentId, Map, Node, Value};

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
        network_fields: FxHashMap::default(),
        shared: Shared::default(),
    };
    let mut profiles = Profiles::new(catalog);
    let used = profiles.used();
    let (used, spare): (Vec<_>, Vec<_>) = catalog
        .of(kind::HOST_PROFILE)
        .partition(|(document, _)| used.contains(&*document.id.name));
    // What machines use goes first: a problem that a spare profile shares with one of these is theirs.
    for (inputs, is_used) in [(used, true), (spare, false)] {
        let mut found = Findings::default();
        for input in inputs {
            let profile = profiles.resolve(input, &mut found);
            builder.look_up(&profile.parts, &mut found);
        }
        findings.take(found, is_used);
    }
    for (document, data) in catalog.of(kind::NODE) {
        let profile = profiles.named_in(data, findings);
        let parts = inherit_parts(data, profile.as_ref().map(|profile| &profile.parts), None);
        let mut node = builder.node((document, data), &parts, findings);
        if let Some(profile) = profile {
            node.host_profiles = profile.chain.clone();
            node.depends_on.push(profile.depends_on.clone());
        }
        design.nodes.insert(node.name.clone(), Arc::new(node));
    }
    let sets = assign(catalog, design);
    for (node, set) in design.nodes.values_mut().zip(sets) {
        let node = Arc::make_mut(node);
        node.sections
            .insert(Section::BootActions, set.section.fields.clone());
        node.digests
            .insert(Section::BootActions, set.section.digest);
        if !set.depends_on.is_empty() {
            node.depends_on.push(set.depends_on.clone());
        }
    }
    add_hardware(catalog, design, findings);
}

/// Where the interfaces and the primary network of a machine are in memory.
type NetworkKey = [Option<*const Part>; 2];

/// A network section without addresses, and the parts that it was made of, whose places so stay theirs.
struct NetworkFields {
    _parts: [Option<Rc<Part>>; 2],
    fields: Arc<Node>,
}

struct Builder<'a> {
    catalog: &'a Catalog<'a>,
    networks: Networks<'a>,
    hardware: FxHashMap<Arc<str>, Option<SectionValue>>,
    no_labels: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    no_disks: Arc<[Arc<str>]>,
    /// Sections without fields.
    nothing: FxHashMap<Section, SectionValue>,
    /// The network sections of profiles.
    network_fields: FxHashMap<NetworkKey, NetworkFields>,
    shared: Shared,
}

/// The addresses of a node, and where they go.
#[derive(Default)]
struct Addresses {
    /// Static addresses by network.
    by_network: BTreeMap<Arc<str>, Arc<str>>,
    /// As its document has them.
    own: Option<OwnAddresses>,
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

    fn node(
        &mut self,
        (document, data): Input<'_>,
        parts: &Parts,
        findings: &mut Findings,
    ) -> NodeDesign {
        let mut node = NodeDesign {
            name: NodeName::from(document.id.name.clone()),
            document: self.shared.id(&document.id),
            mark: document.mark,
            rack: parts[RACK]
                .as_ref()
                .and_then(|part| text_of(&part.node))
                .map(|rack| self.shared.text(rack)),
            tags: parts[TAGS]
                .as_ref()
                .map(|part| self.shared.tags(&part.node))
                .unwrap_or_default(),
            labels: self.labels(parts[LABELS].as_deref()),
            host_profiles: Arc::from([]),
            hardware_profile: parts[HARDWARE]
                .as_ref()
                .and_then(|part| text_of(&part.node)),
            out_of_band: OutOfBand::default(),
            addresses: super::Addresses::default(),
            disks: self.disks(parts[STORAGE].as_deref()),
            sections: Sections::default(),
            digests: Digests::default(),
            depends_on: self.own_dependences(&document.id, data),
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
        let hardware = parts[HARDWARE]
            .as_ref()
            .and_then(|part| self.hardware(part, findings));
        let section = match hardware {
            Some(hardware) => {
                node.depends_on.push(hardware.depends_on.clone());
                hardware.section.clone()
            }
            None => self.nothing(Section::Hardware, data.mark),
        };
        put(&mut node, Section::Hardware, section);
        self.add_network(&mut node, data, parts, findings);
        let inventory = self.inventory(data, parts);
        let sum = canonical::sum(&inventory);
        let value = SectionValue::new(Section::Inventory, inventory, [("", &sum)]);
        put(&mut node, Section::Inventory, value);
        node
    }

    fn add_network(
        &mut self,
        node: &mut NodeDesign,
        data: &Node,
        parts: &Parts,
        findings: &mut Findings,
    ) {
        let used = parts[INTERFACES]
            .as_ref()
            .map(|part| self.networks.of(part, findings));
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
        node.addresses = addresses.by_network.into();

        let mut sums: Vec<(&str, Sum)> = Vec::new();
        for at in [INTERFACES, PRIMARY] {
            if let Some(part) = &parts[at] {
                sums.push((FIELDS[at].path[0], *part.sum()));
            }
        }
        let own = addresses.own.as_ref();
        if let Some(inside) = own.and_then(OwnAddresses::to_field) {
            sums.push(("addressing", canonical::sum(&inside)));
        }
        if let Some(used) = &used {
            sums.push(("networks", used.networks_sum));
            sums.push(("links", used.links_sum));
            node.depends_on.push(used.depends_on.clone());
        }
        let value = SectionValue {
            fields: self.network(data, parts, used.as_deref()),
            digest: digest(Section::Network, &sums),
        };
        put(node, Section::Network, value);

        let mut sums: Vec<(&str, Sum)> = Vec::new();
        if let Some(part) = &parts[OUT_OF_BAND] {
            sums.push(("oob", *part.sum()));
        }
        if let Some(controller) = own.and_then(OwnAddresses::controller) {
            sums.push(("address", canonical::sum(controller)));
        }
        let fields = match &parts[OUT_OF_BAND] {
            Some(part) => {
                let fields = [(FIELDS[OUT_OF_BAND].path, &part.node)];
                let fields = || Arc::new(fields_of(part.node.mark, &fields));
                part.fields.get_or_init(fields).clone()
            }
            None => self.nothing(Section::OutOfBand, data.mark).fields,
        };
        let value = SectionValue {
            fields,
            digest: digest(Section::OutOfBand, &sums),
        };
        put(node, Section::OutOfBand, value);
        if let Some(own) = addresses.own {
            node.sections.set_addresses(own);
        }
    }

    /// The fields of the network section but the addresses, which machines share that have them from one
    /// profile.
    fn network(&mut self, data: &Node, parts: &Parts, used: Option<&NetworkUse>) -> Arc<Node> {
        let own = [INTERFACES, PRIMARY].map(|at| parts[at].clone());
        // A part that is in these parts alone is the machine's own.
        let is_shared = own.iter().flatten().all(|part| Rc::strong_count(part) > 2);
        let key = own.each_ref().map(|part| part.as_ref().map(Rc::as_ptr));
        if is_shared && let Some(known) = self.network_fields.get(&key) {
            return known.fields.clone();
        }
        let mut fields: Vec<(&'static [&'static str], &Node)> = Vec::new();
        for (at, part) in [INTERFACES, PRIMARY].into_iter().zip(&own) {
            fields.extend(part.iter().map(|part| (FIELDS[at].path, &part.node)));
        }
        if let Some(used) = used {
            fields.push((&["networks"], &used.networks));
            fields.push((&["links"], &used.links));
        }
        let fields = Arc::new(fields_of(data.mark, &fields));
        if is_shared {
            let known = NetworkFields {
                _parts: own,
                fields: fields.clone(),
            };
            self.network_fields.insert(key, known);
        }
        fields
    }

    fn addresses(
        &mut self,
        data: &Node,
        controller: Option<&str>,
        findings: &mut Findings,
    ) -> Addresses {
        let mut result = Addresses::default();
        let Some(list) = data.get("addressing") else {
            return result;
        };
        let (mut inside, mut own_controller) = (Vec::new(), None);
        for entry in list.as_list().unwrap_or_default() {
            let (Some(network), Some(address)) = (entry.get("network"), entry.get("address"))
            else {
                continue;
            };
            let (Some(name), Some(text)) = (text_of(network), text_of(address)) else {
                continue;
            };
            let name = self.shared.text(name);
            if self.catalog.get(kind::NETWORK, &name).is_none() {
                findings.push(self.networks.unknown_network(network, &name));
            }
            if &*text != "dhcp" {
                result.by_network.entry(name.clone()).or_insert(text);
            }
            if controller == Some(&*name) && own_controller.is_none() {
                own_controller = Some(address.clone());
            } else {
                inside.push((name, address.clone()));
            }
        }
        result.own = Some(OwnAddresses::new(inside, list.mark, own_controller));
        result
    }

    fn hardware(&mut self, part: &Rc<Part>, findings: &mut Findings) -> Option<Rc<HardwareUse>> {
        part.hardware
            .get_or_init(|| {
                let name = text_of(&part.node)?;
                let found = self.hardware.entry(name.clone()).or_insert_with(|| {
                    let (_, data) = self.catalog.get(kind::HARDWARE_PROFILE, &name)?;
                    let fields = fields_of(data.mark, &[(FIELDS[HARDWARE].path, data)]);
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
                    selects: false,
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
            .or_insert_with(|| SectionValue::new(section, fields_of(mark, &[]), []))
            .clone()
    }

    /// Host profile, rack, tags and the rest that is about the machine; the order of tags does not count.
    fn inventory(&mut self, data: &Node, parts: &Parts) -> Node {
        let own = [HOST_PROFILE, BOOT_MAC, DESCRIPTION].map(|at| {
            let own = data.at(FIELDS[at].path).filter(|node| !node.is_null());
            (at, own.map(|node| self.shared.node(node)))
        });
        let rack = parts[RACK]
            .as_ref()
            .map(|part| self.shared.node(&part.node));
        let tags = parts[TAGS].as_ref().map(|part| {
            let items = part.node.as_list().unwrap_or_default();
            let by_text: BTreeMap<Arc<str>, &Node> = items
                .iter()
                .filter_map(|item| Some((self.shared.text(text_of(item)?), item)))
                .collect();
            let tags = by_text
                .into_iter()
                .map(|(tag, item)| Node::new(Value::String(tag), item.mark))
                .collect();
            Node::new(Value::List(Arc::new(tags)), part.node.mark)
        });
        let all = own.into_iter().chain([(RACK, rack), (TAGS, tags)]);
        let all: Vec<(usize, Node)> = all.filter_map(|(at, node)| Some((at, node?))).collect();
        let fields: Vec<_> = all
            .iter()
            .map(|(at, node)| (FIELDS[*at].path, node))
            .collect();
        fields_of(data.mark, &fields)
    }

    fn own_dependences(&mut self, id: &DocumentId, data: &Node) -> Vec<Arc<[Dependence]>> {
        // The node's own, those of its host profile, hardware, network and boot actions.
        let mut all = Vec::with_capacity(5);
        if let Some(profile) = data.get("host_profile")
            && let Some(name) = text_of(profile)
        {
            let edge = Dependence {
                dependent: Some(self.shared.id(id)),
                on: DocumentId {
                    schema: self.shared.text_of(kind::HOST_PROFILE),
                    name: self.shared.text(name),
                },
                selects: false,
                by: self.shared.text_of("host_profile"),
                mark: profile.mark,
            };
            all.push(Arc::from([edge]));
        }
        all
    }
}

fn digest(section: Section, sums: &[(&str, Sum)]) -> SectionDigest {
    let sums = sums.iter().map(|(name, sum)| (*name, sum));
    SectionDigest(canonical::combine(section.as_str(), sums))
}

fn put(node: &mut NodeDesign, section: Section, value: SectionValue) {
    node.sections.insert(section, value.fields);
    node.digests.insert(section, value.digest);
}

fn section_of_field(part: &Part, at: usize) -> SectionValue {
    part.section
        .get_or_init(|| {
            let field = &FIELDS[at];
            let fields = fields_of(part.node.mark, &[(field.path, &part.node)]);
            SectionValue::new(field.section, fields, [("", part.sum())])
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{document, site};

    fn two_nodes(profile: &str, network: &str) -> String {
        [
            document(kind::HOST_PROFILE, "base", "hardware_profile: hw\nplatform: {image: xenial, kernel_params: {console: tty, quiet: 'true'}}\nmetadata: {owner_data: {role: x}, tags: [all]}"),
            document(kind::HOST_PROFILE, "compute", profile),
            document(kind::HARDWARE_PROFILE, "hw", "vendor: Dell"),
            document(kind::NETWORK, "oam", network),
            document(kind::NETWORK, "oob", "cidr: 10.1.0.0/24"),
            document(kind::NETWORK_LINK, "bond0", "mtu: 9000\nallowed_networks: [oam]"),
            document(kind::BOOT_ACTION, "all", "assets: [{type: file, path: /x, data: y}]"),
            document(kind::BOOT_ACTION, "some", "node_filter: {filter_set_type: union, filter_set: [{filter_type: intersection, node_tags: [special]}]}\nassets: []\nsignaling: false"),
            document(kind::NODE, "n1", "host_profile: compute\naddressing: [{network: oam, address: 10.0.0.1}, {network: oob, address: 10.1.0.1}]\nmetadata: {rack: r1}"),
            document(kind::NODE, "n2", "host_profile: compute\naddressing: [{network: oam, address: dhcp}]\nmetadata: {rack: r1, tags: [special]}\nplatform: {kernel_params: {'!quiet': ''}}"),
        ]
        .concat()
    }

    const PROFILE: &str = "host_profile: base\noob: {type: ipmi, network: oob, account: root, credential: hunter2}\ninterfaces: {bond0: {device_link: bond0, networks: [oam]}}\nstorage: {physical_devices: {sda: {}, sdb: {}}}";
    const NETWORK: &str = "cidr: 10.0.0.0/24\nmtu: 1500";

    /// The sections in which two designs of a node differ.
    fn changed(before: &str, after: &str, name: &str) -> Vec<Section> {
        let (before, after) = (site(before), site(after));
        assert_eq!((before.problems, after.problems), (vec![], vec![]));
        let (old, new) = (&before.design.nodes[name], &after.design.nodes[name]);
        Section::ALL
            .into_iter()
            .filter(|section| old.digests.get(section) != new.digests.get(section))
            .collect()
    }

    #[test]
    fn a_node_has_what_its_profiles_say_and_what_it_says_itself() {
        let site = site(&two_nodes(PROFILE, NETWORK));
        assert_eq!(site.problems, Vec::<String>::new());
        let node = &site.design.nodes["n2"];
        assert_eq!(
            *node.host_profiles,
            [Arc::from("compute"), Arc::from("base")]
        );
        assert_eq!(node.hardware_profile.as_deref(), Some("hw"));
        assert_eq!(node.rack.as_deref(), Some("r1"));
        assert!(node.tags.contains("all") && node.tags.contains("special"));
        assert_eq!(node.labels["role"], Arc::from("x"));
        assert_eq!(*node.disks, [Arc::from("sda"), Arc::from("sdb")]);
        let params = node
            .sections
            .get(&Section::OperatingSystem)
            .unwrap()
            .at(&["platform", "kernel_params"])
            .unwrap();
        assert!(params.get("console").is_some() && params.get("quiet").is_none());
        let node = &site.design.nodes["n1"];
        assert_eq!(node.out_of_band.address.as_deref(), Some("10.1.0.1"));
        assert_eq!(node.out_of_band.kind.as_deref(), Some("ipmi"));
        assert_eq!(node.out_of_band.account.as_deref(), Some("root"));
        assert_eq!(**node.addresses.get("oam").unwrap(), *"10.0.0.1");
        let oob = node.sections.get(&Section::OutOfBand).unwrap();
        assert!(oob.at(&["oob", "credential"]).is_some_and(Node::is_secret));
        let network = node.sections.get(&Section::Network).unwrap();
        assert!(network.at(&["addressing", "oam"]).is_some());
        assert!(network.at(&["addressing", "oob"]).is_none());
        assert!(network.at(&["networks", "oam", "mtu"]).is_some());
        assert!(
            network
                .at(&["links", "bond0", "allowed_networks"])
                .is_none()
        );
        let every = node.sections.iter().count() == 8 && node.digests.iter().count() == 8;
        assert!(every);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn a_change_shows_in_the_section_that_it_belongs_to_and_in_no_other() {
        let before = two_nodes(PROFILE, NETWORK);
        let with = |from: &str, to: &str| before.replace(from, to);
        let table: &[(&str, String, &[Section])] = &[
            (
                "the order of keys",
                with(
                    "{type: ipmi, network: oob, account: root,",
                    "{account: root, network: oob, type: ipmi,",
                ),
                &[],
            ),
            (
                "a comment",
                with("cidr: 10.0", "# moved\n  cidr: 10.0"),
                &[],
            ),
            (
                "an empty list",
                with("metadata: {rack: r1}", "metadata: {rack: r1, tags: []}"),
                &[],
            ),
            (
                "rack",
                with("{rack: r1}", "{rack: r2}"),
                &[Section::Inventory],
            ),
            (
                "a controller's address",
                with("10.1.0.1}", "10.1.0.2}"),
                &[Section::OutOfBand],
            ),
            (
                "an account",
                with("account: root", "account: admin"),
                &[Section::OutOfBand],
            ),
            (
                "an address",
                with("10.0.0.1}", "10.0.0.2}"),
                &[Section::Network],
            ),
            (
                "a network's mtu",
                with("mtu: 1500", "mtu: 9000"),
                &[Section::Network],
            ),
            (
                "a link's mtu",
                with("mtu: 9000", "mtu: 8000"),
                &[Section::Network],
            ),
            (
                "a network's ranges",
                with("mtu: 1500", "mtu: 1500\n  ranges: []"),
                &[],
            ),
            (
                "networks allowed on a link",
                with("[oam]\n---", "[oam, oob]\n---"),
                &[],
            ),
            (
                "an image",
                with("xenial", "bionic"),
                &[Section::OperatingSystem],
            ),
            ("a label", with("role: x", "role: y"), &[Section::Labels]),
            ("a disk", with("sdb: {}", "sdc: {}"), &[Section::Storage]),
            ("hardware", with("Dell", "HPE"), &[Section::Hardware]),
            (
                "an asset",
                with("data: y", "data: z"),
                &[Section::BootActions],
            ),
            (
                "a filter that now selects",
                with("node_tags: [special]", "node_tags: [special, all]"),
                &[Section::BootActions],
            ),
            (
                "a filter written otherwise",
                with("filter_type: intersection", "filter_type: union"),
                &[],
            ),
            (
                "a tag with a boot action",
                with("{rack: r1}", "{rack: r1, tags: [special]}"),
                &[Section::BootActions, Section::Inventory],
            ),
            (
                "a tag without one",
                with("{rack: r1}", "{rack: r1, tags: [dull]}"),
                &[Section::Inventory],
            ),
            (
                "a renamed host profile",
                before
                    .replace("name: compute", "name: other")
                    .replace("host_profile: compute", "host_profile: other"),
                &[Section::Inventory],
            ),
        ];
        for (what, after, expected) in table {
            assert_ne!(before, *after, "{what} changes nothing in the text");
            assert_eq!(changed(&before, after, "n1"), *expected, "{what}");
        }
    }

    #[test]
    fn nodes_of_one_profile_share_its_sections() {
        let text = two_nodes(PROFILE, NETWORK);
        let site = site(&text);
        let (one, two) = (&site.design.nodes["n1"], &site.design.nodes["n2"]);
        for section in [Section::Hardware, Section::Storage, Section::Labels] {
            assert!(
                Arc::ptr_eq(
                    one.sections.shared(&section).unwrap(),
                    two.sections.shared(&section).unwrap()
                ),
                "{section}"
            );
        }
        assert!(Arc::ptr_eq(&one.labels, &two.labels));
    }

    #[test]
    fn the_way_from_a_document_to_a_node_can_be_told() {
        let site = site(&two_nodes(PROFILE, NETWORK));
        let way: Vec<String> = site.design.nodes["n2"]
            .dependences()
            .map(|edge| {
                let from = edge.dependent.as_ref().map_or("node", |id| &id.name);
                let line = site.sources.place(edge.mark).line;
                format!("{from} -> {} by {} at {line}", edge.on, edge.by)
            })
            .collect();
        assert_eq!(
            way,
            [
                "n2 -> drydock/HostProfile/v1/compute by host_profile at 61",
                "base -> drydock/HardwareProfile/v1/hw by hardware_profile at 5",
                "compute -> drydock/Network/v1/oam by interfaces.bond0.networks at 14",
                "compute -> drydock/NetworkLink/v1/bond0 by interfaces.bond0.device_link at 14",
                "compute -> drydock/HostProfile/v1/base by host_profile at 12",
                "node -> drydock/BootAction/v1/all by node_filter at 39",
                "node -> drydock/BootAction/v1/some by node_filter at 47",
            ]
        );
    }

    #[test]
    fn references_that_lead_nowhere_are_told_once_at_the_field() {
        let profile = PROFILE
            .replace("[oam]", "[oan]")
            .replace("device_link: bond0", "device_link: bond1");
        let text = two_nodes(&profile, NETWORK)
            .replace("hardware_profile: hw", "hardware_profile: hv")
            + &document(
                kind::NODE,
                "n3",
                "host_profile: comptue\naddressing: [{network: oop, address: 1.2.3.4}]",
            );
        let problems = site(&text).problems;
        assert_eq!(
            problems,
            [
                "reference-hardware-profile 5:21 there is no hardware profile `hv`",
                "reference-network-link 14:37 there is no network link `bond1` (did you mean `bond0`?)",
                "reference-network 14:55 there is no network `oan` (did you mean `oam`?)",
                "reference-host-profile 69:17 there is no host profile `comptue` (did you mean `compute`?)",
                "reference-network 70:26 there is no network `oop` (did you mean `oob`?)",
            ]
        );
    }

    #[test]
    fn a_circle_of_host_profiles_is_shown_whole_and_once() {
        let text = [
            document(kind::HOST_PROFILE, "a", "host_profile: b"),
            document(kind::HOST_PROFILE, "b", "host_profile: c"),
            document(kind::HOST_PROFILE, "c", "host_profile: b"),
            document(kind::NODE, "n1", "host_profile: a"),
        ]
        .concat();
        let found = site(&text);
        assert_eq!(
            found.problems,
            ["reference-profile-cycle 15:17 host profiles inherit in a circle: b → c → b"]
        );
        assert_eq!(found.design.nodes["n1"].host_profiles.len(), 3);
    }

    #[test]
    fn a_route_of_a_routing_domain_follows_the_other_networks_of_it() {
        let text = [
            document(kind::HOST_PROFILE, "p", "interfaces: {e: {networks: [a]}}"),
            document(kind::NETWORK, "a", "cidr: 10.0.0.0/24\nroutedomain: d\nroutes: [{routedomain: d, gateway: 10.0.0.1, metric: 9}]"),
            document(kind::NETWORK, "b", "cidr: 10.0.1.0/24\nroutedomain: d"),
            document(kind::NODE, "n1", "host_profile: p"),
        ]
        .concat();
        let routes =
            crate::design::fixture::value("[{subnet: 10.0.1.0/24, gateway: 10.0.0.1, metric: 9}]");
        let design = site(&text).design;
        let section = design.nodes["n1"].sections.get(&Section::Network).unwrap();
        assert_eq!(section.at(&["networks", "a", "routes"]), Some(&routes));
        let after = text.replace("10.0.1.0/24", "10.0.2.0/24");
        assert_eq!(changed(&text, &after, "n1"), [Section::Network]);
    }
}
