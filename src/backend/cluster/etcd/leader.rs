//! Moves leadership away from a member before it is removed.
//!
//! A cluster that loses its leader elects another one, and takes no write until it has: about a second. A
//! leader that hands over to a member that is up to date costs less than two heartbeats.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::gateway::Gateway;
use crate::backend::{ActError, Order};
use crate::design::{EtcdCluster, EtcdMember, NodeName};
use crate::guard::quorum::problem;
use crate::observed::{EtcdAnswer, EtcdSeen, Fact};
use crate::step::EtcdRemoval;

/// Between two looks for the new leader.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// How often the new leader is looked for before the next member is tried.
const LOOKS: u32 = 15;

/// The leader, if all healthy members name the same one.
fn leader(seen: &EtcdSeen) -> Option<&Arc<str>> {
    let answers = seen.answers.values().filter_map(Fact::known);
    let mut leaders = answers
        .filter(|answer| answer.decides)
        .map(|answer| answer.leader.as_ref());
    let first = leaders.next()??;
    leaders.all(|leader| leader == Some(first)).then_some(first)
}

impl Gateway {
    /// Whether a member leads its cluster.
    pub(super) fn leads(seen: &EtcdSeen, wanted: &EtcdRemoval) -> bool {
        leader(seen) == Some(&wanted.member_id)
    }

    /// Moves leadership from a member to a healthy voter on another machine, and confirms the move.
    /// `cluster`: with the members that have left the design. Gives whether it was moved: a leader that
    /// cannot be reached, or does not know the request, cannot hand over, and the others elect one.
    ///
    /// # Errors
    ///
    /// The leader refuses, or still leads after it was asked for each healthy voter.
    pub(super) async fn move_leadership(
        &self,
        cluster: &EtcdCluster,
        seen: &EtcdSeen,
        (wanted, node): (&EtcdRemoval, &NodeName),
        (order, end): (&Order, Option<Instant>),
    ) -> Result<bool, ActError> {
        let reporter = &order.reporter;
        let mut members = cluster.members.iter();
        let Some(leader) = members.find(|member| member.name == wanted.name) else {
            return Ok(false);
        };
        let mut last = "no other member is a healthy voter".to_owned();
        for (successor, id) in self.successors(seen, node, &order.leaving) {
            reporter.progress(format!(
                "etcd cluster `{}`: moving leadership from member {} to member {}",
                self.cluster.name, wanted.name, successor.name
            ));
            match self.transfer_leadership(leader, &id).await {
                Ok(()) => {}
                Err(error) if error.words().is_none() => {
                    reporter.progress(format!(
                        "etcd cluster `{}`: leadership cannot be moved from member {} ({error}); \
                         the other members elect a leader",
                        self.cluster.name, wanted.name
                    ));
                    return Ok(false);
                }
                Err(error) => last = error.to_string(),
            }
            if self.follows_another(wanted, end).await {
                return Ok(true);
            }
        }
        Err(ActError::Passing(Arc::from(format!(
            "leadership of etcd cluster `{}` could not be moved from member {}, and \
             nothing was removed: {last}",
            self.cluster.name, wanted.name
        ))))
    }

    /// The healthy voters on other machines with their ids: first those that stay, the one that is furthest first.
    fn successors<'a>(
        &'a self,
        seen: &EtcdSeen,
        node: &'a NodeName,
        leaving: &BTreeSet<NodeName>,
    ) -> Vec<(&'a EtcdMember, Arc<str>)> {
        let mut all: Vec<(&EtcdMember, &EtcdAnswer)> = self
            .survivors(node)
            .filter(|member| problem(&self.cluster, seen, &member.name).is_none())
            .filter_map(|member| Some((member, seen.answers.get(&member.name)?.known()?)))
            .collect();
        all.sort_by_key(|(member, answer)| {
            let progress = std::cmp::Reverse((answer.raft_applied, answer.raft_index));
            (leaving.contains(&member.node), progress)
        });
        let all = all.into_iter();
        all.map(|(member, answer)| (member, answer.member_id.clone()))
            .collect()
    }

    /// Waits until all members that read through the quorum follow another leader.
    async fn follows_another(&self, wanted: &EtcdRemoval, end: Option<Instant>) -> bool {
        for _ in 0..LOOKS {
            let seen = self.look().await;
            if leader(&seen).is_some_and(|leader| *leader != wanted.member_id) {
                return true;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            sleep(BETWEEN_LOOKS).await;
        }
        false
    }
}
