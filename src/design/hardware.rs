//! Firmware, settings and expected parts of machines, by the `trueup/Hardware/v1` documents that select them.
//!
//! What a document enforces is [`Section::Firmware`] of its machines, or [`Section::Raid`] for their volumes, with a digest: a
//! difference is brought true. What it only reports, and what it expects, is [`Section::Expected`], which has no digest: a
//! difference is shown, and never work.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::canonical;
use super::catalog::Catalog;
use super::part::SectionValue;
use super::read::{Findings, items, text, text_of, text_set, texts};
use super::{Dependence, Design, NodeDesign, NodeName, Rung, Section, Selector, kind, raid};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{DocumentId, Map, Node, Value};

/// The parts of a Hardware document whose values are compared with the machine.
const PARTS: [&str; 6] = ["firmware", "bios", "boot", "bmc", RAID, EXPECT];
/// The part that is never work.
const EXPECT: &str = "expect";
/// The part that only a redeploy brings true.
const RAID: &str = "raid";

/// A value that a machine is to have, by its name (`bios.ProcVirtualization`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HardwareValue {
    /// Part and name.
    pub name: Arc<str>,
    /// The value, as a controller shows it.
    pub value: Arc<str>,
}

/// A value of a machine's firmware or settings that a service sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareSetting {
    /// Its name (`firmware.bios`, `bios.ProcVirtualization`).
    pub name: Arc<str>,
    /// The value before, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Arc<str>>,
    /// The value that it is to have.
    pub value: Arc<str>,
}

/// The terms on which a component's firmware is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareTerms {
    /// The versions from which it may go; empty: any.
    pub from: BTreeSet<Arc<str>>,
    /// Whether it may go to an older version.
    pub downgrade: bool,
    /// Whether it is changed while its machine runs.
    pub live: bool,
    /// Its image.
    pub image: Option<ImageTerms>,
}

impl FirmwareTerms {
    fn read(node: &Node) -> Self {
        Self {
            from: text_set(node, "from"),
            downgrade: node.get("downgrade").and_then(Node::as_bool) == Some(true),
            live: text(node, "apply").as_deref() == Some(Rung::Live.as_str()),
            image: node.get("image").and_then(ImageTerms::read),
        }
    }
}

/// An image, and by what it is known to be the one that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTerms {
    /// Where it is fetched.
    pub url: Arc<str>,
    /// Its SHA-256, in lower case.
    pub sha256: Option<Arc<str>>,
    /// Its size in bytes.
    pub size: Option<u64>,
}

impl ImageTerms {
    /// Any image at an address.
    #[must_use]
    pub fn at(url: impl Into<Arc<str>>) -> Self {
        Self {
            url: url.into(),
            sha256: None,
            size: None,
        }
    }

    fn read(node: &Node) -> Option<Self> {
        let size = node.get("size").and_then(Node::as_integer);
        Some(Self {
            url: text(node, "url")?,
            sha256: text(node, "sha256"),
            size: size.and_then(|size| u64::try_from(size).ok()),
        })
    }
}

impl NodeDesign {
    /// The values that it is to have in [`Section::Firmware`], [`Section::Raid`] or [`Section::Expected`], sorted by name.
    #[must_use]
    pub fn hardware(&self, section: Section) -> Vec<HardwareValue> {
        let Some(fields) = self.sections.shared(&section) else {
            return Vec::new();
        };
        let mut values = Vec::new();
        for part in PARTS {
            let fields = fields.get(part).and_then(Node::as_map);
            for (key, field) in fields.into_iter().flat_map(Map::iter) {
                let value = match (part, &*key.text) {
                    ("firmware", _) => field.node.get("version").and_then(shown),
                    (RAID, "volumes") => raid::designed_in_words(&field.node),
                    _ => shown(&field.node),
                };
                values.extend(value.map(|value| HardwareValue {
                    name: format!("{part}.{}", key.text).into(),
                    value,
                }));
            }
        }
        values.sort_by(|one, other| one.name.cmp(&other.name));
        values
    }

    /// The parts that it is expected to have, sorted by name.
    #[must_use]
    pub fn expected_parts(&self) -> Vec<HardwareValue> {
        let mut values = self.hardware(Section::Expected);
        values.retain(|each| each.name.starts_with("expect."));
        values
    }

