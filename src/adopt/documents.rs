//! The files of an adoption.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use super::layers::{Layers, layers};
use super::write::{field, head, list, map, scalar};
use super::{AdoptInput, Adopted, CONTROL_PLANE, Cluster, Machine, WORKER, guide, slug};
use crate::design::{OpenField, kind};
use crate::diagnostic::{counted, some_names};
use crate::identity::Kind;

/// Sets of disks, and disks of a set, that are named.
const SHOWN_DISKS: usize = 12;

/// A fact that machines can have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shared {
    /// The hardware profile.
    Hardware(Arc<str>),
    /// How controllers are reached.
    Controller(Arc<str>),
    /// A tag.
    Tag(Arc<str>),
    /// A label, and its value.
    Label(Arc<str>, Arc<str>),
}

impl Shared {
    /// Its length where it is written, in bytes. A role is worth a profile of its own, as people write them.
    fn length(&self) -> usize {
        match self {
            Self::Hardware(name) => 20 + name.len(),
            Self::Controller(kind) => 18 + kind.len(),
            Self::Tag(_) => 100,
            Self::Label(key, value) => 4 + key.len() + value.len(),
        }
    }
}

/// Writes the files of machines and clusters.
pub(super) fn write(
    input: &AdoptInput<'_>,
    machines: &[Machine<'_>],
    clusters: &[Cluster<'_>],
    adopted: &mut Adopted,
) {
    if machines.is_empty() && clusters.is_empty() {
        return;
    }
    if !machines.is_empty() {
        // Before the machines: a process that is killed in between leaves none of which nothing is open.
        let adoption = adoption(input, machines);
        adopted.files.push(("adoption.yaml", adoption));
    }
    let mut taken: BTreeSet<Arc<str>> = input.known.profiles.clone();
    let hardware = hardware(machines, &mut taken);
    let facts: Vec<Vec<Shared>> = machines
        .iter()
        .map(|machine| facts(machine, &hardware))
        .collect();
    let layers = layers(&facts, Shared::length);
    let names = profile_names(&layers, machines.len(), &mut taken);
    let profiles = profiles(&hardware, &layers, &names);
    if !profiles.is_empty() {
        let text = "# What machines have in common. What could not be observed is not in it: ADOPTED.md lists that.\n";
        adopted
            .files
            .push(("profiles.yaml", format!("{text}{profiles}")));
    }
    if !machines.is_empty() {
        let mut text = "# Each machine with what is its own.\n".to_owned();
        for (machine, (layer, own)) in machines.iter().zip(&layers.machines) {
            node(machine, layer.map(|layer| &names[layer]), own, &mut text);
        }
        adopted.files.push(("nodes.yaml", text));
    }
    if !clusters.is_empty() {
        adopted.files.push(("etcd.yaml", etcd(clusters)));
    }
    if !input.known.has_strategy && !machines.is_empty() {
        adopted.files.push(("strategy.yaml", strategy(machines)));
    }
    questions(machines, input, adopted);
    let guide = guide::guide(input, machines, adopted);
    adopted.files.push(("ADOPTED.md", guide));
}

/// The maker of a machine, and the version of its firmware.
type Made = (Option<Arc<str>>, Option<Arc<str>>);

/// Hardware profiles by maker and version of the firmware.
type Hardware = BTreeMap<Made, Arc<str>>;

fn hardware_of(machine: &Machine<'_>) -> Option<Made> {
    let built = machine.found.observed.built.as_ref()?;
    let made = (built.maker.clone(), built.firmware.clone());
    (made != (None, None)).then_some(made)
}

fn hardware(machines: &[Machine<'_>], taken: &mut BTreeSet<Arc<str>>) -> Hardware {
    let all: BTreeSet<_> = machines.iter().filter_map(hardware_of).collect();
    let named = all.into_iter().map(|(maker, firmware)| {
        let name = match slug(maker.as_deref().unwrap_or_default()) {
            name if name.is_empty() => "server".to_owned(),
            name => name,
        };
        let name = free(&name, taken);
        ((maker, firmware), name)
    });
    named.collect()
}

/// A name that no other document of the kind has.
fn free(wanted: &str, taken: &mut BTreeSet<Arc<str>>) -> Arc<str> {
    let mut name: Arc<str> = Arc::from(wanted);
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = Arc::from(format!("{wanted}-{number}"));
        number += 1;
    }
    name
}

fn facts(machine: &Machine<'_>, hardware: &Hardware) -> Vec<Shared> {
    let mut facts = Vec::new();
    let profile = hardware_of(machine).and_then(|made| hardware.get(&made).cloned());
    facts.extend(profile.map(Shared::Hardware));
    let controller = machine.found.listed.controller.as_ref();
    facts.extend(controller.map(|(kind, _)| Shared::Controller(kind.clone())));
    facts.extend(machine.tags.iter().cloned().map(Shared::Tag));
    let labels = machine.labels.iter();
    facts.extend(labels.map(|(key, value)| Shared::Label(key.clone(), value.clone())));
    facts
}

/// The names of profiles: those of roles, `base` for what all machines have, and the profile above with a label or a number.
fn profile_names(
    layers: &Layers<Shared>,
    machines: usize,
    taken: &mut BTreeSet<Arc<str>>,
) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::with_capacity(layers.layers.len());
    for layer in &layers.layers {
        let tag = layer.facts.iter().find_map(|fact| match fact {
            Shared::Tag(tag) => Some(slug(tag)).filter(|tag| !tag.is_empty()),
            Shared::Hardware(_) | Shared::Controller(_) | Shared::Label(..) => None,
        });
        let value = layer.facts.iter().find_map(|fact| match fact {
            Shared::Label(_, value) => Some(slug(value)).filter(|value| value.len() > 1),
            Shared::Hardware(_) | Shared::Controller(_) | Shared::Tag(_) => None,
        });
        let above = layer.parent.map(|parent| match &value {
            Some(value) if value.len() <= 20 => format!("{}-{value}", names[parent]),
            _ => names[parent].to_string(),
        });
        let wanted = match (tag, above) {
            (Some(tag), _) => tag,
            (None, Some(above)) => above,
            (None, None) if layer.machines == machines => "base".to_owned(),
            (None, None) => "common".to_owned(),
        };
        names.push(free(&wanted, taken));
    }
    names
}

fn profiles(hardware: &Hardware, layers: &Layers<Shared>, names: &[Arc<str>]) -> String {
    let mut text = String::new();
    for ((maker, firmware), name) in hardware {
        let _ = writeln!(text, "{}", head(kind::HARDWARE_PROFILE, name));
        for (key, value) in [("vendor", maker), ("bios_version", firmware)] {
            if let Some(value) = value {
                let _ = writeln!(text, "  {key}: {}", scalar(value));
            }
        }
    }
    for (layer, name) in layers.layers.iter().zip(names) {
        let _ = writeln!(text, "{}", head(kind::HOST_PROFILE, name));
        let parent = layer.parent.map(|parent| &names[parent]);
        body(parent, &layer.facts, &Own::default(), &mut text);
    }
    text
}

/// Facts of a machine that no other machine has.
#[derive(Default)]
struct Own {
    /// Fields of `oob`.
    controller: Vec<(String, String)>,
    rack: Option<Arc<str>>,
    boot_mac: Option<Arc<str>>,
}

/// Writes the fields of a profile or a machine.
fn body(profile: Option<&Arc<str>>, facts: &[Shared], own: &Own, text: &mut String) {
    if let Some(profile) = profile {
        let _ = writeln!(text, "  host_profile: {}", scalar(profile));
    }
    let (mut controller, mut tags, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for fact in facts {
        match fact {
            Shared::Hardware(name) => {
                let _ = writeln!(text, "  hardware_profile: {}", scalar(name));
            }
            Shared::Controller(kind) => controller.push(("type".to_owned(), scalar(kind))),
            Shared::Tag(tag) => tags.push(scalar(tag)),
            Shared::Label(key, value) => labels.push((scalar(key), scalar(value))),
        }
    }
    controller.extend(own.controller.iter().cloned());
    if !controller.is_empty() {
        field(2, "oob", &controller, text);
    }
    let mut plain = Vec::new();
    if let Some(rack) = &own.rack {
        plain.push(("rack".to_owned(), scalar(rack)));
    }
    if let Some(mac) = &own.boot_mac {
        plain.push(("boot_mac".to_owned(), scalar(mac)));
    }
    if !tags.is_empty() {
        plain.push(("tags".to_owned(), list(tags)));
    }
    match (plain.is_empty(), labels.is_empty()) {
        (true, true) => {}
        (false, true) => field(2, "metadata", &plain, text),
        (_, false) => {
            text.push_str("  metadata:\n");
            for (key, value) in &plain {
                let _ = writeln!(text, "    {key}: {value}");
            }
            field(4, "owner_data", &labels, text);
        }
    }
}

fn node(machine: &Machine<'_>, profile: Option<&Arc<str>>, facts: &[Shared], text: &mut String) {
    let (mut controller, mut boot_mac) = (Vec::new(), None);
    if let Some((_, address)) = &machine.found.listed.controller {
        controller.push(("address".to_owned(), scalar(address)));
    }
    match &machine.known_by {
        Some((Kind::Uuid, uuid)) => controller.push(("uuid".to_owned(), scalar(uuid))),
        Some((Kind::Serial, serial)) => controller.push(("serial".to_owned(), scalar(serial))),
        Some((Kind::Mac, mac)) => boot_mac = Some(mac.clone()),
        Some((Kind::Provisioner, _)) | None => {}
    }
    let own = Own {
        controller,
        rack: machine.rack.clone(),
        boot_mac,
    };
    let before = text.len();
    let _ = writeln!(text, "{}", head(kind::NODE, machine.name.as_str()));
    let data = text.len();
    body(profile, facts, &own, text);
    if text.len() == data {
        // A machine of which nothing but its name is known.
        text.truncate(before);
        let _ = writeln!(text, "{} {{}}", head(kind::NODE, machine.name.as_str()));
    }
}

fn etcd(clusters: &[Cluster<'_>]) -> String {
    let mut text = "# Which machine is which member. No plan takes a machine away while the others would not be a quorum.\n".to_owned();
    let _ = writeln!(
        text,
        "{}\n  clusters:",
        head(kind::ETCD_CLUSTERS, "etcd-clusters")
    );
    for cluster in clusters {
        let _ = writeln!(
            text,
            "    - name: {}\n      members:",
            scalar(cluster.name.as_str())
        );
        for member in &cluster.members {
            let fields = [
                ("node", member.node.as_str()),
                ("name", &*member.name),
                ("peer_url", &*member.peer_url),
                ("client_url", &*member.client_url),
            ];
            let line = map(fields.into_iter().map(|(key, value)| (key, scalar(value))));
            let _ = writeln!(text, "        - {line}");
        }
        if let Some(credentials) = cluster.credentials.filter(|all| !all.is_empty()) {
            text.push_str("      credentials:\n");
            for (name, reference) in credentials {
                let (by, value) = reference.kind_and_value();
                let value = match by {
                    // It is a list of JSON, which YAML reads, too.
                    "exec" | "store" => value.to_string(),
                    _ => scalar(&value),
                };
                let _ = writeln!(text, "        {}: {}", scalar(name), map([(by, value)]));
            }
        }
    }
    text
}

/// Fields that no backend shows: each is open until a person tells what it is.
fn adoption(input: &AdoptInput<'_>, machines: &[Machine<'_>]) -> String {
    let mut text = "# What could not be observed. Until the documents tell it, or it is moved to `assumed`, no plan deploys these machines.\n".to_owned();
    let name = free("adoption", &mut input.known.adoptions.clone());
    let _ = writeln!(text, "{}\n  machines:", head(kind::ADOPTION, &name));
    if input.known.nodes.is_empty() {
        let roles = [
            (
                CONTROL_PLANE,
                machines.iter().any(|machine| machine.is_control_plane),
            ),
            (
                WORKER,
                machines.iter().any(|machine| !machine.is_control_plane),
            ),
        ];
        let tags = roles.into_iter().filter(|(_, is_there)| *is_there);
        let tags = list(tags.map(|(tag, _)| tag.to_owned()));
        let _ = writeln!(text, "    - node_tags: {tags}");
    } else {
        // Others may have the same tags.
        text.push_str("    - node_names:\n");
        for machine in machines {
            let _ = writeln!(text, "        - {}", scalar(machine.name.as_str()));
        }
    }
    let is_shown = |field: &OpenField| {
        *field == OpenField::HardwareProfile && machines.iter().all(|it| hardware_of(it).is_some())
    };
    let open = OpenField::ALL.into_iter().filter(|field| !is_shown(field));
    let open = list(open.map(|field| field.as_str().to_owned()));
    let _ = writeln!(text, "      open: {open}\n      assumed: []");
    text
}

/// The control plane first and whole; the workers then, of which few may fail.
fn strategy(machines: &[Machine<'_>]) -> String {
    let mut text = "# The control plane first, whole; then the workers.\n".to_owned();
    let _ = writeln!(
        text,
        "{}\n  groups:",
        head(kind::STRATEGY, "deployment-strategy")
    );
    let has_control = machines.iter().any(|machine| machine.is_control_plane);
    let has_workers = machines.iter().any(|machine| !machine.is_control_plane);
    let after = match has_control {
        true => vec![CONTROL_PLANE.to_owned()],
        false => Vec::new(),
    };
    let groups = [
        (
            has_control,
            CONTROL_PLANE,
            CONTROL_PLANE,
            true,
            Vec::new(),
            100,
        ),
        (has_workers, "workers", WORKER, false, after, 90),
    ];
    for (is_there, name, tag, critical, after, percent) in groups {
        if is_there {
            let _ = write!(
                text,
                "    - name: {name}\n      critical: {critical}\n      depends_on: {}\n      selectors:\n        - node_tags: \
                 [{tag}]\n      success_criteria:\n        percent_successful_nodes: {percent}\n",
                list(after)
            );
        }
    }
    text
}

/// The disks that machines have, by how many have them.
fn disks(machines: &[Machine<'_>]) -> String {
    let mut all: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for machine in machines {
        let disks = machine.found.disks().iter().map(|disk| &*disk.name);
        *all.entry(disks.collect()).or_default() += 1;
    }
    all.retain(|disks, _| !disks.is_empty());
    let mut all: Vec<(Vec<&str>, usize)> = all.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = all.iter().take(SHOWN_DISKS).map(|(disks, count)| {
        let disks: Vec<String> = disks
            .iter()
            .take(SHOWN_DISKS)
            .map(|disk| guide::code(disk))
            .collect();
        format!(
            "{} on {}",
            disks.join(", "),
            counted(*count, "machine", "machines")
        )
    });
    let shown: Vec<String> = shown.collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(". Found: {}", shown.join("; ")),
    }
}

/// The fields that cannot be observed.
fn questions(machines: &[Machine<'_>], input: &AdoptInput<'_>, adopted: &mut Adopted) {
    let mut ask = |text: String| adopted.questions.push(text);
    if !machines.is_empty() {
        ask("`platform.image` and `platform.kernel`: the image that runs, and that a redeploy installs".to_owned());
        ask(format!(
            "`storage`: partitions and file systems; a redeploy makes those that the documents name{}",
            disks(machines)
        ));
        ask("`interfaces`, `primary_network`, `addressing`, and the `drydock/Network/v1` documents that they name".to_owned());
        ask("`drydock/BootAction/v1`: what a first boot installs, such as user data".to_owned());
    }
    if machines.iter().any(|machine| machine.rack.is_none()) {
        ask(
            "`metadata.rack`: where machines stand; a table with `--machines FILE` names it"
                .to_owned(),
        );
    }
    if machines
        .iter()
        .any(|machine| hardware_of(machine).is_none())
    {
        ask("`hardware_profile`: the maker and the firmware of machines whose backend does not show them".to_owned());
    }
    let off: Vec<&str> = machines
        .iter()
        .filter(|machine| machine.found.is_off())
        .map(|machine| machine.name.as_str())
        .collect();
    if !off.is_empty() {
        ask(format!(
            "deployed and powered off: {}; the first plan switches them on, unless they are retired, in maintenance, or no more designed",
            some_names(off.into_iter())
        ));
    }
    if let Some(why) = &input.inventory.cluster_unknown {
        ask(format!(
            "labels of Kubernetes nodes: the cluster could not be observed ({why})"
        ));
    }
}
