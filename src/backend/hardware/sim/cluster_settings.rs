//! The settings of the simulated cluster, as `clusters.kubernetes.sim` of `trueup/Backends/v1` has them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::duration::{CODE, duration};
use super::faults::{self, Fault, Patterns, WrittenFault};
use crate::backend::hardware::written::or_default;
use crate::design::{DrainBehavior, DrainRules, EtcdCluster, Guards, NodeName};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Seconds};
use crate::step::{Actor, StepKind};

/// The most pods that a workload has on a node.
const MOST_PODS: u64 = 500;

/// How the simulated cluster behaves, and the etcd clusters that are designed to run in it.
#[derive(Clone, Debug, Default)]
pub struct ClusterSettings {
    /// The pods on its nodes.
    pub pods: Vec<Workload>,
    /// The budgets that hold a drain up.
    pub budgets: Vec<Budget>,
    /// How long things take.
    pub durations: ClusterDurations,
    /// Injected faults.
    pub faults: Vec<Fault>,
    /// The etcd clusters of the design.
    pub etcd: Vec<EtcdCluster>,
    /// The rules of drains by pods.
    pub drain_rules: DrainRules,
    /// The nodes on which API servers run; `None`: unknown.
    pub(super) api_servers: Option<Patterns>,
}

impl ClusterSettings {
    /// Whether an API server runs on a node, if that is known.
    pub(super) fn has_api_server(&self, node: &NodeName) -> bool {
        let servers = self.api_servers.as_ref();
        servers.is_some_and(|servers| servers.fit(node))
    }
}

impl ClusterSettings {
    /// How long a drain takes at most; `None` if a pod never ends, or a budget holds one up.
    pub(super) fn longest_drain(&self) -> Option<Duration> {
        let mut longest: BTreeMap<i32, Duration> = BTreeMap::new();
        for pods in &self.pods {
            if let Some((_, order)) = self.leaves(pods) {
                let longest = longest.entry(order).or_default();
                *longest = pods.ends_after?.max(*longest);
            }
        }
        self.budgets.is_empty().then(|| longest.values().sum())
    }

    /// The behavior of a drain towards the pods of a workload that it does not leave, and their order; `None`: they stay by
    /// their kind, by a rule or by their label.
    pub(super) fn leaves(&self, pods: &Workload) -> Option<(DrainBehavior, i32)> {
        if pods.kind.stays() {
            return None;
        }
        let has_ended = pods.kind == PodKind::Finished;
        let rules = &self.drain_rules;
        let behavior = rules.behavior(&pods.namespace, &pods.labels, has_ended);
        (behavior.0 != DrainBehavior::Skip).then_some(behavior)
    }
}

/// How long things take in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterDurations {
    /// Uncordoning, clearing labels, deleting a node.
    pub change: Duration,
    /// Removing a member of etcd.
    pub remove_etcd: Duration,
    /// Stopping a kubelet.
    pub shutdown_kubelet: Duration,
    /// From the end of a redeploy until its member of etcd votes again.
    pub join: Duration,
}

impl Default for ClusterDurations {
    fn default() -> Self {
        Self {
            change: Duration::from_secs(5),
            remove_etcd: Duration::from_secs(5),
            shutdown_kubelet: Duration::from_secs(30),
            join: Duration::from_secs(45),
        }
    }
}

impl ClusterDurations {
    /// How long a kind of step takes; a drain takes as long as its pods.
    #[must_use]
    pub fn of(&self, kind: StepKind) -> Duration {
        match kind {
            StepKind::RemoveEtcd => self.remove_etcd,
            StepKind::ShutdownKubelet => self.shutdown_kubelet,
            _ => self.change,
        }
    }
}

/// The controller of pods, and whether a drain evicts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodKind {
    /// A Deployment.
    #[default]
    Deployment,
    /// A StatefulSet.
    StatefulSet,
    /// A DaemonSet: they stay.
    DaemonSet,
    /// The kubelet, from a file: they stay.
    Static,
    /// A Job that has ended: not waited for.
    Finished,
    /// No controller: they are not started again.
    Uncontrolled,
}

impl PodKind {
    /// Whether a drain leaves them.
    #[must_use]
    pub const fn stays(self) -> bool {
        matches!(self, Self::DaemonSet | Self::Static)
    }
}

/// The data of a pod that lies on its node, or is attached to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodData {
    /// An emptyDir.
    EmptyDir,
    /// A local persistent volume.
    LocalVolume,
    /// A persistent volume that is attached.
    AttachedVolume,
}

