//! Why a member may not be removed from its etcd cluster, one sentence and one rule each.

use std::sync::Arc;

use crate::design::{ClusterName, NodeName};

/// Why nothing may be removed from an etcd cluster now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is the only member, and no document allows to lose the cluster.
    #[error("etcd cluster `{cluster}` has no other member and would be lost")]
    OnlyMember {
        /// Which cluster.
        cluster: ClusterName,
    },
    /// No survivor answers.
    #[error(
        "no other member of etcd cluster `{cluster}` can be asked{}",
        list(unwell)
    )]
    Silent {
        /// Which cluster.
        cluster: ClusterName,
        /// The members without an answer and why.
        unwell: Vec<String>,
    },
    /// Survivors are of different clusters.
    #[error("members {one} and {other} of etcd cluster `{cluster}` have different cluster ids")]
    TwoClusters {
        /// Which cluster.
        cluster: ClusterName,
        /// A member.
        one: Arc<str>,
        /// Another one.
        other: Arc<str>,
    },
    /// Survivors tell of different members.
    #[error("members {one} and {other} of etcd cluster `{cluster}` do not agree on its membership")]
    Disagree {
        /// Which cluster.
        cluster: ClusterName,
        /// A member.
        one: Arc<str>,
        /// Another one.
        other: Arc<str>,
    },
    /// A live member is on no designed machine.
    #[error(
        "etcd cluster `{cluster}` has a member that the design does not know: {}",
        live(name, id, peer_urls)
    )]
    Stranger {
        /// Which cluster.
        cluster: ClusterName,
        /// The member's id.
        id: Arc<str>,
        /// Its name; empty if it never started.
        name: Arc<str>,
        /// Its peer URLs.
        peer_urls: Vec<Arc<str>>,
    },
    /// A live member's name and peer URL belong to different machines.
    #[error(
        "a member of etcd cluster `{cluster}` is by its name on {} and by its peer URL on {}: {}",
        machine(node_by_name.as_ref()), machine(node_by_url.as_ref()), live(name, id, peer_urls)
    )]
    NameAndUrl {
        /// Which cluster.
        cluster: ClusterName,
        /// The member's id.
        id: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// Its peer URLs.
        peer_urls: Vec<Arc<str>>,
        /// The machine that the design has for the name.
        node_by_name: Option<NodeName>,
        /// The machine that the design has for a peer URL.
        node_by_url: Option<NodeName>,
    },
    /// Two live members are the same designed one.
    #[error("etcd cluster `{cluster}` has two members that are {member} by the design")]
    Twice {
        /// Which cluster.
        cluster: ClusterName,
        /// The designed member.
        member: Arc<str>,
    },
    /// Another member answers at a member's client URL.
    #[error(
        "at {client_url}, where member {member} of etcd cluster `{cluster}` should be, answers {}",
        found.as_deref().unwrap_or("a server that is no member")
    )]
    Elsewhere {
        /// Which cluster.
        cluster: ClusterName,
        /// The member that was meant.
        member: Arc<str>,
        /// Where it was asked.
        client_url: Arc<str>,
        /// The member that answered.
        found: Option<Arc<str>>,
    },
    /// No survivor reads through a quorum, so that the membership is unknown.
    #[error(
        "etcd cluster `{cluster}` has no quorum, so its membership is unknown{}",
        list(unwell)
    )]
    Undecided {
        /// Which cluster.
        cluster: ClusterName,
        /// The unhealthy members and why.
        unwell: Vec<String>,
    },
    /// A survivor has no leader.
    #[error("member {member} of etcd cluster `{cluster}` has no leader")]
    NoLeader {
        /// Which cluster.
        cluster: ClusterName,
        /// The member.
        member: Arc<str>,
    },
    /// Survivors know different leaders.
    #[error("members {one} and {other} of etcd cluster `{cluster}` follow different leaders")]
    TwoLeaders {
        /// Which cluster.
        cluster: ClusterName,
        /// A member.
        one: Arc<str>,
        /// Another one.
        other: Arc<str>,
    },
    /// An alarm is raised.
    #[error("etcd cluster `{cluster}` has the alarm {kind}, raised by member {member}")]
    Alarm {
        /// Which cluster.
        cluster: ClusterName,
        /// `NOSPACE` or `CORRUPT`.
        kind: Arc<str>,
        /// The member that raised it, by name where it has one.
        member: Arc<str>,
    },
    /// A learner on another machine.
    #[error(
        "member {member} of etcd cluster `{cluster}`, on {node}, is a learner: a change of members is under way"
    )]
    Learner {
        /// Which cluster.
        cluster: ClusterName,
        /// The learner.
        member: Arc<str>,
        /// Its machine.
        node: NodeName,
    },
    /// No healthy majority would be left.
    #[error(
        "etcd cluster `{cluster}` would be left with {} without {node}, and needs {}{}",
        voters_that_are_healthy(*healthy), crate::design::quorum(*voters), list(unwell)
    )]
    Quorum {
        /// Which cluster.
        cluster: ClusterName,
        /// The machine that would be taken out.
        node: NodeName,
        /// Healthy voters on other machines.
        healthy: usize,
        /// Voters of which they must be a majority.
        voters: usize,
        /// The unhealthy members and why.
        unwell: Vec<String>,
    },
    /// Fewer healthy members would be left than the document wants.
    #[error(
        "etcd cluster `{cluster}` would be left with {} without {node}, and its document requires {minimum}{}",
        voters_that_are_healthy(*healthy), list(unwell)
    )]
    Minimum {
        /// Which cluster.
        cluster: ClusterName,
        /// The machine that would be taken out.
        node: NodeName,
        /// Healthy voters on other machines.
        healthy: usize,
        /// Those that are wanted.
        minimum: usize,
        /// The unhealthy members and why.
        unwell: Vec<String>,
    },
}

