//! The way to bring a failed machine back (metal3-remediation), and the reasons against it.
//!
//! A machine is remediated because its Machine asks for it, because a remediation was begun and has to be
//! finished, or because an operator names it. In each case, a machine that would not be switched on again
//! is refused, an etcd cluster keeps its quorum, and with too many unhealthy machines none is touched.

use std::sync::Arc;

use super::item::Item;
use super::leave::Leave;
use super::remedy::{asks, begun, is_asked_for, is_begun, unseen};
use super::rules::Rules;
use super::subject::{Membership, Observation, Subject};
use super::work::Single;
use super::{Cause, ChangeKind};
use crate::lifecycle::PowerState;
use crate::observed::Fact;
use crate::record::NodeRecord;
use crate::remediation::{MachineSeen, Memory, NodeSeen, Power, Release, Task, action, way};
use crate::step::{Parameters, RemediateParameters, StepKind};

/// Why its remediation was aborted, where it was.
fn given_up(subject: &Subject<'_>) -> Option<Arc<str>> {
    let recorded = subject
        .record
        .and_then(|record| record.remediation.as_ref());
    let recorded = recorded.and_then(|memory| memory.given_up.clone());
    let seen = subject.remediation.and_then(|seen| seen.given_up.clone());
    recorded.or(seen)
}

impl<'a> Rules<'a> {
    /// Plans the remediation of a machine. `named`: the operator names it.
    pub(super) fn remediate(&self, subject: Subject<'a>, named: bool) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Operation);
        item.change.destructive = true;
        let limits = self.remedy.limits;
        let memory = remembered(&subject);
        let sight = sight(&subject, &memory);
        self.explain(&mut item, &sight, &memory, named);
        self.refuse(&mut item, &sight, &memory, named);
        item.work.single = Some(Box::new(Single {
            kind: StepKind::Remediate,
            parameters: Some(Parameters::Remediate(RemediateParameters {
                remediation: Some(limits),
                remembered: (memory != Memory::default()).then(|| Box::new(memory)),
                in_service: is_in_service(&subject),
            })),
        }));
        // Whether its etcd clusters bear that it is away is settled with all nodes.
        item.work.leave = Some(Box::new(Leave {
            only_judged: true,
            ..Leave::default()
        }));
        item
    }

    /// The observed state, and the tasks from there.
    fn explain(&self, item: &mut Item<'a>, sight: &MachineSeen, memory: &Memory, named: bool) {
        let subject = item.subject;
        if let Some(seen) = subject.remediation {
            if let (true, Some(machine)) = (seen.needs_remediation, &seen.machine) {
                item.because(format!("Machine `{machine}` asks for it"));
            }
            if !seen.host.is_empty() {
                item.because(format!("host `{}`", seen.host));
            }
        }
        if let Some(memory) = begun(&subject) {
            let run = subject.record.map_or("", |record| record.run.as_str());
            item.because(format!(
                "run {run} began it, and is at attempt {}",
                memory.attempt
            ));
        } else if named && !asks(&subject) {
            item.because("named in the request");
        }
        item.because(match sight.power {
            Power::On => "the machine is on",
            Power::Off => "the machine is off",
            Power::Unknown => "whether the machine is on is unknown",
        });
        item.because(match (&sight.node, subject.membership) {
            (Some(node), _) if node.ready => "its node is Ready",
            (Some(_), _) => "its node is not Ready",
            (None, Membership::Out) => "it has no node",
            (None, _) => "its node was not observed",
        });
        if let Some(pods) = subject.pods.filter(|pods| pods.evicted > 0) {
            let them = if pods.evicted == 1 {
                "pod moves"
            } else {
                "pods move"
            };
            item.because(format!("{} {them} elsewhere", pods.evicted));
        }
        for cluster in self.remedy.etcd {
            let mut members = cluster.members.iter();
            if let Some(member) = members.find(|member| member.node == *subject.name) {
                let (member, cluster) = (&member.name, &cluster.name);
                item.because(format!(
                    "member `{member}` of etcd cluster `{cluster}` is away meanwhile"
                ));
            }
        }
        // What it takes from here is not known while its power is not.
        if sight.power == Power::Unknown {
            return;
        }
        let facts = sight.facts();
        let words: Vec<&str> = way(sight, memory)
            .iter()
            .map(|task| match task {
                Task::Release(_) => match self.remedy.limits.method {
                    Release::DeleteNode => "delete its node",
                    Release::OutOfService => "mark its node as out of service",
                },
                task => task.as_str(),
            })
            .collect();
        item.because(format!("{}: {}", facts.phrase(), action(facts)));
        item.because(format!("tasks: {}", words.join(" → ")));
    }

