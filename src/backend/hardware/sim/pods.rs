//! The pods of a simulated node, what holds a drain of it up, and how the drain goes.
//!
//! Pods are not kept in the file: they follow from the settings and the UID of their node, less those
//! that are gone. A pod's UID changes with its node, and when pods come back after a drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::cluster_settings::{Budget, ClusterSettings, PodData, PodKind, Workload};
use super::ledger::{Effect, Stage};
use super::machine::{Machine, hexadecimal, uuid_of};
use crate::design::{DrainBehavior, NodeName, RunId};
use crate::observed::{Attachment, BlockedBudget, LocalData, NodePods, PodName};
use crate::step::{FailureReason, OnDrainTimeout, StepKind};

/// A pod that is there.
struct Pod<'a> {
    name: PodName,
    workload: &'a Workload,
}

/// The pods of a node that are there, by name.
fn pods_of<'a>(settings: &'a ClusterSettings, node: &NodeName, machine: &Machine) -> Vec<Pod<'a>> {
    let Some(cluster) = &machine.cluster else {
        return Vec::new();
    };
    let mut pods = Vec::new();
    for workload in settings.pods.iter().filter(|each| each.nodes.fit(node)) {
        for number in 1..=workload.count {
            let name: Arc<str> = Arc::from(format!("{}-{node}-{number}", workload.name));
            let since = match workload.kind.stays() {
                true => String::new(),
                false => machine.pods.since.to_string(),
            };
            let uid = uuid_of([&*cluster.uid, &*since, &*workload.namespace, &*name]);
            if !machine.pods.gone.contains(&uid) {
                let namespace = workload.namespace.clone();
                let name = PodName {
                    namespace,
                    name,
                    uid,
                };
                pods.push(Pod { name, workload });
            }
        }
    }
    pods.sort_by(|one, other| one.name.cmp(&other.name));
    pods
}

/// The healthy pods of each budget of the settings, in their order, over all nodes: what is evicted
/// starts elsewhere. `nodes`: those that are in the cluster.
pub(super) fn healthy<'a>(
    settings: &ClusterSettings,
    nodes: impl Iterator<Item = &'a NodeName>,
) -> Vec<u64> {
    let mut counts = vec![0; settings.budgets.len()];
    if counts.is_empty() {
        return counts;
    }
    for node in nodes {
        for workload in settings.pods.iter().filter(|each| each.nodes.fit(node)) {
            for (budget, count) in settings.budgets.iter().zip(&mut counts) {
                if budget.holds(workload) {
                    *count += workload.count;
                }
            }
        }
    }
    counts
}

/// The times from and until which another drain keeps a pod of a budget away: it is evicted, and not yet elsewhere.
pub(super) type Absence = (u64, u64);

/// The pods of each budget of the settings, in their order, that running drains of other nodes keep away at some time
/// after `now`: what one process evicts counts for all.
pub(super) fn absences<'a>(
    settings: &ClusterSettings,
    others: impl Iterator<Item = (&'a NodeName, &'a Machine)>,
    now: u64,
) -> Vec<Vec<Absence>> {
    let mut absences = vec![Vec::new(); settings.budgets.len()];
    if absences.is_empty() {
        return absences;
    }
    for (node, machine) in others {
        let Some(operation) = &machine.operation else {
            continue;
        };
        let pods = pods_of(settings, node, machine);
        for stage in operation.stages.iter().filter(|stage| stage.at > now) {
            let Effect::Evicted(evicted) = &stage.effect else {
                continue;
            };
            let Some(pod) = pods.iter().find(|pod| pod.name == **evicted) else {
                continue;
            };
            let wait = pod.workload.ends_after.unwrap_or_default();
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            for (budget, absences) in settings.budgets.iter().zip(&mut absences) {
                if budget.holds(pod.workload) {
                    absences.push((stage.at.saturating_sub(wait), stage.at));
                }
            }
        }
    }
    absences
}

