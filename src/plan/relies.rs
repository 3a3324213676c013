//! The facts that a plan relies on, read from observations in one way when it is made and when it is checked.
//!
//! Only facts that a step with an effect needs, and never what changes by itself (times, counts, sizes).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::etcd::{Clusters, of_cluster};
use super::item::Item;
use super::{Expectation, Relation, Reliance};
use crate::design::{Digest, EtcdCluster, NodeName};
use crate::guard::quorum;
use crate::lifecycle::ProvisionState;
use crate::observed::{Fact, NodePods, Observations, ObservedNode};
use crate::record::NodeRecord;
use crate::step::{Effect, EtcdRemoval, Step, StepIndex, StepKind};

/// What a subject that is a machine begins with.
const MACHINE: &str = "node/";

/// What a subject that is an etcd cluster begins with.
const ETCD: &str = "etcd/";

/// The machine that a subject is.
pub(super) fn machine(subject: &str) -> Option<&str> {
    subject.strip_prefix(MACHINE)
}

/// The etcd cluster that a subject is.
pub(super) fn etcd_cluster(subject: &str) -> Option<&str> {
    subject.strip_prefix(ETCD)
}

/// The facts about machines, in the order of their names.
pub(super) const FACTS: [&str; 8] = [
    "disks",
    "kubernetes-node",
    "labels",
    "maintenance",
    "power",
    "protected",
    "provision",
    "retired",
];

/// A fact of a subject as compact JSON, sorted where it is a list.
///
/// # Errors
///
/// Why it was not seen.
pub(super) fn fact(
    reliance: &Reliance,
    observations: &Observations,
    clusters: &[EtcdCluster],
) -> Result<String, String> {
    let (subject, fact) = (&*reliance.subject, &*reliance.what.fact);
    if let Some(name) = subject.strip_prefix(ETCD) {
        let cluster = clusters
            .iter()
            .find(|cluster| *cluster.name.as_str() == *name);
        let seen = observations.etcd.get(name);
        let (Some(cluster), Some(seen)) = (cluster, seen) else {
            return Err("it was not looked at".to_owned());
        };
        let standing = quorum::standing(cluster, seen);
        let standing = standing.ok_or_else(|| "no member of it answers".to_owned())?;
        return etcd_fact(&standing, fact).ok_or_else(|| "it is not there".to_owned());
    }
    let name = subject.strip_prefix(MACHINE).unwrap_or_default();
    if fact == LOCAL_DATA {
        let pods = observations.pods.get(name);
        let pods = pods.ok_or_else(|| "its pods were not looked at".to_owned())?;
        return local_data(pods).ok_or_else(|| "it is not there".to_owned());
    }
    let node = observations.node(name);
    let value = node.and_then(|node| seen(node, fact, &reliance.what.expected));
    value.ok_or_else(|| why_unseen(node, fact))
}

/// Why nothing of a machine could be seen.
pub(super) fn blind(subject: &str, observations: &Observations) -> Option<Arc<str>> {
    let node = observations.nodes.get(subject.strip_prefix(MACHINE)?)?;
    match (&node.provision, &node.power) {
        (Fact::Unknown(reason), Fact::Unknown(_)) => Some(reason.clone()),
        _ => None,
    }
}

/// What is looked at for facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The machines.
    pub machines: bool,
    /// The nodes of the cluster.
    pub cluster: bool,
    /// Their pods.
    pub pods: bool,
    /// The etcd clusters.
    pub etcd: bool,
}

/// What has to be looked at to tell whether some facts hold.
#[must_use]
pub fn sources<'a>(reliances: impl IntoIterator<Item = &'a Reliance>) -> Sources {
    let mut sources = Sources::default();
    for reliance in reliances {
        match &*reliance.what.fact {
            _ if reliance.subject.starts_with(ETCD) => sources.etcd = true,
            LOCAL_DATA => sources.pods = true,
            "kubernetes-node" | "labels" => sources.cluster = true,
            _ => sources.machines = true,
        }
    }
    sources
}

/// The fact that says whose data a drain loses.
const LOCAL_DATA: &str = "local-data";

/// The controllers, and pods without one, whose data a drain loses.
fn local_data(pods: &NodePods) -> Option<String> {
    let owners = pods.local_data.iter().map(|data| &data.owner);
    let uncontrolled = pods.uncontrolled.iter().map(|pod| &pod.uid);
    let all: BTreeSet<&Arc<str>> = owners.chain(uncontrolled).collect();
    json(&all)
}

