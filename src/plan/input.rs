//! The input of a plan, and its errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Action, FormerSite, GuardBasis, Renames};
use super::{Base, CommitHistory, IntermediateCommit, Options, Request, Target};
use crate::design::{Documented, GroupName, NodeDesign, NodeName, Section};
use crate::diff::{FieldChange, Reasons, ValueDifference};
use crate::guard::{Guarded, WordError};
use crate::observed::Observations;
use crate::record::NodeRecord;
use crate::reservation::Reservations;

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

    fn values(&self, _: &NodeDesign, _: &NodeDesign, _: Section) -> Vec<ValueDifference> {
        Vec::new()
    }
}

/// All that a plan is made from.
pub struct Input<'a> {
    /// The request.
    pub request: Request,
    /// Which documents `after` was made of.
    pub target: Target,
    /// The design to be reached, and the guards that hold; its site is the plan's.
    pub after: &'a Guarded,
    /// The documents at each revision that a record or the base names, by revision; one that is missing
    /// costs the reasons, and what can be compared across versions of digests.
    pub designs: &'a BTreeMap<Arc<str>, Documented>,
    /// The last success.
    pub base: Option<Base>,
    /// The record of each node.
    pub records: &'a BTreeMap<NodeName, NodeRecord>,
    /// The machines that persons work on: they are left alone.
    pub reservations: &'a Reservations,
    /// The machines without a record here that a former site has as deployed.
    pub former: &'a BTreeMap<NodeName, FormerSite>,
    /// The nodes that have another name now.
    pub renames: &'a Renames,
    /// The observed state; `None`: planned on records alone, and the plan lists the unknown facts.
    pub observations: Option<&'a Observations>,
    /// The options of the request.
    pub options: Options,
    /// Commits between the last site action and the target, or those that a rollback undoes.
    pub intermediate_commits: Vec<IntermediateCommit>,
    /// The commits that lead to the target.
    pub history: CommitHistory,
    /// Whether the keys that may approve differ from those at the base, which the documents do not show.
    pub signers_changed: bool,
    /// The guards beside those of `after`.
    pub guards: &'a GuardBasis,
    /// The source of reasons.
    pub reasons: &'a dyn Reasons,
    /// The machines that a run takes out of service with whose plan this one is compared.
    pub resumes: &'a BTreeSet<NodeName>,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A word of a flag means no machine.
    #[error("`{flag}`: {error}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// Why not.
        error: WordError,
    },
    /// A word that an action was asked for means no machine.
    #[error(transparent)]
    Word(#[from] WordError),
    /// Flags are given that the policy forbids.
    #[error("the policy of the site forbids {}", as_flags(.flags))]
    Forbidden {
        /// Their names.
        flags: Vec<Arc<str>>,
    },
    /// An action needs nodes, and none was named.
    #[error("`{action}` requires at least one node")]
    NoNodes {
        /// Which.
        action: Action,
    },
    /// An action on the cluster is asked for nodes that the cluster does not have.
    #[error("`{action}` needs nodes of the cluster, and these are not in it: {}", names(.nodes))]
    NotInCluster {
        /// Which.
        action: Action,
        /// Which nodes, sorted.
        nodes: Vec<NodeName>,
    },
    /// Machines with a request for remediation are selected, and the requests could not be observed.
    #[error("the requests for remediation cannot be read: {reason}")]
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
    /// The path of a field is none.
    #[error("`--field {path}` is not a pattern: {reason}")]
    Field {
        /// As it was given.
        path: Arc<str>,
        /// Why not.
        reason: Arc<str>,
    },
    /// Groups depend on each other in a circle.
    #[error("deployment groups depend on each other in a circle: {}", circle(.groups))]
    GroupCycle {
        /// The circle, its first group once.
        groups: Vec<GroupName>,
    },
    /// A group depends on an unknown one.
    #[error(
        "deployment group `{group}` depends on group `{missing}`, which was not found in the deployment strategy"
    )]
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

impl Error {
    /// Adds the flag that a word belongs to.
    pub(super) fn of_flag(flag: &'static str) -> impl Fn(WordError) -> Self {
        move |error| Self::Flag { flag, error }
    }
}

fn names(nodes: &[NodeName]) -> String {
    let names = nodes.iter().map(|node| format!("`{node}`"));
    names.collect::<Vec<_>>().join(", ")
}

fn circle(groups: &[GroupName]) -> String {
    let names = groups.iter().chain(groups.first());
    names.map(GroupName::as_str).collect::<Vec<_>>().join(" → ")
}

fn as_flags(flags: &[Arc<str>]) -> String {
    let flags: Vec<String> = flags.iter().map(|flag| format!("`--{flag}`")).collect();
    flags.join(", ")
}
