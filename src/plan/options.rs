//! What was asked for, beside the documents: which nodes, what is allowed, how fast, and how nodes leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::remediation::{MaxUnhealthy, Release};
use crate::step::OnDrainTimeout;

/// Which nodes a flag names: `all`, or node names and globs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// All nodes.
    pub all: bool,
    /// Names and globs.
    pub nodes: BTreeSet<Arc<str>>,
}

impl Allowance {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The day that retirement and windows are judged by (`YYYY-MM-DD`).
    pub as_of: Arc<str>,
    /// Only these (names, globs, groups, racks, tags); empty: all.
    pub targets: BTreeSet<Arc<str>>,
    /// Not these.
    pub excludes: BTreeSet<Arc<str>>,
    /// Redeploys that may be carried out.
    pub allow_redeploy: Allowance,
    /// Destroys that may be carried out.
    pub allow_destroy: Allowance,
    /// Machines that are taken as they are.
    pub adopt: Allowance,
    /// Machines that may be changed though nothing proves that they are the ones that are meant.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub allow_unverified: Allowance,
    /// Carry the rest out where something is blocked.
    pub skip_blocked: bool,
    /// Run although commits lie between the last site action and the target.
    pub allow_intermediate_commits: bool,
    /// Nodes worked on at the same time inside a group.
    pub parallelism: usize,
    /// Independent groups at the same time.
    pub parallel_groups: usize,
    /// Deploy a node as soon as it is prepared and its group's gate can no longer fail.
    pub overlap: bool,
    /// Most redeploys at the same time.
    pub max_unavailable: Option<usize>,
    /// The first wave is one node.
    pub canary: bool,
    /// Halt when more nodes than this have failed.
    pub max_failures: Option<u64>,
    /// How nodes that are torn down leave their clusters.
    #[serde(default, skip_serializing_if = "Leaving::is_default")]
    pub leaving: Leaving,
    /// How failed machines are brought back.
    #[serde(default, skip_serializing_if = "Remediation::is_default")]
    pub remediation: Remediation,
}

/// How failed machines are brought back (metal3-remediation); what is absent is the policy's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Remediation {
    /// Most at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_at_once: Option<usize>,
    /// With more unhealthy machines than this, none is remediated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unhealthy: Option<MaxUnhealthy>,
    /// Attempts in all for one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// How its node is released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_node: Option<Release>,
}

impl Remediation {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How nodes leave the clusters that they are in (airship-node-teardown). Times are in seconds; those
/// that are absent are the DeploymentConfiguration's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaving {
    /// Bound of a drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<u64>,
    /// What pods are given to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_grace_period: Option<u64>,
    /// What happens to pods that are left at the timeout; absent: the drain fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_drain_timeout: Option<OnDrainTimeout>,
    /// Bound of clear-labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear_labels_timeout: Option<u64>,
    /// Bound of remove-etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_etcd_timeout: Option<u64>,
    /// Bound of check-etcd, and of a member's way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_ready_timeout: Option<u64>,
    /// Only the disk of the operating system is erased.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_local_storage: bool,
    /// Etcd clusters of one member that may end with it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub destroy_etcd: BTreeSet<Arc<str>>,
    /// Nodes that look as if they ran etcd, and do not.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub no_etcd_here: BTreeSet<Arc<str>>,
    /// Nodes that are gone for good: nothing of them is waited for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<Arc<str>>,
    /// Somebody has checked that they are, though they were not seen off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked_gone: bool,
    /// What moves them forgets retired machines when they are torn down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
}

impl Leaving {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