fn etcd_fact(standing: &quorum::Standing, fact: &str) -> Option<String> {
    match fact {
        "cluster-id" => json(&standing.cluster_id),
        "voters" => json(&standing.voters),
        "learners" => json(&standing.learners),
        "alarms" => json(&standing.alarms),
        "healthy" => json(&standing.healthy.len()),
        _ => None,
    }
}

/// The facts about the etcd clusters that lose members, for the first step that removes one: those after
/// it find what it left, and are judged by the guard alone.
pub(super) fn etcd(
    items: &BTreeMap<&NodeName, &Item<'_>>,
    steps: &[Step],
    clusters: &Clusters<'_>,
    result: &mut Vec<Reliance>,
) {
    for watched in clusters.all() {
        let (cluster, Some(seen)) = (&watched.cluster, watched.seen) else {
            continue;
        };
        let is_of = |removal: &EtcdRemoval| removal.cluster == cluster.name;
        let first = steps.iter().position(|step| {
            let parameters = step.parameters.as_ref();
            step.id.kind == StepKind::RemoveEtcd
                && parameters.is_some_and(|all| all.etcd_members.iter().any(is_of))
        });
        let (Some(first), Some(standing)) = (first, quorum::standing(cluster, seen)) else {
            continue;
        };
        // All that do not come back, and the neediest of those that do.
        let (mut gone, mut needed) = (Vec::new(), 0);
        for item in items.values() {
            let Some(leave) = &item.work.leave else {
                continue;
            };
            let removals = of_cluster(&leave.etcd, &cluster.name);
            if item.comes_back() {
                needed = needed.max(quorum::needed(cluster, seen, &removals));
            } else {
                gone.extend(removals);
            }
        }
        if !gone.is_empty() {
            needed = needed.max(quorum::needed(cluster, seen, &gone));
        }
        let subject: Arc<str> = Arc::from(format!("{ETCD}{}", cluster.name));
        for fact in ["alarms", "cluster-id", "healthy", "learners", "voters"] {
            let (expected, relation) = if fact == "healthy" {
                (json(&needed), Relation::AtLeast)
            } else {
                (etcd_fact(&standing, fact), Relation::Equal)
            };
            let Some(expected) = expected else {
                continue;
            };
            result.push(Reliance {
                subject: subject.clone(),
                what: Arc::new(Expectation {
                    fact: Arc::from(fact),
                    expected: Arc::from(expected),
                    relation,
                }),
                steps: [StepIndex::from_position(first)].into(),
            });
        }
    }
}

/// A fact as compact JSON, sorted where it is a list; `None` where it was not seen. `like` is the
/// expected value, which says which labels and disks are meant.
fn seen(node: &ObservedNode, fact: &str, like: &str) -> Option<String> {
    match fact {
        "provision" => node.provision.known().and_then(json),
        "power" => node.power.known().and_then(json),
        "retired" => json(&node.retired),
        "maintenance" => json(&node.maintenance),
        "protected" => json(&node.protected),
        "disks" => serials(node, |_| true),
        "kubernetes-node" => {
            let cluster = node.cluster.known()?;
            json(&cluster.as_ref().map(|cluster| &cluster.uid))
        }
        "labels" => {
            let expected: BTreeMap<Arc<str>, Option<Arc<str>>> = serde_json::from_str(like).ok()?;
            labels(node, expected.keys())
        }
        _ => None,
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn serials(node: &ObservedNode, wanted: impl Fn(&Arc<str>) -> bool) -> Option<String> {
    let disks = node.disks.known()?.iter();
    let mut serials: Vec<_> = disks
        .filter(|disk| wanted(&disk.name))
        .map(|disk| &disk.serial)
        .collect();
    serials.sort_unstable();
    json(&serials)
}

fn labels<'k>(node: &ObservedNode, keys: impl Iterator<Item = &'k Arc<str>>) -> Option<String> {
    let cluster = node.cluster.known()?.as_ref()?;
    let values: BTreeMap<_, _> = keys.map(|key| (key, cluster.labels.get(key))).collect();
    json(&values)
}

/// All facts that the steps rely on, sorted.
pub(super) fn all<'a>(
    items: &BTreeMap<&'a NodeName, &'a Item<'a>>,
    steps: &[Step],
    clusters: &Clusters<'_>,
    observed: bool,
) -> Vec<Reliance> {
    let mut of_node: FxHashMap<&NodeName, Vec<StepIndex>> = FxHashMap::default();
    for (index, step) in steps.iter().enumerate() {
        if let Some(node) = &step.id.node
            && step.effect != Effect::None
        {
            of_node
                .entry(node)
                .or_default()
                .push(StepIndex(index as u32));
        }
    }
    let mut words = Words::default();
    let mut result = Vec::with_capacity(FACTS.len() * of_node.len());
    for (name, item) in items {
        let Some(indexes) = of_node.get(name) else {
            continue;
        };
        let subject: Arc<str> = Arc::from(format!("{MACHINE}{name}"));
        let drains = |index: &&StepIndex| steps[index.0 as usize].id.kind == StepKind::Drain;
        let drain = indexes.iter().find(drains).copied();
        match item.subject.seen.node() {
            Some(node) => of_machine(
                &mut words,
                &subject,
                node,
                item,
                steps,
                indexes,
                &mut result,
            ),
            // Nobody looked. What is built must at least not stand on what is there already.
            None if !observed && item.work.deploy && !item.work.tears_down() => {
                result.push(Reliance {
                    subject,
                    what: words.not_deployed.clone(),
                    steps: indexes[..].into(),
                })
            }
            None => {}
        }
        if let (Some(drain), Some(pods)) = (drain, item.subject.pods)
            && let Some(expected) = local_data(pods)
        {
            result.push(Reliance {
                subject: Arc::from(format!("{MACHINE}{name}")),
                what: words.expect(LOCAL_DATA, expected, Relation::Subset),
                steps: [drain].into(),
            });
        }
    }
    etcd(items, steps, clusters, &mut result);
    result.sort_unstable();
    result.shrink_to_fit();
    result
}