/// Pods of one kind.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(super) nodes: Patterns,
    /// Its name, after which its pods are called.
    pub name: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its kind.
    pub kind: PodKind,
    /// The labels of its pods.
    pub(super) labels: BTreeMap<String, String>,
    /// How many on each node.
    pub count: u64,
    /// Where its data is.
    pub data: Option<PodData>,
    /// How long a pod takes to end; `None`: it never does.
    pub ends_after: Option<Duration>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Its name.
    pub name: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    workloads: Patterns,
    /// The pods that must stay; `None`: all.
    pub min_available: Option<u64>,
    /// How long what it does not allow at once has to wait; `None`: for ever.
    pub yields_after: Option<Duration>,
}

impl Budget {
    /// Whether it holds the pods of a workload.
    #[must_use]
    pub fn holds(&self, workload: &Workload) -> bool {
        self.namespace == workload.namespace
            && !matches!(
                workload.kind,
                PodKind::DaemonSet | PodKind::Static | PodKind::Finished
            )
            && self.workloads.fit_name(&workload.name)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenCluster {
    pods: Vec<WrittenWorkload>,
    budgets: Vec<WrittenBudget>,
    durations: WrittenDurations,
    faults: Vec<WrittenFault>,
    api_servers: Vec<Marked<Arc<str>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWorkload {
    name: Arc<str>,
    #[serde(default)]
    nodes: Vec<Marked<Arc<str>>>,
    namespace: Option<Arc<str>>,
    #[serde(default)]
    kind: PodKind,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    count: Option<Marked<u64>>,
    data: Option<PodData>,
    ends_after: Option<Marked<Seconds>>,
    #[serde(default)]
    never_ends: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBudget {
    name: Arc<str>,
    namespace: Option<Arc<str>>,
    #[serde(default)]
    pods: Vec<Marked<Arc<str>>>,
    min_available: Option<u64>,
    yields_after: Option<Marked<Seconds>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenDurations {
    change: Option<Marked<Seconds>>,
    remove_etcd: Option<Marked<Seconds>>,
    shutdown_kubelet: Option<Marked<Seconds>>,
    join: Option<Marked<Seconds>>,
}

impl ClusterSettings {
    /// Reads a design's settings of its simulated cluster.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub fn read(guards: &Guards) -> Result<Self, Box<Diagnostic>> {
        let data = guards.backends.data.as_ref();
        let node = data.and_then(|data| data.at(&["clusters", "kubernetes", "sim"]));
        let written: WrittenCluster = or_default(node, CODE)?;
        let default = ClusterDurations::default();
        let durations = written.durations;
        let workloads = written.pods.into_iter().map(read_workload);
        let budgets = written.budgets.into_iter().map(read_budget);
        Ok(Self {
            pods: workloads.collect::<Result<_, _>>()?,
            budgets: budgets.collect::<Result<_, _>>()?,
            durations: ClusterDurations {
                change: duration(durations.change)?.unwrap_or(default.change),
                remove_etcd: duration(durations.remove_etcd)?.unwrap_or(default.remove_etcd),
                shutdown_kubelet: duration(durations.shutdown_kubelet)?
                    .unwrap_or(default.shutdown_kubelet),
                join: duration(durations.join)?.unwrap_or(default.join),
            },
            faults: faults::read(written.faults, Actor::Cluster)?,
            etcd: guards.etcd_clusters.clone(),
            drain_rules: guards.policy.drain_rules.clone(),
            api_servers: match &*written.api_servers {
                [] => None,
                named => Some(Patterns::read(named)?),
            },
        })
    }
}

fn read_workload(written: WrittenWorkload) -> Result<Workload, Box<Diagnostic>> {
    let count = match written.count {
        Some(Marked { mark, value }) if value > MOST_PODS => {
            let message = format!("a workload has at most {MOST_PODS} pods on a node");
            return Err(Box::new(Diagnostic::error(CODE, mark, message)));
        }
        Some(Marked { value, .. }) => value,
        None => 1,
    };
    let ends_after = duration(written.ends_after)?.unwrap_or(Duration::from_secs(10));
    let mut labels = written.labels;
    let app = || written.name.to_string();
    labels.entry("app".to_owned()).or_insert_with(app);
    Ok(Workload {
        labels,
        nodes: Patterns::read(&written.nodes)?,
        name: written.name,
        namespace: written.namespace.unwrap_or_else(|| Arc::from("default")),
        kind: written.kind,
        count,
        data: written.data,
        ends_after: (!written.never_ends).then_some(ends_after),
    })
}

fn read_budget(written: WrittenBudget) -> Result<Budget, Box<Diagnostic>> {
    Ok(Budget {
        name: written.name,
        namespace: written.namespace.unwrap_or_else(|| Arc::from("default")),
        workloads: Patterns::read(&written.pods)?,
        min_available: written.min_available,
        yields_after: duration(written.yields_after)?,
    })
}