/// The first time, from `now` on, at which fewer pods are away than a budget allows.
fn allowed_from(absences: &[Absence], now: u64, allowed: u64) -> u64 {
    let is_free = |at: u64| {
        let away = absences
            .iter()
            .filter(|(from, until)| *from <= at && at < *until);
        (away.count() as u64) < allowed
    };
    let ends = absences.iter().map(|(_, until)| *until);
    let times = ends.filter(|until| *until > now).chain([now]);
    times.filter(|at| is_free(*at)).min().unwrap_or(now)
}

/// The number of evictions that a budget allows at once.
fn allowed(budget: &Budget, healthy: u64) -> u64 {
    healthy.saturating_sub(budget.min_available.unwrap_or(healthy))
}

/// The forecast of a drain of a node; `healthy`: as [`healthy`] counts.
pub(super) fn forecast(
    settings: &ClusterSettings,
    node: &NodeName,
    machine: &Machine,
    healthy: &[u64],
) -> NodePods {
    let pods = pods_of(settings, node, machine);
    let mut seen = NodePods {
        mirror: machine.members.len(),
        runs_etcd: !machine.members.is_empty(),
        ..NodePods::default()
    };
    let mut data: BTreeMap<(Arc<str>, Arc<str>), usize> = BTreeMap::new();
    for pod in &pods {
        match settings.leaves(pod.workload) {
            None if !pod.workload.kind.stays() => {
                seen.skipped.push(pod.name.clone());
                continue;
            }
            Some((DrainBehavior::WaitCompleted, _)) => {
                seen.awaited.push(pod.name.clone());
                continue;
            }
            _ => {}
        }
        match pod.workload.kind {
            PodKind::DaemonSet => seen.daemon_set += 1,
            PodKind::Static => seen.mirror += 1,
            PodKind::Finished => seen.finished += 1,
            PodKind::Uncontrolled => {
                seen.evicted += 1;
                seen.uncontrolled.push(pod.name.clone());
            }
            PodKind::Deployment | PodKind::StatefulSet => seen.evicted += 1,
        }
        let kind = match pod.workload.data {
            Some(PodData::EmptyDir) => "emptyDir",
            Some(PodData::LocalVolume) => LocalData::VOLUME,
            Some(PodData::AttachedVolume) | None => continue,
        };
        if !pod.workload.kind.stays() {
            *data.entry((owner(pod), Arc::from(kind))).or_default() += 1;
        }
    }
    seen.local_data = data
        .into_iter()
        .map(|((owner, kind), pods)| LocalData { owner, kind, pods })
        .collect();
    for (budget, healthy) in settings.budgets.iter().zip(healthy) {
        let held: Vec<Arc<str>> = pods
            .iter()
            .filter(|pod| is_held(settings, budget, pod))
            .map(|pod| pod.name.name.clone())
            .collect();
        if !held.is_empty() && allowed(budget, *healthy) == 0 {
            let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            seen.blocked.push(BlockedBudget {
                namespace: budget.namespace.clone(),
                name: budget.name.clone(),
                pods: held,
                healthy: count(*healthy),
                wanted: count(budget.min_available.unwrap_or(*healthy)),
            });
        }
    }
    seen.blocked.sort();
    seen
}

/// Whether a budget holds up the eviction of a pod.
fn is_held(settings: &ClusterSettings, budget: &Budget, pod: &Pod<'_>) -> bool {
    let leaves = settings.leaves(pod.workload);
    let is_evicted = leaves.is_some_and(|(behavior, _)| behavior == DrainBehavior::Drain);
    is_evicted && budget.holds(pod.workload)
}

/// The controller of a pod; the pod's UID if it has none.
fn owner(pod: &Pod<'_>) -> Arc<str> {
    let kind = match pod.workload.kind {
        PodKind::Deployment => "Deployment",
        PodKind::StatefulSet => "StatefulSet",
        PodKind::DaemonSet => "DaemonSet",
        PodKind::Finished => "Job",
        PodKind::Static => "Node",
        PodKind::Uncontrolled => return pod.name.uid.clone(),
    };
    let Workload {
        namespace, name, ..
    } = pod.workload;
    Arc::from(format!("{kind} {namespace}/{name}"))
}

