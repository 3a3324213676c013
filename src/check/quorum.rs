//! Etcd clusters keep their quorum and their threshold whichever members are away together.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::antichain;
use super::away::{self, most_by_series};
use super::interval::Away;
use super::rule::Found;
use super::view::View;
use crate::design::{EtcdCluster, NodeName};
use crate::lifecycle::ProvisionState;
use crate::observed::{EtcdAnswer, EtcdSeen, Fact};
use crate::plan::{FactName, FactSubject, Precondition, Relation};
use crate::step::StepKind;

/// The voters of a cluster, and how many of them are healthy without any that is away.
struct Voters<'a> {
    count: usize,
    /// The nodes of healthy ones.
    healthy: BTreeSet<&'a str>,
    /// How many members of the design had left when the plan was made: nothing is to be removed of them.
    had_left: usize,
    are_observed: bool,
}

impl<'a> Voters<'a> {
    fn of(view: &View<'_>, cluster: &'a EtcdCluster, seen: Option<&EtcdSeen>) -> Self {
        let Some(seen) = seen else {
            return Self::relied_on(view, cluster);
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
            had_left: 0,
            are_observed: true,
        }
    }

    /// Those that were there when the plan was made, and have to be there when its steps act, with members that leave the
    /// design; those of the design if the plan relies on none.
    fn relied_on(view: &View<'_>, cluster: &'a EtcdCluster) -> Self {
        let is_own = |one: &&Precondition| {
            one.what.fact == FactName::Voters
                && matches!(&one.subject, FactSubject::Etcd(name) if *name == cluster.name)
        };
        let relied_on = view.plan.relies_on.iter().find(is_own);
        let voters = relied_on.and_then(|one| {
            let voters: Vec<serde::de::IgnoredAny> =
                serde_json::from_str(&one.what.expected).ok()?;
            Some(voters.len())
        });
        let undeployed: FxHashSet<&NodeName> = relied_on_undeployed(view).collect();
        let designed = cluster.members.iter().map(|member| &member.node);
        let running = designed.filter(|node| !undeployed.contains(node));
        Self {
            count: voters.unwrap_or_default().max(cluster.members.len()),
            healthy: running.map(NodeName::as_str).collect(),
            had_left: voters.map_or(0, |voters| cluster.members.len().saturating_sub(voters)),
            are_observed: false,
        }
    }
}

/// The machines that run nothing while the plan may act.
fn relied_on_undeployed<'a>(view: &View<'a>) -> impl Iterator<Item = &'a NodeName> {
    let relied_on = view.plan.relies_on.iter().filter(move |one| {
        let expected = || serde_json::from_str(&one.what.expected).ok();
        one.what.fact == FactName::Provision
            && one.what.relation == Relation::Equal
            && expected() == Some(ProvisionState::Available)
    });
    relied_on.filter_map(|one| one.subject.node())
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
    let mut removals = steps.flat_map(|at| view.given(*at).etcd_members());
    removals.any(|removal| removal.cluster == cluster.name)
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
        let voters = Voters::of(view, cluster, seen);
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
    let nodes = |is_meant: &dyn Fn(&Away<'_>) -> bool| {
        let meant = set.iter().filter(|away| is_meant(away));
        meant.map(|away| away.node).collect::<BTreeSet<_>>().len()
    };
    let is_healthy = |away: &Away<'_>| voters.healthy.contains(away.node.as_str());
    let gone = match voters.are_observed {
        true => nodes(&is_healthy),
        false => {
            let removed = nodes(&|away| removes(view, away, cluster));
            let others = nodes(&|away| is_healthy(away) && !removes(view, away, cluster));
            removed + others.saturating_sub(voters.had_left)
        }
    };
    if gone == 0 {
        // Nothing healthy is taken away.
        return None;
    }
    let removed: BTreeSet<&str> = set
        .iter()
        .filter(|away| removes(view, away, cluster))
        .map(|away| away.node.as_str())
        .collect();
    // Which of them were healthy when a run began is not known: a majority of all has to be there.
    let (healthy, wanted) = match voters.are_observed {
        true => {
            let majority = majority(voters.count.saturating_sub(removed.len()));
            (voters.healthy.len(), majority.max(cluster.minimum_healthy))
        }
        false => (voters.count, majority(voters.count)),
    };
    let left = healthy.saturating_sub(gone);
    (left < wanted).then(|| {
        format!(
            "etcd cluster `{}` has {left} healthy members while these machines are away together, and needs {wanted}",
            cluster.name
        )
    })
}
