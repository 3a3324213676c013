//! Whether an etcd cluster is healthy, and whether it can lose the members of a machine.
//!
//! Pure functions over an [`EtcdCluster`] as it is designed and an [`EtcdSeen`], in which each designed
//! member was asked for itself. The same functions judge a plan and the instant of the removal.
//!
//! Counted members:
//!
//! - The *voters* are the members of the live cluster that are no learners, whether they run or not.
//! - A voter is *healthy* when it answered for itself, reads through the quorum, knows a leader, reports no
//!   error, and is in the membership that the others report. A voter that cannot be reached from here is
//!   not healthy, although it may well run: the count errs on the safe side.
//! - A live member belongs to the machine whose designed member has its name *and* one of its peer URLs;
//!   a member that never started has no name, so its peer URL decides. If the two disagree it is undecidable
//!   which machine loses what, and nothing is removed until the document is corrected.
//!
//! A healthy voter may go when, counted without it, the healthy voters are a majority of the voters that
//! remain and at least the document's `minimum_healthy`.
//!
//! A voter that is not healthy may go when the healthy voters are a majority of *all* voters, which is what
//! the cluster itself needs to agree to anything. `minimum_healthy` is not asked: the removal takes no
//! healthy member away, so it makes that count no worse, and it is the only way to a replacement. Nor need
//! all others be healthy, or of two dead members neither could ever be the first to go.
//!
//! A learner has no vote: on the machine itself it goes under the same majority and no other count; on
//! another machine it is a membership change under way, and blocks.
//!
//! A designed member that the live cluster does not have is no voter and not healthy. That alone refuses
//! nothing, since it is what the first of two removals leaves behind; `minimum_healthy` still counts it out.

mod refusal;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::design::{EtcdCluster, EtcdMember, NodeName, quorum};
use crate::observed::{EtcdAlarm, EtcdAnswer, EtcdMemberSeen, EtcdSeen, Fact};
use crate::step::EtcdRemoval;

pub use refusal::Refusal;
use view::View;

/// The state of an etcd cluster, in the words of the specification ("Promenade Check etcd").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// It has a healthy majority, as many healthy members as its document wants, and no alarm.
    Healthy,
    /// It answers, and is not healthy.
    Unhealthy,
    /// No member answers.
    Inaccessible,
    /// It is not healthy, and some member answered what is no answer of etcd (EtcdNotAccessible).
    Invalid,
}

impl Health {
    /// The word that the specification's message has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Inaccessible | Self::Invalid => "Unable to access Etcd",
        }
    }

    /// Whether the message is an error.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Inaccessible | Self::Invalid)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The facts of an etcd cluster that a plan relies on: by ids, in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdFacts {
    /// The cluster.
    pub cluster_id: Arc<str>,
    /// Members with a vote.
    pub voters: BTreeSet<Arc<str>>,
    /// Members without one.
    pub learners: BTreeSet<Arc<str>>,
    /// Alarms.
    pub alarms: BTreeSet<EtcdAlarm>,
    /// Voters that are healthy.
    pub healthy: BTreeSet<Arc<str>>,
}

/// How a cluster stands by the answer that knows most; `None` if no member answers.
#[must_use]
pub fn standing(cluster: &EtcdCluster, seen: &EtcdSeen) -> Option<EtcdFacts> {
    let view = View::new(cluster, seen, None);
    let members = view.membership()?;
    let ids = |learner| {
        let of_kind = members.iter().filter(move |each| each.learner == learner);
        of_kind.map(|each| each.id.clone()).collect()
    };
    Some(EtcdFacts {
        cluster_id: view.latest()?.cluster_id.clone(),
        voters: ids(false),
        learners: ids(true),
        alarms: view.alarms().into_iter().cloned().collect(),
        healthy: view.healthy(view.others()),
    })
}

