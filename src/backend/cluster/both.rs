//! Kubernetes and etcd as one cluster: each step goes to whom it is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backend::{ActError, Cluster, LiveNode, Look, Order, Pending, Probe, Sight};
use crate::design::NodeName;
use crate::step::StepKind;

/// The two of them.
pub(super) struct Both {
    pub(super) kubernetes: Arc<dyn Cluster>,
    pub(super) etcd: Arc<dyn Cluster>,
}

/// The drivers that run a kind of step, in this order.
fn actors<'a>(both: &'a Both, order: &Order) -> Vec<&'a dyn Cluster> {
    match order.step.id.kind {
        StepKind::AwaitReady if *order.step.given().members_only() => {
            vec![&*both.etcd]
        }
        StepKind::RemoveEtcd | StepKind::CheckEtcd => vec![&*both.etcd],
        StepKind::AwaitReady => vec![&*both.kubernetes, &*both.etcd],
        _ => vec![&*both.kubernetes],
    }
}

impl Cluster for Both {
    fn observe<'a>(&'a self, pods_of: &'a BTreeSet<NodeName>, look: Look) -> Pending<'a, Sight> {
        Box::pin(async move {
            let (mut sight, etcd) = tokio::join!(
                self.kubernetes.observe(pods_of, look),
                self.etcd.observe(pods_of, look)
            );
            sight.etcd = etcd.etcd;
            sight
        })
    }

    fn node<'a>(&'a self, node: &'a NodeName) -> Pending<'a, Result<Option<LiveNode>, ActError>> {
        self.kubernetes.node(node)
    }

    fn crashing<'a>(
        &'a self,
        namespaces: &'a [Arc<str>],
    ) -> Pending<'a, Result<Vec<String>, ActError>> {
        self.kubernetes.crashing(namespaces)
    }

    fn leave_cordoned<'a>(&'a self, order: &'a Order) -> Pending<'a, ()> {
        self.kubernetes.leave_cordoned(order)
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move {
            for actor in actors(self, order) {
                let found = actor.probe(order).await;
                if found != Probe::Done {
                    return found;
                }
            }
            Probe::Done
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            for actor in actors(self, order) {
                actor.act(order).await?;
            }
            Ok(())
        })
    }
}
