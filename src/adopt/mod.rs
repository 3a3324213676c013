//! Documents out of what runs: functions from an inventory to files, which nothing here reads or writes.
//!
//! Only machines in use become documents, since a plan would deploy the others. What is observed is written; what
//! cannot be observed is left out, and named as a question in `ADOPTED.md`. Facts that machines share stand in profiles
//! (`layers`). Documents that are there stay as they are: a machine, a profile or a cluster of a known name is not written
//! again, and each of the files is a new one.

mod airship;
mod documents;
mod edit;
mod guide;
mod layers;
mod learn;
mod lists;
mod notes;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::design::{
    ClusterName, EtcdMember, NodeName, Reference, name_problem, node_name_problem,
};
use crate::identity::{Identity, Kind};
use crate::observed::{EtcdMemberSeen, EtcdSeen, Fact, Inventory, InventoryMachine};

pub use airship::{AirshipAnswers, AirshipSite, airship_site};
pub use edit::{Edit, Fields, edited, insertions, replacement};
pub use learn::hardware_document;
pub use lists::read as read_notes;
pub use notes::{COLUMNS, Note, NoteProblem, Notes};

/// Labels by which Kubernetes marks the nodes of a control plane.
const CONTROL_PLANE_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// The tags of machines by their roles.
const CONTROL_PLANE: &str = "control-plane";
const WORKER: &str = "worker";

/// Names of documents that are there.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Machines.
    pub nodes: BTreeSet<NodeName>,
    /// Machines without a document, whose records tell what is on them.
    pub recorded: BTreeSet<NodeName>,
    /// The addresses of their controllers.
    pub controllers: BTreeSet<Arc<str>>,
    /// Host profiles and hardware profiles.
    pub profiles: BTreeSet<Arc<str>>,
    /// Adoptions.
    pub adoptions: BTreeSet<Arc<str>>,
    /// Etcd clusters.
    pub etcd: BTreeSet<ClusterName>,
    /// Whether there is a strategy.
    pub has_strategy: bool,
}

/// The input of an adoption.
#[derive(Debug)]
pub struct AdoptInput<'a> {
    /// The site.
    pub site: &'a str,
    /// The backend that listed the machines, as documents name it.
    pub backend: &'a str,
    /// All that was found.
    pub inventory: &'a Inventory,
    /// The documents that exist.
    pub known: &'a Known,
    /// The rows of a table of machines.
    pub notes: &'a Notes,
    /// References to the credentials of etcd clusters, by cluster.
    pub credentials: &'a BTreeMap<ClusterName, BTreeMap<Arc<str>, Reference>>,
}

/// The documents of what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Files by name, each with its text; none if all is described.
    pub files: Vec<(&'static str, String)>,
    /// The machines that they describe.
    pub nodes: Vec<NodeName>,
    /// Machines that are described already.
    pub known: usize,
    /// Machines that were found and are in none of them, and why.
    pub left_out: Vec<(Arc<str>, String)>,
    /// Rows of the table that are about no machine that was found.
    pub unused_rows: Vec<(Arc<str>, Arc<str>)>,
    /// Etcd clusters that they describe.
    pub etcd: Vec<ClusterName>,
    /// Etcd clusters that they do not describe, and why.
    pub etcd_left_out: Vec<(ClusterName, String)>,
    /// Fields that only a person can fill.
    pub questions: Vec<String>,
}

/// A machine that becomes a document.
#[derive(Clone, Debug)]
struct Machine<'a> {
    name: NodeName,
    found: &'a InventoryMachine,
    rack: Option<Arc<str>>,
    /// Its role, and the tags of a table.
    tags: BTreeSet<Arc<str>>,
    is_control_plane: bool,
    labels: BTreeMap<Arc<str>, Arc<str>>,
    /// The value by which it is told from any other machine.
    known_by: Option<(Kind, Arc<str>)>,
}

/// An etcd cluster that becomes a document.
#[derive(Clone, Debug)]
struct Cluster<'a> {
    name: ClusterName,
    members: Vec<EtcdMember>,
    credentials: Option<&'a BTreeMap<Arc<str>, Reference>>,
}

