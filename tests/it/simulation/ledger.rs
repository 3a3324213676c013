//! What happened to the machines of a stage, and what must never have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trueup::backend::hardware::sim::{
    Answer, Effect, LedgerEntry, Machine, MachineRequest, Settings, Simulator,
};
use trueup::design::{NodeName, RunId, quorum};
use trueup::lifecycle::PowerState;
use trueup::record::{NodeRecord, Phase};

/// All machines, and all that ever happened to them, in order.
pub(super) struct Ledger {
    pub(super) machines: BTreeMap<NodeName, Machine>,
    entries: Vec<(NodeName, LedgerEntry)>,
}

/// A member of etcd as the ledger tells of it.
struct Vote {
    from: u64,
    after: u64,
    lost: bool,
}

impl Ledger {
    /// The machines of these names in the file of a simulated site.
    pub(super) fn read<'n>(file: &Path, names: impl IntoIterator<Item = &'n NodeName>) -> Self {
        // What is under way is read as of now, and time stands still while it is read.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let _stands_still = runtime.enter();
        let simulator = Simulator::open(file, Settings::default()).unwrap();
        let mut machines = BTreeMap::new();
        let mut entries = Vec::new();
        for name in names {
            if let Some(machine) = simulator.machine(name).unwrap() {
                let ledger = machine.ledger.entries();
                entries.extend(ledger.map(|entry| (name.clone(), entry)));
                machines.insert(name.clone(), machine);
            }
        }
        entries.sort_by_key(|(_, entry)| entry.sequence);
        Self { machines, entries }
    }

    /// All that happened, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &(NodeName, LedgerEntry)> {
        self.entries.iter()
    }

    /// One line each, without numbers and identities that differ from run to run.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.entries.iter();
        lines
            .map(|(node, entry)| format!("{} {node} {} {:?}", entry.at, entry.step, entry.effect))
            .collect()
    }

    /// Whether a step of a run has had its effect.
    pub(super) fn has(&self, run: &RunId, step: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|(_, entry)| entry.run == *run && *entry.step == *step && !entry.on_the_way)
    }

    /// Whether a run has deployed a node.
    pub(super) fn is_deployed_by(&self, run: &RunId, node: &NodeName) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|(each, entry)| {
            each == node && entry.run == *run && matches!(entry.effect, Effect::Deployed(_))
        })
    }

    /// How often each thing happened: node, step, effect.
    pub(super) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (node, entry) in &self.entries {
            let step = &entry.step;
            *counts
                .entry(format!("{node} {step} {}", name(&entry.effect)))
                .or_default() += 1;
        }
        counts
    }

    /// What can be done once only was done once, whoever died meanwhile; and no etcd cluster was ever without
    /// its majority.
    pub(super) fn check(&self) {
        let mut once = BTreeSet::new();
        for (node, entry) in &self.entries {
            let what = match &entry.effect {
                Effect::Evicted(pod) | Effect::PodDeleted(pod) => format!("pod {}", pod.uid),
                Effect::NodeDeleted { uid } => format!("node {uid}"),
                Effect::MemberAdded(added) => format!("added {}", added.id),
                Effect::MemberRemoved(removed) => format!("removed {}", removed.id),
                effect @ (Effect::WroteDisk(_)
                | Effect::WipedDisk(_)
                | Effect::WipedMetadata(_)
                | Effect::Destroyed
                | Effect::Deployed(_)
                | Effect::Prepared
                | Effect::BiosReset
                | Effect::BiosSet(_)
                | Effect::CleanStepBegun(_)
                | Effect::Cleaned) => {
                    format!("{} {} {node} {}", entry.run, entry.step, name(effect))
                }
                _ => continue,
            };
            assert!(
                once.insert(what.clone()),
                "{what} happened twice: {:#?}",
                self.lines()
            );
        }
        self.check_quorum();
    }

    fn check_quorum(&self) {
        let mut runs: BTreeMap<&NodeName, bool> = BTreeMap::new();
        let mut members: BTreeMap<&NodeName, Vote> = BTreeMap::new();
        // What nobody waited for is written down when somebody looks, and happened when it happened.
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| (entry.at, entry.sequence));
        for (position, (node, entry)) in entries.iter().enumerate() {
            match &entry.effect {
                Effect::MemberRemoved(_) => {
                    members.remove(node);
                }
                Effect::MemberAdded(added) => {
                    let vote = Vote {
                        from: entry.at + added.votes_after,
                        after: added.votes_after,
                        lost: false,
                    };
                    members.insert(node, vote);
                }
                Effect::PoweredOn => {
                    runs.insert(node, true);
                    let waits = members.get_mut(node).filter(|vote| vote.from == u64::MAX);
                    if let Some(vote) = waits.filter(|vote| !vote.lost) {
                        vote.from = entry.at + vote.after;
                    }
                }
                Effect::PoweredOff | Effect::Destroyed => {
                    runs.insert(node, false);
                    if let Some(vote) = members.get_mut(node) {
                        vote.lost |= entry.effect == Effect::Destroyed;
                        if vote.from > entry.at {
                            vote.from = u64::MAX;
                        }
                    }
                }
                _ => {}
            }
            // Between two effects of one operation nothing is seen.
            let next = entries.get(position + 1);
            let is_last =
                next.is_none_or(|(_, next)| next.at != entry.at || next.step != entry.step);
            let voters: Vec<_> = members
                .iter()
                .filter(|(_, vote)| vote.from <= entry.at)
                .collect();
            let running = voters
                .iter()
                .filter(|(node, vote)| !vote.lost && runs.get(*node) == Some(&true))
                .count();
            assert!(
                !is_last || voters.is_empty() || running >= quorum(voters.len()),
                "{running} of {} members run at {}: {:#?}",
                voters.len(),
                entry.at,
                self.lines()
            );
        }
    }

    /// No machine was asked to begin a step again that had not failed, nor for one that it had done.
    pub(super) fn check_requests(&self, requests: &Path, log: &[String]) {
        let text = std::fs::read_to_string(requests).unwrap();
        let requests = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let requests: Vec<MachineRequest> = requests.collect();
        let mut begun: BTreeMap<_, usize> = BTreeMap::new();
        for request in &requests {
            assert_ne!(request.answer, Answer::Repeated, "{request:?} {log:#?}");
            if request.answer == Answer::Begun {
                *begun
                    .entry((&request.node, &request.run, &request.step))
                    .or_default() += 1;
            }
        }
        for ((node, run, step), count) in begun {
            let failed = self.entries.iter().filter(|(each, entry)| {
                (each, &entry.run, &entry.step) == (node, run, step)
                    && matches!(entry.effect, Effect::Failed { .. })
            });
            let failed = failed.count();
            assert!(
                count <= 1 + failed,
                "{step} of {node} was begun {count} times, and failed {failed} times: {text} {log:#?}"
            );
        }
    }

    /// The steps that failed.
    pub(super) fn failed(&self) -> BTreeSet<String> {
        let entries = self.entries.iter().map(|(_, entry)| entry);
        let failed = entries.filter(|entry| matches!(entry.effect, Effect::Failed { .. }));
        failed.map(|entry| entry.step.to_string()).collect()
    }

    /// Machines that are off or cordoned though their records say that they are deployed; sorted.
    pub(super) fn left_behind(&self, records: &BTreeMap<NodeName, NodeRecord>) -> Vec<String> {
        let mut left = Vec::new();
        for (name, machine) in &self.machines {
            let is_deployed = records.get(name).is_some_and(|record| {
                record.phase == Phase::Deployed
                    && record.retired.is_none()
                    && record.maintenance.is_none()
            });
            if is_deployed && machine.power == PowerState::Off {
                left.push(format!("{name} is off"));
            }
            let is_cordoned = machine
                .cluster
                .as_ref()
                .is_some_and(|node| node.unschedulable);
            if is_deployed && is_cordoned {
                left.push(format!("{name} is cordoned"));
            }
            if machine.operation.is_some() {
                left.push(format!("{name} is being worked on"));
            }
        }
        left
    }
}