/// How many expectations are shared.
const SHARED: usize = 64;

/// What is expected of many machines alike.
struct Words {
    facts: [Arc<str>; FACTS.len()],
    not_deployed: Arc<Expectation>,
    expectations: FxHashSet<Arc<Expectation>>,
}

impl Default for Words {
    fn default() -> Self {
        let not_deployed = [
            ProvisionState::Enroll,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
            ProvisionState::DeployFailed,
            ProvisionState::Error,
        ];
        Self {
            facts: FACTS.map(Arc::from),
            not_deployed: Arc::new(Expectation {
                fact: Arc::from("provision"),
                expected: Arc::from(json(&not_deployed).unwrap_or_default()),
                relation: Relation::Subset,
            }),
            expectations: FxHashSet::default(),
        }
    }
}

impl Words {
    fn expect(&mut self, fact: &str, expected: String, relation: Relation) -> Arc<Expectation> {
        let known = self.facts.iter().find(|known| ***known == *fact);
        let expectation = Expectation {
            fact: known.cloned().unwrap_or_else(|| Arc::from(fact)),
            expected: Arc::from(expected),
            relation,
        };
        if let Some(known) = self.expectations.get(&expectation) {
            return known.clone();
        }
        let expectation = Arc::new(expectation);
        // What comes after that many is of one machine alone.
        if self.expectations.len() < SHARED {
            self.expectations.insert(expectation.clone());
        }
        expectation
    }
}