/// The volumes that the pods of a node have attached to it.
pub(super) fn attachments(
    settings: &ClusterSettings,
    node: &NodeName,
    machine: &Machine,
) -> Vec<Attachment> {
    let pods = pods_of(settings, node, machine);
    let attached = pods
        .iter()
        .filter(|pod| pod.workload.data == Some(PodData::AttachedVolume));
    let mut attachments: Vec<Attachment> = attached
        .map(|pod| Attachment {
            name: Arc::from(format!("csi-{}", &hexadecimal([&*pod.name.uid])[..16])),
            volume: Arc::from(format!("pv-{}", pod.name.name)),
        })
        .collect();
    attachments.sort();
    attachments
}

/// Pods that a drain would still evict or wait for, by name.
pub(super) fn left(settings: &ClusterSettings, node: &NodeName, machine: &Machine) -> Vec<PodName> {
    let pods = pods_of(settings, node, machine).into_iter();
    pods.filter(|pod| settings.leaves(pod.workload).is_some())
        .map(|pod| pod.name)
        .collect()
}

/// The request of a drain.
pub(super) struct Drain<'a> {
    pub(super) run: &'a RunId,
    /// Now, in milliseconds of the world's time.
    pub(super) now: u64,
    /// Seconds that pods are given to end.
    pub(super) grace: Option<u64>,
    /// Until when it has to have ended.
    pub(super) deadline: u64,
    pub(super) on_timeout: OnDrainTimeout,
    /// Whether the machine is gone for good: pods are not waited for.
    pub(super) is_gone: bool,
    /// The pods that drains of other nodes keep away, as [`absences`] finds them.
    pub(super) absences: &'a [Vec<Absence>],
}

/// How an operation goes: what happens on the way, when it ends (`None`: never), and with what.
pub(super) struct Course {
    pub(super) stages: Vec<Stage>,
    pub(super) ends: Option<u64>,
    pub(super) effects: Vec<Effect>,
}

