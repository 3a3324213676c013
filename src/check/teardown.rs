//! The steps by which a node leaves its clusters: none of them is left out.

use super::rule::Found;
use super::view::View;
use crate::design::{EtcdCluster, RunId};
use crate::observed::{EtcdSeen, Fact};
use crate::plan::{Action, Change};
use crate::step::StepKind;

/// The actions whose nodes leave their clusters by all the steps of a teardown.
fn leaves_clusters(action: Action) -> bool {
    use Action as A;
    matches!(
        action,
        A::Update | A::Redeploy | A::Teardown | A::Decommission
    )
}

/// The steps that go together in a teardown: a node that is drained loses its labels and its kubelet, a member that is removed is
/// followed by a check, and what is built again is waited for.
pub(super) fn complete(view: &View<'_>, found: &mut Found<'_, '_>) {
    use StepKind as S;
    let action = view.plan.request.action;
    if !leaves_clusters(action) {
        return;
    }
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let has = |kind| view.has(name, kind);
        let in_cluster = [S::Drain, S::ClearLabels, S::ShutdownKubelet]
            .into_iter()
            .any(has);
        let is_gone = steps.iter().any(|at| *view.given(*at).node_is_gone());
        if has(S::Service) {
            serviced(view, name, found);
            continue;
        }
        let destroyed = has(S::Destroy);
        let deleted = destroyed || is_gone && action == Action::Teardown;
        let comes_back = has(S::Deploy);
        let removed = has(S::RemoveEtcd);
        let mut awaited = steps.iter().filter(|at| view.kind(**at) == S::AwaitReady);
        let removed_before = awaited.any(|at| !view.given(*at).etcd_members().is_empty());
        let table = [
            (in_cluster, S::Drain),
            (in_cluster, S::ClearLabels),
            (in_cluster && !is_gone, S::ShutdownKubelet),
            (in_cluster && deleted, S::RemoveFromCluster),
            (has(S::RemoveFromCluster) && comes_back, S::Drain),
            (removed, S::CheckEtcd),
            (removed_before, S::RemoveEtcd),
            (
                comes_back && (in_cluster || has(S::CheckEtcd)),
                S::AwaitReady,
            ),
        ];
        for (_, kind) in table.iter().filter(|(wanted, kind)| *wanted && !has(*kind)) {
            let what = format!("`{name}` leaves its clusters without `{kind}`");
            found.add(steps.iter().copied(), what);
        }
    }
}

/// A node that is drained for a service is waited for, and takes pods again unless another has cordoned it; its members stay.
fn serviced(view: &View<'_>, name: &str, found: &mut Found<'_, '_>) {
    use StepKind as S;
    let is_drained = view.has(name, S::Drain);
    let cluster = view.observed(name).map(|seen| &seen.cluster);
    let own = view
        .record(name)
        .and_then(|record| record.cordoned.as_ref());
    // Without an observation nothing tells whose cordon it is.
    let (is_free, by_others) = match cluster {
        Some(Fact::Known(Some(node))) => {
            let is_own = own.is_some() && node.cordoned_by.as_deref() == own.map(RunId::as_str);
            let is_free = !node.unschedulable || is_own;
            (is_free, !is_free)
        }
        Some(Fact::Known(None) | Fact::Unknown(_)) | None => (false, false),
    };
    let table = [
        (is_drained, S::AwaitReady),
        (is_drained && is_free, S::Uncordon),
    ];
    for (_, kind) in table
        .iter()
        .filter(|(wanted, kind)| *wanted && !view.has(name, *kind))
    {
        found.about(name, &format!("is serviced without `{kind}`"));
    }
    if by_others && view.has(name, S::Uncordon) {
        found.about(name, "was cordoned by another, and is uncordoned");
    }
    let leaves = [
        S::ClearLabels,
        S::RemoveEtcd,
        S::ShutdownKubelet,
        S::Destroy,
    ];
    for kind in leaves.into_iter().filter(|kind| view.has(name, *kind)) {
        found.about(name, &format!("is serviced, and has `{kind}`"));
    }
}

/// A machine that is destroyed and is in a cluster leaves it first: by what was observed.
pub(super) fn observed(view: &View<'_>, found: &mut Found<'_, '_>) {
    let action = view.plan.request.action;
    if !leaves_clusters(action) {
        return;
    }
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let is_destroyed = view.has(name, StepKind::Destroy);
        if !is_destroyed && !view.has(name, StepKind::Service) {
            continue;
        }
        let seen = view.observed(name).map(|seen| &seen.cluster);
        if matches!(seen, Some(Fact::Known(Some(_)))) && !view.has(name, StepKind::Drain) {
            let does = if is_destroyed {
                "destroyed"
            } else {
                "serviced"
            };
            let what = format!("`{name}` is a node of the cluster, and is {does} without a drain");
            found.add(steps.iter().copied(), what);
        }
        if is_destroyed {
            members(view, change, found);
        }
    }
}

/// The members on a machine that is destroyed are removed before, if their clusters list them.
fn members(view: &View<'_>, change: &Change, found: &mut Found<'_, '_>) {
    let (Some(guards), Some(world)) = (view.guards(), view.world) else {
        return;
    };
    let Some(seen) = world.observations else {
        return;
    };
    let name = change.node.as_str();
    for cluster in &guards.etcd_clusters {
        let Some(etcd) = seen.etcd.get(&cluster.name) else {
            continue;
        };
        let is_live = cluster.members.len() > 1 && lists(cluster, etcd, name);
        let steps = view.of_node(name).iter();
        let mut removals = steps.flat_map(|at| view.given(*at).etcd_members());
        let is_removed = removals.any(|removal| removal.cluster == cluster.name);
        if is_live && !is_removed {
            let what = format!("is a member of `{}` that is not removed", cluster.name);
            found.about(name, &what);
        }
    }
}

/// Whether a cluster lists a member on a node, by the answers of all members that are elsewhere.
fn lists(cluster: &EtcdCluster, seen: &EtcdSeen, node: &str) -> bool {
    let mut own = cluster
        .members
        .iter()
        .filter(|member| member.node.as_str() == node);
    own.any(|member| {
        let others = cluster
            .members
            .iter()
            .filter(|other| other.node != member.node);
        let answers = others.filter_map(|other| seen.answers.get(&other.name)?.known());
        let mut lists = answers.filter(|answer| answer.decides).map(|answer| {
            let mut listed = answer.members.iter();
            listed.any(|live| live.name == member.name || live.peer_urls.contains(&member.peer_url))
        });
        lists.next().is_some_and(|first| first) && lists.all(|listed| listed)
    })
}
