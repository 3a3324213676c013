//! The expected effect of the plan on workloads of its nodes: shown, and outside the plan's digest, since
//! it changes by itself from one minute to the next.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::etcd::Clusters;
use super::graph::waves_of_steps;
use super::item::Item;
use crate::design::{ClusterName, NodeName};
use crate::guard::quorum;
use crate::observed::{BlockedBudget, LocalData, PodName};
use crate::step::{Step, StepKind};

/// The expected effect of a plan on clusters, and its duration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// The nodes that are drained, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeForecast>,
    /// The etcd clusters that lose members, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<EtcdForecast>,
    /// The DaemonSet that stops kubelets is missing, and is created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub creates_daemon_set: bool,
    /// How long a run takes, if that was estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeForecast>,
    /// For each step, when it begins and ends in the simulated run that takes as long as half of them do not;
    /// empty if that was not estimated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<StepTimes>,
}

/// When a step begins and ends, in seconds after the start of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTimes(pub u32, pub u32);

/// How long a run takes, in seconds, by simulated runs with the durations of past ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeForecast {
    /// Half of the runs take less.
    pub median: u64,
    /// One of twenty takes less: with `percentile_95` the interval of nine of ten runs.
    pub percentile_5: u64,
    /// Nine of ten take less.
    pub percentile_90: u64,
    /// Nineteen of twenty take less.
    pub percentile_95: u64,
    /// The longest run that the timeouts allow.
    pub timeouts: u64,
    /// How many runs were simulated.
    pub runs: usize,
}

/// The expected course of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeForecast {
    /// Which node.
    pub node: NodeName,
    /// Pods that are evicted.
    pub evicted: usize,
    /// Budgets that allow no disruption now: the drain waits for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedBudget>,
    /// Pods without a controller, which are not started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncontrolled: Vec<PodName>,
    /// Pods that are left by a rule or by their label: they end with the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<PodName>,
    /// Pods that are not evicted: the drain waits until they have completed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<PodName>,
    /// Data that is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_data: Vec<LocalData>,
}

/// How many members an etcd cluster has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdForecast {
    /// Which cluster.
    pub cluster: ClusterName,
    /// Members that vote, now.
    pub now: usize,
    /// The fewest at any time.
    pub meanwhile: usize,
    /// At the end.
    pub after: usize,
}

impl Forecast {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The expected effects of steps.
pub(super) fn of(
    items: &BTreeMap<&NodeName, &Item<'_>>,
    steps: &[Step],
    clusters: &Clusters<'_>,
    has_daemon_set: bool,
) -> Forecast {
    let mut forecast = Forecast::default();
    for step in steps {
        let Some(name) = step.id.node.as_ref().filter(|_| !step.standby) else {
            continue;
        };
        if step.id.kind == StepKind::Drain {
            let item = items.get(name);
            let pods = item.and_then(|item| item.subject.pods);
            // Volumes on the disks of the machine are lost if those are erased; what is of the pod alone, with the pod.
            let erases = item.is_some_and(|item| item.work.destroy);
            let is_lost = |data: &&LocalData| erases || &*data.kind != LocalData::VOLUME;
            forecast.nodes.extend(pods.map(|pods| NodeForecast {
                node: name.clone(),
                evicted: pods.evicted + pods.finished,
                blocked: pods.blocked.clone(),
                uncontrolled: pods.uncontrolled.clone(),
                skipped: pods.skipped.clone(),
                awaited: pods.awaited.clone(),
                local_data: pods.local_data.iter().filter(is_lost).cloned().collect(),
            }));
        }
        let stops_kubelet = step.id.kind == StepKind::ShutdownKubelet;
        forecast.creates_daemon_set |= stops_kubelet && !has_daemon_set;
    }
    forecast
        .nodes
        .sort_by(|one, other| one.node.cmp(&other.node));
    let waves = waves_of_steps(steps);
    for watched in clusters.all() {
        let standing = watched
            .seen
            .and_then(|seen| quorum::standing(&watched.cluster, seen));
        let Some(standing) = standing else {
            continue;
        };
        let name = &watched.cluster.name;
        // By wave, those that come back; and all that do not.
        let (mut by_wave, mut gone) = (FxHashMap::<Option<u32>, usize>::default(), 0);
        for (step, wave) in steps.iter().zip(&waves) {
            let removals = step.given().etcd_members();
            let node = step.id.node.as_ref();
            let kind = step.id.kind;
            let removed = removals.iter().filter(|each| each.cluster == *name);
            let removed = removed.filter(|_| kind == StepKind::RemoveEtcd);
            // Those of a machine that is serviced stay, and are away with it.
            let members = watched.cluster.members.iter();
            let away = members.filter(|member| Some(&member.node) == node);
            let away = away.filter(|_| kind == StepKind::Service);
            let lost = removed.count() + away.count();
            let node = node.filter(|_| lost > 0 && !step.standby);
            let Some(item) = node.and_then(|node| items.get(node)) else {
                continue;
            };
            if item.comes_back() {
                *by_wave.entry(*wave).or_default() += lost;
            } else {
                gone += lost;
            }
        }
        let most = by_wave.into_values().max().unwrap_or_default();
        if most + gone > 0 {
            let now = standing.voters.len();
            forecast.etcd.push(EtcdForecast {
                cluster: name.clone(),
                now,
                meanwhile: now.saturating_sub(most + gone),
                after: now.saturating_sub(gone),
            });
        }
    }
    forecast
}
