//! Etcd clusters keep their quorum and their threshold whichever members are away together.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::antichain;
use super::away::{self, most_by_series};
use super::interval::Away;
use super::rule::Found;
use super::view::View;
use crate::design::{EtcdCluster, NodeName};
use crate::observed::{EtcdAnswer, EtcdSeen, Fact};
use crate::step::StepKind;

/// The voters of a cluster, and how many of them are healthy without any that is away.
struct Voters<'a> {
    count: usize,
    /// The nodes of healthy ones.
    healthy: BTreeSet<&'a str>,
    are_observed: bool,
}

impl<'a> Voters<'a> {
    fn of(cluster: &'a EtcdCluster, seen: Option<&EtcdSeen>) -> Self {
        let designed = || cluster.members.iter().map(|member| member.node.as_str());
        let Some(seen) = seen else {
            return Self {
                count: cluster.members.len(),
                healthy: designed().collect(),
                are_observed: false,
            };
        };
        let answers = seen.answers.values().filter_map(Fact::known);
        let answers = answers.filter(|answer| !answer.learner);
        let age = |answer: &&EtcdAnswer| (answer.decides, answer.raft_term, answer.raft_index);
        let latest = answers.max_by_key(age);
        let members = latest.map_or(&[][..], |answer| &answer.members);
        let is_healthy = |name: &Arc<str>| {
            let answer = seen.answers.get(name).and_then(Fact::known);
            answer.is_some_and(|answer| {
                let is_voter =
                    |id: &Arc<str>| members.iter().any(|live| live.id == *id && !live.learner);
                answer.decides
                    && answer.leader.is_some()
                    && answer.errors.is_empty()
                    && is_voter(&answer.member_id)
                    && !seen.invalid.contains_key(name)
            })
        };
        let healthy = cluster
            .members
            .iter()
            .filter(|member| is_healthy(&member.name));
        Self {
            count: members.iter().filter(|live| !live.learner).count(),
            healthy: healthy.map(|member| member.node.as_str()).collect(),
            are_observed: true,
        }
    }
}

/// A majority.
const fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Whether a step of a node takes its members away: they vote on while it is only drained.
fn stops_members(view: &View<'_>, node: &NodeName) -> bool {
    use StepKind as S;
    let kinds = [
        S::RemoveEtcd,
        S::Destroy,
        S::PowerOff,
        S::Service,
        S::Remediate,
    ];
    kinds.iter().any(|kind| view.has(node.as_str(), *kind))
}

/// Whether steps remove a member of a cluster from a node.
fn removes(view: &View<'_>, away: &Away<'_>, cluster: &EtcdCluster) -> bool {
    let steps = view.of_node(away.node.as_str()).iter();
    let mut all = steps.filter_map(|at| view.parameters(*at));
    all.any(|all| {
        all.etcd_members
            .iter()
            .any(|removal| removal.cluster == cluster.name)
    })
}

/// In every interleaving, of each cluster at least a quorum of the voters that are left, and its threshold, are there.
pub(super) fn quorum(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view
        .guards()
        .filter(|guards| !guards.etcd_clusters.is_empty())
    else {
        return;
    };
    let away = away::of(view);
    let away: Vec<&Away<'_>> = away
        .iter()
        .filter(|away| stops_members(view, away.node))
        .collect();
    if away.is_empty() {
        return;
    }
    let observed = view.world.and_then(|world| world.observations);
    for cluster in &guards.etcd_clusters {
        let is_here = |node: &NodeName| cluster.members.iter().any(|member| member.node == *node);
        let ends = view
            .plan
            .options
            .leaving
            .destroy_etcd
            .contains(cluster.name.as_str());
        let members = away
            .iter()
            .filter(|away| is_here(away.node) || removes(view, away, cluster));
        let members: Vec<&Away<'_>> = members.copied().collect();
        if members.is_empty() || ends && cluster.members.len() == 1 {
            continue;
        }
        let seen = observed.and_then(|seen| seen.etcd.get(&cluster.name));
        if observed.is_some() && seen.is_none() {
            found.add(
                firsts(&members),
                format!("etcd cluster `{}` was not observed", cluster.name),
            );
            continue;
        }
        let voters = Voters::of(cluster, seen);
        let lost = |set: &[&Away<'_>]| lost(view, cluster, &voters, set);
        if lost(&most_by_series(&members, true)).is_none() {
            continue;
        }
        match antichain::most(view, &members, true) {
            None => found.add([], format!("etcd cluster `{}`: not proven", cluster.name)),
            Some(set) => {
                if let Some(what) = lost(&set) {
                    found.add(firsts(&set), what);
                }
            }
        }
    }
}

fn firsts(some: &[&Away<'_>]) -> Vec<usize> {
    some.iter()
        .flat_map(|away| away.firsts.iter().copied())
        .collect()
}

/// The lack of a cluster while some machines are away.
fn lost(
    view: &View<'_>,
    cluster: &EtcdCluster,
    voters: &Voters<'_>,
    set: &[&Away<'_>],
) -> Option<String> {
    let nodes: BTreeSet<&str> = set.iter().map(|away| away.node.as_str()).collect();
    let gone = nodes
        .iter()
        .filter(|node| voters.healthy.contains(**node))
        .count();
    if gone == 0 {
        // Nothing healthy is taken away.
        return None;
    }
    let removed: BTreeSet<&str> = set
        .iter()
        .filter(|away| removes(view, away, cluster))
        .map(|away| away.node.as_str())
        .collect();
    let left = voters.healthy.len() - gone;
    // Which of them were healthy when a run began is not known: a majority of all has to be there.
    let wanted = match voters.are_observed {
        true => majority(voters.count.saturating_sub(removed.len())).max(cluster.minimum_healthy),
        false => majority(voters.count),
    };
    (left < wanted).then(|| {
        format!(
            "etcd cluster `{}` has {left} healthy members while these machines are away together, and needs {wanted}",
            cluster.name
        )
    })
}
