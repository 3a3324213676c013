//! Removing a machine's members from their clusters, each at most once.
//!
//! The id of a member is never used again, so that a retry removes no other member; what matters is that
//! nothing is requested that the guard would refuse now, that the member itself is never the endpoint, and
//! that a call whose answer was lost is told apart from one that never began.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::Etcd;
use super::gateway::{CallError, Gateway, REMOVE};
use super::wait::deadline;
use crate::backend::http::Class;
use crate::backend::{ActError, Order, Probe};
use crate::design::{EtcdCluster, EtcdMember, NodeName};
use crate::guard::quorum::{Refusal, knowing, problem, removal};
use crate::observed::EtcdSeen;
use crate::step::{EtcdRemoval, FailureReason};

/// etcd counts a member as connected only after five seconds, and refuses changes until enough are.
const UNTIL_CONNECTED: Duration = Duration::from_secs(6);

/// Attempts where etcd reports an unhealthy cluster although it is healthy.
const ATTEMPTS: u32 = 3;

/// How long an election takes, and more: etcd's members wait a second for their leader.
const ELECTION: Duration = Duration::from_secs(2);

/// How often what was done is read back before it counts as unknown.
const READ_BACKS: u32 = 5;

/// The state of one member in its cluster.
enum FoundMember {
    Member,
    Gone,
    Unknown(String),
}

impl Etcd {
    /// Takes a machine's members out, one after the other.
    pub(super) async fn remove(&self, order: &Order, node: &NodeName) -> Result<(), ActError> {
        let end = deadline(order);
        for removal in removals(order) {
            let removed = async {
                let gateway = self.gateway_of(removal).map_err(ActError::Permanent)?;
                order.reporter.progress(format!(
                    "etcd cluster `{}`: member {}",
                    removal.cluster, removal.name
                ));
                gateway.remove_member(order, removal, node, end).await
            };
            removed
                .await
                .map_err(|error| error.map(|text| FailureReason::RemoveEtcdError.message(text)))?;
        }
        Ok(())
    }

    /// Whether a machine's members are gone.
    pub(super) async fn probe_removal(&self, order: &Order, node: &NodeName) -> Probe {
        let mut all_gone = true;
        for removal in removals(order) {
            let gateway = match self.gateway_of(removal) {
                Ok(gateway) => gateway,
                Err(reason) => return Probe::Ambiguous(reason),
            };
            match gateway.find(removal, node).await {
                FoundMember::Gone => {}
                FoundMember::Member => all_gone = false,
                FoundMember::Unknown(reason) => return Probe::Ambiguous(Arc::from(reason)),
            }
        }
        if all_gone {
            Probe::Done
        } else {
            Probe::NotBegun
        }
    }

    fn gateway_of(&self, removal: &EtcdRemoval) -> Result<&Gateway, Arc<str>> {
        self.gateway(&removal.cluster).ok_or_else(|| {
            let message = format!("the design has no etcd cluster `{}`", removal.cluster);
            Arc::from(message)
        })
    }
}

fn removals(order: &Order) -> &[EtcdRemoval] {
    order.step.given().etcd_members()
}