/// Whether a cluster is healthy, the members of a machine left out of the count if one is to be
/// ignored: it is being torn down. A cluster with no other member asks for nothing and is healthy.
#[must_use]
pub fn health(cluster: &EtcdCluster, seen: &EtcdSeen, ignoring: Option<&NodeName>) -> Health {
    let view = View::new(cluster, seen, ignoring);
    if view.others().next().is_none() {
        return Health::Healthy;
    }
    let healthy = view.healthy(view.others()).len();
    if view.alarms().is_empty() && healthy >= view.wanted() {
        Health::Healthy
    } else if view.others().any(|member| view.is_invalid(member)) {
        Health::Invalid
    } else if view.latest().is_none() {
        Health::Inaccessible
    } else {
        Health::Unhealthy
    }
}

/// How many more of its healthy voters can fail before the cluster is not healthy any more: 0 if it
/// is not healthy now.
#[must_use]
pub fn can_lose(cluster: &EtcdCluster, seen: &EtcdSeen) -> usize {
    if health(cluster, seen, None) != Health::Healthy {
        return 0;
    }
    let view = View::new(cluster, seen, None);
    let healthy = view.healthy(view.others()).len();
    healthy.saturating_sub(view.wanted())
}

/// The removals that take a machine out of a cluster: empty if it is no member of it, or not any more.
///
/// `destroy`: a person chose to lose this cluster with its last machine (`--destroy-etcd`). etcd itself
/// never lets its only member go, so that there is nothing to remove then.
///
/// # Errors
///
/// Why nothing may be removed now; see the rules at the head of this file.
pub fn removal(
    cluster: &EtcdCluster,
    seen: &EtcdSeen,
    node: &NodeName,
    destroy: bool,
) -> Result<Vec<EtcdRemoval>, Refusal> {
    if !cluster.members.iter().any(|member| member.node == *node) {
        return Ok(Vec::new());
    }
    let view = View::new(cluster, seen, Some(node));
    if view.others().next().is_none() {
        return only_member(cluster, seen, destroy).map(|()| Vec::new());
    }
    view.agree()?;
    let members = view.membership().unwrap_or_default();
    let machines = view.identify(members)?;
    view.asked_for_themselves()?;
    let (leaving, staying): (Vec<_>, Vec<_>) = members
        .iter()
        .zip(machines)
        .partition(|(_, machine)| machine.node == *node);
    if leaving.is_empty() {
        // Without a quorum the list is what one member remembers.
        return view.decides().map(|()| Vec::new());
    }
    view.led()?;
    view.quiet()?;
    if let Some((_, machine)) = staying.iter().find(|(member, _)| member.learner) {
        return Err(Refusal::Learner {
            cluster: cluster.name.clone(),
            member: machine.name.clone(),
            node: machine.node.clone(),
        });
    }
    keeps_quorum(cluster, &view, node, (&leaving, &staying))?;
    let cluster_id = view.latest().map(|answer| &answer.cluster_id);
    let removals = leaving.into_iter().map(|(member, machine)| EtcdRemoval {
        cluster: cluster.name.clone(),
        cluster_id: cluster_id.cloned().unwrap_or_default(),
        member_id: member.id.clone(),
        name: machine.name.clone(),
    });
    Ok(removals.collect())
}

/// A member of a cluster as it says itself, and as the design has it.
type KnownMember<'a> = (&'a EtcdMemberSeen, &'a EtcdMember);

/// Whether enough healthy voters stay: a quorum, and as many as the design wants.
fn keeps_quorum(
    cluster: &EtcdCluster,
    view: &View<'_>,
    node: &NodeName,
    (leaving, staying): (&[KnownMember<'_>], &[KnownMember<'_>]),
) -> Result<(), Refusal> {
    let healthy = view.healthy(cluster.members.iter());
    let are_healthy = |some: &[KnownMember<'_>]| {
        let ids = some.iter().map(|(member, _)| &member.id);
        ids.filter(|id| healthy.contains(*id)).count()
    };
    let stay = are_healthy(staying);
    let (voters, minimum) = if are_healthy(leaving) > 0 {
        (staying.len(), cluster.minimum_healthy)
    } else {
        let leaving = leaving.iter().filter(|(member, _)| !member.learner);
        (staying.len() + leaving.count(), 0)
    };
    // A quorum of no voters is one: the last voter never goes.
    if stay < quorum(voters) {
        return Err(Refusal::Quorum {
            cluster: cluster.name.clone(),
            node: node.clone(),
            healthy: stay,
            voters,
            unwell: view.unwell(),
        });
    }
    if stay < minimum {
        return Err(Refusal::Minimum {
            cluster: cluster.name.clone(),
            node: node.clone(),
            healthy: stay,
            minimum,
            unwell: view.unwell(),
        });
    }
    Ok(())
}

