//! The etcd clusters that a plan touches: who is a member of which, and whether they keep their quorum.
//!
//! All nodes of the plan are judged together. Those that do not come back are taken out one after the
//! other, and each counts for the next; those that come back are judged each alone, with and without
//! those that do not, since either may come first. How many of them may be out at the same time is a
//! limit of the waves.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Cause;
use super::allowance::Allowed;
use super::input::Input;
use super::item::Item;
use super::leave::Leave;
use super::options::Leaving;
use super::subject::Membership;
use crate::design::{ClusterName, EtcdCluster, MovedMember, NodeName, quorum as majority};
use crate::guard::{has_control_plane_label, quorum};
use crate::observed::{EtcdSeen, Fact};
use crate::step::{EtcdRemoval, StepKind};

/// A cluster as the design has it, and with the members that have left the design and are still in it.
pub(super) struct Watched<'a> {
    pub(super) cluster: EtcdCluster,
    /// `None`: not observed.
    pub(super) seen: Option<&'a EtcdSeen>,
}

/// The predicted state of the clusters that members leave for good, when all of those have gone.
pub(super) type After = BTreeMap<ClusterName, EtcdSeen>;

/// All clusters, by name.
pub(super) struct Clusters<'a> {
    by_name: BTreeMap<ClusterName, Watched<'a>>,
    of_node: FxHashMap<NodeName, Vec<ClusterName>>,
    /// Nodes of which documents of two revisions disagree whether a member is on them, and how.
    disputed: FxHashMap<NodeName, Arc<str>>,
}

impl<'a> Clusters<'a> {
    /// The clusters of the design, and what was last applied to nodes that are no members any more.
    pub(super) fn of(input: &Input<'a>) -> Self {
        let mut by_name: BTreeMap<ClusterName, Watched<'a>> = BTreeMap::new();
        let built_of = input.after.built_of().into_iter();
        let mut all_moved: Vec<MovedMember> = built_of
            .flat_map(|built| built.moved_members.iter().cloned())
            .collect();
        let seen = |name: &ClusterName| input.observations.and_then(|seen| seen.etcd.get(name));
        for cluster in &input.after.guards().etcd_clusters {
            let watched = Watched {
                cluster: cluster.clone(),
                seen: seen(&cluster.name),
            };
            by_name.insert(cluster.name.clone(), watched);
        }
        for record in input.records.values() {
            let old = record
                .revision
                .as_ref()
                .and_then(|old| input.designs.get(old));
            let clusters = old.into_iter().flat_map(|old| &old.guards.etcd_clusters);
            let its_members = clusters.flat_map(|cluster| {
                let members = cluster.members.iter();
                let its_own = members.filter(|member| member.node == record.node);
                its_own.map(move |member| (cluster, member))
            });
            for (cluster, member) in its_members {
                let empty = || Watched {
                    cluster: EtcdCluster {
                        members: Vec::new(),
                        ..cluster.clone()
                    },
                    seen: seen(&cluster.name),
                };
                let watched = by_name.entry(cluster.name.clone());
                let members = &mut watched.or_insert_with(empty).cluster.members;
                let moved: Vec<MovedMember> = members
                    .iter()
                    .filter_map(|known| MovedMember::of(known, member))
                    .collect();
                let is_known = members.iter().any(|known| known.node == member.node);
                if moved.is_empty() && !is_known {
                    members.push(member.clone());
                }
                all_moved.extend(moved);
            }
        }
        let mut of_node: FxHashMap<NodeName, Vec<ClusterName>> = FxHashMap::default();
        for (name, watched) in &by_name {
            for member in &watched.cluster.members {
                let clusters = of_node.entry(member.node.clone()).or_default();
                clusters.push(name.clone());
            }
        }
        Self {
            by_name,
            of_node,
            disputed: disputed(&all_moved),
        }
    }

