//! The members of simulated etcd clusters: who votes, what may be removed, and what each one answers.
//!
//! A machine that is deployed and designed as a member is one; the first time it votes at once, and
//! when it comes back it is a learner for a while. Its id is new each time. A machine that is off or wiped
//! leaves its member behind, unhealthy, until it is removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ledger::{Effect, MemberAdded, MemberRemoved};
use super::machine::{Machine, Member, hexadecimal};
use crate::design::{ClusterName, EtcdCluster, NodeName, RunId, quorum};
use crate::lifecycle::PowerState;
use crate::observed::{EtcdAnswer, EtcdMemberSeen, EtcdSeen, Fact};

/// The version that simulated members say they are.
const VERSION: &str = "3.5.21";

/// A member, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its node.
    pub node: NodeName,
    /// The member.
    pub member: Member,
    /// Whether it votes.
    pub votes: bool,
    /// Whether it runs.
    pub runs: bool,
}

/// The members of a machine, as a client of etcd would list them; wiped ones left out.
pub(super) fn listed(
    members: &BTreeMap<ClusterName, Member>,
    now: u64,
) -> BTreeMap<ClusterName, EtcdMemberSeen> {
    let there = members.iter().filter(|(_, member)| !member.lost);
    let listed = there.map(|(cluster, member)| {
        let seen = EtcdMemberSeen {
            id: member.id.clone(),
            name: member.name.clone(),
            peer_urls: vec![member.peer_url.clone()],
            client_urls: vec![member.client_url.clone()],
            learner: member.votes_from > now,
        };
        (cluster.clone(), seen)
    });
    listed.collect()
}

/// The members of a cluster, by id.
pub(super) fn seats<'a>(
    cluster: &ClusterName,
    machines: impl Iterator<Item = (&'a NodeName, &'a Machine)>,
    now: u64,
) -> Vec<Seat> {
    let mut seats: Vec<Seat> = machines
        .filter_map(|(node, machine)| {
            let member = machine.members.get(cluster)?;
            Some(Seat {
                node: node.clone(),
                votes: member.votes_from <= now,
                runs: !member.lost && machine.power == PowerState::On && machine.image.is_some(),
                member: member.clone(),
            })
        })
        .collect();
    seats.sort_by(|one, other| one.member.id.cmp(&other.member.id));
    seats
}

/// Voters in all, and those that run.
pub(super) fn voters(seats: &[Seat]) -> (usize, usize) {
    let voters = seats.iter().filter(|seat| seat.votes);
    let running = voters.clone().filter(|seat| seat.runs);
    (voters.count(), running.count())
}

/// Whether a cluster can decide anything.
pub(super) fn decides(seats: &[Seat]) -> bool {
    let (all, running) = voters(seats);
    all > 0 && running >= quorum(all)
}

/// Why a member cannot be removed.
pub(super) enum Refused {
    /// It would break the cluster.
    Unhealthy,
    /// The cluster does not answer, since it has no quorum.
    NoLeader,
}

/// Whether a member may be removed, as etcd decides it: a learner and a voter that does not run may go,
/// any other one only while those that run without it are a quorum of those that are left.
pub(super) fn may_remove(seats: &[Seat], id: &str) -> Result<(), Refused> {
    let Some(seat) = seats.iter().find(|seat| &*seat.member.id == id) else {
        return Ok(());
    };
    if !decides(seats) {
        return Err(Refused::NoLeader);
    }
    let (all, running) = voters(seats);
    if seat.votes && seat.runs && running - 1 < quorum(all - 1) {
        return Err(Refused::Unhealthy);
    }
    Ok(())
}

/// The members that a deploy gives a machine: each one anew, the one before it is gone.
pub(super) fn joins(
    clusters: &[EtcdCluster],
    node: &NodeName,
    machine: &Machine,
    (run, step): (&RunId, &str),
    join_millis: u64,
) -> Vec<Effect> {
    let mut effects = Vec::new();
    for cluster in clusters {
        let Some(design) = cluster.members.iter().find(|each| each.node == *node) else {
            continue;
        };
        let before = machine.members.get(&cluster.name);
        let was_member = before.is_some()
            || machine.ledger.effects().any(|effect| {
                matches!(effect, Effect::MemberRemoved(removed) if removed.cluster == cluster.name)
            });
        effects.extend(before.map(|member| {
            Effect::MemberRemoved(Box::new(MemberRemoved {
                cluster: cluster.name.clone(),
                id: member.id.clone(),
            }))
        }));
        let parts = [cluster.name.as_str(), node.as_str(), run.as_str(), step];
        effects.push(Effect::MemberAdded(Box::new(MemberAdded {
            cluster: cluster.name.clone(),
            id: Arc::from(&hexadecimal(parts)[..16]),
            at: [
                design.name.clone(),
                design.peer_url.clone(),
                design.client_url.clone(),
            ],
            votes_after: if was_member { join_millis } else { 0 },
        })));
    }
    effects
}

/// The id of a cluster.
fn cluster_id(cluster: &ClusterName) -> Arc<str> {
    Arc::from(&hexadecimal(["etcd", cluster.as_str()])[..16])
}

/// The answers of the designed members of a cluster. `index`: the number of effects so far.
pub(super) fn seen(
    design: &EtcdCluster,
    seats: &[Seat],
    index: u64,
    deaf: &[NodeName],
) -> EtcdSeen {
    let decides = decides(seats);
    let leader = seats
        .iter()
        .find(|seat| seat.votes && seat.runs)
        .filter(|_| decides);
    let leader = leader.map(|seat| seat.member.id.clone());
    let members: Vec<EtcdMemberSeen> = seats
        .iter()
        .map(|seat| EtcdMemberSeen {
            id: seat.member.id.clone(),
            name: seat.member.name.clone(),
            peer_urls: vec![seat.member.peer_url.clone()],
            client_urls: vec![seat.member.client_url.clone()],
            learner: !seat.votes,
        })
        .collect();
    let mut seen = EtcdSeen::default();
    for each in &design.members {
        let seat = seats.iter().find(|seat| seat.node == each.node);
        let answer = match seat {
            Some(seat) if seat.runs && !deaf.contains(&each.node) => Fact::Known(EtcdAnswer {
                cluster_id: cluster_id(&design.name),
                member_id: seat.member.id.clone(),
                members: members.clone(),
                leader: leader.clone(),
                learner: !seat.votes,
                decides: decides && seat.votes,
                alarms: Vec::new(),
                errors: match decides {
                    true => Vec::new(),
                    false => vec![Arc::from("etcdserver: no leader")],
                },
                version: Arc::from(VERSION),
                db_size: 24 << 20,
                raft_index: index,
                raft_applied: index,
                raft_term: 2,
            }),
            _ => {
                let message = format!("{}: connection refused", each.client_url);
                Fact::Unknown(Arc::from(message))
            }
        };
        seen.answers.insert(each.name.clone(), answer);
    }
    seen
}
