//! A step on one node: which node is meant, how much time is left, and how its errors begin.

use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::course::{Course, course};
use super::object::{Node, Pod};
use super::{Kubernetes, NODES, PODS};
use crate::backend::api_server::{ApiError, OUTAGE, Server};
use crate::backend::{ActError, Order, Probe};
use crate::design::DrainRules;
use crate::step::{FailureReason, Given, OnDrainTimeout, StepKind};

/// The interval between two polls of a slow operation.
pub(super) const PACE: Duration = Duration::from_secs(2);

/// Requests for evictions and deletions at the same time.
pub(super) const PARALLEL: usize = 32;

/// Pods or volumes that a message names.
pub(super) const NAMED: usize = 10;

/// A step on one node.
#[derive(Debug)]
pub(super) struct NodeStep<'a> {
    pub(super) order: &'a Order,
    pub(super) server: Server,
    /// The node's name in the cluster.
    pub(super) node: Arc<str>,
    /// The image of the pod that shuts a kubelet down.
    pub(super) shutdown_image: Arc<str>,
    pub(super) given: &'a dyn Given,
    rules: &'a DrainRules,
    began: Instant,
}

impl<'a> NodeStep<'a> {
    pub(super) async fn new(order: &'a Order, cluster: &'a Kubernetes) -> Result<Self, ActError> {
        let Kubernetes {
            connection,
            names,
            drain_rules,
        } = cluster;
        let Some(node) = &order.step.id.node else {
            let text = format!("{} is about no node", order.step.id);
            return Err(ActError::Permanent(text.into()));
        };
        let began = Instant::now();
        let server = connection.server().await;
        Ok(Self {
            order,
            server: server.map_err(|error| problem(order.step.id.kind, error))?,
            node: names.outside(node),
            shutdown_image: connection.settings().shutdown_image.clone(),
            given: order.step.given(),
            rules: drain_rules,
            began,
        })
    }

    /// The course of a pod in a drain.
    pub(super) fn course(&self, pod: &Pod) -> Course {
        course(self.rules, pod)
    }

    /// The handling of pods that are left at the timeout.
    pub(super) fn on_timeout(&self) -> OnDrainTimeout {
        self.given
            .on_drain_timeout()
            .unwrap_or(OnDrainTimeout::Fail)
    }

    /// The step's limit, in seconds; 0: none.
    pub(super) fn timeout(&self) -> u64 {
        self.order.step.timeout
    }

    /// When the step ends at the latest, by its own word; `None` if it has no limit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.order.time().map(|time| self.began + time)
    }

    /// Whether the step's time is over.
    pub(super) fn is_over(&self) -> bool {
        self.deadline()
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Waits for a while, not beyond the end of the step.
    pub(super) async fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        tokio::time::sleep_until(self.deadline().map_or(until, |end| until.min(end))).await;
    }

    /// Reports the progress of the step.
    pub(super) fn progress(&self, text: impl Into<Arc<str>>) {
        self.order.reporter.progress(text);
    }

    /// The node; `None` if not found.
    pub(super) async fn look(&self) -> Result<Option<Node>, ApiError> {
        self.server.get(NODES, &self.node).await
    }

    /// The node that is meant; `None` if it is gone, or another has its name.
    pub(super) async fn meant(&self) -> Result<Option<Node>, ApiError> {
        let node = self.look().await?;
        Ok(node.filter(|node| self.means(node)))
    }

    /// The node that is meant, or how far a step is without it: nothing is left to be emptied, changed or
    /// stopped of one that was there and is gone. If another has its name, acting reports it.
    pub(super) async fn meant_or_gone(&self) -> Result<Result<Node, Probe>, ApiError> {
        Ok(match self.look().await? {
            Some(node) if self.means(&node) => Ok(node),
            None if self.given.node_uid().is_some() => Err(Probe::Done),
            _ => Err(Probe::NotBegun),
        })
    }

    fn means(&self, node: &Node) -> bool {
        let meant = self.given.node_uid().as_ref();
        meant.is_none_or(|uid| *uid == node.metadata.uid)
    }

    /// The node that is meant.
    ///
    /// # Errors
    ///
    /// Not found (`NotFound:`), another node has its name (`Conflict:`), or the server does not answer.
    pub(super) async fn present(&self) -> Result<Node, ActError> {
        match self.look().await.map_err(|error| self.act_error(error))? {
            None => Err(ActError::Permanent(
                FailureReason::NotFound
                    .message(format_args!("the cluster has no node `{}`", self.node)),
            )),
            Some(node) if self.means(&node) => Ok(node),
            Some(node) => Err(ActError::Permanent(FailureReason::Conflict.message(
                format_args!(
                    "node `{}` was made anew: its UID is {}, and not the one that is meant",
                    self.node, node.metadata.uid
                ),
            ))),
        }
    }

    /// Changes the node by a merge patch, if it is unchanged since it was observed.
    pub(super) async fn change(&self, seen: &Node, mut patch: Value) -> Result<Node, ApiError> {
        patch["metadata"]["uid"] = json!(seen.metadata.uid);
        self.server.merge(NODES, &self.node, &patch).await
    }

    /// Changes the status of the node by a strategic merge patch: conditions that are not named stay.
    pub(super) async fn patch_status(&self, patch: &Value) -> Result<(), ApiError> {
        self.server.merge_status(NODES, &self.node, patch).await
    }

    /// All pods of the node, as they are now, and the version of the list.
    pub(super) async fn pods(&self) -> Result<(Vec<Pod>, String), ApiError> {
        let take = |pods: &mut Vec<Pod>, pod| pods.push(pod);
        self.server
            .list(PODS, &self.of_the_node(), Vec::new, take)
            .await
    }

    /// Selects the pods of the node.
    pub(super) fn of_the_node(&self) -> ListParams {
        ListParams::default().fields(&format!("spec.nodeName={}", self.node))
    }

    /// The step's error for an error of the server.
    pub(super) fn act_error(&self, error: ApiError) -> ActError {
        problem(self.order.step.id.kind, error)
    }

    /// The error of a step that cannot be done.
    pub(super) fn failure(&self, text: impl AsRef<str>) -> ActError {
        let reason = reason(self.order.step.id.kind);
        ActError::Permanent(format!("{reason}: {}", text.as_ref()).into())
    }
}

