//! How a node leaves its clusters before its machine is taken away (airship-node-teardown).
//!
//! A step that is left out is a reason of the change; an unknown state blocks it: a machine
//! is never taken away from under a cluster that could not be asked.

use super::item::Item;
use super::leave::Leave;
use super::rules::Rules;
use super::steps::leaving::Bounds;
use super::subject::{Membership, Observation, Subject};
use crate::design::NodeName;
use crate::lifecycle::PowerState;
use crate::observed::Fact;
use crate::step::{OnDrainTimeout, StepKind, kubelet_silence};

impl<'a> Rules<'a> {
    /// Adds the steps with which a node that is torn down leaves its clusters, or blocks it if they are unknown.
    pub(super) fn leave(&self, mut item: Item<'a>) -> Item<'a> {
        let subject = item.subject;
        let mut leave = Leave {
            on_drain_timeout: self.leaving.on_drain_timeout,
            delete: true,
            ..Leave::default()
        };
        if self.gone.contains(subject.name) {
            leave.is_gone = self.is_gone(&mut item);
        }
        match subject.membership {
            Membership::NotAsked | Membership::NoCluster => {}
            Membership::Unseen(why) => {
                let reason =
                    format!("whether it is a node of the cluster could not be read: {why}");
                item.block_unreadable(&reason, None);
            }
            Membership::Out => item.because("is no node of the cluster: there is nothing to drain"),
            Membership::In(node) => {
                leave.node_uid = Some(node.uid.clone());
                self.block_endless_drain(&mut item, &leave);
            }
        }
        // Which etcd clusters it is in is settled when all nodes are judged.
        item.work.leave = Some(Box::new(leave));
        item
    }

    /// Blocks a drain that could not end: the kubelet that would end the pods is off with its machine.
    pub(super) fn block_endless_drain(&self, item: &mut Item<'a>, leave: &Leave) {
        let on_timeout = leave.on_drain_timeout.unwrap_or(OnDrainTimeout::Fail);
        let is_silent = matches!(item.subject.membership, Membership::In(node) if !node.ready);
        let pods = item.subject.pods.map_or(0, |pods| pods.evicted);
        if leave.is_gone || on_timeout != OnDrainTimeout::Fail || !is_silent || pods == 0 {
            return;
        }
        let pods = match pods {
            1 => "its pod".to_owned(),
            count => format!("its {count} pods"),
        };
        let name = item.subject.name;
        if item.subject.seen.is_off() {
            let reason = format!(
                "it is off, and its kubelet with it: {pods} would not end, and its drain would fail; `trueup apply power on {name}` \
                 starts it first"
            );
            item.block(&reason, Some("--node-is-gone"));
        } else {
            let bounds = Bounds::new(self.leaving, &self.guards.configuration);
            let time = kubelet_silence(bounds.of_kind(StepKind::Drain));
            let time = match time.as_secs() {
                60 => "1 minute".to_owned(),
                seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
                seconds => format!("{seconds} s"),
            };
            let reason = format!(
                "is not Ready: if its kubelet stays silent, {pods} do not end, and its drain fails after {time}; \
                 `--on-drain-timeout force-delete` deletes them then, and `--node-is-gone {name}` at once when its machine is off"
            );
            item.because(reason);
        }
    }

    /// Whether a machine that is said to be gone is taken for gone; else it is blocked. What a person has checked stands where nothing was
    /// observed, and not against what was.
    pub(super) fn is_gone(&self, item: &mut Item<'a>) -> bool {
        let unknown = match item.subject.seen {
            Observation::Known(node, _) => match &node.power {
                Fact::Known(PowerState::Off) => return true,
                Fact::Known(PowerState::On) => {
                    item.block(
                        "it is said to be gone, and it is on: switch it off first",
                        None,
                    );
                    return false;
                }
                Fact::Unknown(why) => format!(
                    "`--node-is-gone` names it, and whether it is off could not be observed: {why}"
                ),
            },
            Observation::Unknown(why) => {
                format!("`--node-is-gone` names it, and it could not be observed to be off: {why}")
            }
            Observation::NotAsked => {
                "`--node-is-gone` names it, and it was not observed".to_owned()
            }
        };
        if !self.leaving.checked_gone {
            item.block(&unknown, Some("--i-have-checked --node-is-gone"));
        }
        self.leaving.checked_gone
    }
}

/// The way out for a machine that is gone for good, so that no step could reach it. Only what no cluster knows is forgotten at once.
pub(super) fn if_gone(name: &NodeName, membership: Membership<'_>, is_etcd_member: bool) -> String {
    let leaves = match membership {
        Membership::In(_) => " takes it out of its clusters",
        Membership::Unseen(_) | Membership::NotAsked => {
            " takes it out of its clusters once they can be read"
        }
        Membership::NoCluster | Membership::Out if is_etcd_member => " takes it out of etcd",
        Membership::NoCluster | Membership::Out => {
            return format!(
                "if it is gone for good, `trueup apply forget {name}` drops its record"
            );
        }
    };
    format!(
        "if it is gone for good, and was found to be off, `trueup apply teardown {name} --node-is-gone {name} --i-have-checked`{leaves}, \
         and then `trueup apply forget {name}` drops its record"
    )
}

impl Rules<'_> {
    /// The way out for the machine of a subject that is gone for good.
    pub(super) fn if_gone(&self, subject: Subject<'_>) -> String {
        let mut etcd = self.clusters.of_node(subject.name);
        if_gone(subject.name, subject.membership, etcd.next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_cluster_knows_is_forgotten_at_once() {
        let name = NodeName::from("n1");
        let teardown = "`trueup apply teardown n1 --node-is-gone n1 --i-have-checked`";
        let forget = "`trueup apply forget n1` drops its record";
        for (membership, is_etcd_member, leaves) in [
            (Membership::Out, false, None),
            (Membership::NoCluster, false, None),
            (Membership::Out, true, Some("takes it out of etcd")),
            (Membership::NoCluster, true, Some("takes it out of etcd")),
            (
                Membership::Unseen("refused"),
                false,
                Some("takes it out of its clusters once they can be read"),
            ),
            (
                Membership::NotAsked,
                true,
                Some("takes it out of its clusters once they can be read"),
            ),
        ] {
            let text = if_gone(&name, membership, is_etcd_member);
            let expected = match leaves {
                None => format!("if it is gone for good, {forget}"),
                Some(leaves) => format!(
                    "if it is gone for good, and was found to be off, {teardown} {leaves}, and then {forget}"
                ),
            };
            assert_eq!(text, expected);
        }
    }
}
