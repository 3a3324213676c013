//! The facts that the steps of a plan rely on.
//!
//! Only facts that a step with an effect needs, and never what changes by itself (times, counts, sizes).

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest as _, Sha256};

use super::etcd::{Clusters, of_cluster};
use super::fact::{FactName, FactSubject};
use super::facts::{self, json};
use super::item::Item;
use super::work::NodeWork;
use super::{Expectation, Precondition, Relation};
use crate::design::{Digest, EtcdCluster, NodeName};
use crate::guard::quorum;
use crate::lifecycle::ProvisionState;
use crate::observed::{EtcdSeen, ObservedNode};
use crate::record::NodeRecord;
use crate::step::{Effect, EtcdRemoval, Step, StepIndex, StepKind};

/// All facts that the steps rely on, sorted.
pub(super) fn all<'a>(
    items: &BTreeMap<&'a NodeName, &'a Item<'a>>,
    steps: &[Step],
    clusters: &Clusters<'_>,
    observed: bool,
) -> Vec<Precondition> {
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
    let mut gathered = Gathered::new(steps, FactName::OF_MACHINE.len() * of_node.len());
    for (name, item) in items {
        let Some(indexes) = of_node.get(name) else {
            continue;
        };
        match item.subject.seen.node() {
            Some(node) => gathered.machine(item, node, indexes),
            // Not observed. A new system must at least not overwrite one that is there already.
            None if !observed && item.work.deploy && !item.work.tears_down() => {
                let what = gathered.not_deployed.clone();
                gathered.add(item, what, indexes[..].into());
            }
            None => {}
        }
        let drains = |index: &&StepIndex| steps[index.0 as usize].id.kind == StepKind::Drain;
        if let (Some(drain), Some(pods)) = (indexes.iter().find(drains), item.subject.pods)
            && let Some(expected) = facts::local_data(pods)
        {
            let what = gathered.expect(FactName::LocalData, expected, Relation::Subset);
            gathered.add(item, what, [*drain].into());
        }
    }
    let mut result = gathered.result;
    result.extend(etcd(items, steps, clusters));
    result.sort_unstable();
    result.shrink_to_fit();
    result
}

/// How many expectations are shared.
const SHARED: usize = 64;

/// Preconditions of steps on machines, as far as they are gathered.
struct Gathered<'s> {
    steps: &'s [Step],
    not_deployed: Arc<Expectation>,
    /// Expectations that many machines share.
    expectations: FxHashSet<Arc<Expectation>>,
    result: Vec<Precondition>,
}

impl<'s> Gathered<'s> {
    fn new(steps: &'s [Step], most: usize) -> Self {
        let not_deployed = [
            ProvisionState::Enroll,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
            ProvisionState::DeployFailed,
            ProvisionState::Error,
        ];
        Self {
            steps,
            not_deployed: Arc::new(Expectation {
                fact: FactName::Provision,
                expected: Arc::from(json(&not_deployed).unwrap_or_default()),
                relation: Relation::Subset,
            }),
            expectations: FxHashSet::default(),
            result: Vec::with_capacity(most),
        }
    }

