//! The simulated cluster: how it is observed and changed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster_settings::ClusterSettings;
use super::{
    Effect, Fault, FaultOutcome, Kill, Machine, Simulator, StateError, etcd, pods, with_source,
};
use crate::backend::{ActError, Cluster, LiveNode, Look, Order, Pending, Probe, Sight};
use crate::design::NodeName;
use crate::observed::{ClusterFacts, ClusterNode, Fact, pods_by_node};
use crate::remediation::Backup;
use crate::step::{Actor, StepKind};

/// The version that the simulated cluster says it has.
const VERSION: &str = "v1.33.2";
/// Pods that crash again and again and are named.
const MOST_CRASHES: usize = 8;

impl Simulator {
    /// The faults for which the cluster, or some of its nodes, cannot be observed.
    fn unobservable(&self) -> impl Iterator<Item = &Fault> {
        let faults = self.faults();
        faults.filter(|fault| {
            fault.of == Actor::Cluster && fault.outcome == FaultOutcome::Unobservable
        })
    }

    fn sight(&self, pods_of: &BTreeSet<NodeName>, look: Look) -> Result<Sight, StateError> {
        let mut world = self.world();
        let view = world.view()?;
        let settings = &self.settings.cluster;
        if let Some(fault) = self.unobservable().find(|fault| fault.is_about_all()) {
            return Ok(nothing(fault.said("the cluster does not answer")));
        }
        let mut machines: Vec<(&NodeName, &Machine)> = match look.named_only {
            true => pods_of
                .iter()
                .filter_map(|name| Some((name, view.machine(name)?)))
                .collect(),
            false => view.machines().collect(),
        };
        machines.sort_unstable_by_key(|(node, _)| *node);
        let gone_on = machines.iter().map(|(node, machine)| {
            match self.as_of(node, machine, view.now, view.sequence()) {
                Cow::Borrowed(_) => None,
                Cow::Owned(machine) => Some(Box::new(machine)),
            }
        });
        let gone_on: Vec<Option<Box<Machine>>> = gone_on.collect();
        for ((_, machine), now) in machines.iter_mut().zip(&gone_on) {
            *machine = now.as_deref().unwrap_or(machine);
        }
        let in_cluster = || machines.iter().filter(|(_, each)| each.cluster.is_some());
        let mut sight = Sight {
            facts: (!look.named_only).then(|| ClusterFacts {
                version: Arc::from(VERSION),
                shutdown_daemon_set: machines.iter().any(|(_, machine)| {
                    let mut effects = machine.ledger.effects();
                    effects.any(|effect| *effect == Effect::KubeletStopped)
                }),
                api_servers: settings.api_servers.is_some().then(|| {
                    let ready =
                        in_cluster().filter(|(node, machine)| runs_server(settings, node, machine));
                    Fact::Known(ready.count())
                }),
                missing_rights: Vec::new(),
            }),
            nodes: Fact::Known(BTreeMap::new()),
            pods: BTreeMap::new(),
            etcd: BTreeMap::new(),
        };
        let nodes = in_cluster().filter_map(|(node, machine)| {
            let mut cluster = machine.cluster.clone()?;
            cluster.attachments = pods::attachments(settings, node, machine);
            cluster.api_servers = usize::from(runs_server(settings, node, machine));
            let ago = |at| view.now.saturating_sub(at) / 1000;
            cluster.returned = machine.returned_at.filter(|_| cluster.ready).map(ago);
            cluster.returned = cluster
                .returned
                .filter(|ago| *ago <= ClusterNode::REMEMBERED);
            Some(((*node).clone(), cluster))
        });
        let nodes = nodes.collect();
        if look.pods {
            let healthy = pods::healthy(settings, in_cluster().map(|(node, _)| *node));
            let asked = in_cluster().filter(|(node, _)| pods_of.contains(*node));
            sight.pods = pods_by_node(asked.map(|(node, machine)| {
                let seen = pods::forecast(settings, node, machine, &healthy);
                ((*node).clone(), seen)
            }));
        }
        if look.etcd {
            for design in &settings.etcd {
                let all = machines.iter().copied();
                let seats = self.seats(&design.name, all, view.now);
                let members = design.members.iter().map(|member| &member.node);
                let deaf: Vec<NodeName> = members
                    .filter(|node| {
                        let mut faults = self.unobservable();
                        faults.any(|fault| fault.is_about(node, None))
                    })
                    .cloned()
                    .collect();
                let seen = etcd::seen(design, &seats, view.sequence(), &deaf);
                sight.etcd.insert(design.name.clone(), seen);
            }
        }
        sight.nodes = Fact::Known(nodes);
        Ok(sight)
    }
}

/// Whether an API server runs on a machine that is ready.
pub(super) fn runs_server(settings: &ClusterSettings, node: &NodeName, machine: &Machine) -> bool {
    let is_ready = machine.cluster.as_ref().is_some_and(|node| node.ready);
    is_ready && settings.has_api_server(node)
}

/// A cluster that could not be observed.
fn nothing(reason: Arc<str>) -> Sight {
    Sight {
        facts: None,
        nodes: Fact::Unknown(reason),
        pods: BTreeMap::new(),
        etcd: BTreeMap::new(),
    }
}

impl Cluster for Simulator {
    fn observe<'a>(&'a self, pods_of: &'a BTreeSet<NodeName>, look: Look) -> Pending<'a, Sight> {
        Box::pin(async move {
            self.sight(pods_of, look)
                .unwrap_or_else(|error| nothing(Arc::from(with_source(&error))))
        })
    }

    fn node<'a>(&'a self, node: &'a NodeName) -> Pending<'a, Result<Option<LiveNode>, ActError>> {
        Box::pin(async move {
            let passing = |text: Arc<str>| Err(ActError::Passing(text));
            if let Some(fault) = self.unobservable().find(|fault| fault.is_about_all()) {
                return passing(fault.said("the cluster does not answer"));
            }
            match self.machine(node) {
                Err(error) => passing(Arc::from(with_source(&error))),
                Ok(None) => Ok(None),
                Ok(Some(machine)) => Ok(machine.cluster.as_ref().map(|cluster| LiveNode {
                    uid: cluster.uid.clone(),
                    ready: cluster.ready,
                    out_of_service: machine.out_of_service,
                    backup: kept(cluster),
                })),
            }
        })
    }

    fn crashing<'a>(&'a self, _: &'a [Arc<str>]) -> Pending<'a, Result<Vec<String>, ActError>> {
        Box::pin(async move {
            let look = Look::default();
            let sight = self
                .sight(&BTreeSet::new(), look)
                .map_err(|error| ActError::Passing(with_source(&error).into()))?;
            let nodes = match sight.nodes {
                Fact::Known(nodes) => nodes,
                Fact::Unknown(why) => return Err(ActError::Passing(why)),
            };
            Kill::strike(&self.world().path, nodes.keys(), StepKind::Soak);
            let crashes = |node: &&NodeName| {
                let mut faults = self.faults();
                faults.any(|fault| {
                    let fails = fault.outcome == FaultOutcome::Fail;
                    fails && fault.is_about(node, Some(StepKind::Soak))
                })
            };
            let pods = nodes.keys().filter(crashes).take(MOST_CRASHES);
            Ok(pods.map(|node| format!("a pod of `{node}`")).collect())
        })
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move { self.tell_of(order) })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(self.carry_out(order))
    }
}

/// Labels, taints and annotations that a new node would lack.
pub(super) fn kept(cluster: &ClusterNode) -> Backup {
    Backup {
        labels: cluster
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        unschedulable: cluster.unschedulable,
        ..Backup::default()
    }
}