/// Most members that a sentence names.
const NAMED: usize = 3;

fn list(unwell: &[String]) -> String {
    let named = unwell.iter().take(NAMED).map(String::as_str);
    match (unwell.len(), named.collect::<Vec<_>>().join("; ")) {
        (0, _) => String::new(),
        (count, named) if count > NAMED => format!(" ({named}; and {} more)", count - NAMED),
        (_, named) => format!(" ({named})"),
    }
}

fn voters_that_are_healthy(count: usize) -> String {
    match count {
        0 => "no healthy voter".to_owned(),
        1 => "1 healthy voter".to_owned(),
        _ => format!("{count} healthy voters"),
    }
}

fn live(name: &str, id: &str, peer_urls: &[Arc<str>]) -> String {
    let name = if name.is_empty() {
        "one that never started"
    } else {
        name
    };
    format!("{name} (id {id}, {})", peer_urls.join(", "))
}

fn machine(node: Option<&NodeName>) -> &str {
    node.map_or("no machine", NodeName::as_str)
}

impl Refusal {
    /// The rule that refuses, as a stable word for scripts.
    #[must_use]
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::OnlyMember { .. } => "etcd-only-member",
            Self::Silent { .. } => "etcd-silent",
            Self::TwoClusters { .. } => "etcd-two-clusters",
            Self::Disagree { .. } => "etcd-disagreement",
            Self::Stranger { .. } => "etcd-stranger",
            Self::NameAndUrl { .. } | Self::Twice { .. } | Self::Elsewhere { .. } => {
                "etcd-identity"
            }
            Self::Undecided { .. } => "etcd-undecided",
            Self::NoLeader { .. } | Self::TwoLeaders { .. } => "etcd-leader",
            Self::Alarm { .. } => "etcd-alarm",
            Self::Learner { .. } => "etcd-learner",
            Self::Quorum { .. } => "etcd-quorum",
            Self::Minimum { .. } => "etcd-minimum",
        }
    }

    /// The cluster that it is about.
    #[must_use]
    pub const fn cluster(&self) -> &ClusterName {
        match self {
            Self::OnlyMember { cluster }
            | Self::Silent { cluster, .. }
            | Self::TwoClusters { cluster, .. }
            | Self::Disagree { cluster, .. }
            | Self::Stranger { cluster, .. }
            | Self::NameAndUrl { cluster, .. }
            | Self::Twice { cluster, .. }
            | Self::Elsewhere { cluster, .. }
            | Self::Undecided { cluster, .. }
            | Self::NoLeader { cluster, .. }
            | Self::TwoLeaders { cluster, .. }
            | Self::Alarm { cluster, .. }
            | Self::Learner { cluster, .. }
            | Self::Quorum { cluster, .. }
            | Self::Minimum { cluster, .. } => cluster,
        }
    }
}