/// A number of things, in words (`1 pod is`, `2 pods are`).
pub(super) fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing} is"),
        _ => format!("{number} {thing}s are"),
    }
}

/// The error of a node that may not be removed.
pub(super) fn conflict(step: &NodeStep<'_>, why: &str) -> ActError {
    let what = match step.order.step.id.kind {
        StepKind::Drain => "drained",
        StepKind::ShutdownKubelet => "shut down",
        _ => "removed",
    };
    let text = format_args!("node `{}` cannot be {what}: {why}", step.node);
    ActError::Permanent(FailureReason::Conflict.message(text))
}

/// How the error of a kind of step begins, as the specification calls it if it does.
fn reason(kind: StepKind) -> &'static str {
    if let Some(reason) = kind.facts().failure {
        return reason.as_str();
    }
    match kind {
        StepKind::Uncordon => "the node cannot be uncordoned",
        StepKind::Relabel => "the labels cannot be set",
        StepKind::SetOutOfService => "the node cannot be marked as out of service",
        StepKind::UnsetOutOfService => "the node cannot be put into service",
        StepKind::RestoreNode => "labels, annotations and taints of the node cannot be restored",
        _ => "the node cannot be waited for",
    }
}

fn problem(kind: StepKind, error: ApiError) -> ActError {
    error.into_error(reason(kind))
}

/// How long a server has not answered as it should, so that a short absence is waited out.
#[derive(Debug)]
pub(super) struct Outage {
    since: Option<Instant>,
    /// It has answered this step before, and was away since then.
    knew_us: bool,
    was_away: bool,
}

impl Outage {
    /// Nothing is known of it yet.
    pub(super) fn none() -> Self {
        Self {
            since: None,
            knew_us: false,
            was_away: false,
        }
    }

    /// It answers.
    pub(super) fn ends(&mut self) {
        self.since = None;
        self.knew_us = true;
    }

    /// Counts an error of the server; an error if it cannot pass, or has not for too long.
    ///
    /// A server that has just started has not loaded its rights for some seconds: what it allowed before it
    /// will allow again.
    pub(super) fn note(&mut self, step: &NodeStep<'_>, error: ApiError) -> Result<(), ActError> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        self.was_away |= error.passes();
        let forgot = self.knew_us && self.was_away && matches!(error.code(), Some(401 | 403));
        if !(error.passes() || forgot) || now - since >= OUTAGE || step.is_over() {
            return Err(step.act_error(error));
        }
        step.progress(format!("{error}; retrying"));
        Ok(())
    }

    /// Notes the error, and waits a moment before the next attempt.
    pub(super) async fn retry_after(
        &mut self,
        step: &NodeStep<'_>,
        error: ApiError,
    ) -> Result<(), ActError> {
        self.note(step, error)?;
        step.pause(PACE / 2).await;
        Ok(())
    }
}
