//! How failed machines are brought back, which ask for it, and the circuit breaker.

use std::sync::Arc;

use super::input::Input;
use super::item::Item;
use super::options::Options;
use super::subject::Subject;
use crate::design::{EtcdCluster, Guards};
use crate::guard;
use crate::lifecycle::PowerState;
use crate::observed::{Fact, Observations, ObservedNode};
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
        let subjects = subjects.filter(|subject| subject.after.is_some());
        let healths = subjects.map(|subject| {
            Health::of(
                subject.machine,
                subject.is_recorded_deployed(),
                asks(&subject),
            )
        });
        let (unhealthy, machines) = Health::count(healths);
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

/// A machine as the circuit breaker counts it, when it is planned and when it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// It is in no cluster, and was not deployed into one.
    NotCounted,
    Healthy,
    Unhealthy,
}

impl Health {
    /// The health of a machine. Its node that is not Ready or not found, its power and the request for its remediation show that it has
    /// failed; what could not be observed shows nothing.
    fn of(machine: Option<&ObservedNode>, is_deployed: bool, asks: bool) -> Self {
        let node = machine.and_then(|machine| match &machine.cluster {
            Fact::Known(node) => Some(node.as_ref()),
            Fact::Unknown(_) => None,
        });
        let is_in = matches!(node, Some(Some(_)));
        if !is_in && !is_deployed {
            return Self::NotCounted;
        }
        let is_off = machine.is_some_and(|machine| machine.power == Fact::Known(PowerState::Off));
        let has_failed = node.is_some_and(|node| node.is_none_or(|node| !node.ready));
        match has_failed || is_off || asks {
            true => Self::Unhealthy,
            false => Self::Healthy,
        }
    }

    /// How many are unhealthy, of how many.
    fn count(all: impl Iterator<Item = Self>) -> (usize, usize) {
        all.fold((0, 0), |(unhealthy, machines), health| match health {
            Self::NotCounted => (unhealthy, machines),
            Self::Healthy => (unhealthy, machines + 1),
            Self::Unhealthy => (unhealthy + 1, machines + 1),
        })
    }
}

/// The circuit breaker at the instant at which a remediation begins, over all machines of the site. What is deployed is told by the
/// provisioners alone: records are not read again.
///
/// # Errors
///
/// Too many are unhealthy.
pub fn breaker_of(seen: &Observations, limit: Share) -> Result<(), Broken> {
    let healths = seen.nodes.iter().map(|(name, machine)| {
        let is_deployed = matches!(&machine.provision, Fact::Known(state) if state.is_deployed());
        let remediation = seen.remediation.get(name);
        let asks = remediation.is_some_and(|seen| seen.needs_remediation);
        Health::of(Some(machine), is_deployed, asks)
    });
    let (unhealthy, machines) = Health::count(healths);
    breaker(unhealthy, machines, limit)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::ClusterNode;

    #[test]
    fn the_breaker_counts_machines_alike_in_plan_and_act() {
        use Health::{Healthy, NotCounted, Unhealthy};
        let node = |ready| {
            Fact::Known(Some(ClusterNode {
                ready,
                ..ClusterNode::default()
            }))
        };
        let unread = || Fact::Unknown(Arc::from("not read"));
        let (on, off) = (Fact::Known(PowerState::On), Fact::Known(PowerState::Off));
        let table = [
            (node(true), on.clone(), false, false, Healthy),
            (node(false), on.clone(), false, false, Unhealthy),
            // Its kubelet was heard of a moment ago.
            (node(true), off.clone(), false, false, Unhealthy),
            (node(true), on.clone(), false, true, Unhealthy),
            (Fact::Known(None), on.clone(), true, false, Unhealthy),
            (Fact::Known(None), on.clone(), false, false, NotCounted),
            (Fact::Known(None), off.clone(), false, true, NotCounted),
            (unread(), on, true, false, Healthy),
            (unread(), off, true, false, Unhealthy),
            (unread(), unread_power(), false, false, NotCounted),
        ];
        for (cluster, power, is_deployed, asks, expected) in table {
            let mut machine = ObservedNode::unknown("a test");
            (machine.cluster, machine.power) = (cluster, power);
            let found = Health::of(Some(&machine), is_deployed, asks);
            assert_eq!(found, expected, "{machine:?} {is_deployed} {asks}");
        }
    }

    fn unread_power() -> Fact<PowerState> {
        Fact::Unknown(Arc::from("not read"))
    }
}
