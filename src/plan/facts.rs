//! Reads the facts that a plan relies on from observed state, in one way when it is made and when it is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::fact::{FactName, FactSubject};
use super::{Precondition, Relation};
use crate::design::EtcdCluster;
use crate::guard::quorum;
use crate::observed::{Fact, NodePods, Observations, ObservedNode};

/// A fact of a subject as compact JSON, sorted if it is a list.
///
/// # Errors
///
/// Why it was not seen.
pub(super) fn read(
    precondition: &Precondition,
    observations: &Observations,
    clusters: &[EtcdCluster],
) -> Result<String, String> {
    let fact = precondition.what.fact;
    let name = match &precondition.subject {
        FactSubject::Node(name) => name,
        FactSubject::Etcd(name) => {
            let cluster = clusters.iter().find(|cluster| cluster.name == *name);
            let seen = observations.etcd.get(name);
            let (Some(cluster), Some(seen)) = (cluster, seen) else {
                return Err("it was not observed".to_owned());
            };
            let standing = quorum::standing(cluster, seen);
            let standing = standing.ok_or_else(|| "no member of it answers".to_owned())?;
            return of_etcd(&standing, fact).ok_or_else(|| "not found".to_owned());
        }
    };
    if fact == FactName::LocalData {
        let pods = observations.pods.get(name);
        let pods = pods.ok_or_else(|| "its pods were not observed".to_owned())?;
        return local_data(pods).ok_or_else(|| "not found".to_owned());
    }
    let node = observations.node(name.as_str());
    let value = node.and_then(|node| seen(node, fact, &precondition.what.expected));
    value.ok_or_else(|| why_unseen(node, fact))
}

/// Why a machine could not be observed.
pub(super) fn blind(subject: &FactSubject, observations: &Observations) -> Option<Arc<str>> {
    let node = observations.nodes.get(subject.node()?)?;
    match (&node.provision, &node.power) {
        (Fact::Unknown(reason), Fact::Unknown(_)) => Some(reason.clone()),
        _ => None,
    }
}

/// The sources that facts are observed from.
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

/// The sources to observe to judge some facts.
#[must_use]
pub fn sources<'a>(preconditions: impl IntoIterator<Item = &'a Precondition>) -> Sources {
    let mut sources = Sources::default();
    for precondition in preconditions {
        match (&precondition.subject, precondition.what.fact) {
            (FactSubject::Etcd(_), _) => sources.etcd = true,
            (_, FactName::LocalData) => sources.pods = true,
            (_, FactName::KubernetesNode | FactName::Labels) => sources.cluster = true,
            _ => sources.machines = true,
        }
    }
    sources
}

/// The controllers, and pods without one, whose data a drain loses.
pub(super) fn local_data(pods: &NodePods) -> Option<String> {
    let owners = pods.local_data.iter().map(|data| &data.owner);
    let uncontrolled = pods.uncontrolled.iter().map(|pod| &pod.uid);
    let all: BTreeSet<&Arc<str>> = owners.chain(uncontrolled).collect();
    json(&all)
}

/// A fact of an etcd cluster.
pub(super) fn of_etcd(standing: &quorum::EtcdFacts, fact: FactName) -> Option<String> {
    match fact {
        FactName::ClusterId => json(&standing.cluster_id),
        FactName::Voters => json(&standing.voters),
        FactName::Learners => json(&standing.learners),
        FactName::Alarms => json(&standing.alarms),
        FactName::Healthy => json(&standing.healthy.len()),
        _ => None,
    }
}

/// A fact as compact JSON, sorted if it is a list; `None` if it was not seen. `like` is the
/// expected value, which names the labels and disks that are meant.
pub(super) fn seen(node: &ObservedNode, fact: FactName, like: &str) -> Option<String> {
    match fact {
        FactName::Provision => node.provision.known().and_then(json),
        FactName::Power => node.power.known().and_then(json),
        FactName::Retired => json(&node.retired),
        FactName::Maintenance => json(&node.maintenance),
        FactName::Protected => json(&node.protected),
        FactName::Disks => serials(node, |_| true),
        FactName::KubernetesNode => {
            let cluster = node.cluster.known()?;
            json(&cluster.as_ref().map(|cluster| &cluster.uid))
        }
        FactName::Labels => {
            let expected: BTreeMap<Arc<str>, Option<Arc<str>>> = serde_json::from_str(like).ok()?;
            labels(node, expected.keys())
        }
        _ => None,
    }
}

pub(super) fn json(value: &(impl Serialize + ?Sized)) -> Option<String> {
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

pub(super) fn labels<'k>(
    node: &ObservedNode,
    keys: impl Iterator<Item = &'k Arc<str>>,
) -> Option<String> {
    let cluster = node.cluster.known()?.as_ref()?;
    let values: BTreeMap<_, _> = keys.map(|key| (key, cluster.labels.get(key))).collect();
    json(&values)
}

/// Whether the observed value relates to the expected one as required.
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

/// Facts of a machine that are known, for the sentence about one that is not.
fn why_unseen(node: Option<&ObservedNode>, fact: FactName) -> String {
    let Some(node) = node else {
        return "it was not observed".to_owned();
    };
    let reason = match fact {
        FactName::Provision => unknown(&node.provision),
        FactName::Power => unknown(&node.power),
        FactName::Disks => unknown(&node.disks),
        _ => unknown(&node.cluster),
    };
    reason.unwrap_or("not found").to_owned()
}

fn unknown<T>(fact: &Fact<T>) -> Option<&str> {
    match fact {
        Fact::Known(_) => None,
        Fact::Unknown(reason) => Some(reason),
    }
}
