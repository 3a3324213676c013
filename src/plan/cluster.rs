//! The steps of a plan on the Kubernetes cluster: the rights that they need, and the API servers that
//! it leaves.

use std::collections::BTreeSet;

use super::etcd::Clusters;
use super::item::Item;
use super::options::Leaving;
use super::subject::Membership;
use crate::guard::{api_servers_left, has_control_plane_label};
use crate::observed::{ClusterFacts, Fact};
use crate::step::{OnDrainTimeout, StepKind};

/// Blocks what would take the last API server that is ready away. All nodes are judged together: those that
/// do not come back are gone for those that are judged after them.
pub(super) fn keep_api_servers<'i>(
    mut items: Vec<Item<'i>>,
    facts: Option<&ClusterFacts>,
    clusters: &Clusters<'_>,
    leaving: &Leaving,
) -> Vec<Item<'i>> {
    let Some(ready) = facts.and_then(|facts| facts.api_servers.as_ref()) else {
        return items;
    };
    let mut gone = 0;
    for comes_back in [false, true] {
        for item in items
            .iter_mut()
            .filter(|item| item.comes_back() == comes_back && takes_out(item))
        {
            let Some(servers) = api_servers_of(item, clusters, leaving) else {
                continue;
            };
            let ready = match ready {
                Fact::Known(ready) => ready.saturating_sub(gone),
                Fact::Unknown(why) => {
                    let reason = format!("which API servers are ready could not be read: {why}");
                    item.block_unreadable(&reason, None);
                    continue;
                }
            };
            match api_servers_left(ready, servers) {
                Err(refusal) => item.block(refusal, None),
                Ok(()) if !comes_back => gone += servers,
                Ok(()) => {}
            }
        }
    }
    items
}

/// The API servers that go with a node; `None` if it has none to keep.
fn api_servers_of(item: &Item<'_>, clusters: &Clusters<'_>, leaving: &Leaving) -> Option<usize> {
    let Membership::In(node) = item.subject.membership else {
        return None;
    };
    let is_control = has_control_plane_label(|label| node.labels.get(label));
    let ends = clusters.of_node(item.subject.name).any(|watched| {
        let cluster = &watched.cluster;
        cluster.members.len() == 1 && leaving.destroy_etcd.contains(cluster.name.as_str())
    });
    (!ends && (is_control || node.api_servers > 0)).then_some(node.api_servers)
}

/// Whether the API server of an item's node goes, or is away for a while.
fn takes_out(item: &Item<'_>) -> bool {
    let Some(leave) = &item.work.leave else {
        return false;
    };
    let takes = matches!(
        leave.only,
        None | Some(StepKind::Drain | StepKind::ShutdownKubelet)
    );
    takes && !leave.is_gone && !item.change.excluded
}

/// Blocks what would take a node away on which another maintainer is at work: the drain would refuse it.
pub(super) fn leave_to_maintainers(mut items: Vec<Item<'_>>) -> Vec<Item<'_>> {
    for item in items.iter_mut().filter(|item| takes_out(item)) {
        let Membership::In(node) = item.subject.membership else {
            continue;
        };
        if let Some(by) = &node.maintenance {
            let reason = format!("another maintainer is at work on its node ({by}), and ends that");
            item.block(&reason, None);
        }
    }
    items
}

/// Blocks what needs a right that is missing.
pub(super) fn need_rights<'i>(
    mut items: Vec<Item<'i>>,
    facts: Option<&ClusterFacts>,
) -> Vec<Item<'i>> {
    let missing = facts.map_or(&[][..], |facts| &facts.missing_rights);
    if missing.is_empty() {
        return items;
    }
    for item in items.iter_mut().filter(|item| !item.change.excluded) {
        let steps = steps_of(item);
        let is_forced = item.work.leave.as_ref().is_some_and(|leave| {
            let policy = leave.on_drain_timeout.unwrap_or(OnDrainTimeout::Fail);
            leave.is_gone || policy != OnDrainTimeout::Fail
        });
        let needed = missing.iter().filter(|right| !right.forced || is_forced);
        let needed: Vec<String> = needed
            .filter_map(|right| {
                let step = steps
                    .iter()
                    .find(|step| right.steps.contains(step.as_str()))?;
                Some(format!("`{}` for {step}", right.right))
            })
            .collect();
        if !needed.is_empty() {
            let reason = format!(
                "rights are missing in its Kubernetes cluster: {}; docs/kubernetes.md lists those that are needed",
                needed.join(", ")
            );
            item.block(&reason, None);
        }
    }
    items
}

/// The kinds of step on the Kubernetes cluster that an item comes to.
fn steps_of(item: &Item<'_>) -> BTreeSet<StepKind> {
    let mut steps = BTreeSet::new();
    if let Some(leave) = &item.work.leave {
        match leave.only {
            Some(only) => drop(steps.insert(only)),
            None if leave.node_uid.is_none() => {}
            None => {
                steps.extend(leave.before_machine());
                steps.extend(leave.delete.then_some(StepKind::RemoveFromCluster));
                let service = item.work.service.as_deref();
                let comes_back = item.work.deploy || service.is_some();
                steps.extend(comes_back.then_some(StepKind::AwaitReady));
                let uncordons = service.is_some_and(|service| service.uncordons);
                steps.extend(uncordons.then_some(StepKind::Uncordon));
            }
        }
    }
    let joins = item.work.rejoins.as_ref().is_some_and(|leave| leave.joins);
    steps.extend(joins.then_some(StepKind::AwaitReady));
    steps.extend(item.work.uncordon.then_some(StepKind::Uncordon));
    steps.extend(item.work.relabel.is_some().then_some(StepKind::Relabel));
    let single = item.work.single.as_ref().map(|single| single.kind);
    steps.extend(single.filter(|kind| *kind == StepKind::Remediate));
    steps
}