    /// The clusters of which a node is a member.
    pub(super) fn of_node(&self, node: &NodeName) -> impl Iterator<Item = &Watched<'a>> {
        let names = self.of_node.get(node).into_iter().flatten();
        names.filter_map(|name| self.by_name.get(name))
    }

    /// All clusters, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Watched<'a>> {
        self.by_name.values()
    }

    /// Says of each node that leaves which members are removed, and blocks those whose cluster would
    /// not bear it. `no_etcd_here`: nodes that look as if they ran etcd, and do not.
    pub(super) fn settle<'i>(
        &self,
        items: Vec<Item<'i>>,
        leaving: &Leaving,
        no_etcd_here: &Allowed<'_>,
    ) -> (Vec<Item<'i>>, After) {
        let alone = |item| self.leave(item, leaving, no_etcd_here);
        let items: Vec<Item<'_>> = items.into_iter().map(alone).collect();
        let mut after = After::new();
        let for_good = |item: Item<'i>| match is_carried_out(&item) && !item.comes_back() {
            true => self.take_out(item, &mut after),
            false => item,
        };
        let items: Vec<Item<'_>> = items.into_iter().map(for_good).collect();
        let for_a_while = |item: Item<'i>| {
            let mut item = match is_carried_out(&item) && item.comes_back() {
                true => self.judge_after(item, &after),
                false => item,
            };
            let leave = item.work.leave.as_ref();
            if leave.is_some_and(|leave| leave.only_judged) {
                item.work.leave = None;
            }
            // Its members stay: what was judged is that they are away.
            if let Some(leave) = item.work.leave.as_deref_mut().filter(|each| each.serviced) {
                leave.etcd.clear();
            }
            item
        };
        let items = items.into_iter().map(for_a_while).collect();
        (items, after)
    }

    /// Blocks machines that are to be retired if their clusters would have too few members on machines that are not, as
    /// `rule-etcd-retired` refuses documents.
    pub(super) fn keep_members<'i>(
        &self,
        mut items: Vec<Item<'i>>,
        is_retired: impl Fn(&NodeName) -> bool,
    ) -> Vec<Item<'i>> {
        let retires = |item: &&Item<'_>| {
            let single = item.work.single.as_ref();
            single.is_some_and(|single| single.kind == StepKind::SetRetired)
        };
        let retiring = items.iter().filter(retires);
        let retiring: FxHashSet<&NodeName> = retiring.map(|item| item.subject.name).collect();
        let stays = |name: &NodeName| !retiring.contains(name) && !is_retired(name);
        for item in &mut items {
            if !retiring.contains(item.subject.name) {
                continue;
            }
            let too_few = self.of_node(item.subject.name).find_map(|watched| {
                let members = &watched.cluster.members;
                let staying = members.iter().filter(|member| stays(&member.node)).count();
                let wanted = majority(members.len()).max(watched.cluster.minimum_healthy);
                (staying < wanted).then(|| {
                    format!(
                        "etcd cluster `{}` would have {staying} of {} members on machines that are not retired, and it needs {wanted}",
                        watched.cluster.name,
                        members.len()
                    )
                })
            });
            if let Some(why) = too_few {
                item.block_for(Cause::Etcd, &why, None);
            }
        }
        items
    }

    /// Settles which members one node loses, if it loses any.
    fn leave<'i>(&self, item: Item<'i>, leaving: &Leaving, no_etcd_here: &Allowed<'_>) -> Item<'i> {
        let leave = item.work.leave.as_ref();
        if item.change.excluded || !leave.is_some_and(|leave| leave.is_about_etcd()) {
            return item;
        }
        let mut item = self.remove(item, leaving);
        if let Some(why) = self.disputed.get(item.subject.name) {
            item.block(why, None);
        }
        let leave = item.work.leave.as_ref();
        let is_member = leave.is_some_and(|leave| leave.is_member);
        let is_disputed = self.disputed.contains_key(item.subject.name);
        if !is_member && !is_disputed {
            match self.unlisted(&item) {
                // A flag does not take back what the cluster itself lists.
                Some(why) => item.block(&why, None),
                None if no_etcd_here.contains(item.subject.name) => {}
                None => block_unlisted(&mut item),
            }
        }
        // A node that is in no cluster has nothing to leave.
        let is_in_any = |leave: &Leave| leave.is_member || leave.node_uid.is_some();
        if !item.work.leave.as_deref().is_some_and(is_in_any) {
            item.work.leave = None;
        }
        only_etcd(&mut item);
        item
    }

    /// Why a node runs a member that no document lists, if a cluster lists one at an address of the node.
    fn unlisted(&self, item: &Item<'_>) -> Option<String> {
        let designs = [item.subject.after, item.subject.before];
        let addresses: Vec<&Arc<str>> = designs
            .into_iter()
            .flatten()
            .flat_map(|node| node.addresses.values())
            .collect();
        let is_here = |url: &Arc<str>| {
            addresses.iter().any(|address| {
                url.contains(&format!("//{address}:")) || url.contains(&format!("//[{address}]:"))
            })
        };
        self.by_name.values().find_map(|watched| {
            let listed = &watched.cluster.members;
            let answers = watched.seen?.answers.values().filter_map(Fact::known);
            let mut members = answers.flat_map(|answer| &answer.members);
            let member = members.find(|member| {
                let is_listed = |url: &Arc<str>| listed.iter().any(|known| known.peer_url == *url);
                let urls = &member.peer_urls;
                urls.iter().any(is_here) && !urls.iter().any(is_listed)
            })?;
            Some(format!(
                "etcd cluster `{}` has member `{}` at an address of it, which no document lists: list it in EtcdClusters, and \
                 tear the node down before the documents drop it",
                watched.cluster.name, member.name
            ))
        })
    }

    /// The members of one node, and whether their clusters bear its loss.
    fn remove<'i>(&self, mut item: Item<'i>, leaving: &Leaving) -> Item<'i> {
        let name = item.subject.name;
        let (mut removals, mut given_up) = (Vec::new(), Vec::new());
        let mut is_member = false;
        for watched in self.of_node(name) {
            is_member = true;
            let cluster = &watched.cluster;
            let Some(seen) = watched.seen else {
                let reason = format!(
                    "it is a member of etcd cluster `{}`, which was not observed",
                    cluster.name
                );
                item.block_unreadable(&reason, None);
                continue;
            };
            let is_serviced = item.work.leave.as_ref().is_some_and(|each| each.serviced);
            let may_end = !is_serviced && leaving.destroy_etcd.contains(cluster.name.as_str());
            match quorum::removal(cluster, seen, name, may_end) {
                Ok(found) if found.is_empty() && cluster.members.len() == 1 => {
                    item.because(format!("etcd cluster `{}` ends with it", cluster.name));
                    given_up.push(cluster.name.clone());
                }
                Ok(found) => removals.extend(found),
                Err(refusal) => {
                    let flag = format!("--destroy-etcd {}", cluster.name);
                    let only = matches!(refusal, quorum::Refusal::OnlyMember { .. });
                    let flag = (only && !is_serviced).then_some(&*flag);
                    item.block_for(Cause::Etcd, &refusal.to_string(), flag);
                }
            }
        }
        if let Some(leave) = &mut item.work.leave {
            leave.is_member = is_member;
            leave.awaits_etcd &= self.all().next().is_some();
            leave.etcd = removals;
            leave.given_up = given_up;
        }
        item
    }

    /// Takes a node that does not come back out of its clusters, for those that are judged after it.
    fn take_out<'i>(&self, item: Item<'i>, after: &mut After) -> Item<'i> {
        let item = self.judge_after(item, after);
        let Some(leave) = item.work.leave.as_ref() else {
            return item;
        };
        if item.change.blocked.is_some() {
            return item;
        }
        for watched in self.of_node(item.subject.name) {
            let name = &watched.cluster.name;
            if let Some(seen) = after.get(name).or(watched.seen) {
                let left = quorum::without(seen, &of_cluster(&leave.etcd, name));
                after.insert(name.clone(), left);
            }
        }
        item
    }

    /// Blocks a node that may not go as things are when those that do not come back have gone.
    fn judge_after<'i>(&self, mut item: Item<'i>, after: &After) -> Item<'i> {
        let name = item.subject.name;
        let refusal = self.of_node(name).find_map(|watched| {
            let seen = after.get(&watched.cluster.name)?;
            quorum::removal(&watched.cluster, seen, name, true).err()
        });
        if let Some(refusal) = refusal {
            let reason = format!("together with the others that this plan takes out, {refusal}");
            item.block_for(Cause::Etcd, &reason, None);
        }
        item
    }

    /// How many members of each cluster may be out at the same time and come back.
    pub(super) fn places(&self, after: &After) -> impl Iterator<Item = (&str, usize)> {
        self.by_name.values().filter_map(|watched| {
            let seen = watched.seen?;
            let now = places(&watched.cluster, seen);
            let after = after.get(&watched.cluster.name);
            let after = after.map_or(now, |after| places(&watched.cluster, after));
            Some((watched.cluster.name.as_str(), now.min(after)))
        })
    }
}

