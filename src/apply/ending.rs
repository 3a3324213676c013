//! Leaves nodes to others at the end of a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::{Duration, timeout};

use super::dispatcher::Dispatcher;
use crate::backend::{Order, Reporter};
use crate::design::{NodeName, RunId};
use crate::plan::Plan;
use crate::step::StepKind;

/// Nodes that are left at the same time.
const AT_ONCE: usize = 32;
/// How long that may take: what it writes tells others, and holds nothing.
const LONGEST: Duration = Duration::from_secs(30);

/// Returns the orders that leave nodes to others: each has the drain of its node.
#[must_use]
pub fn orders_to_leave(plan: &Plan, run: &RunId, nodes: &BTreeSet<&NodeName>) -> Vec<Order> {
    let mut left = BTreeSet::new();
    let drains = plan.steps.iter();
    let drains = drains.filter(|step| step.id.kind == StepKind::Drain);
    let mut is_left = |node| nodes.contains(node) && left.insert(node);
    let drains = drains.filter(|step| step.id.node.as_ref().is_some_and(&mut is_left));
    drains
        .map(|drain| Order {
            run: run.clone(),
            step: Arc::new(drain.clone()),
            node: None,
            notes: Vec::new(),
            leaving: Arc::default(),
            soaked: Arc::default(),
            reporter: Reporter::default(),
        })
        .collect()
}

impl Dispatcher<'_> {
    /// Leaves the nodes to others that were drained and stay cordoned. A run that is interrupted is still at work on them, and
    /// another part of a divided run is on those that have not failed in this one.
    pub(super) async fn leave_cordoned(&self) {
        let is_undecided = !self.undecided.is_empty() || self.work.stop.is_asked();
        if is_undecided || self.schedule.unfinished > 0 || !self.work.fence.holds() {
            return;
        }
        let is_part = self.work.scope.is_some();
        let nodes =
            self.schedule.tally.nodes.iter().filter(|node| {
                node.view.stays_cordoned() && (!is_part || node.view.failed.is_some())
            });
        let nodes: BTreeSet<&NodeName> = nodes.map(|node| &node.name).collect();
        let orders = orders_to_leave(self.plan, &self.work.run, &nodes);
        let leaves = orders
            .iter()
            .map(|order| self.work.hardware.leave_cordoned(order));
        let all = futures_util::stream::iter(leaves).buffer_unordered(AT_ONCE);
        let _ = timeout(LONGEST, all.collect::<()>()).await;
    }
}
