//! Whether machines have joined the clusters that their design has them in, and what is done until they have.

use super::etcd::{Clusters, Watched};
use super::input::Input;
use super::item::Item;
use super::leave::Leave;
use super::subject::{Membership, Subject};
use crate::design::{Backends, JoinMode, NodeDesign};
use crate::guard::quorum;
use crate::record::{Join, NodeRecord};

/// How a machine stands to the clusters that it is to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    /// It is to join none.
    NotMeant,
    /// It is in all of them: its node is Ready, and its members vote.
    Joined,
    /// It is not; why.
    Missing(String),
    /// They could not be observed; why.
    Unseen(String),
}

/// The work on a deployed machine that follows from its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinWork {
    /// Nothing.
    None,
    /// It is waited for until it has joined.
    Await,
    /// It had joined, and is missing now: that is shown.
    Away,
}

/// The machines that are to join, and when.
pub(super) struct Joins<'a> {
    backends: &'a Backends,
    clusters: &'a Clusters<'a>,
    /// Whether an API server of the site answers, or has ever answered.
    has_answered: bool,
}

impl<'a> Joins<'a> {
    pub(super) fn of(input: &Input<'a>, clusters: &'a Clusters<'a>) -> Self {
        let answers = input
            .observations
            .is_some_and(|seen| seen.cluster.is_some());
        let has_joined = |record: &NodeRecord| record.join == Some(Join::Joined);
        Self {
            backends: &input.after.guards().backends,
            clusters,
            has_answered: answers || input.records.values().any(has_joined),
        }
    }

    /// Whether the design has a machine in the Kubernetes cluster: it has labels there, or another name.
    fn is_node(&self, after: &NodeDesign) -> bool {
        let names = self.backends.names.get(&after.name);
        !after.labels.is_empty() || names.is_some_and(|names| names.contains_key("kubernetes"))
    }

    fn is_member(&self, after: &NodeDesign) -> bool {
        self.clusters.of_node(&after.name).next().is_some()
    }

    /// Whether it is a member of etcd clusters, which all run.
    fn members_run(&self, after: &NodeDesign) -> bool {
        let mut all = self.clusters.of_node(&after.name).peekable();
        let runs = |watched: &Watched<'_>| {
            let seen = watched.seen;
            seen.is_some_and(|seen| quorum::standing(&watched.cluster, seen).is_some())
        };
        all.peek().is_some() && all.all(runs)
    }

    /// When a machine has to have joined; `None`: it is to join nothing.
    pub(super) fn mode(&self, subject: &Subject<'_>, after: &NodeDesign) -> Option<JoinMode> {
        let has_cluster = !matches!(
            subject.membership,
            Membership::NoCluster | Membership::NotAsked
        );
        if !(has_cluster && self.is_node(after) || self.is_member(after)) {
            return None;
        }
        match self.backends.join_mode(after) {
            Some(JoinMode::Never) => None,
            Some(mode) => Some(mode),
            None if self.has_answered || self.members_run(after) => Some(JoinMode::InRun),
            None => Some(JoinMode::Later),
        }
    }

    /// How a deployed machine stands to the clusters that it is to join.
    pub(super) fn standing(&self, subject: &Subject<'_>, after: &NodeDesign) -> Joining {
        if self.mode(subject, after).is_none() {
            return Joining::NotMeant;
        }
        if self.is_node(after) {
            match subject.membership {
                Membership::Unseen(why) => {
                    return Joining::Unseen(format!(
                        "its Kubernetes cluster cannot be read: {why}"
                    ));
                }
                Membership::Out => {
                    return Joining::Missing("its node is not in the cluster".to_owned());
                }
                Membership::In(node) if !node.ready => {
                    let why = "its node is not Ready";
                    let name = subject.name;
                    return Joining::Missing(match subject.seen.is_deployed() {
                        true => format!(
                            "{why}; if it stays so, `trueup apply redeploy {name}` builds it anew"
                        ),
                        false => why.to_owned(),
                    });
                }
                Membership::In(_) | Membership::NoCluster | Membership::NotAsked => {}
            }
        }
        let mut unseen = None;
        for watched in self.clusters.of_node(subject.name) {
            let Some(seen) = watched.seen else {
                let cluster = &watched.cluster.name;
                unseen = Some(format!("etcd cluster `{cluster}` was not observed"));
                continue;
            };
            if let Some(missing) = quorum::missing(&watched.cluster, seen, subject.name) {
                let name = subject.name;
                return Joining::Missing(match quorum::has_left(&watched.cluster, seen, name) {
                    true => format!(
                        "{missing}, and only a redeploy makes it one: `trueup apply redeploy {name}`"
                    ),
                    false => missing,
                });
            }
        }
        unseen.map_or(Joining::Joined, Joining::Unseen)
    }

    /// The work on a deployed machine that follows from its clusters, and its reason; `unfinished`: a later step on it did not
    /// succeed.
    pub(super) fn judge(
        &self,
        subject: &Subject<'_>,
        after: &NodeDesign,
        unfinished: bool,
    ) -> (JoinWork, Option<String>) {
        let is_awaited = subject.is_awaited();
        let not_yet = |why: String| Some(format!("has not joined yet: {why}"));
        match self.standing(subject, after) {
            Joining::NotMeant => (JoinWork::None, None),
            Joining::Joined if is_awaited => {
                let text = "has joined its clusters, which its record does not say yet";
                (JoinWork::Await, Some(text.to_owned()))
            }
            Joining::Joined => (JoinWork::None, None),
            Joining::Missing(why) if unfinished || is_awaited => (JoinWork::Await, not_yet(why)),
            // It follows from that, and is awaited once it is on.
            Joining::Missing(_) if subject.seen.is_off() => (JoinWork::Away, None),
            Joining::Missing(why) => (JoinWork::Away, Some(why)),
            Joining::Unseen(why) if unfinished => (JoinWork::Await, not_yet(why)),
            Joining::Unseen(why) if is_awaited => (JoinWork::None, not_yet(why)),
            Joining::Unseen(_) => (JoinWork::None, None),
        }
    }

    /// The wait for a machine to be in its clusters, without a step before it that took it out.
    pub(super) fn wait(&self, after: &NodeDesign) -> Box<Leave> {
        Box::new(Leave {
            joins: self.is_node(after),
            is_member: self.is_member(after),
            ..Leave::default()
        })
    }

    /// Has the deploys of machines that are to join end when they have joined, or record that they have not yet.
    pub(super) fn settle<'i>(&self, mut items: Vec<Item<'i>>) -> Vec<Item<'i>> {
        for item in items.iter_mut().filter(|item| item.work.deploy) {
            let subject = item.subject;
            let Some(after) = subject.after else { continue };
            let Some(mode) = self.mode(&subject, after) else {
                continue;
            };
            item.work.joins = true;
            let is_awaited =
                |leave: &Option<Box<Leave>>| leave.as_ref().is_some_and(|leave| leave.comes_back());
            if is_awaited(&item.work.leave) || is_awaited(&item.work.rejoins) {
                continue;
            }
            match mode {
                JoinMode::InRun => match &mut item.work.leave {
                    Some(leave) => leave.joins = true,
                    None => item.work.rejoins = Some(self.wait(after)),
                },
                JoinMode::Later => item.because(match subject.membership {
                    Membership::Unseen(why) => format!(
                        "its clusters cannot be read ({why}): the deploy ends without waiting for it to join"
                    ),
                    _ => "its clusters are joined later: the deploy ends without waiting for it".to_owned(),
                }),
                JoinMode::Never => {}
            }
        }
        items
    }
}