/// Makes documents of what was found.
#[must_use]
pub fn adopt(input: &AdoptInput<'_>) -> Adopted {
    let mut adopted = Adopted::default();
    for name in &input.inventory.unusable {
        let why = match name_problem(name) {
            Some(problem) => renamed(&format!("its name {problem}")),
            None => "several machines have this name".to_owned(),
        };
        adopted.left_out.push((name.clone(), why));
    }
    let mut members: BTreeMap<&ClusterName, Vec<(NodeName, &EtcdMemberSeen)>> = BTreeMap::new();
    let mut machines: BTreeMap<NodeName, Machine<'_>> = BTreeMap::new();
    let mut described: BTreeMap<Arc<str>, NodeName> = BTreeMap::new();
    let mut rows: BTreeSet<&str> = input.notes.names().map(|name| &**name).collect();
    for found in &input.inventory.machines {
        let (name, note) = named(found, input.notes);
        if let Some(note) = note {
            rows.remove(&*note.name);
        }
        let address = found.listed.controller.as_ref().map(|it| &it.1);
        if input.known.nodes.contains(&name)
            || address.is_some_and(|address| input.known.controllers.contains(address))
        {
            adopted.known += 1;
            described.insert(found.listed.name.clone(), name);
            continue;
        }
        if let Some(why) = found.not_in_use() {
            adopted.left_out.push((name.shared().clone(), why));
            continue;
        }
        if input.known.recorded.contains(&name) {
            let why = format!(
                "it has a record, and no document: restore that from git, or drop the record (`trueup apply forget {name}`) and \
                 adopt it then"
            );
            adopted.left_out.push((name.shared().clone(), why));
            continue;
        }
        if let Some(problem) = node_name_problem(name.as_str()) {
            adopted
                .left_out
                .push((found.listed.name.clone(), renamed(&problem)));
            continue;
        }
        if machines.contains_key(&name) {
            let why = format!("its name `{name}` is that of another machine; name both in a table");
            adopted.left_out.push((found.listed.name.clone(), why));
            continue;
        }
        described.insert(found.listed.name.clone(), name.clone());
        machines.insert(name.clone(), machine(name, found, note));
    }
    let unused = rows.into_iter().map(|name| {
        let place = format!("row {name} of the table");
        (
            Arc::from(place),
            Arc::from("it is about no machine that was found"),
        )
    });
    let left_out = input.notes.left_out();
    let left_out = left_out.map(|(place, why)| (Arc::from(place), Arc::from(why)));
    adopted.unused_rows = unused.chain(left_out).collect();
    for found in &input.inventory.machines {
        if let Some(name) = described.get(&found.listed.name) {
            for (cluster, member) in &found.listed.members {
                let of_cluster = members.entry(cluster).or_default();
                of_cluster.push((name.clone(), member));
            }
        }
    }
    let distinct = Distinct::of(input.inventory);
    for machine in machines.values_mut() {
        machine.known_by = distinct.value(machine.found);
    }
    let names: BTreeSet<&NodeName> = described.values().collect();
    let clusters = clusters(input, members, &names, &mut adopted);
    for cluster in &clusters {
        for member in &cluster.members {
            if let Some(machine) = machines.get_mut(&member.node) {
                machine.is_control_plane = true;
            }
        }
    }
    let machines: Vec<Machine<'_>> = machines.into_values().map(with_role).collect();
    adopted.nodes = machines
        .iter()
        .map(|machine| machine.name.clone())
        .collect();
    adopted.etcd = clusters
        .iter()
        .map(|cluster| cluster.name.clone())
        .collect();
    documents::write(input, &machines, &clusters, &mut adopted);
    adopted
}

/// The reason why a machine is left out that has no name for a node.
fn renamed(problem: &str) -> String {
    format!(
        "{problem}, so it cannot be the name of a node; give it one with `names` of the Backends document"
    )
}

/// The name of a machine, and what a table says of it: the table's, then the backend's, then its serial number.
fn named<'a>(found: &InventoryMachine, notes: &'a Notes) -> (NodeName, Option<&'a Note>) {
    let address = found.listed.controller.as_ref().map(|it| &*it.1);
    let identity = found.observed.identity.as_deref();
    let note = notes.about(&found.listed.name, address, identity);
    let serial = identity.and_then(|identity| identity.serial.as_deref());
    let name = match (note, address, serial) {
        (Some(note), _, _) => note.name.clone(),
        (None, Some(_), Some(serial)) => match slug(serial) {
            name if name_problem(&name).is_none() => Arc::from(name),
            _ => found.listed.name.clone(),
        },
        (None, _, _) => found.listed.name.clone(),
    };
    (NodeName::from(name), note)
}

/// A text as a part of a name: small letters, digits and single dashes.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.chars().take(40) {
        match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => slug.push(letter),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

fn machine<'a>(name: NodeName, found: &'a InventoryMachine, note: Option<&Note>) -> Machine<'a> {
    let node = found.observed.cluster.known().and_then(Option::as_ref);
    let labels = node.map_or_else(BTreeMap::new, |node| {
        let own = node.labels.iter().filter(|(key, _)| {
            !node.kept_labels.contains(*key) && !crate::design::RESERVED_LABELS.contains(&&***key)
        });
        own.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    });
    let has = |key: &str| node.is_some_and(|node| node.labels.contains_key(key));
    Machine {
        name,
        found,
        rack: note.and_then(|note| note.rack.clone()),
        tags: note.map_or_else(BTreeSet::new, |note| note.tags.clone()),
        is_control_plane: CONTROL_PLANE_LABELS.into_iter().any(has),
        labels,
        known_by: None,
    }
}

