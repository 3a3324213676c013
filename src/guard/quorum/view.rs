//! The observed state of an etcd cluster, matched with its design: identities, health, agreement of members.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Refusal, TAKEN_OUT};
use crate::design::{EtcdCluster, EtcdMember, NodeName, quorum};
use crate::observed::{EtcdAlarm, EtcdAnswer, EtcdMemberSeen, EtcdSeen, Fact};

/// The alarm of a member whose data differ from those of the others.
const CORRUPT: &str = "CORRUPT";

/// Design and observed state, by the answers of all machines but one.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    cluster: &'a EtcdCluster,
    seen: &'a EtcdSeen,
    without: Option<&'a NodeName>,
}

/// Whether two URLs name the same place, as etcd writes them: with a port, without a path.
fn same_url(one: &str, other: &str) -> bool {
    let bare = |url: &'_ str| url.trim_end_matches('/').len();
    one[..bare(one)].eq_ignore_ascii_case(&other[..bare(other)])
}

/// Whether two answers tell of the same members.
fn same_members(one: &EtcdAnswer, other: &EtcdAnswer) -> bool {
    // Where clients reach a member is its own to say, and follows later.
    let same = |(one, other): (&EtcdMemberSeen, &EtcdMemberSeen)| {
        (&one.id, &one.name, &one.peer_urls, one.learner)
            == (&other.id, &other.name, &other.peer_urls, other.learner)
    };
    one.members.len() == other.members.len() && one.members.iter().zip(&other.members).all(same)
}

impl<'a> View<'a> {
    /// `without`: the machine that is not asked, since it is about to go.
    pub(super) fn new(
        cluster: &'a EtcdCluster,
        seen: &'a EtcdSeen,
        without: Option<&'a NodeName>,
    ) -> Self {
        Self {
            cluster,
            seen,
            without,
        }
    }