    /// Blocks it for each reason against it.
    fn refuse(&self, item: &mut Item<'a>, sight: &MachineSeen, memory: &Memory, named: bool) {
        let subject = item.subject;
        if let Some(refused) = subject.remediation.and_then(|seen| seen.refused.as_ref()) {
            item.block(refused, None);
        }
        if let Some(why) = unseen(&subject) {
            let reason = format!("requests for its remediation could not be observed: {why}");
            item.block(&reason, None);
        }
        if subject.after.is_none() {
            item.block("it is not in the design", None);
        }
        refuse_unfit(item);
        match subject.membership {
            Membership::In(_) | Membership::Out => {}
            Membership::Unseen(why) => {
                item.block(&format!("the cluster could not be observed: {why}"), None);
            }
            Membership::NoCluster => {
                item.block("the site's Backends document names no cluster", None);
            }
            Membership::NotAsked => item.block("the cluster was not observed", None),
        }
        let method = self.remedy.limits.method;
        if let Some(version) = self
            .remedy
            .version
            .filter(|version| !method.is_known_to(version))
        {
            let reason = format!("its cluster is {version}, and `{method}` is for 1.28 and later");
            item.block(&reason, None);
        }
        // It is off for an unknown reason, and nothing would switch it on again.
        let is_ours = is_begun(&subject);
        if !is_ours && way(sight, memory) == [Task::Stuck] {
            item.block(
                "it is off, and not by a remediation: `apply power on` it first, or leave it off",
                None,
            );
        }
        // What has failed is made safe whatever guards it; what serves is taken out of service like by any other action.
        if is_in_service(&subject) {
            // The host of another client's machine is protected from teardown alone.
            if let Some(why) = subject.protection_by_policy(self.guards) {
                item.block_for(Cause::Protected, why, None);
            }
            if subject.is_flagged() {
                item.block("it is retired, and in service", None);
            }
        }
        if let Some(why) = given_up(&subject).filter(|_| !named) {
            item.block(
                &format!("its remediation failed before ({why}): name the node to retry"),
                None,
            );
        }
    }
}

/// Whether the machine serves, and nothing but its name in the request asks for its remediation.
fn is_in_service(subject: &Subject<'_>) -> bool {
    let is_ready = matches!(subject.membership, Membership::In(node) if node.ready);
    is_ready && !subject.seen.is_off() && !is_asked_for(subject)
}

/// Blocks it for each reason against it at the machine itself.
fn refuse_unfit(item: &mut Item<'_>) {
    let subject = item.subject;
    match subject.seen {
        Observation::NotAsked => item.block("it was not observed", None),
        // An unreachable machine cannot be observed off: its node is not released.
        Observation::Unknown(why) => item.block(&format!("it could not be observed: {why}"), None),
        Observation::Known(node, state) => {
            if let Some(why) = subject.held() {
                item.block(&format!("it {why}"), None);
            } else if !state.is_deployed() && subject.remediation.is_none() {
                item.block(
                    "it is not deployed, so that nothing of it can come back",
                    None,
                );
            }
            if let Fact::Unknown(why) = &node.power {
                item.block(
                    &format!("whether it is on could not be observed: {why}"),
                    None,
                );
            }
        }
    }
}

/// The memory of an earlier run: after a failed one, only the labels and taints to restore.
fn remembered(subject: &Subject<'_>) -> Memory {
    let memory = begun(subject).cloned().unwrap_or_default();
    Memory {
        backup: subject.record.and_then(NodeRecord::owed),
        ..memory
    }
}

/// The observed state of a machine, as its remediation will observe it.
fn sight(subject: &Subject<'_>, memory: &Memory) -> MachineSeen {
    let power = subject.seen.node().and_then(|node| node.power.known());
    let node = match subject.membership {
        Membership::In(node) => Some(NodeSeen {
            uid: node.uid.clone(),
            ready: node.ready,
            out_of_service: false,
        }),
        _ => None,
    };
    let host = subject.remediation;
    MachineSeen {
        node,
        // A named machine, or one with a request, needs it; a running remediation has its own mark.
        needs_remediation: match (host, begun(subject)) {
            (Some(host), _) if host.reboot_annotation || host.under_way => host.needs_remediation,
            (None, Some(memory)) if memory.attempt > 0 => memory.needs_remediation,
            _ => true,
        },
        power: match power {
            Some(PowerState::On) => Power::On,
            Some(PowerState::Off) => Power::Off,
            None => Power::Unknown,
        },
        reboot_annotation: host.map_or(memory.held, |host| host.reboot_annotation),
    }
}