fn of_machine(
    words: &mut Words,
    subject: &Arc<str>,
    node: &ObservedNode,
    item: &Item<'_>,
    steps: &[Step],
    indexes: &[StepIndex],
    result: &mut Vec<Reliance>,
) {
    // Nearly all facts of a machine are for the same steps.
    let mut lists: Vec<Arc<[StepIndex]>> = Vec::new();
    let mut of_kind = |kinds: &[StepKind]| -> Arc<[StepIndex]> {
        let is = |index: &&StepIndex| kinds.contains(&steps[index.0 as usize].id.kind);
        let found = indexes.iter().filter(is);
        if let Some(known) = lists.iter().find(|list| list.iter().eq(found.clone())) {
            return known.clone();
        }
        let list: Arc<[StepIndex]> = found.copied().collect();
        lists.push(list.clone());
        list
    };
    // What a node's first step changes, its later steps cannot rely on.
    let first = match &item.work {
        work if work.destroy => StepKind::Destroy,
        work if work.prepare => StepKind::Prepare,
        _ => StepKind::Deploy,
    };
    let touching = [
        StepKind::Relabel,
        StepKind::PowerOn,
        StepKind::SetRetired,
        StepKind::UnsetRetired,
        StepKind::PowerOff,
        StepKind::Remediate,
        StepKind::Manage,
        StepKind::Provide,
        StepKind::Clean,
        StepKind::SetMaintenance,
        StepKind::UnsetMaintenance,
        first,
    ];
    // Of several steps on its node in the cluster, each says itself which node it means.
    let in_cluster = match &item.work.leave {
        Some(leave) if leave.node_uid.is_some() => StepKind::Drain,
        _ => first,
    };
    for fact in FACTS {
        let kinds: &[StepKind] = match fact {
            "disks" if item.work.cleaning.as_ref().is_some_and(|all| all.erases()) => &[
                StepKind::Destroy,
                StepKind::Prepare,
                StepKind::Deploy,
                StepKind::Provide,
                StepKind::Clean,
            ],
            "disks" => &[StepKind::Destroy, StepKind::Deploy],
            // Whether it is free is told by its being off.
            "power" if node.kept_by_records && !item.work.destroy => {
                &[StepKind::PowerOn, StepKind::Prepare, StepKind::Deploy]
            }
            "power" => &[StepKind::PowerOn],
            "labels" => &[StepKind::Relabel],
            "kubernetes-node" => &[StepKind::Relabel, StepKind::Remediate, in_cluster],
            "retired" if item.work.unset_retired => &[StepKind::UnsetRetired],
            _ => &touching,
        };
        let steps = of_kind(kinds);
        let expected = match fact {
            "labels" => item.work.relabel.as_ref().and_then(|parameters| {
                let set = parameters.set_labels.iter().map(|(key, _)| key);
                labels(node, set.chain(&parameters.remove_labels))
            }),
            _ => seen(node, fact, ""),
        };
        if steps.is_empty() {
            continue;
        }
        let Some(expected) = expected else {
            continue;
        };
        result.push(Reliance {
            subject: subject.clone(),
            what: words.expect(fact, expected, Relation::Equal),
            steps,
        });
    }
}

/// Whether what is seen stands to what was expected as it should.
pub(super) fn holds(relation: Relation, expected: &str, seen: &str) -> bool {
    use serde_json::Value;
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    match relation {
        Relation::Equal => expected == seen,
        Relation::Subset => match (parse(expected), parse(seen)) {
            (Some(Value::Array(all)), Some(Value::Array(some))) => {
                some.iter().all(|each| all.contains(each))
            }
            (Some(Value::Array(all)), Some(one)) => all.contains(&one),
            _ => false,
        },
        Relation::AtMost | Relation::AtLeast => {
            let number = |text: &str| parse(text).and_then(|value| value.as_f64());
            match (number(expected), number(seen)) {
                (Some(expected), Some(seen)) if relation == Relation::AtMost => seen <= expected,
                (Some(expected), Some(seen)) => seen >= expected,
                _ => false,
            }
        }
    }
}

/// The digest of the records of the nodes that some steps are about, the missing ones as missing.
#[must_use]
pub fn records_digest(steps: &[Step], records: &BTreeMap<NodeName, NodeRecord>) -> Digest {
    let mut nodes: Vec<&NodeName> = steps
        .iter()
        .filter_map(|step| step.id.node.as_ref())
        .collect();
    // The steps of a group stand one after the other: a stable sort merges what is sorted already.
    nodes.sort();
    nodes.dedup();
    let mut text = Vec::new();
    let mut hash = Sha256::new();
    for node in nodes {
        text.clear();
        // Writing a record to memory cannot fail; what is written is its line in the state.
        match records.get(node) {
            Some(record) => serde_json::to_writer(&mut text, record).unwrap_or_default(),
            None => text.extend_from_slice(node.as_str().as_bytes()),
        }
        text.push(b'\n');
        hash.update(&text);
    }
    HEXLOWER.encode(&hash.finalize()).into()
}

/// Facts of a machine that are known, for the sentence about one that is not.
fn why_unseen(node: Option<&ObservedNode>, fact: &str) -> String {
    let Some(node) = node else {
        return "it was not looked at".to_owned();
    };
    let reason = match fact {
        "provision" => unknown(&node.provision),
        "power" => unknown(&node.power),
        "disks" => unknown(&node.disks),
        _ => unknown(&node.cluster),
    };
    reason.unwrap_or("it is not there").to_owned()
}

fn unknown<T>(fact: &Fact<T>) -> Option<&str> {
    match fact {
        Fact::Known(_) => None,
        Fact::Unknown(reason) => Some(reason),
    }
}