/// Whether a node that loses members is worked on.
fn is_carried_out(item: &Item<'_>) -> bool {
    let leave = item.work.leave.as_ref();
    leave.is_some_and(|leave| leave.is_member) && item.change.blocked.is_none()
}

/// Why nothing is taken from nodes of which it is not known whether a member is on them.
fn disputed(moved: &[MovedMember]) -> FxHashMap<NodeName, Arc<str>> {
    let mut disputed = FxHashMap::default();
    for MovedMember { name, now, then } in moved {
        let why: Arc<str> = format!(
            "etcd member `{name}` is on `{now}` by the newest documents, and on `{then}` by those applied before: which \
             machine holds it is not known"
        )
        .into();
        disputed.insert(now.clone(), why.clone());
        disputed.insert(then.clone(), why);
    }
    disputed
}

/// Blocks a node that seems to run a member of an etcd cluster that the design does not have.
fn block_unlisted(item: &mut Item<'_>) {
    let subject = &item.subject;
    let runs_etcd = subject.pods.is_some_and(|pods| pods.runs_etcd);
    let is_control = matches!(subject.membership, Membership::In(node)
        if has_control_plane_label(|label| node.labels.get(label)));
    let why = match (runs_etcd, is_control) {
        (true, _) => "an etcd runs on it, and no etcd cluster of the design lists it",
        (_, true) => "it is of the control plane, and no etcd cluster of the design lists it",
        _ => return,
    };
    item.block(why, Some("--no-etcd-here"));
}