    /// Those of [`Section::Firmware`], [`Section::Raid`] and [`Section::Expected`] in which Hardware documents say something of it.
    pub fn hardware_sections(&self) -> impl Iterator<Item = Section> {
        let sections = [Section::Firmware, Section::Raid, Section::Expected].into_iter();
        sections.filter(|section| self.sections.shared(section).is_some())
    }

    /// The terms on which the firmware of a component (`firmware.bios`) is changed; `None`: it is no component.
    #[must_use]
    pub fn firmware_terms(&self, name: &str) -> Option<FirmwareTerms> {
        let component = name.strip_prefix("firmware.")?;
        let fields = self.sections.shared(&Section::Firmware)?;
        Some(FirmwareTerms::read(fields.at(&["firmware", component])?))
    }

    /// How far the change of a value goes with its machine: a setting of the controller, and firmware with `apply: live`, is
    /// changed while the machine runs.
    #[must_use]
    pub fn setting_rung(&self, name: &str) -> Rung {
        let is_live = || self.firmware_terms(name).is_some_and(|terms| terms.live);
        match name.starts_with("bmc.") || is_live() {
            true => Rung::Live,
            false => Section::Firmware.lowest_rung(),
        }
    }

    /// The terms on which its firmware is changed, now or once it is enforced: by component, with the version that it is to
    /// have.
    pub fn all_firmware_terms(
        &self,
    ) -> impl Iterator<Item = (Arc<str>, Option<Arc<str>>, FirmwareTerms)> {
        self.firmware_components().map(|(name, node)| {
            let version = node.get("version").and_then(shown);
            (name, version, FirmwareTerms::read(node))
        })
    }

    /// The components whose firmware Hardware documents say something of, now or once it is enforced.
    fn firmware_components(&self) -> impl Iterator<Item = (Arc<str>, &Node)> {
        let fields = self.hardware_sections();
        let fields = fields.filter_map(|section| self.sections.shared(&section));
        let components = fields.filter_map(|fields| fields.get("firmware")?.as_map());
        let components = components.flat_map(Map::iter);
        components.map(|(key, component)| (Arc::from(&*key.text), &component.node))
    }

    /// The images that its firmware is taken from, now or once it is enforced.
    pub fn firmware_images(&self) -> impl Iterator<Item = ImageTerms> {
        let components = self.firmware_components();
        components.filter_map(|(_, component)| ImageTerms::read(component.get("image")?))
    }
}

/// A value in the form in which it is compared: a list in one line.
fn shown(node: &Node) -> Option<Arc<str>> {
    let Some(items) = node.as_list() else {
        return text_of(node);
    };
    let texts: Vec<Arc<str>> = items.iter().filter_map(text_of).collect();
    Some(texts.join(", ").into())
}

/// A selector of a Hardware document: a selector of nodes, and criteria about their hardware profile.
struct HardwareSelector {
    nodes: Selector,
    vendors: BTreeSet<Arc<str>>,
    models: BTreeSet<Arc<str>>,
    profiles: BTreeSet<Arc<str>>,
}

impl HardwareSelector {
    fn read(node: &Node) -> Self {
        Self {
            nodes: Selector::read(node),
            vendors: text_set(node, "vendors"),
            models: text_set(node, "models"),
            profiles: text_set(node, "profiles"),
        }
    }

    fn is_about_profiles(&self) -> bool {
        !(self.vendors.is_empty() && self.models.is_empty() && self.profiles.is_empty())
    }

    /// Whether it means the machines of a hardware profile.
    fn takes(&self, catalog: &Catalog<'_>, profile: &str) -> bool {
        let data = catalog.get(kind::HARDWARE_PROFILE, profile);
        let is_one_of = |wanted: &BTreeSet<Arc<str>>, field: &str| {
            let value = || data.and_then(|(_, data)| text(data, field));
            wanted.is_empty() || value().is_some_and(|value| wanted.contains(&value))
        };
        (self.profiles.is_empty() || self.profiles.contains(profile))
            && is_one_of(&self.vendors, "vendor")
            && is_one_of(&self.models, "generation")
    }
}

