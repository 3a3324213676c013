//! The options of a request, beside the documents: selected nodes, allowances, limits, and how nodes leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Allowance;
use crate::design::{MaxUnavailable, NodeName, Policy, Rung, Share, Ticket};
use crate::remediation::Release;
use crate::step::OnDrainTimeout;

/// The options of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The day that retirement and windows are judged by (`YYYY-MM-DD`).
    pub as_of: Arc<str>,
    /// `--as-of` named the day: the plan is only reviewed, and never applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_of_given: bool,
    /// The words for the nodes that it is narrowed to; empty: all.
    pub targets: BTreeSet<Arc<str>>,
    /// Not these.
    pub excludes: BTreeSet<Arc<str>>,
    /// Machines that may be restarted.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub allow_restart: Allowance,
    /// Machines whose system may be installed again, their other disks being kept.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub allow_reinstall: Allowance,
    /// Redeploys that may be carried out.
    pub allow_redeploy: Allowance,
    /// Destroys that may be carried out.
    pub allow_destroy: Allowance,
    /// Machines that are taken as they are.
    pub adopt: Allowance,
    /// Machines that may be changed though nothing proves that they are the ones that are meant.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub allow_unverified: Allowance,
    /// Guards may become weaker than those in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_loosening: bool,
    /// Why approvals that are missing are done without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<Arc<str>>,
    /// The ticket of the work in another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Ticket>,
    /// Run outside of the maintenance windows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside_windows: bool,
    /// Carry the rest out if something is blocked.
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
    pub max_unavailable: Option<Share>,
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
    pub max_unhealthy: Option<Share>,
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
    /// The grace period of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_grace_period: Option<u64>,
    /// The handling of pods that are left at the timeout; absent: the drain fails.
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
    /// The operator has checked that they are, though they were not observed off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked_gone: bool,
    /// Their provisioner deletes retired machines when they are torn down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
}

fn common(asked: &BTreeSet<Arc<str>>, given: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
    asked.intersection(given).cloned().collect()
}

impl Options {
    /// The same request, in which nothing is allowed but what was `given`, too; limits that a flag loosens are the
    /// policy's again.
    ///
    /// Options that narrow, slow down or time the work stay as requested.
    #[must_use]
    pub fn allowed_by(&self, given: &Self, policy: &Policy) -> Self {
        let (mine, theirs) = (&self.leaving, &given.leaving);
        let (healing, given_healing) = (&self.remediation, &given.remediation);
        let drains = mine
            .on_drain_timeout
            .filter(|what| *what == OnDrainTimeout::Fail || theirs.on_drain_timeout == Some(*what));
        let unavailable = &policy.max_unavailable;
        let at_once = policy.remediation.max_at_once.unwrap_or(1);
        let failures = policy.max_failures.unwrap_or(u64::MAX);
        Self {
            allow_restart: self.allow_restart.allowed_by(&given.allow_restart),
            allow_reinstall: self.allow_reinstall.allowed_by(&given.allow_reinstall),
            allow_redeploy: self.allow_redeploy.allowed_by(&given.allow_redeploy),
            allow_destroy: self.allow_destroy.allowed_by(&given.allow_destroy),
            adopt: self.adopt.allowed_by(&given.adopt),
            allow_unverified: self.allow_unverified.allowed_by(&given.allow_unverified),
            allow_loosening: self.allow_loosening && given.allow_loosening,
            break_glass: self
                .break_glass
                .clone()
                .filter(|_| given.break_glass.is_some()),
            outside_windows: self.outside_windows && given.outside_windows,
            skip_blocked: self.skip_blocked && given.skip_blocked,
            allow_intermediate_commits: self.allow_intermediate_commits
                && given.allow_intermediate_commits,
            max_unavailable: share_within(self.max_unavailable, given.max_unavailable, unavailable),
            max_failures: within(self.max_failures, given.max_failures, failures),
            leaving: Leaving {
                on_drain_timeout: drains,
                destroy_etcd: common(&mine.destroy_etcd, &theirs.destroy_etcd),
                no_etcd_here: common(&mine.no_etcd_here, &theirs.no_etcd_here),
                gone: common(&mine.gone, &theirs.gone),
                checked_gone: mine.checked_gone && theirs.checked_gone,
                forget: mine.forget && theirs.forget,
                ..mine.clone()
            },
            remediation: Remediation {
                max_at_once: within(healing.max_at_once, given_healing.max_at_once, at_once),
                max_unhealthy: healing.max_unhealthy.filter(|most| {
                    Some(*most) == policy.remediation.max_unhealthy
                        || given_healing.max_unhealthy == Some(*most)
                }),
                ..healing.clone()
            },
            ..self.clone()
        }
    }
}

/// The share that was asked for, as far as the policy's own or the given one covers it.
fn share_within(asked: Option<Share>, given: Option<Share>, own: &MaxUnavailable) -> Option<Share> {
    let asked = asked?;
    let own = match asked {
        Share::Machines(_) => Share::Machines(own.total.unwrap_or(1)),
        Share::Percent(_) => Share::Percent(own.percent.unwrap_or(0)),
    };
    match given {
        _ if asked.is_within(own) => Some(asked),
        Some(given) if asked.is_within(given) => Some(asked),
        given => given.filter(|given| given.is_within(asked)),
    }
}

/// A limit as it was asked for, if it is not looser than `own` or was given, too.
fn within<N: Ord + Copy>(asked: Option<N>, given: Option<N>, own: N) -> Option<N> {
    match (asked, given) {
        (Some(asked), _) if asked <= own => Some(asked),
        (Some(asked), Some(given)) => Some(asked.min(given)),
        _ => None,
    }
}

impl Options {
    /// The flags that allow a rung on some nodes, the lowest first.
    fn allowed_rungs(&self) -> [(Rung, &Allowance); 3] {
        [
            (Rung::Restart, &self.allow_restart),
            (Rung::Reinstall, &self.allow_reinstall),
            (Rung::Wipe, &self.allow_redeploy),
        ]
    }

    /// Whether a flag allows a rung on a node: one that allows a higher rung does.
    #[must_use]
    pub fn allow_rung(&self, rung: Rung, node: &NodeName) -> bool {
        let mut flags = self.allowed_rungs().into_iter();
        flags.any(|(most, allowance)| rung <= most && allowance.names(node))
    }

    /// Whether a flag can be given all nodes as `all`, and not by their names only.
    #[must_use]
    pub fn takes_all(flag: &str) -> bool {
        let mut options = Self::default();
        let mut flags = options.allowances_mut().into_iter();
        flags.any(|(name, _)| name == flag)
    }

    /// The allowances of some nodes, each with its flag.
    pub(super) fn allowances_mut(&mut self) -> [(&'static str, &mut Allowance); 6] {
        [
            ("--allow-restart", &mut self.allow_restart),
            ("--allow-reinstall", &mut self.allow_reinstall),
            ("--allow-redeploy", &mut self.allow_redeploy),
            ("--allow-destroy", &mut self.allow_destroy),
            ("--adopt", &mut self.adopt),
            ("--allow-unverified", &mut self.allow_unverified),
        ]
    }
}

impl Leaving {
    /// The words for nodes, each list with its flag.
    pub(super) fn words_mut(&mut self) -> [(&'static str, &mut BTreeSet<Arc<str>>); 2] {
        [
            ("--no-etcd-here", &mut self.no_etcd_here),
            ("--node-is-gone", &mut self.gone),
        ]
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
