//! How failed machines are brought back, and which ask for it.

use std::sync::Arc;

use super::input::Input;
use super::options::Options;
use super::subject::Subject;
use crate::design::{EtcdCluster, Guards};
use crate::guard;
use crate::remediation::{Memory, RemediationLimits, Share};

/// How failed machines are brought back: the flags', else the policy's.
pub(super) struct Remedy<'a> {
    pub(super) max_at_once: usize,
    /// How many may be unhealthy.
    pub(super) max_unhealthy: Share,
    pub(super) limits: RemediationLimits,
    /// The version of the cluster that the nodes are in.
    pub(super) version: Option<&'a str>,
    pub(super) etcd: &'a [EtcdCluster],
}

/// How many machines are remediated at the same time.
pub(super) fn at_once(guards: &Guards, options: &Options) -> usize {
    let policy = guards.policy.remediation.max_at_once;
    let at_once = options.remediation.max_at_once.or(policy);
    at_once.unwrap_or(guard::REMEDIATIONS).max(1)
}

impl<'a> Remedy<'a> {
    pub(super) fn of(input: &Input<'a>, options: &Options) -> Self {
        let (policy, given) = (
            &input.after.guards().policy.remediation,
            &options.remediation,
        );
        let cluster = input.observations.and_then(|seen| seen.cluster.as_ref());
        Self {
            max_at_once: at_once(input.after.guards(), options),
            max_unhealthy: policy.max_unhealthy(given.max_unhealthy),
            limits: RemediationLimits {
                attempts: given.attempts.unwrap_or(policy.limits.attempts),
                method: given.release_node.unwrap_or(policy.limits.method),
                ..policy.limits
            },
            version: cluster.map(|cluster| &*cluster.version),
            etcd: &input.after.guards().etcd_clusters,
        }
    }
}

/// Whether its Machine asks for its remediation.
pub(super) fn asks(subject: &Subject<'_>) -> bool {
    subject
        .remediation
        .is_some_and(|seen| seen.needs_remediation)
}

/// The remediation that another run began and did not see through.
pub(super) fn begun<'a>(subject: &Subject<'a>) -> Option<&'a Memory> {
    let memory = subject.record?.remediation.as_deref()?;
    memory.given_up.is_none().then_some(memory)
}

pub(super) fn is_begun(subject: &Subject<'_>) -> bool {
    begun(subject).is_some()
        || subject
            .remediation
            .is_some_and(|seen| seen.reboot_annotation || seen.under_way)
}

/// Why the requests for its remediation could not be observed.
pub(super) fn unseen<'a>(subject: &Subject<'a>) -> Option<&'a Arc<str>> {
    subject.remediation?.unseen.as_ref()
}

/// Whether anything but a person asks for its remediation.
pub(super) fn is_asked_for(subject: &Subject<'_>) -> bool {
    asks(subject) || is_begun(subject)
}