/// The machines of each hardware profile, by their positions among all.
pub(super) struct ByProfile(FxHashMap<Arc<str>, Vec<u32>>);

impl ByProfile {
    pub(super) fn of(design: &Design) -> Self {
        let mut all: FxHashMap<Arc<str>, Vec<u32>> = FxHashMap::default();
        for (position, node) in (0..).zip(design.nodes.values()) {
            if let Some(profile) = &node.hardware_profile {
                all.entry(profile.clone()).or_default().push(position);
            }
        }
        Self(all)
    }
}

/// The positions of the machines that a Hardware document selects, sorted.
pub(super) fn selected(
    data: &Node,
    catalog: &Catalog<'_>,
    design: &Design,
    profiles: &ByProfile,
) -> Vec<u32> {
    let selectors = items(data, "selectors");
    let all = || (0..design.nodes.len() as u32).collect();
    if selectors.is_empty() {
        return all();
    }
    let mut result: Vec<u32> = Vec::new();
    for selector in selectors {
        let selector = HardwareSelector::read(selector);
        if !selector.is_about_profiles() {
            if selector.nodes.is_all() {
                return all();
            }
            result.extend(design.index().select(&selector.nodes, design));
            continue;
        }
        let taken = profiles.0.iter();
        let taken = taken.filter(|(profile, _)| selector.takes(catalog, profile));
        let taken = taken.flat_map(|(_, positions)| positions.iter().copied());
        match selector.nodes.is_all() {
            true => result.extend(taken),
            false => {
                let named = design.index().select(&selector.nodes, design);
                let named: FxHashSet<u32> = named.into_iter().collect();
                result.extend(taken.filter(|position| named.contains(position)));
            }
        }
    }
    result.sort_unstable();
    result.dedup();
    result
}