/// The values of identities, and how many machines have each.
struct Distinct(BTreeMap<(Kind, Arc<str>), usize>);

impl Distinct {
    fn of(inventory: &Inventory) -> Self {
        let mut counts = BTreeMap::new();
        for value in inventory.machines.iter().flat_map(values) {
            *counts.entry(value).or_default() += 1;
        }
        Self(counts)
    }

    /// The first value of a machine that no other one has: its UUID, else its serial number, else a MAC address.
    fn value(&self, found: &InventoryMachine) -> Option<(Kind, Arc<str>)> {
        let mut values = values(found);
        values.find(|value| value.0 != Kind::Provisioner && self.0.get(value) == Some(&1))
    }
}

/// The values by which a machine is known; a MAC address once.
fn values(found: &InventoryMachine) -> impl Iterator<Item = (Kind, Arc<str>)> {
    let mut identity = found
        .observed
        .identity
        .as_deref()
        .cloned()
        .unwrap_or_default();
    let listed = Identity::default().with_macs(found.listed.macs.iter().map(|mac| &**mac));
    identity.complete(&listed);
    let values = identity.values().map(|(kind, value)| (kind, value.clone()));
    values.collect::<Vec<_>>().into_iter()
}

/// The machine with the tag of its role.
fn with_role(mut machine: Machine<'_>) -> Machine<'_> {
    let role = match machine.is_control_plane {
        true => CONTROL_PLANE,
        false => WORKER,
    };
    machine.tags.insert(Arc::from(role));
    machine
}

/// The etcd clusters whose members are all known machines.
fn clusters<'a>(
    input: &AdoptInput<'a>,
    listed: BTreeMap<&ClusterName, Vec<(NodeName, &EtcdMemberSeen)>>,
    names: &BTreeSet<&NodeName>,
    adopted: &mut Adopted,
) -> Vec<Cluster<'a>> {
    let mut found: BTreeMap<ClusterName, Result<Vec<EtcdMember>, String>> = BTreeMap::new();
    for (cluster, mut members) in listed {
        members.sort();
        let members = members
            .iter()
            .map(|(node, seen)| member(node.clone(), seen));
        found.insert(cluster.clone(), members.collect());
    }
    for (cluster, seen) in &input.inventory.etcd {
        found.insert(cluster.clone(), asked(seen, names));
    }
    let mut clusters = Vec::new();
    for (name, members) in found {
        if input.known.etcd.contains(&name) {
            continue;
        }
        match members {
            Ok(members) => clusters.push(Cluster {
                credentials: input.credentials.get(&name),
                name,
                members,
            }),
            Err(why) => adopted.etcd_left_out.push((name, why)),
        }
    }
    clusters
}

/// The members of a cluster that was asked for by the address of one, each on the machine of its name.
fn asked(seen: &EtcdSeen, names: &BTreeSet<&NodeName>) -> Result<Vec<EtcdMember>, String> {
    let answers = seen.answers.values();
    let answer = answers.clone().find_map(Fact::known);
    let Some(answer) = answer else {
        let reasons = answers.filter_map(|answer| match answer {
            Fact::Known(_) => None,
            Fact::Unknown(reason) => Some(&**reason),
        });
        let reasons = reasons.chain(seen.invalid.values().map(|text| &**text));
        let reasons: Vec<&str> = reasons.collect();
        return Err(reasons.join("; "));
    };
    let on_machine = |seen: &EtcdMemberSeen| match names.get(&NodeName::from(seen.name.clone())) {
        Some(name) => member((*name).clone(), seen),
        None => Err(format!(
            "its member {} ({}) has the name of no machine that is described; write the cluster by hand",
            seen.id,
            seen.peer_urls.join(", ")
        )),
    };
    let mut members: Vec<&EtcdMemberSeen> = answer.members.iter().collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    members.into_iter().map(on_machine).collect()
}

fn member(node: NodeName, seen: &EtcdMemberSeen) -> Result<EtcdMember, String> {
    let (Some(peer_url), Some(client_url)) = (seen.peer_urls.first(), seen.client_urls.first())
    else {
        return Err(format!(
            "its member {} was added and never started",
            seen.id
        ));
    };
    Ok(EtcdMember {
        node,
        name: seen.name.clone(),
        peer_url: peer_url.clone(),
        client_url: client_url.clone(),
    })
}