/// Restricts a change to members only, where members alone are removed, or none.
fn only_etcd(item: &mut Item<'_>) {
    let Some(leave) = &item.work.leave else {
        if item.change.does.as_deref() == Some("remove-etcd") {
            item.because("is a member of no etcd cluster");
            item.show_only();
        }
        return;
    };
    let is_destroyed = item.work.destroy && leave.only_judged;
    if let Some(removal) = leave.etcd.first().filter(|_| is_destroyed) {
        let reason = format!(
            "it is a member of etcd cluster `{}`: decommission it first, or tear it down",
            removal.cluster
        );
        item.block(&reason, None);
    } else if leave.only == Some(StepKind::RemoveEtcd)
        && leave.etcd.is_empty()
        && item.change.blocked.is_none()
    {
        let Some(cluster) = leave.given_up.first().cloned() else {
            item.because(match leave.is_member {
                true => "its members are gone already",
                false => "is a member of no etcd cluster",
            });
            item.show_only();
            return;
        };
        let name = item.subject.name;
        let reason = format!(
            "etcd never removes its only member: etcd cluster `{cluster}` ends with its machine \
             (`teardown {name} --destroy-etcd {cluster}`)"
        );
        item.block_for(Cause::Etcd, &reason, None);
    }
}

/// The removals of one cluster.
pub(super) fn of_cluster(removals: &[EtcdRemoval], cluster: &ClusterName) -> Vec<EtcdRemoval> {
    let removals = removals.iter().filter(|each| each.cluster == *cluster);
    removals.cloned().collect()
}

/// How many healthy voters a cluster can do without at the same time; at least 1, since whether it can
/// do without any is judged before.
fn places(cluster: &EtcdCluster, seen: &EtcdSeen) -> usize {
    let Some(standing) = quorum::standing(cluster, seen) else {
        return 1;
    };
    let (healthy, voters) = (standing.healthy.len(), standing.voters.len());
    let bears = |missing: &usize| {
        let left = healthy.saturating_sub(*missing);
        let wanted = majority(voters.saturating_sub(*missing));
        left >= wanted.max(cluster.minimum_healthy)
    };
    (1..=healthy).take_while(bears).last().unwrap_or(1)
}