    /// The designed members on other machines.
    pub(super) fn others(self) -> impl Iterator<Item = &'a EtcdMember> {
        let members = self.cluster.members.iter();
        members.filter(move |member| Some(&member.node) != self.without)
    }

    pub(super) fn is_invalid(self, member: &EtcdMember) -> bool {
        self.seen.invalid.contains_key(&member.name)
    }

    pub(super) fn answer(self, member: &EtcdMember) -> Option<&'a EtcdAnswer> {
        let fact = self.seen.answers.get(&member.name)?;
        fact.known().filter(|_| !self.is_invalid(member))
    }

    /// The answers of members on other machines.
    fn answers(self) -> impl Iterator<Item = (&'a EtcdMember, &'a EtcdAnswer)> {
        let others = self.others();
        others.filter_map(move |member| Some((member, self.answer(member)?)))
    }

    /// The answer that knows most: one through the quorum before one from memory, then the latest. A
    /// learner does not list the members.
    pub(super) fn latest(self) -> Option<&'a EtcdAnswer> {
        let age = |answer: &EtcdAnswer| (answer.decides, answer.raft_term, answer.raft_index);
        let answers = self.answers().map(|(_, answer)| answer);
        let answers = answers.filter(|answer| !answer.learner);
        answers.reduce(|one, other| if age(other) > age(one) { other } else { one })
    }

    /// The members of the live cluster.
    pub(super) fn membership(self) -> Option<&'a [EtcdMemberSeen]> {
        Some(&*self.latest()?.members)
    }

    /// All alarms of any member; a corrupt one asks for its own removal, so that it is no alarm of the others.
    pub(super) fn alarms(self) -> BTreeSet<&'a EtcdAlarm> {
        let answers = self.answers();
        let alarms = answers.flat_map(|(_, answer)| &answer.alarms);
        alarms.filter(|alarm| !self.goes_with(alarm)).collect()
    }

    /// Whether any member tells that one has other data than the others.
    fn is_corrupt(self, id: &str) -> bool {
        let answers = self.seen.answers.values().filter_map(Fact::known);
        let mut alarms = answers.flat_map(|answer| &answer.alarms);
        alarms.any(|alarm| *alarm.member == *id && &*alarm.kind == CORRUPT)
    }

    /// Whether an alarm is that of a corrupt member on the machine that is about to go.
    fn goes_with(self, alarm: &EtcdAlarm) -> bool {
        if self.without.is_none() || &*alarm.kind != CORRUPT {
            return false;
        }
        let members = self.membership().unwrap_or_default();
        let live = members.iter().find(|live| live.id == alarm.member);
        let designed = live.and_then(|live| self.designed(live).ok());
        designed.is_some_and(|member| Some(&member.node) == self.without)
    }

    /// The ids of the voters that are healthy, among some designed members.
    pub(super) fn healthy(self, among: impl Iterator<Item = &'a EtcdMember>) -> BTreeSet<Arc<str>> {
        let healthy = among.filter(|member| self.problem(member).is_none());
        let answers = healthy.filter_map(|member| self.answer(member));
        answers.map(|answer| answer.member_id.clone()).collect()
    }

    /// The healthy members that are wanted now.
    pub(super) fn wanted(self) -> usize {
        let members = self.membership().unwrap_or_default();
        let voters = members.iter().filter(|member| !member.learner).count();
        quorum(voters).max(self.cluster.minimum_healthy)
    }

    /// The designed member of a live one.
    pub(super) fn designed(self, live: &EtcdMemberSeen) -> Result<&'a EtcdMember, Refusal> {
        let cluster = || self.cluster.name.clone();
        let (id, name) = (live.id.clone(), live.name.clone());
        let members = &self.cluster.members;
        let by_name = members.iter().find(|member| member.name == live.name);
        let by_url = members.iter().find(|member| {
            let mut urls = live.peer_urls.iter();
            urls.any(|url| same_url(url, &member.peer_url))
        });
        match (by_name, by_url) {
            (Some(one), Some(other)) if std::ptr::eq(one, other) => Ok(one),
            (None, Some(member)) if live.name.is_empty() => Ok(member),
            (None, None) => Err(Refusal::Stranger {
                cluster: cluster(),
                id,
                name,
                peer_urls: live.peer_urls.clone(),
            }),
            (by_name, by_url) => Err(Refusal::NameAndUrl {
                cluster: cluster(),
                id,
                name,
                peer_urls: live.peer_urls.clone(),
                node_by_name: by_name.map(|member| member.node.clone()),
                node_by_url: by_url.map(|member| member.node.clone()),
            }),
        }
    }

    /// The live member of a designed one, if it is one.
    pub(super) fn live(self, member: &EtcdMember) -> Result<Option<&'a EtcdMemberSeen>, Refusal> {
        let members = self.membership().unwrap_or_default();
        let machines = self.identify(members)?;
        let both = members.iter().zip(machines);
        let mut both = both.filter(|(_, machine)| std::ptr::eq(*machine, member));
        Ok(both.next().map(|(live, _)| live))
    }

    /// The designed member of each live one, in their order.
    pub(super) fn identify(
        self,
        members: &[EtcdMemberSeen],
    ) -> Result<Vec<&'a EtcdMember>, Refusal> {
        let mut found: Vec<&EtcdMember> = Vec::with_capacity(members.len());
        for live in members {
            let designed = self.designed(live)?;
            if found.iter().any(|other| std::ptr::eq(*other, designed)) {
                return Err(Refusal::Twice {
                    cluster: self.cluster.name.clone(),
                    member: designed.name.clone(),
                });
            }
            found.push(designed);
        }
        Ok(found)
    }

    /// All survivors that answer tell of the same cluster and the same members, and some do answer.
    pub(super) fn agree(self) -> Result<(), Refusal> {
        let cluster = || self.cluster.name.clone();
        let mut answers = self.answers().filter(|(_, answer)| !answer.learner);
        let Some((one, first)) = answers.next() else {
            return Err(Refusal::Silent {
                cluster: cluster(),
                unwell: self.unwell(),
            });
        };
        for (other, answer) in answers {
            let (one, other) = (one.name.clone(), other.name.clone());
            if answer.cluster_id != first.cluster_id {
                let cluster = cluster();
                return Err(Refusal::TwoClusters {
                    cluster,
                    one,
                    other,
                });
            }
            if !same_members(answer, first) {
                let cluster = cluster();
                return Err(Refusal::Disagree {
                    cluster,
                    one,
                    other,
                });
            }
        }
        Ok(())
    }

    /// Each survivor that answers is the member that was meant; so is the member that is to go, if it
    /// answers as one of this cluster.
    pub(super) fn asked_for_themselves(self) -> Result<(), Refusal> {
        let members = self.membership().unwrap_or_default();
        for member in &self.cluster.members {
            let Some(answer) = self.answer(member) else {
                continue;
            };
            let live = members.iter().find(|live| live.id == answer.member_id);
            let found = live.map(|live| self.designed(live)).transpose()?;
            let is_meant = match found {
                Some(found) => found.name == member.name,
                None => Some(&member.node) == self.without,
            };
            if !is_meant {
                return Err(Refusal::Elsewhere {
                    cluster: self.cluster.name.clone(),
                    member: member.name.clone(),
                    client_url: member.client_url.clone(),
                    found: found.map(|found| found.name.clone()),
                });
            }
        }
        Ok(())
    }

    /// Some survivor reads through a quorum.
    pub(super) fn decides(self) -> Result<(), Refusal> {
        if self.answers().any(|(_, answer)| answer.decides) {
            return Ok(());
        }
        Err(Refusal::Undecided {
            cluster: self.cluster.name.clone(),
            unwell: self.unwell(),
        })
    }

    /// All survivors that answer know the same leader.
    pub(super) fn led(self) -> Result<(), Refusal> {
        let mut leader = None;
        for (member, answer) in self.answers() {
            let Some(known) = &answer.leader else {
                return Err(Refusal::NoLeader {
                    cluster: self.cluster.name.clone(),
                    member: member.name.clone(),
                });
            };
            let (first, name) = *leader.get_or_insert((known, &member.name));
            if first != known {
                return Err(Refusal::TwoLeaders {
                    cluster: self.cluster.name.clone(),
                    one: name.clone(),
                    other: member.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// No survivor tells of an alarm.
    pub(super) fn quiet(self) -> Result<(), Refusal> {
        let Some(alarm) = self.alarms().into_iter().next() else {
            return Ok(());
        };
        Err(Refusal::Alarm {
            cluster: self.cluster.name.clone(),
            kind: alarm.kind.clone(),
            member: self.name(&alarm.member),
        })
    }

    /// The name of a member by its id; the id if it has none.
    pub(super) fn name(self, id: &Arc<str>) -> Arc<str> {
        let members = self.membership().unwrap_or_default();
        let live = members.iter().find(|live| live.id == *id);
        let name = live.map(|live| &live.name).filter(|name| !name.is_empty());
        name.unwrap_or(id).clone()
    }

    /// Whether the members that answer do not know of a member.
    pub(super) fn has_left(self, member: &EtcdMember) -> bool {
        matches!(self.live(member), Ok(None)) && self.latest().is_some()
    }

    /// The reason why a designed member is no healthy voter, as the end of a sentence about it.
    pub(super) fn problem(self, member: &EtcdMember) -> Option<String> {
        if let Some(said) = self.seen.invalid.get(&member.name) {
            return Some(format!("answers, but not as etcd does: {said}"));
        }
        let answer = match self.seen.answers.get(&member.name) {
            None => return Some("was not asked".to_owned()),
            Some(Fact::Unknown(reason)) if **reason == *TAKEN_OUT => {
                return Some("is taken out by this plan, too".to_owned());
            }
            Some(Fact::Unknown(reason)) if self.has_left(member) => {
                return Some(format!("is not a member, and does not answer: {reason}"));
            }
            Some(Fact::Unknown(reason)) => return Some(format!("does not answer: {reason}")),
            Some(Fact::Known(answer)) => answer,
        };
        // The member itself may be behind: what the others know counts.
        let latest = self.latest().unwrap_or(answer);
        if answer.cluster_id != latest.cluster_id {
            return Some("is a member of another cluster".to_owned());
        }
        let mut members = latest.members.iter();
        let Some(live) = members.find(|live| live.id == answer.member_id) else {
            return Some("is not a member".to_owned());
        };
        // Who answers for another is no sign of the one that was meant.
        match self.designed(live) {
            Ok(found) if found.name != member.name => {
                let (url, found) = (&member.client_url, &found.name);
                return Some(format!("does not answer at {url}: member {found} does"));
            }
            Err(Refusal::Stranger { .. }) => {
                let url = &member.client_url;
                let name = self.name(&live.id);
                return Some(format!("does not answer at {url}: {name} does"));
            }
            _ => {}
        }
        if live.learner || answer.learner {
            return Some("is a learner".to_owned());
        }
        if live.name.is_empty() {
            return Some("has not started".to_owned());
        }
        if answer.leader.is_none() {
            return Some("has no leader".to_owned());
        }
        if !answer.decides {
            return Some("cannot read through the quorum".to_owned());
        }
        if self.is_corrupt(&answer.member_id) {
            return Some("has other data than the others (alarm CORRUPT)".to_owned());
        }
        if answer.errors.is_empty() {
            return None;
        }
        Some(format!("reports: {}", answer.errors.join(", ")))
    }

    /// The members on other machines that are not healthy, and why.
    pub(super) fn unwell(self) -> Vec<String> {
        let others = self.others();
        let unwell = others.filter_map(|member| {
            let problem = self.problem(member)?;
            Some(format!("{} {problem}", member.name))
        });
        unwell.collect()
    }
}
