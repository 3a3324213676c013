//! The Kubernetes cluster whose nodes a site's machines are, from version 1.20 on.
//!
//! It is observed in a few lists that are read page by page ([`look`]), and moved one node at a time.
//! Every step can be done again: a level is set or found as wanted; an eviction and a deletion name the
//! UID that is meant, so that each happens once to it; a node that was made anew is never taken for the
//! one that was meant. What each step does:
//!
//! | step | done when |
//! | --- | --- |
//! | drain | cordoned, nothing left that a drain evicts, no volume attached |
//! | uncordon | schedulable; only what trueup cordoned is undone |
//! | clear-labels | no label left that is not kept, and the pods have settled |
//! | shutdown-kubelet | the node is not Ready, and the pod that stopped its kubelet is gone |
//! | remove-from-cluster | the UID is gone |
//! | relabel | the labels have the values wanted; those taken off are gone or not trueup's |
//! | await-ready | the node is there, Ready, and not the old one |
//! | set-out-of-service | it is marked, nothing that a drain evicts is left, no volume attached |
//! | unset-out-of-service | it is Ready, and the mark is gone |
//! | restore-node | it has all that the one before carried |

mod allowance;
mod budget;
mod clear;
mod conditions;
mod course;
mod crash_loop;
mod discovery;
mod drain;
mod endpoints;
mod evict;
mod eviction_request;
mod force;
mod forecast;
mod labels;
mod lease;
mod look;
mod names;
mod node;
mod node_step;
mod object;
mod owed;
mod pods;
mod ready;
mod remedy;
mod remove;
mod rights;
mod shutdown;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backend::api_server::{ApiError, Connection, Settings};
use crate::backend::cluster::named::SITE;
use crate::backend::{
    ActError, BackendContext, Cluster, LiveNode, Look, Order, Pending, Probe, Sight,
};
use crate::design::{DrainRules, Guards, NodeName};
use crate::step::StepKind;

use names::Names;
use node_step::NodeStep;
pub(in crate::backend) use object::Readiness;

/// Nodes; below this, the other collections that are used.
pub(in crate::backend) const NODES: &str = "/api/v1/nodes";
/// Pods of all namespaces.
const PODS: &str = "/api/v1/pods";
/// Volumes of all claims.
const VOLUMES: &str = "/api/v1/persistentvolumes";
/// Which volume is attached where.
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// The pods of a namespace.
fn pods_in(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// A Kubernetes cluster.
#[derive(Debug)]
pub(in crate::backend) struct Kubernetes {
    connection: Connection,
    names: Names,
    drain_rules: DrainRules,
}

/// The way to the cluster that the site's Backends document calls `kubernetes`.
pub(super) fn connection(guards: &Guards, context: &BackendContext) -> Option<Connection> {
    let settings = Settings::read(guards, SITE)?;
    Some(Connection::new(settings, context.secrets.clone()))
}

impl Kubernetes {
    /// The cluster that the site's Backends document calls `kubernetes`; `None` if it names none, or a
    /// simulated one. Nothing is asked of it yet.
    pub(in crate::backend) fn open(guards: &Guards, context: &BackendContext) -> Option<Self> {
        Some(Self {
            connection: connection(guards, context)?,
            names: Names::new(guards),
            drain_rules: guards.policy.drain_rules.clone(),
        })
    }

    async fn step<'a>(&'a self, order: &'a Order) -> Result<NodeStep<'a>, ActError> {
        NodeStep::new(order, self).await
    }
}

impl Cluster for Kubernetes {
    fn observe<'a>(&'a self, pods_of: &'a BTreeSet<NodeName>, look: Look) -> Pending<'a, Sight> {
        Box::pin(look::observe(self, pods_of, look))
    }

    fn node<'a>(&'a self, node: &'a NodeName) -> Pending<'a, Result<Option<LiveNode>, ActError>> {
        Box::pin(async move {
            let error = |error: ApiError| error.into_error("cannot get the node");
            let server = self.connection.server().await.map_err(error)?;
            let name = self.names.outside(node);
            remedy::live(&server, &name).await.map_err(error)
        })
    }

    fn crashing<'a>(
        &'a self,
        namespaces: &'a [Arc<str>],
    ) -> Pending<'a, Result<Vec<String>, ActError>> {
        Box::pin(async move {
            let error = |error: ApiError| error.into_error("cannot list pods");
            let server = self.connection.server().await.map_err(error)?;
            crash_loop::of(&server, namespaces).await.map_err(error)
        })
    }

    fn leave_cordoned<'a>(&'a self, order: &'a Order) -> Pending<'a, ()> {
        Box::pin(async move {
            if let Ok(step) = self.step(order).await {
                node::leave_cordoned(&step).await;
            }
        })
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        Box::pin(async move {
            let Ok(step) = self.step(order).await else {
                // Acting reports the error; nothing was requested that it could do twice.
                return Probe::NotBegun;
            };
            let probe = match order.step.id.kind {
                StepKind::Drain => drain::probe(&step).await,
                StepKind::Uncordon => node::probe_uncordon(&step).await,
                StepKind::Relabel => node::probe_relabel(&step).await,
                StepKind::ClearLabels => clear::probe(&step).await,
                StepKind::ShutdownKubelet => shutdown::probe(&step).await,
                StepKind::RemoveFromCluster => remove::probe(&step).await,
                StepKind::AwaitReady => ready::probe(&step).await,
                StepKind::SetOutOfService => remedy::probe_mark(&step, true).await,
                StepKind::UnsetOutOfService => remedy::probe_mark(&step, false).await,
                StepKind::RestoreNode => remedy::probe_restore(&step).await,
                kind => return Probe::Ambiguous(not_ours(kind)),
            };
            // A server that does not answer leaves open how far the step is. All that is done here can be
            // done again without harm, so it is resumed, and acting reports the error.
            probe.unwrap_or(Probe::UnderWay)
        })
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            let step = self.step(order).await?;
            match order.step.id.kind {
                StepKind::Drain => drain::act(&step).await,
                StepKind::Uncordon => node::uncordon(&step).await,
                StepKind::Relabel => node::relabel(&step).await,
                StepKind::ClearLabels => clear::act(&step).await,
                StepKind::ShutdownKubelet => shutdown::act(&step).await,
                StepKind::RemoveFromCluster => remove::act(&step).await,
                StepKind::AwaitReady => ready::act(&step).await,
                StepKind::SetOutOfService => remedy::set_out_of_service(&step).await,
                StepKind::UnsetOutOfService => remedy::unset_out_of_service(&step).await,
                StepKind::RestoreNode => remedy::restore(&step).await,
                kind => Err(ActError::Permanent(not_ours(kind))),
            }
        })
    }
}

fn not_ours(kind: StepKind) -> Arc<str> {
    format!("{kind} is no step of a Kubernetes cluster").into()
}