fn after(at: u64, wait: Duration) -> u64 {
    at.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

impl Drain<'_> {
    /// The behavior towards the pods of a workload, and their order; `None`: they stay. Rules spare none of a machine that is
    /// gone.
    fn behavior(
        &self,
        settings: &ClusterSettings,
        pods: &Workload,
    ) -> Option<(DrainBehavior, i32)> {
        match self.is_gone {
            true => (!pods.kind.stays()).then_some((DrainBehavior::Drain, 0)),
            false => settings.leaves(pods),
        }
    }

    /// Works out how it goes, as [`healthy`] counts.
    pub(super) fn course(
        &self,
        settings: &ClusterSettings,
        node: &NodeName,
        machine: &Machine,
        healthy: &[u64],
    ) -> Course {
        let mut allowed: Vec<u64> = settings
            .budgets
            .iter()
            .zip(healthy)
            .map(|(budget, healthy)| allowed(budget, *healthy))
            .collect();
        let grace = self.grace.map(Duration::from_secs);
        let is_ready = machine.cluster.as_ref().is_some_and(|node| node.ready);
        let mut stages = Vec::new();
        let is_other = |by: &Arc<str>| **by != *self.run.as_str();
        let is_cordoned = machine.cluster.as_ref().is_some_and(|node| {
            node.unschedulable && !node.cordoned_by.as_ref().is_some_and(is_other)
        });
        if !is_cordoned {
            let effect = Effect::Cordoned(self.run.clone());
            stages.push(Stage {
                at: self.now,
                effect,
            });
        }
        let mut left = Vec::new();
        let mut holding: BTreeSet<String> = BTreeSet::new();
        let pods = pods_of(settings, node, machine);
        let mut leaving: Vec<_> = pods
            .iter()
            .filter_map(|pod| Some((self.behavior(settings, pod.workload)?, pod)))
            .collect();
        leaving.sort_by_key(|((_, order), _)| *order);
        // Those of an order wait until those of lower ones are gone.
        let (mut begins, mut all_gone, mut last) = (Some(self.now), Some(self.now), None);
        for ((behavior, order), pod) in leaving {
            if last.replace(order) != Some(order) {
                begins = all_gone;
            }
            let is_awaited = behavior == DrainBehavior::WaitCompleted;
            let mut goes = if is_awaited { Some(self.now) } else { begins };
            let mut held_by = Vec::new();
            let budgets = settings.budgets.iter().zip(self.absences);
            for ((budget, absences), allowed) in budgets.zip(&mut allowed) {
                if is_awaited || !budget.holds(pod.workload) {
                    continue;
                }
                let name = || format!("{}/{}", budget.namespace, budget.name);
                if *allowed > 0 {
                    let from = allowed_from(absences, self.now, *allowed);
                    held_by.extend((from > self.now).then(name));
                    goes = goes.map(|goes| goes.max(from));
                    *allowed -= 1;
                    continue;
                }
                held_by.push(name());
                let yields = budget.yields_after.map(|wait| after(self.now, wait));
                goes = goes.zip(yields).map(|(goes, yields)| goes.max(yields));
            }
            let ends_after = match pod.workload.kind {
                _ if self.is_gone => Some(Duration::ZERO),
                PodKind::Finished => Some(Duration::ZERO),
                // Without a kubelet no pod is ended.
                _ if !is_ready => None,
                _ => pod.workload.ends_after,
            };
            // What is waited for ends by itself.
            let grace = grace.filter(|_| !is_awaited).unwrap_or(Duration::MAX);
            let ends = goes.zip(ends_after);
            let ends = ends.map(|(goes, ends_after)| after(goes, grace.min(ends_after)));
            all_gone = all_gone.zip(ends).map(|(gone, ends)| gone.max(ends));
            let in_time = |ends: &u64| *ends <= self.deadline;
            match ends.filter(in_time) {
                Some(at) => {
                    let effect = Effect::Evicted(Box::new(pod.name.clone()));
                    stages.push(Stage { at, effect });
                }
                None => {
                    let waits = goes.is_none_or(|goes| !in_time(&goes));
                    holding.extend(held_by.into_iter().filter(|_| waits));
                    left.push(pod.name.clone());
                }
            }
        }
        stages.sort_by_key(|stage| stage.at);
        self.end(stages, &left, &holding)
    }

    fn end(&self, mut stages: Vec<Stage>, left: &[PodName], holding: &BTreeSet<String>) -> Course {
        if left.is_empty() {
            return Course {
                ends: Some(stages.last().map_or(self.now, |stage| stage.at)),
                stages,
                effects: vec![Effect::Drained { left: 0 }],
            };
        }
        let at = self.deadline;
        let effects = match self.on_timeout {
            OnDrainTimeout::ForceDelete => {
                let deleted = left.iter().cloned().map(Box::new).map(Effect::PodDeleted);
                stages.extend(deleted.map(|effect| Stage { at, effect }));
                vec![Effect::Drained { left: 0 }]
            }
            OnDrainTimeout::Continue => vec![Effect::Drained { left: left.len() }],
            OnDrainTimeout::Fail => {
                let seconds = at.saturating_sub(self.now) / 1000;
                vec![Effect::Failed {
                    kind: StepKind::Drain,
                    message: undrained(left, holding, seconds),
                }]
            }
        };
        Course {
            stages,
            ends: Some(at),
            effects,
        }
    }
}

/// Why a drain failed, naming pods and budgets.
fn undrained(left: &[PodName], holding: &BTreeSet<String>, seconds: u64) -> Arc<str> {
    const SHOWN: usize = 3;
    let names: Vec<String> = left
        .iter()
        .take(SHOWN)
        .map(|pod| format!("{}/{}", pod.namespace, pod.name))
        .collect();
    let more = match left.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let budgets: Vec<String> = holding.iter().map(|name| format!("`{name}`")).collect();
    let why = match &budgets[..] {
        [] => "they do not end".to_owned(),
        [one] => format!("budget {one} allows no disruption"),
        _ => format!("budgets {} allow no disruption", budgets.join(", ")),
    };
    let pods = if left.len() == 1 {
        "pod is"
    } else {
        "pods are"
    };
    FailureReason::DrainNodeError.message(format_args!(
        "{} {pods} left after {seconds} s ({}{more}): {why}",
        left.len(),
        names.join(", ")
    ))
}