/// Whether a cluster without other members may be lost with its machine.
fn only_member(cluster: &EtcdCluster, seen: &EtcdSeen, destroy: bool) -> Result<(), Refusal> {
    // Members that the document forgot would not be lost with it, but cut off.
    let view = View::new(cluster, seen, None);
    view.identify(view.membership().unwrap_or_default())?;
    if destroy {
        return Ok(());
    }
    Err(Refusal::OnlyMember {
        cluster: cluster.name.clone(),
    })
}

/// The cluster with more designed members: those of the live one that the design does not know by name nor
/// by peer URL, and for which `machine` names a machine. So are members counted whose machines have left
/// the design and still run.
#[must_use]
pub fn knowing(
    cluster: &EtcdCluster,
    seen: &EtcdSeen,
    machine: impl Fn(&EtcdMemberSeen) -> Option<NodeName>,
) -> EtcdCluster {
    let view = View::new(cluster, seen, None);
    let live = view.membership().unwrap_or_default().iter();
    let strangers =
        live.filter(|live| matches!(view.designed(live), Err(Refusal::Stranger { .. })));
    let mut known = cluster.clone();
    known.members.extend(strangers.filter_map(|live| {
        Some(EtcdMember {
            node: machine(live)?,
            name: live.name.clone(),
            peer_url: live.peer_urls.first()?.clone(),
            client_url: live.client_urls.first().cloned().unwrap_or_default(),
        })
    }));
    known
}

/// The healthy voters that a cluster must have now, so that removals that [`removal`] allowed stay
/// allowed: those that leave included.
#[must_use]
pub fn needed(cluster: &EtcdCluster, seen: &EtcdSeen, removals: &[EtcdRemoval]) -> usize {
    let Some(standing) = standing(cluster, seen) else {
        return cluster.minimum_healthy;
    };
    let leaving = |ids: &BTreeSet<Arc<str>>| {
        let of_set = removals.iter().filter(|each| ids.contains(&each.member_id));
        of_set.count()
    };
    match leaving(&standing.healthy) {
        0 => quorum(standing.voters.len()),
        missed => {
            let voters = standing.voters.len() - leaving(&standing.voters);
            quorum(voters).max(cluster.minimum_healthy) + missed
        }
    }
}

/// Why a member does not answer that a plan takes out before another one.
const TAKEN_OUT: &str = "this plan takes it out";

/// The predicted state of a cluster after removals, with everything else as it is.
#[must_use]
pub fn without(seen: &EtcdSeen, removals: &[EtcdRemoval]) -> EtcdSeen {
    let is_gone = |id: &str| removals.iter().any(|removal| *removal.member_id == *id);
    let answers = seen.answers.iter().map(|(name, fact)| {
        let fact = match fact {
            Fact::Known(answer) if is_gone(&answer.member_id) => {
                Fact::Unknown(Arc::from(TAKEN_OUT))
            }
            Fact::Known(answer) => {
                let mut answer = answer.clone();
                answer.members.retain(|member| !is_gone(&member.id));
                answer.alarms.retain(|alarm| !is_gone(&alarm.member));
                if answer.leader.as_deref().is_some_and(is_gone) {
                    // Any elected member; all survivors name the same one.
                    let voter = answer.members.iter().find(|member| !member.learner);
                    answer.leader = voter.map(|member| member.id.clone());
                }
                Fact::Known(answer)
            }
            Fact::Unknown(reason) => Fact::Unknown(reason.clone()),
        };
        (name.clone(), fact)
    });
    EtcdSeen {
        answers: answers.collect(),
        invalid: seen.invalid.clone(),
    }
}

