//! The etcd clusters of a site, over API v3 by its JSON gateway and mutual TLS.
//!
//! Each member is asked for itself, without a proxy and without redirects, and every request has a time
//! limit. The observed state is judged by [`crate::guard::quorum`], here at the instant of the act by the same
//! functions as at planning.

mod answer;
mod gateway;
mod leader;
mod remove;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;

use crate::backend::{ActError, Cluster, Look, Order, Pending, Probe, Secrets, Sight};
use crate::design::{ClusterName, EtcdCluster, NodeName};
use crate::guard::quorum::missing;
use crate::observed::{EtcdSeen, Fact};
use crate::step::StepKind;

use gateway::Gateway;

/// The error for every step that only Kubernetes could do.
const NO_KUBERNETES: &str = "the site's Backends document names no Kubernetes cluster";

/// The etcd clusters of a site.
pub struct Etcd {
    gateways: Vec<Gateway>,
}

impl Etcd {
    /// The clusters of a design. Nothing is opened before it is used.
    #[must_use]
    pub fn new(clusters: &[EtcdCluster], secrets: &Arc<dyn Secrets>) -> Self {
        let clusters = clusters.iter().cloned();
        Self {
            gateways: clusters
                .map(|cluster| Gateway::new(cluster, secrets.clone()))
                .collect(),
        }
    }

    /// Observes every cluster at once.
    pub async fn look(&self) -> BTreeMap<ClusterName, EtcdSeen> {
        let looks = self.gateways.iter().map(|gateway| async {
            let name = gateway.cluster.name.clone();
            (name, gateway.look().await)
        });
        join_all(looks).await.into_iter().collect()
    }

    fn gateway(&self, name: &ClusterName) -> Option<&Gateway> {
        self.gateways
            .iter()
            .find(|gateway| gateway.cluster.name == *name)
    }

    /// The clusters of which a machine is a designed member.
    fn of_node<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Gateway> {
        self.gateways.iter().filter(move |gateway| {
            let mut members = gateway.cluster.members.iter();
            members.any(|member| member.node == *node)
        })
    }

    /// Whether a machine's members vote again.
    async fn probe_members(&self, node: &NodeName) -> Probe {
        for gateway in self.of_node(node) {
            if missing(&gateway.cluster, &gateway.look().await, node).is_some() {
                return Probe::NotBegun;
            }
        }
        Probe::Done
    }
}

/// The machine that a step is about.
fn node_of(order: &Order) -> Option<&NodeName> {
    let designed = order.node.as_ref().map(|node| &node.name);
    order.step.id.node.as_ref().or(designed)
}

impl Cluster for Etcd {
    fn observe<'a>(&'a self, _: &'a BTreeSet<NodeName>, look: Look) -> Pending<'a, Sight> {
        Box::pin(async move {
            Sight {
                facts: None,
                nodes: Fact::Unknown(Arc::from(NO_KUBERNETES)),
                pods: BTreeMap::new(),
                etcd: if look.etcd {
                    self.look().await
                } else {
                    BTreeMap::new()
                },
            }
        })
    }

    fn knows_nodes(&self) -> bool {
        false
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move {
            match (order.step.id.kind, node_of(order)) {
                (StepKind::RemoveEtcd, Some(node)) => self.probe_removal(order, node).await,
                (StepKind::AwaitReady, Some(node)) => self.probe_members(node).await,
                // A check is computed again.
                (StepKind::CheckEtcd, _) => Probe::NotBegun,
                _ => Probe::Ambiguous(Arc::from(NO_KUBERNETES)),
            }
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            match (order.step.id.kind, node_of(order)) {
                (StepKind::RemoveEtcd, Some(node)) => self.remove(order, node).await,
                (StepKind::CheckEtcd, node) => self.check(order, node).await,
                (StepKind::AwaitReady, Some(node)) => self.await_members(order, node).await,
                _ => Err(ActError::Permanent(Arc::from(NO_KUBERNETES))),
            }
        })
    }
}