    fn expect(&mut self, fact: FactName, expected: String, relation: Relation) -> Arc<Expectation> {
        let expectation = Expectation {
            fact,
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

    fn add(&mut self, item: &Item<'_>, what: Arc<Expectation>, steps: Arc<[StepIndex]>) {
        self.result.push(Precondition {
            subject: FactSubject::Node(item.subject.name.clone()),
            what,
            steps,
        });
    }

    /// Adds what the steps on a machine rely on.
    fn machine(&mut self, item: &Item<'_>, node: &ObservedNode, indexes: &[StepIndex]) {
        // Nearly all facts of a machine are for the same steps.
        let mut lists: Vec<Arc<[StepIndex]>> = Vec::new();
        for fact in FactName::OF_MACHINE {
            let is = |index: &&StepIndex| {
                let kind = self.steps[index.0 as usize].id.kind;
                needs(kind, fact, node, &item.work)
            };
            let found = indexes.iter().filter(is);
            if found.clone().next().is_none() {
                continue;
            }
            let known = lists.iter().find(|list| list.iter().eq(found.clone()));
            let steps = match known {
                Some(known) => known.clone(),
                None => {
                    let list: Arc<[StepIndex]> = found.copied().collect();
                    lists.push(list.clone());
                    list
                }
            };
            let expected = match fact {
                FactName::Labels => item.work.relabel.as_ref().and_then(|parameters| {
                    let set = parameters.set_labels.iter().map(|(key, _)| key);
                    facts::labels(node, set.chain(&parameters.remove_labels))
                }),
                _ => facts::seen(node, fact, ""),
            };
            if let Some(expected) = expected {
                let what = self.expect(fact, expected, Relation::Equal);
                self.add(item, what, steps);
            }
        }
    }
}

/// Whether a step of a kind needs a fact about its machine.
fn needs(kind: StepKind, fact: FactName, node: &ObservedNode, work: &NodeWork) -> bool {
    use StepKind as S;
    // What a node's first step changes, its later steps cannot rely on.
    let first = match work {
        work if work.destroy => S::Destroy,
        work if work.prepare => S::Prepare,
        work if work.restarts() => S::Service,
        _ => S::Deploy,
    };
    // A machine whose erase would be refused is not taken out of service for it.
    let leaves_first = kind == S::Drain && first == S::Destroy;
    match fact {
        FactName::Disks => {
            let erases = work.cleaning.as_ref().is_some_and(|all| all.erases());
            matches!(kind, S::Destroy | S::Deploy)
                || leaves_first
                || erases && matches!(kind, S::Prepare | S::Provide | S::Clean)
        }
        FactName::Power => {
            // Whether it is free is told by its being off.
            let tells_free = node.kept_by_records && !work.destroy;
            kind == S::PowerOn || tells_free && matches!(kind, S::Prepare | S::Deploy)
        }
        FactName::Labels => kind == S::Relabel,
        FactName::KubernetesNode => {
            // Of several steps on its node in the cluster, each says itself which node it means.
            let in_cluster = match &work.leave {
                Some(leave) if leave.node_uid.is_some() => S::Drain,
                _ => first,
            };
            kind == in_cluster || matches!(kind, S::Relabel | S::Remediate)
        }
        FactName::Retired if work.unset_retired => kind == S::UnsetRetired,
        _ => {
            let is_by_itself = matches!(
                kind,
                S::Relabel
                    | S::ServiceLive
                    | S::PowerOn
                    | S::Lock
                    | S::SetRetired
                    | S::UnsetRetired
                    | S::PowerOff
                    | S::Remediate
                    | S::Manage
                    | S::Provide
                    | S::Clean
                    | S::RotateBmcPassword
                    | S::SetMaintenance
                    | S::UnsetMaintenance
            );
            kind == first || leaves_first || is_by_itself
        }
    }
}

/// The facts about the etcd clusters that lose members, for the first step that removes one: those after
/// it find what it left, and are judged by the guard alone.
fn etcd(
    items: &BTreeMap<&NodeName, &Item<'_>>,
    steps: &[Step],
    clusters: &Clusters<'_>,
) -> Vec<Precondition> {
    let mut result = Vec::new();
    for watched in clusters.all() {
        let (cluster, Some(seen)) = (&watched.cluster, watched.seen) else {
            continue;
        };
        let is_of = |removal: &EtcdRemoval| removal.cluster == cluster.name;
        let removes = |step: &Step| {
            step.id.kind == StepKind::RemoveEtcd && step.given().etcd_members().iter().any(is_of)
        };
        // A machine whose member has left already is taken away behind a check alone.
        let checks = |step: &Step| {
            let is_here =
                |node: &NodeName| cluster.members.iter().any(|member| member.node == *node);
            step.id.kind == StepKind::CheckEtcd && step.id.node.as_ref().is_some_and(is_here)
        };
        let removal = steps.iter().position(removes);
        let first = removal.or_else(|| steps.iter().position(checks));
        let (Some(first), Some(standing)) = (first, quorum::standing(cluster, seen)) else {
            continue;
        };
        let needed = needed(items, cluster, seen);
        let facts = FactName::OF_ETCD.into_iter();
        let relied_on = facts.filter(|fact| removal.is_some() || *fact == FactName::Voters);
        for fact in relied_on {
            let (expected, relation) = match fact {
                FactName::Healthy => (json(&needed), Relation::AtLeast),
                _ => (facts::of_etcd(&standing, fact), Relation::Equal),
            };
            let Some(expected) = expected else {
                continue;
            };
            result.push(Precondition {
                subject: FactSubject::Etcd(cluster.name.clone()),
                what: Arc::new(Expectation {
                    fact,
                    expected: Arc::from(expected),
                    relation,
                }),
                steps: [StepIndex::from_position(first)].into(),
            });
        }
    }
    result
}

/// How many healthy voters a cluster must have: for all that do not come back, and for the neediest of those that do.
fn needed(items: &BTreeMap<&NodeName, &Item<'_>>, cluster: &EtcdCluster, seen: &EtcdSeen) -> usize {
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
    match gone.is_empty() {
        true => needed,
        false => needed.max(quorum::needed(cluster, seen, &gone)),
    }
}

/// The nodes on whose records a plan with some steps relies, sorted: those that its steps are about, and those whose soak is owed,
/// since a plan that was made before a soak failed lacks it.
pub(super) fn recorded_nodes<'s>(
    steps: &'s [Step],
    records: &'s BTreeMap<NodeName, NodeRecord>,
) -> Vec<&'s NodeName> {
    let of_step = |step: &'s Step| -> [Option<&'s NodeName>; 2] {
        [step.id.node.as_ref(), step.given().renamed_from().as_ref()]
    };
    let owing = records.values().filter(|record| record.soaking.is_some());
    let owing = owing.map(|record| &record.node);
    let mut nodes: Vec<&NodeName> = steps.iter().flat_map(of_step).flatten().collect();
    nodes.extend(owing.chain(steps.iter().flat_map(Step::soaked)));
    // The steps of a group stand one after the other: a stable sort merges what is sorted already.
    nodes.sort();
    nodes.dedup();
    nodes
}

/// The digest of the records on which a plan with some steps relies, the missing ones as missing.
#[must_use]
pub fn records_digest<'s>(
    steps: &'s [Step],
    records: &'s BTreeMap<NodeName, NodeRecord>,
) -> Digest {
    let mut text = Vec::new();
    let mut hash = Sha256::new();
    for node in recorded_nodes(steps, records) {
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
