//! What a plan is made from, and what can be wrong with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Action;
use super::{Base, IntermediateCommit, Options, Request, Target};
use crate::design::{Design, GroupName, NodeDesign, NodeName, Section};
use crate::diff::{FieldChange, Reasons};
use crate::observed::Observations;
use crate::record::NodeRecord;

/// Names no fields: for a plan of which only the steps count.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReasons;

impl Reasons for NoReasons {
    fn fields(
        &self,
        _: &NodeName,
        _: Option<&NodeDesign>,
        _: &NodeDesign,
        _: &[Section],
    ) -> Vec<FieldChange> {
        Vec::new()
    }
}

/// All that a plan is made from.
pub struct Input<'a> {
    /// What is asked for.
    pub request: Request,
    /// Which documents `after` was made of.
    pub target: Target,
    /// The design to be reached; its site is the plan's.
    pub after: &'a Design,
    /// The design at each revision that a record or the base names, by revision; one that is missing
    /// costs the reasons, and what can be compared across versions of digests.
    pub designs: &'a BTreeMap<Arc<str>, Arc<Design>>,
    /// The last success.
    pub base: Option<Base>,
    /// What was done to each node.
    pub records: &'a BTreeMap<NodeName, NodeRecord>,
    /// What was seen; `None`: planned on records alone, and the plan says what could not be known.
    pub observations: Option<&'a Observations>,
    /// What was asked for.
    pub options: Options,
    /// Commits between the last site action and the target, where they were allowed.
    pub intermediate_commits: Vec<IntermediateCommit>,
    /// Who says why.
    pub reasons: &'a dyn Reasons,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A pattern of a flag names nothing.
    #[error("`{flag} {pattern}` matches no {what}{}", hint(.near))]
    NoMatch {
        /// The flag.
        flag: &'static str,
        /// What was given.
        pattern: Arc<str>,
        /// What it could have named.
        what: &'static str,
        /// The name that is nearest.
        near: Option<Arc<str>>,
    },
    /// There is no node of a name that an action was asked for.
    #[error("there is no node, group, rack or tag `{pattern}`{}", hint(.near))]
    UnknownNode {
        /// What was given.
        pattern: Arc<str>,
        /// The name that is nearest.
        near: Option<Arc<str>>,
    },
    /// An action needs nodes, and none was named.
    #[error("`{action}` wants at least one node")]
    NoNodes {
        /// Which.
        action: Action,
    },
    /// An action on the cluster is asked for nodes that the cluster does not have.
    #[error("`{action}` is asked for what is no node of the cluster: {}", names(.nodes))]
    NotInCluster {
        /// Which.
        action: Action,
        /// Which nodes, sorted.
        nodes: Vec<NodeName>,
    },
    /// Machines that ask for remediation are meant, and which do could not be seen.
    #[error("what asks for remediation could not be seen: {reason}")]
    RemediationUnseen {
        /// Why not.
        reason: Arc<str>,
    },
    /// An action is about etcd clusters, and the site has none.
    #[error("the site's documents list no etcd cluster")]
    NoEtcd,
    /// Pods are to be given more time to end than their drain has.
    #[error(
        "a drain's grace period must be less than its timeout: {grace} s are not less than {timeout} s"
    )]
    GracePeriod {
        /// The grace period in seconds.
        grace: u64,
        /// The timeout in seconds.
        timeout: u64,
    },
    /// A pattern is no glob.
    #[error("`{flag} {pattern}` is not a pattern: {reason}")]
    Pattern {
        /// The flag.
        flag: &'static str,
        /// What was given.
        pattern: Arc<str>,
        /// Why not.
        reason: Arc<str>,
    },
    /// Groups depend on each other in a circle.
    #[error("deployment groups depend on each other in a circle: {}", circle(.groups))]
    GroupCycle {
        /// The circle, its first group once.
        groups: Vec<GroupName>,
    },
    /// A group depends on one that is not there.
    #[error("deployment group `{group}` depends on `{missing}`, which is not there")]
    UnknownGroup {
        /// Which group.
        group: GroupName,
        /// On what.
        missing: GroupName,
    },
    /// Two groups have one name.
    #[error("there is more than one deployment group `{group}`")]
    RepeatedGroup {
        /// The name.
        group: GroupName,
    },
}

fn hint(near: &Option<Arc<str>>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

fn names(nodes: &[NodeName]) -> String {
    let names = nodes.iter().map(|node| format!("`{node}`"));
    names.collect::<Vec<_>>().join(", ")
}

fn circle(groups: &[GroupName]) -> String {
    let names = groups.iter().chain(groups.first());
    names.map(GroupName::as_str).collect::<Vec<_>>().join(" → ")
}