/// What happened, without its identity.
fn name(effect: &Effect) -> String {
    match effect {
        Effect::WroteDisk(disk) => format!("wrote {disk}"),
        Effect::WipedDisk(disk) => format!("wiped {disk}"),
        Effect::WipedMetadata(disk) => format!("wiped metadata of {disk}"),
        Effect::CleanStepBegun(step) => format!("began {step}"),
        // The others by the name that they have in the file.
        other => match serde_json::to_value(other).unwrap() {
            serde_json::Value::Object(fields) => fields.keys().next().unwrap().clone(),
            name => name.as_str().unwrap().to_owned(),
        },
    }
}

/// All that must be the same however often a process died: what happened, what the machines are, what the
/// records say, and which tags there are.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    happened: BTreeMap<String, usize>,
    machines: BTreeMap<NodeName, String>,
    records: BTreeMap<NodeName, String>,
    tags: Vec<String>,
    outcome: trueup::record::Outcome,
    groups: Vec<(String, bool)>,
}

impl Outcome {
    /// The lines in which it is not what it should be.
    pub(super) fn difference(&self, expected: &Self) -> String {
        let lines = |outcome: &Self| -> BTreeSet<String> {
            let text = format!("{outcome:#?}");
            text.lines().map(str::to_owned).collect()
        };
        let (is, should) = (lines(self), lines(expected));
        let extra = is.difference(&should).map(|line| format!("+ {line}"));
        let missing = should.difference(&is).map(|line| format!("- {line}"));
        extra.chain(missing).collect::<Vec<_>>().join("\n")
    }

    /// `tags` are the names of the site's tags in full.
    pub(super) fn of(
        ledger: &Ledger,
        records: BTreeMap<NodeName, NodeRecord>,
        tags: &[String],
        report: &trueup::run::RunReport,
    ) -> Self {
        ledger.check();
        let machines = ledger.machines.iter().map(|(name, machine)| {
            let cluster = machine.cluster.as_ref();
            let cluster = cluster.map(|node| (node.ready, node.unschedulable, &node.labels));
            let says = format!(
                "{:?} {:?} {:?} {cluster:?} {:?} {:?} {} {} {:?} {}",
                machine.power,
                machine.provision,
                machine.image,
                machine.retired,
                machine.maintenance,
                machine.members.len(),
                machine.operation.is_some(),
                machine.bios,
                machine.out_of_service,
            );
            (name.clone(), says)
        });
        let machines = machines.collect();
        let records = records.into_iter().map(|(name, record)| {
            let says = format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                record.phase,
                record.digests,
                record.revision,
                record.retired,
                record.maintenance,
                record.last_error,
                record.clean_step,
                record.remediation,
            );
            (name, says)
        });
        let kinds = tags.iter().map(|tag| {
            let kind = tag.split('/').nth(2).unwrap_or_default();
            kind.to_owned()
        });
        let groups = report.groups.iter();
        Self {
            happened: ledger.counts(),
            machines,
            records: records.collect(),
            tags: kinds.collect(),
            outcome: report.outcome,
            groups: groups
                .map(|group| (group.group.to_string(), group.succeeded))
                .collect(),
        }
    }
}