/// A member, as it is designed and as it lives.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Its design; `None` if the design does not know it.
    pub designed: Option<&'a EtcdMember>,
    /// The member of the live cluster; `None` if it has none.
    pub live: Option<&'a EtcdMemberSeen>,
    /// Its own answer.
    pub answer: Option<&'a EtcdAnswer>,
    /// The reason why it is no healthy voter, as the end of a sentence about it.
    pub problem: Option<String>,
}

/// All members: those of the design in its order, then those that only the live cluster has.
#[must_use]
pub fn members<'a>(cluster: &'a EtcdCluster, seen: &'a EtcdSeen) -> Vec<Member<'a>> {
    let view = View::new(cluster, seen, None);
    let live = view.membership().unwrap_or_default();
    let known: Vec<_> = live.iter().map(|live| view.designed(live)).collect();
    let designed = cluster.members.iter().map(|member| {
        let mut both = live.iter().zip(&known);
        let mine = both.find(|(_, known)| known.as_ref().is_ok_and(|it| it.name == member.name));
        Member {
            designed: Some(member),
            live: mine.map(|(live, _)| live),
            answer: view.answer(member),
            problem: view.problem(member),
        }
    });
    let strangers = live.iter().zip(&known).filter_map(|(live, known)| {
        let problem = match known {
            Ok(_) => return None,
            Err(Refusal::Stranger { .. }) => "is not in the design",
            Err(_) => "has a name and a peer URL that do not belong together in the design",
        };
        Some(Member {
            designed: None,
            live: Some(live),
            answer: None,
            problem: Some(problem.to_owned()),
        })
    });
    designed.chain(strangers).collect()
}

/// Whether a machine is to be a member of a cluster that runs without it.
#[must_use]
pub fn has_left(cluster: &EtcdCluster, seen: &EtcdSeen, node: &NodeName) -> bool {
    let view = View::new(cluster, seen, None);
    let mut members = cluster.members.iter().filter(|member| member.node == *node);
    members.any(|member| view.has_left(member))
}

/// The condition that a machine still lacks to be a started voter of a cluster again; `None` if it lacks nothing,
/// or is no designed member of it.
#[must_use]
pub fn missing(cluster: &EtcdCluster, seen: &EtcdSeen, node: &NodeName) -> Option<String> {
    let view = View::new(cluster, seen, None);
    let mut members = cluster.members.iter().filter(|member| member.node == *node);
    members.find_map(|member| {
        let problem = match view.live(member) {
            Err(refusal) => return Some(refusal.to_string()),
            Ok(_) if view.has_left(member) => "is not a member".to_owned(),
            Ok(Some(live))
                if view
                    .answer(member)
                    .is_some_and(|it| it.member_id != live.id) =>
            {
                "does not answer at its client URL: another member does".to_owned()
            }
            Ok(_) => view.problem(member)?,
        };
        let (name, cluster) = (&member.name, &cluster.name);
        Some(format!(
            "member {name} of etcd cluster `{cluster}` {problem}"
        ))
    })
}

/// The reasons why a cluster is unhealthy: its alarms, and the members that are not healthy, those of
/// a machine left out if one is to be ignored.
#[must_use]
pub fn problems(
    cluster: &EtcdCluster,
    seen: &EtcdSeen,
    ignoring: Option<&NodeName>,
) -> Vec<String> {
    let view = View::new(cluster, seen, ignoring);
    let alarms = view.alarms().into_iter();
    let mut problems: Vec<_> = alarms
        .map(|alarm| {
            format!(
                "member {} raised the alarm {}",
                view.name(&alarm.member),
                alarm.kind
            )
        })
        .collect();
    problems.append(&mut view.unwell());
    problems
}

/// The reason why a designed member is no healthy voter, as the end of a sentence about it
/// (`does not answer: connection refused`); `None` if nothing does.
#[must_use]
pub fn problem(cluster: &EtcdCluster, seen: &EtcdSeen, member: &str) -> Option<String> {
    let view = View::new(cluster, seen, None);
    let member = cluster.members.iter().find(|each| *each.name == *member)?;
    view.problem(member)
}
