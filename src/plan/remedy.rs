//! How failed machines are brought back, which ask for it, and the circuit breaker.

use std::sync::Arc;

use super::input::Input;
use super::item::Item;
use super::options::Options;
use super::subject::{Membership, Subject};
use crate::design::{EtcdCluster, Guards};
use crate::guard;
use crate::observed::{Fact, Observations};
use crate::remediation::{Broken, Memory, RemediationLimits, Share, breaker};

/// How failed machines are brought back: the flags', else the policy's.
pub(super) struct Remedy<'a> {
    pub(super) max_at_once: usize,
    max_unhealthy: Share,
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

    /// The circuit breaker: with too many unhealthy machines, it is not the machines, and none is touched.
    /// A running remediation is finished all the same, so that no machine stays off.
    pub(super) fn breaker<'i, 's>(
        &self,
        mut items: Vec<Item<'i>>,
        subjects: impl Iterator<Item = Subject<'s>>,
    ) -> Vec<Item<'i>> {
        let (mut machines, mut unhealthy) = (0, 0);
        for subject in subjects.filter(|subject| subject.after.is_some()) {
            let is_in = matches!(subject.membership, Membership::In(_));
            if is_in || subject.is_recorded_deployed() {
                machines += 1;
                unhealthy += usize::from(is_unhealthy(&subject));
            }
        }
        let Err(broken) = breaker(unhealthy, machines, self.max_unhealthy) else {
            return items;
        };
        for item in items.iter_mut().filter(|item| !is_begun(&item.subject)) {
            let flag = format!("--max-unhealthy {unhealthy}");
            item.block_as(&broken.to_string(), Some(&flag));
        }
        items
    }
}

/// The circuit breaker at the instant at which a remediation begins, over the observed nodes.
///
/// # Errors
///
/// Too many are unhealthy.
pub fn breaker_of(seen: &Observations, limit: Share) -> Result<(), Broken> {
    let (mut machines, mut unhealthy) = (0, 0);
    for node in seen.nodes.values() {
        if let Fact::Known(Some(node)) = &node.cluster {
            machines += 1;
            unhealthy += usize::from(!node.ready);
        }
    }
    breaker(unhealthy, machines, limit)
}

/// Whether its node or its power shows that it has failed.
fn is_unhealthy(subject: &Subject<'_>) -> bool {
    match subject.membership {
        Membership::In(node) => !node.ready || subject.seen.is_off() || asks(subject),
        Membership::Out => true,
        _ => subject.seen.is_off() || asks(subject),
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
