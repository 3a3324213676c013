//! Waiting for etcd: until every cluster is healthy, until a machine's members vote again.
//!
//! Both observe at once, then again and again until the timeout of the step, and end a little before it with
//! what is still missing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};

use super::Etcd;
use super::gateway::Gateway;
use crate::backend::{ActError, Order};
use crate::design::NodeName;
use crate::guard::quorum::{Health, health, missing, problems};
use crate::step::{FailureReason, StepKind};

/// Between two checks of the health of clusters ("Promenade Check etcd": every 30 s).
const BETWEEN_CHECKS: Duration = Duration::from_secs(30);

/// Between two looks for a member that comes back.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// The margin before its timeout at which a step ends by itself, so that it can report why.
const MARGIN: Duration = Duration::from_secs(1);

/// When a step should end by itself; `None`: it has no bound.
pub(super) fn deadline(order: &Order) -> Option<Instant> {
    let timeout = Duration::from_secs(order.step.timeout);
    (!timeout.is_zero()).then(|| Instant::now() + timeout.saturating_sub(MARGIN))
}

/// The same as an instant to sleep until, far away if there is no bound.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Etcd {
    /// Waits until every cluster is healthy, a machine's members left out of the count.
    pub(super) async fn check(
        &self,
        order: &Order,
        node: Option<&NodeName>,
    ) -> Result<(), ActError> {
        let gateways: Vec<_> = self.gateways.iter().collect();
        let lacks = |gateway| unhealthy(gateway, node);
        self.wait(order, BETWEEN_CHECKS, &gateways, lacks).await
    }

    /// Waits until a machine's members are started voters of their clusters again.
    pub(super) async fn await_members(
        &self,
        order: &Order,
        node: &NodeName,
    ) -> Result<(), ActError> {
        let gateways: Vec<_> = self.of_node(node).collect();
        let lacks = |gateway| not_voting(gateway, node);
        self.wait(order, BETWEEN_LOOKS, &gateways, lacks).await
    }

    /// Looks until no cluster lacks anything.
    async fn wait<'a, F>(
        &'a self,
        order: &Order,
        between: Duration,
        gateways: &[&'a Gateway],
        lacks: impl Fn(&'a Gateway) -> F,
    ) -> Result<(), ActError>
    where
        F: Future<Output = Option<Lack>>,
    {
        let deadline = deadline(order);
        let mut last = Lack {
            text: "no member of etcd answered in time".to_owned(),
            is_inaccessible: true,
        };
        loop {
            let looks = join_all(gateways.iter().copied().map(&lacks));
            let found: Vec<Lack> = tokio::select! {
                found = looks => found.into_iter().flatten().collect(),
                () = until(deadline) => return Err(too_late(order, &last)),
            };
            if found.is_empty() {
                return Ok(());
            }
            last.is_inaccessible = found.iter().any(|lack| lack.is_inaccessible);
            let texts: Vec<String> = found.into_iter().map(|lack| lack.text).collect();
            last.text = texts.join("; ");
            order.reporter.progress(last.text.as_str());
            tokio::select! {
                () = sleep(between) => {}
                () = until(deadline) => return Err(too_late(order, &last)),
            }
        }
    }
}

/// The missing condition of a wait.
struct Lack {
    text: String,
    /// A cluster gives no answer, or none of etcd.
    is_inaccessible: bool,
}

/// The error of a wait whose time is over. A check of clusters that cannot be reached begins with the
/// specification's reason for it; one of clusters that answer, and are unhealthy, does not.
fn too_late(order: &Order, lack: &Lack) -> ActError {
    let is_check = order.step.id.kind == StepKind::CheckEtcd;
    let text = format!("not within {} s: {}", order.step.timeout, lack.text);
    ActError::Permanent(match is_check && lack.is_inaccessible {
        true => FailureReason::EtcdNotAccessible.message(text),
        false => Arc::from(text),
    })
}

/// The condition that a machine's member still lacks; `None` if it votes.
async fn not_voting(gateway: &Gateway, node: &NodeName) -> Option<Lack> {
    let text = missing(&gateway.cluster, &gateway.look().await, node)?;
    Some(Lack {
        text,
        is_inaccessible: false,
    })
}

/// The reason why a cluster is unhealthy; `None` if it is healthy.
async fn unhealthy(gateway: &Gateway, node: Option<&NodeName>) -> Option<Lack> {
    let (cluster, seen) = (&gateway.cluster, gateway.look().await);
    let health = health(cluster, &seen, node);
    let word = match health {
        Health::Healthy => return None,
        Health::Unhealthy => "is unhealthy",
        Health::Inaccessible => "cannot be accessed",
        Health::Invalid => "gives invalid answers",
    };
    let problems = problems(cluster, &seen, node).join("; ");
    Some(Lack {
        text: format!("etcd cluster `{}` {word}: {problems}", cluster.name),
        is_inaccessible: health.is_error(),
    })
}
