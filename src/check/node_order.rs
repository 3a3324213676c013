//! The order of the steps of one node, against a table of the specifications.

use super::rule::Found;
use super::view::View;
use crate::plan::ChangeKind;
use crate::step::{StepKind, Wait};

/// A row: what of an earlier step a later one of the same node waits for, and the sentence of the specification.
pub(super) struct Row {
    pub(super) before: StepKind,
    pub(super) after: StepKind,
    pub(super) wait: Wait,
    pub(super) sentence: &'static str,
}

const fn row(before: StepKind, after: StepKind, wait: Wait, sentence: &'static str) -> Row {
    Row {
        before,
        after,
        wait,
        sentence,
    }
}

/// The table. Each step waits for every one before it in the same group, so that one that is left out breaks no chain.
pub(super) const ORDER: &[Row] = {
    use StepKind as S;
    use Wait::{Done, Success};
    const DRAINED: &str = "a drain that fails stops the teardown of its node";
    const LABELS: &str =
        "labels are cleared before members are removed, and a failure stops the node";
    const REMOVED: &str =
        "the clusters are checked once the members are removed, and a failure stops the node";
    const STABLE: &str =
        "every etcd cluster is stable before the kubelet is stopped and the machine is destroyed";
    const KUBELET: &str = "the kubelet is stopped before the machine is destroyed; that it fails does not hold the process up";
    const DESTROYED: &str =
        "the machine is destroyed before its node is deleted and it is built again";
    const DELETED: &str = "its Kubernetes node is deleted before it is built again";
    const PREPARED: &str = "a node that failed to be prepared is not deployed";
    const DEPLOYED: &str = "a machine is waited for once it was deployed";
    const EMPTY: &str = "a node is drained before its machine is serviced";
    const SERVICED: &str = "a machine is waited for, and recorded, once it was serviced";
    const BACK: &str = "its node takes pods again once it is back";
    const ON: &str = "what is switched on is awaited once it is on";
    const UNRETIRED: &str = "the retired flag is taken off before all that the node is for";
    const JOINED: &str =
        "no record is one of a finished machine before that has joined its clusters";
    const RELABELLED: &str = "a record says that labels are set once they are";
    &[
        row(S::Drain, S::ClearLabels, Success, DRAINED),
        row(S::Drain, S::RemoveEtcd, Success, DRAINED),
        row(S::Drain, S::CheckEtcd, Success, DRAINED),
        row(S::Drain, S::ShutdownKubelet, Success, DRAINED),
        row(S::Drain, S::Destroy, Success, DRAINED),
        row(S::Drain, S::RemoveFromCluster, Success, DRAINED),
        row(S::ClearLabels, S::RemoveEtcd, Success, LABELS),
        row(S::ClearLabels, S::CheckEtcd, Success, LABELS),
        row(S::ClearLabels, S::ShutdownKubelet, Success, LABELS),
        row(S::ClearLabels, S::Destroy, Success, LABELS),
        row(S::ClearLabels, S::RemoveFromCluster, Success, LABELS),
        row(S::RemoveEtcd, S::CheckEtcd, Success, REMOVED),
        row(S::RemoveEtcd, S::ShutdownKubelet, Success, REMOVED),
        row(S::RemoveEtcd, S::Destroy, Success, REMOVED),
        row(S::RemoveEtcd, S::RemoveFromCluster, Success, REMOVED),
        row(S::CheckEtcd, S::ShutdownKubelet, Success, STABLE),
        row(S::CheckEtcd, S::Destroy, Success, STABLE),
        row(S::CheckEtcd, S::RemoveFromCluster, Success, STABLE),
        row(S::ShutdownKubelet, S::Destroy, Done, KUBELET),
        row(S::ShutdownKubelet, S::RemoveFromCluster, Done, KUBELET),
        row(S::Destroy, S::RemoveFromCluster, Success, DESTROYED),
        row(S::Destroy, S::Prepare, Success, DESTROYED),
        row(S::Destroy, S::Deploy, Success, DESTROYED),
        row(S::RemoveFromCluster, S::Prepare, Success, DELETED),
        row(S::RemoveFromCluster, S::Deploy, Success, DELETED),
        row(S::Prepare, S::Deploy, Success, PREPARED),
        row(S::Deploy, S::AwaitReady, Success, DEPLOYED),
        row(S::PowerOn, S::AwaitReady, Success, ON),
        row(S::Drain, S::Service, Success, EMPTY),
        row(S::Service, S::AwaitReady, Success, SERVICED),
        row(S::Service, S::Record, Success, SERVICED),
        row(S::ServiceLive, S::Record, Success, SERVICED),
        row(S::ServiceLive, S::AcceptDifferences, Success, SERVICED),
        row(S::UnsetRetired, S::ServiceLive, Success, UNRETIRED),
        row(S::Service, S::Uncordon, Success, BACK),
        row(S::AwaitReady, S::Uncordon, Success, BACK),
        row(S::UnsetRetired, S::Service, Success, UNRETIRED),
        row(S::UnsetRetired, S::PowerOn, Success, UNRETIRED),
        row(S::UnsetRetired, S::Relabel, Success, UNRETIRED),
        row(S::UnsetRetired, S::Destroy, Success, UNRETIRED),
        row(S::UnsetRetired, S::Prepare, Success, UNRETIRED),
        row(S::UnsetRetired, S::Deploy, Success, UNRETIRED),
        row(S::AwaitReady, S::Record, Success, JOINED),
        row(S::AwaitReady, S::AcceptDifferences, Success, JOINED),
        row(S::Relabel, S::Record, Success, RELABELLED),
        row(S::Relabel, S::AcceptDifferences, Success, RELABELLED),
    ]
};

