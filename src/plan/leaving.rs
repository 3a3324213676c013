//! How a node leaves its clusters before its machine is taken away (airship-node-teardown).
//!
//! A step that is left out is a reason of the change; an unknown state blocks it: a machine
//! is never taken away from under a cluster that could not be asked.

use super::item::Item;
use super::leave::Leave;
use super::rules::Rules;
use super::subject::{Membership, Observation, Subject};
use crate::lifecycle::PowerState;
use crate::observed::Fact;
use crate::step::{KUBELET_SILENCE, OnDrainTimeout};

impl<'a> Rules<'a> {
    /// Adds the steps with which a node that is torn down leaves its clusters, or blocks it where they are unknown.
    pub(super) fn leave(&self, mut item: Item<'a>) -> Item<'a> {
        let subject = item.subject;
        let mut leave = Leave {
            on_drain_timeout: self.leaving.on_drain_timeout,
            delete: true,
            ..Leave::default()
        };
        if self.gone.contains(subject.name) {
            match self.is_gone(&item) {
                Ok(()) => leave.is_gone = true,
                Err(why) => item.block(&why, Some("--i-have-checked --node-is-gone")),
            }
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
            let minutes = KUBELET_SILENCE.as_secs() / 60;
            let reason = format!(
                "is not Ready: if its kubelet stays silent, {pods} do not end, and its drain fails after {minutes} minutes; \
                 `--on-drain-timeout force-delete` deletes them then, and `--node-is-gone {name}` at once when its machine is off"
            );
            item.because(reason);
        }
    }

    /// Whether a machine that is said to be gone may be taken for gone.
    pub(super) fn is_gone(&self, item: &Item<'a>) -> Result<(), String> {
        if self.leaving.checked_gone {
            return Ok(());
        }
        match item.subject.seen {
            Observation::Known(node, _) => match &node.power {
                Fact::Known(PowerState::Off) => Ok(()),
                Fact::Known(PowerState::On) => {
                    Err("it is said to be gone, and it is on".to_owned())
                }
                Fact::Unknown(why) => Err(format!(
                    "`--node-is-gone` names it, and whether it is off could not be observed: {why}"
                )),
            },
            Observation::Unknown(why) => Err(format!(
                "`--node-is-gone` names it, and it could not be observed to be off: {why}"
            )),
            Observation::NotAsked => {
                Err("`--node-is-gone` names it, and it was not observed".to_owned())
            }
        }
    }
}

/// The way out for a machine that is gone for good, so that no step could reach it.
pub(super) fn if_gone(subject: Subject<'_>) -> String {
    let name = subject.name;
    match subject.membership {
        Membership::In(_) => format!(
            "if it is gone for good, `trueup apply teardown {name} --node-is-gone {name}` takes it out of its clusters, and then \
             `trueup apply forget {name}` drops its record"
        ),
        _ => format!("if it is gone for good, `trueup apply forget {name}` drops its record"),
    }
}