impl Gateway {
    /// The designed members on other machines than this one.
    pub(super) fn survivors<'a>(
        &'a self,
        node: &'a NodeName,
    ) -> impl Iterator<Item = &'a EtcdMember> {
        let members = self.cluster.members.iter();
        members.filter(move |member| member.node != *node)
    }

    async fn remove_member(
        &self,
        order: &Order,
        wanted: &EtcdRemoval,
        node: &NodeName,
        end: Option<Instant>,
    ) -> Result<(), ActError> {
        let mut attempt = 1;
        let mut is_moved = false;
        loop {
            let seen = self.look().await;
            let cluster = self.known(&seen, wanted, node);
            let Some(through) = self.way(&cluster, &seen, wanted, node)? else {
                return self.confirm(wanted, node, end).await;
            };
            if !is_moved && Self::leads(&seen, wanted) {
                is_moved = true;
                let (who, how) = ((wanted, node), (order, end));
                if self.move_leadership(&cluster, &seen, who, how).await? {
                    // The guard judges the cluster as it is now.
                    continue;
                }
            }
            let limit = end.map_or(REMOVE, |end| {
                end.saturating_duration_since(Instant::now()).min(REMOVE)
            });
            match self.remove(through, &wanted.member_id, limit).await {
                Ok(members) if members.has(&wanted.member_id) => {
                    let text = self.said(through, wanted, "it is still a member");
                    return Err(ActError::Ambiguous(text));
                }
                Ok(_) => return self.confirm(wanted, node, end).await,
                // It went between the look and the request.
                Err(error) if error.words() == Some("etcdserver: member not found") => {
                    return self.confirm(wanted, node, end).await;
                }
                Err(error) => {
                    let is_young = error.words() == Some("etcdserver: unhealthy cluster");
                    if !is_young || attempt == ATTEMPTS {
                        return Err(self.refused(through, wanted, error));
                    }
                }
            }
            attempt += 1;
            sleep(UNTIL_CONNECTED).await;
        }
    }

    /// The cluster with the members whose machines have left the design: they are still where they were,
    /// and which of them a plan knows was checked before.
    fn known(&self, seen: &EtcdSeen, wanted: &EtcdRemoval, node: &NodeName) -> EtcdCluster {
        knowing(&self.cluster, seen, |live| {
            if live.id == wanted.member_id {
                return Some(node.clone());
            }
            Some(NodeName::from(format!("member {}", live.id)))
        })
    }

    /// The member through which to ask for a removal; `None` if there is nothing left to remove.
    fn way<'a>(
        &'a self,
        cluster: &EtcdCluster,
        seen: &EtcdSeen,
        wanted: &EtcdRemoval,
        node: &'a NodeName,
    ) -> Result<Option<&'a EtcdMember>, ActError> {
        let permanent = |text: String| Err(ActError::Permanent(Arc::from(text)));
        let found = removal(cluster, seen, node, false).map_err(|refusal| {
            let text = Arc::from(refusal.to_string());
            if can_pass(&refusal) {
                ActError::Passing(text)
            } else {
                ActError::Permanent(text)
            }
        })?;
        let Some(first) = found.first() else {
            return Ok(None);
        };
        if first.cluster_id != wanted.cluster_id {
            return permanent(format!(
                "etcd cluster `{}` has the id {}, and the plan was made for {}",
                wanted.cluster, first.cluster_id, wanted.cluster_id
            ));
        }
        if !found
            .iter()
            .any(|found| found.member_id == wanted.member_id)
        {
            // Ids are never used again: it was removed, and it joined anew.
            return permanent(format!(
                "member {} of etcd cluster `{}` has the id {} now, and the plan was made for {}",
                wanted.name, wanted.cluster, first.member_id, wanted.member_id
            ));
        }
        let mut survivors = self.survivors(node);
        let healthy = survivors.find(|member| problem(&self.cluster, seen, &member.name).is_none());
        match healthy {
            Some(member) => Ok(Some(member)),
            None => permanent(format!(
                "etcd cluster `{}` has no healthy member to ask",
                wanted.cluster
            )),
        }
    }

    /// Reads back, through the quorum, that a member is gone. If it was the leader, the others elect one
    /// first.
    async fn confirm(
        &self,
        wanted: &EtcdRemoval,
        node: &NodeName,
        end: Option<Instant>,
    ) -> Result<(), ActError> {
        let mut attempt = 1;
        loop {
            let reason = match self.find(wanted, node).await {
                FoundMember::Gone => return Ok(()),
                FoundMember::Member => format!(
                    "etcd cluster `{}` removed member {} and still has it",
                    wanted.cluster, wanted.name
                ),
                FoundMember::Unknown(reason) => reason,
            };
            let is_late = end.is_some_and(|end| Instant::now() + ELECTION >= end);
            if attempt == READ_BACKS || is_late {
                return Err(ActError::Ambiguous(Arc::from(reason)));
            }
            attempt += 1;
            sleep(ELECTION).await;
        }
    }

    /// Whether a member is there, by survivors that read through the quorum.
    async fn find(&self, wanted: &EtcdRemoval, node: &NodeName) -> FoundMember {
        let asked = self
            .survivors(node)
            .map(|member| async move { (member, self.members(member).await) });
        let mut is_there = false;
        let mut evidence = Vec::new();
        for (member, answer) in join_all(asked).await {
            match answer {
                Ok((_, members)) if *members.header.cluster_id.text() != *wanted.cluster_id => {
                    let id = members.header.cluster_id.text();
                    evidence.push(format!("{} is of cluster {id}", member.name));
                }
                Ok((true, members)) if members.has(&wanted.member_id) => is_there = true,
                // Who reads through the quorum and does not know it any more has the last word: an id that
                // is gone never comes back.
                Ok((true, _)) => return FoundMember::Gone,
                Ok((false, _)) => {
                    evidence.push(format!("{} cannot read through the quorum", member.name));
                }
                Err(error) => evidence.push(format!("{}: {error}", member.name)),
            }
        }
        if is_there {
            return FoundMember::Member;
        }
        FoundMember::Unknown(format!(
            "whether member {} (id {}) is still in etcd cluster `{}` cannot be told without its quorum ({}); \
             `etcdctl member list` on a healthy member tells",
            wanted.name,
            wanted.member_id,
            wanted.cluster,
            evidence.join("; ")
        ))
    }

    fn said(&self, through: &EtcdMember, wanted: &EtcdRemoval, what: &str) -> Arc<str> {
        Arc::from(format!(
            "etcd cluster `{}`, asked through {} to remove member {} (id {}): {what}",
            self.cluster.name, through.name, wanted.name, wanted.member_id
        ))
    }

    /// Classifies the error of a removal.
    fn refused(&self, through: &EtcdMember, wanted: &EtcdRemoval, error: CallError) -> ActError {
        let text = self.said(through, wanted, &error.to_string());
        match error {
            CallError::Setup(_) => ActError::Permanent(text),
            CallError::Failed(failure) => match (failure.words(), failure.class()) {
                // Those that etcd says before it asks its members for anything.
                (
                    Some(
                        "etcdserver: unhealthy cluster"
                        | "etcdserver: re-configuration failed due to not enough started members"
                        | "etcdserver: permission denied"
                        | "etcdserver: user name is empty"
                        | "etcdserver: rpc not supported for learner",
                    ),
                    _,
                ) => ActError::Permanent(text),
                (None, Class::Passing) => ActError::Passing(text),
                (None, Class::Permanent) => ActError::Permanent(text),
                // Time outs, leaders that changed, and whatever else may come after half the work.
                _ => ActError::Ambiguous(text),
            },
        }
    }
}

/// Whether a refusal can pass without intervention: a member without an answer may come back, one that
/// disagrees may be behind. The others need manual intervention, or members that have to join first.
fn can_pass(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Silent { .. }
            | Refusal::Disagree { .. }
            | Refusal::Undecided { .. }
            | Refusal::NoLeader { .. }
            | Refusal::TwoLeaders { .. }
    )
}