/// A Hardware document as it is given to machines.
struct HardwareDocument {
    id: DocumentId,
    /// Where its selectors are written.
    by: Mark,
    /// Its values: part, key, value, and whether it is enforced.
    values: Vec<(&'static str, Arc<str>, Node, bool)>,
}

impl HardwareDocument {
    fn read(id: &DocumentId, mark: Mark, data: &Node) -> Self {
        let enforces = |node: &Node| text(node, "mode").as_deref() == Some("enforce");
        let of_document = enforces(data);
        let mut values = Vec::new();
        for part in PARTS {
            let fields = data.get(part).and_then(Node::as_map);
            for (key, field) in fields.into_iter().flat_map(Map::iter) {
                let mut node = field.node.clone();
                let mut is_enforced = of_document && part != EXPECT;
                if part == "firmware" {
                    if node.get("mode").is_some() {
                        is_enforced = enforces(&node);
                    }
                    node = without_mode(node);
                }
                values.push((part, key.text.clone(), node, is_enforced));
            }
        }
        Self {
            id: id.clone(),
            by: data.get("selectors").map_or(mark, |node| node.mark),
            values,
        }
    }
}

/// A component without the word that says whether it is enforced.
fn without_mode(node: Node) -> Node {
    let Some(map) = node.as_map() else {
        return node;
    };
    let mut fields = Map::new();
    for (key, field) in map.iter().filter(|(key, _)| &*key.text != "mode") {
        fields.insert(key.clone(), field.clone());
    }
    Node {
        value: Value::Map(Arc::new(fields)),
        ..node
    }
}

/// The meaning of a set of Hardware documents for a machine.
struct HardwareSet {
    enforced: Option<SectionValue>,
    raid: Option<SectionValue>,
    expected: Option<Arc<Node>>,
    depends_on: Arc<[Dependence]>,
}

/// Gives all machines the values of the Hardware documents that select them.
pub(super) fn add_hardware(catalog: &Catalog<'_>, design: &mut Design, findings: &mut Findings) {
    let inputs: Vec<_> = catalog.of(kind::HARDWARE).collect();
    if inputs.is_empty() {
        return;
    }
    let profiles = ByProfile::of(design);
    let mut of_nodes: Vec<Vec<u32>> = vec![Vec::new(); design.nodes.len()];
    let mut documents = Vec::with_capacity(inputs.len());
    for (at, (document, data)) in (0..).zip(inputs) {
        for position in selected(data, catalog, design, &profiles) {
            of_nodes[position as usize].push(at);
        }
        documents.push(HardwareDocument::read(&document.id, document.mark, data));
    }
    let mut sets: FxHashMap<Vec<u32>, Rc<HardwareSet>> = FxHashMap::default();
    for (node, chosen) in design.nodes.values_mut().zip(of_nodes) {
        if chosen.is_empty() {
            continue;
        }
        let set = match sets.get(&chosen) {
            Some(set) => set.clone(),
            None => {
                let set = Rc::new(HardwareSet::of(&documents, &chosen, &node.name, findings));
                sets.insert(chosen, set.clone());
                set
            }
        };
        let node = Arc::make_mut(node);
        let enforced = [
            (Section::Firmware, &set.enforced),
            (Section::Raid, &set.raid),
        ];
        for (section, value) in enforced {
            if let Some(value) = value {
                node.sections.insert(section, value.fields.clone());
                node.digests.insert(section, value.digest);
            }
        }
        if let Some(expected) = &set.expected {
            node.sections.insert(Section::Expected, expected.clone());
        }
        node.depends_on.push(set.depends_on.clone());
    }
}

impl HardwareSet {
    /// The values of several documents, each value once; `node`: one of the machines that have them all.
    fn of(
        documents: &[HardwareDocument],
        chosen: &[u32],
        node: &NodeName,
        findings: &mut Findings,
    ) -> Self {
        let chosen = || chosen.iter().map(|at| &documents[*at as usize]);
        let mut known: FxHashMap<(&str, &str), (&Node, &HardwareDocument)> = FxHashMap::default();
        // What one document reports and another enforces is enforced, whichever has the first name.
        let mut strict: FxHashSet<(&str, &str)> = FxHashSet::default();
        for document in chosen() {
            for (part, key, value, is_enforced) in &document.values {
                if *is_enforced {
                    strict.insert((*part, &**key));
                }
                match known.get(&(*part, &**key)) {
                    None => {
                        known.insert((*part, &**key), (value, document));
                    }
                    Some((first, of)) if canonical::sum(first) != canonical::sum(value) => {
                        findings.push(conflict(part, key, value, &of.id, node));
                    }
                    Some(_) => {}
                }
            }
        }
        let (mut enforced, mut raid, mut expected) = (Map::new(), Map::new(), Map::new());
        for document in chosen() {
            for (part, key, ..) in &document.values {
                let Some((value, _)) = known.remove(&(*part, &**key)) else {
                    continue;
                };
                let map = match (strict.contains(&(*part, &**key)), *part) {
                    (true, RAID) => &mut raid,
                    (true, _) => &mut enforced,
                    (false, _) => &mut expected,
                };
                put(map, part, key, value);
            }
        }
        let mark = chosen().next().map(|document| document.by);
        let node = |map: Map| {
            let mark = mark.filter(|_| !map.is_empty())?;
            Some(Node::new(Value::Map(Arc::new(map)), mark))
        };
        let section = |section: Section, fields: Node| {
            let sum = canonical::sum(&fields);
            SectionValue::new(section, fields, [("", &sum)])
        };
        Self {
            enforced: node(enforced).map(|fields| section(Section::Firmware, fields)),
            raid: node(raid).map(|fields| section(Section::Raid, fields)),
            expected: node(expected).map(Arc::new),
            depends_on: chosen()
                .map(|document| Dependence {
                    dependent: None,
                    on: document.id.clone(),
                    selects: true,
                    by: Arc::from("selectors"),
                    mark: document.by,
                })
                .collect(),
        }
    }
}

/// Sets a value of a part.
fn put(map: &mut Map, part: &'static str, key: &Arc<str>, value: &Node) {
    let mut inner = match map.get(part).map(|node| &node.value) {
        Some(Value::Map(inner)) => (**inner).clone(),
        _ => Map::new(),
    };
    inner.set(key, value.clone());
    map.set(part, Node::new(Value::Map(Arc::new(inner)), value.mark));
}

fn conflict(
    part: &str,
    key: &str,
    value: &Node,
    first: &DocumentId,
    node: &NodeName,
) -> Diagnostic {
    let message = format!(
        "Hardware `{}` has another value of `{part}.{key}`, and both select `{node}`",
        first.name
    );
    let hint = "one document for each value: narrow the selectors, or drop one of the values";
    Diagnostic::error("rule-hardware-conflict", value.mark, message).hint(hint)
}

/// The references and selectors of Hardware documents.
pub(super) fn check(catalog: &Catalog<'_>, design: &Design, findings: &mut Findings) {
    let documents: Vec<_> = catalog.of(kind::HARDWARE).collect();
    if documents.is_empty() {
        return;
    }
    raid::check(catalog, findings);
    let profiles = ByProfile::of(design);
    for (document, data) in documents {
        for selector in items(data, "selectors") {
            for profile in items(selector, "profiles") {
                let Some(name) = text_of(profile) else {
                    continue;
                };
                if catalog.get(kind::HARDWARE_PROFILE, &name).is_none() {
                    let message = format!("there is no hardware profile `{name}`");
                    findings.push(
                        Diagnostic::error("reference-hardware-profile", profile.mark, message)
                            .did_you_mean(&name, catalog.names(kind::HARDWARE_PROFILE)),
                    );
                }
            }
            check_words(catalog, selector, ("vendors", "vendor"), findings);
            check_words(catalog, selector, ("models", "generation"), findings);
        }
        if selected(data, catalog, design, &profiles).is_empty() {
            let mark = data
                .get("selectors")
                .map_or(document.mark, |node| node.mark);
            let message = "this document selects no machine";
            findings.push(Diagnostic::warning("rule-hardware-unused", mark, message));
        }
    }
}

/// Warns of makers and models that no hardware profile has.
fn check_words(
    catalog: &Catalog<'_>,
    selector: &Node,
    (list, field): (&str, &str),
    findings: &mut Findings,
) {
    if texts(selector, list).next().is_none() {
        return;
    }
    let known = catalog.of(kind::HARDWARE_PROFILE);
    let known: BTreeSet<Arc<str>> = known.filter_map(|(_, data)| text(data, field)).collect();
    for node in items(selector, list) {
        let Some(word) = text_of(node).filter(|word| !known.contains(word)) else {
            continue;
        };
        let message = format!("no hardware profile has the {field} `{word}`");
        findings.push(
            Diagnostic::warning("rule-hardware-unused", node.mark, message)
                .did_you_mean(&word, known.iter().map(|word| &**word)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{Site, checked, document, site};

    fn hardware(name: &str, data: &str) -> String {
        document(kind::HARDWARE, name, data)
    }

    fn fleet() -> String {
        let profile = |name: &str, vendor: &str, model: &str| {
            let data = format!("{{vendor: {vendor}, generation: '{model}'}}");
            document(kind::HARDWARE_PROFILE, name, &data)
        };
        let node = |name: &str, profile: &str, tag: &str| {
            let data = format!("hardware_profile: {profile}\nmetadata: {{tags: [{tag}]}}");
            document(kind::NODE, name, &data)
        };
        [
            profile("big", "Dell", "14"),
            profile("small", "HPE", "10"),
            node("n1", "big", "control"),
            node("n2", "big", "compute"),
            node("n3", "small", "compute"),
        ]
        .concat()
    }

    fn values(site: &Site, name: &str, section: Section) -> String {
        let node = site.design.nodes.get(name).unwrap();
        let values = node.hardware(section).into_iter();
        let values = values.map(|each| format!("{}={}", each.name, each.value));
        values.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn selectors_meet_profile_maker_model_tag_and_node() {
        let table = [
            ("[]", "n1 n2 n3"),
            ("[{vendors: [Dell]}]", "n1 n2"),
            ("[{models: ['10', '14']}]", "n1 n2 n3"),
            ("[{vendors: [Dell], models: ['10']}]", ""),
            ("[{profiles: [small]}]", "n3"),
            ("[{vendors: [Dell], node_tags: [compute]}]", "n2"),
            ("[{node_names: [n1]}, {profiles: [small]}]", "n1 n3"),
            ("[{}]", "n1 n2 n3"),
        ];
        for (selectors, expected) in table {
            let data = format!("selectors: {selectors}\nmode: enforce\nbios: {{A: 1}}");
            let site = site(&(fleet() + &hardware("h", &data)));
            let nodes = site.design.nodes.iter();
            let nodes = nodes.filter(|(_, node)| node.digests.get(&Section::Firmware).is_some());
            let nodes: Vec<&str> = nodes.map(|(name, _)| name.as_str()).collect();
            assert_eq!(nodes.join(" "), expected, "{selectors}");
        }
    }

    #[test]
    fn only_what_is_enforced_counts_as_a_difference() {
        let text = "firmware:\n  bios: {version: 2.1.0, from: ['2.0'], mode: enforce}\n  bmc: {version: '7.0'}\n\
            bios: {Turbo: true}\nboot: {order: [disk, pxe]}\nexpect: {cpus: 2}";
        let reported = site(&(fleet() + &hardware("h", text)));
        assert_eq!(
            values(&reported, "n1", Section::Firmware),
            "firmware.bios=2.1.0"
        );
        assert_eq!(
            values(&reported, "n1", Section::Expected),
            "bios.Turbo=true boot.order=disk, pxe expect.cpus=2 firmware.bmc=7.0"
        );
        let node = &reported.design.nodes["n1"];
        assert_eq!(node.digests.get(&Section::Expected), None);
        let terms = node.firmware_terms("firmware.bios").unwrap();
        assert!(terms.from.contains("2.0") && !terms.downgrade);
        assert_eq!(node.firmware_terms("bios.Turbo"), None);

        let enforced = site(&(fleet() + &hardware("h", &format!("mode: enforce\n{text}"))));
        assert_eq!(
            values(&enforced, "n1", Section::Firmware),
            "bios.Turbo=true boot.order=disk, pxe firmware.bios=2.1.0 firmware.bmc=7.0"
        );
        assert_eq!(
            values(&enforced, "n1", Section::Expected),
            "expect.cpus=2",
            "what is expected is never work"
        );
        let digest = |site: &Site| {
            *site.design.nodes["n1"]
                .digests
                .get(&Section::Firmware)
                .unwrap()
        };
        assert_ne!(digest(&reported), digest(&enforced));
        let more = text.replace("cpus: 2", "cpus: 2, memory_gib: 8");
        let expects_more = site(&(fleet() + &hardware("h", &format!("mode: enforce\n{more}"))));
        assert_eq!(digest(&enforced), digest(&expects_more));
    }

    #[test]
    fn what_any_document_enforces_is_enforced_whatever_its_name() {
        let document = |name: &str, mode: &str| {
            let data = format!(
                "mode: {mode}\nbios: {{A: 1}}\nfirmware: {{bios: {{version: '2'}}}}\nexpect: {{cpus: 2}}"
            );
            hardware(name, &data)
        };
        for modes in [["report", "enforce"], ["enforce", "report"]] {
            let text = fleet() + &document("a", modes[0]) + &document("b", modes[1]);
            let site = site(&text);
            let both = [Section::Firmware, Section::Expected].map(|it| values(&site, "n1", it));
            assert_eq!(
                both,
                ["bios.A=1 firmware.bios=2", "expect.cpus=2"],
                "{modes:?}"
            );
        }
    }

    #[test]
    fn two_values_of_one_name_and_what_selects_nothing_are_found() {
        let text = fleet()
            + &hardware("a", "mode: enforce\nbios: {A: 1, B: 1}")
            + &hardware("b", "selectors: [{vendors: [Dell]}]\nbios: {A: 2, B: 1}")
            + &hardware("c", "selectors: [{vendors: [Del]}]\nbios: {C: 1}")
            + &hardware("d", "selectors: [{profiles: [bigg]}]\nbios: {D: 1}");
        let found = checked(&text).problems;
        for (code, times) in [
            ("rule-hardware-conflict ", 1),
            ("reference-hardware-profile ", 1),
            ("rule-hardware-unused ", 3),
        ] {
            let of_code = found.iter().filter(|line| line.starts_with(code));
            assert_eq!(of_code.count(), times, "{code}: {found:#?}");
        }
        let message = "Hardware `a` has another value of `bios.A`, and both select `n1`";
        assert!(
            found.iter().any(|line| line.contains(message)),
            "{found:#?}"
        );
    }
}