/// The steps of a node wait for each other as the table says.
pub(super) fn order(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (change, steps) in view.worked_on() {
        if steps.len() < 2 || is_labelled_apart(view, change.kind, steps) {
            continue;
        }
        for (number, later) in steps.iter().enumerate() {
            for earlier in steps.iter().take(number).chain(&steps[number + 1..]) {
                if let Some(row) = broken(view, *earlier, *later) {
                    let what = format!("do not wait for each other: {}", row.sentence);
                    found.add([*later, *earlier], what);
                }
            }
        }
    }
}

/// A node without a group is relabelled beside what takes its flag off, which no step of it needs.
fn is_labelled_apart(view: &View<'_>, change: ChangeKind, steps: &[usize]) -> bool {
    let is_group_less = steps.iter().all(|at| view.step(*at).id.group.is_none());
    let is_kind = |kind| steps.iter().any(|at| view.kind(*at) == kind);
    is_group_less
        && is_kind(StepKind::UnsetRetired)
        && !matches!(change, ChangeKind::Redeploy | ChangeKind::Destroy)
}

/// The row that a step breaks towards another step of its node.
fn broken(view: &View<'_>, earlier: usize, later: usize) -> Option<&'static Row> {
    let (before, after) = (&view.step(earlier).id, &view.step(later).id);
    // Of a node in several groups the steps of one group alone are carried out.
    let is_apart = before.group.is_some() && after.group.is_some() && before.group != after.group;
    if is_apart {
        return None;
    }
    let is_about = |row: &&Row| row.before == before.kind && row.after == after.kind;
    let row = ORDER.iter().find(is_about)?;
    (!chained(view, earlier, later, row.wait)).then_some(row)
}

/// Whether a step waits for another one of its node: by itself, by the steps of the node between them, or else by any.
fn chained(view: &View<'_>, earlier: usize, later: usize, wait: Wait) -> bool {
    let node = view.step(later).id.node.as_ref();
    let (mut at, mut left) = (later, 16);
    // Nearly always the latest step of the same node that it waits for leads to it.
    while at > earlier && left > 0 {
        if view.waits(at, earlier, wait) {
            return true;
        }
        let needs = view.step(at).needs.iter().rev();
        let mut own = needs.filter(|need| wait == Wait::Done || need.wait == Wait::Success);
        let next = own.find(|need| view.step(need.step.0 as usize).id.node.as_ref() == node);
        let Some(next) = next else { break };
        (at, left) = (next.step.0 as usize, left - 1);
    }
    view.is_after(later, earlier, wait)
}
