//! The effects of an operation on a machine while it runs and when it ends.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::ledger::{Deployed, Effect, MemberAdded, NodeRestored, Operation, Relabelled, Stage};
use super::machine::{Machine, Member, Pods, SIZES, new_disk};
use super::rules::states_of;
use crate::design::NodeName;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{ClusterNode, Disk, Labels};
use crate::step::{Actor, StepKind};

/// The label that the kubelet sets itself.
static HOST_NAME: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("kubernetes.io/hostname"));

/// The keys of these.
static KEPT: LazyLock<Arc<BTreeSet<Arc<str>>>> =
    LazyLock::new(|| Arc::new([HOST_NAME.clone()].into()));

/// The label that shuts a kubelet down (airship-node-teardown, which spells it so), and its value.
pub(super) const DECOMMISSION: (&str, &str) = ("promenade-decomission", "enabled");

impl Machine {
    /// Begins an operation.
    pub fn begin(&mut self, operation: Box<Operation>) {
        if let Some((_, during, _)) = states_of(operation.kind) {
            self.provision = during;
        }
        self.operation = Some(operation);
    }

    /// Lets what is on the way take place up to some time, numbered from `sequence` on. Gives the next
    /// number.
    pub fn pass(&mut self, node: &NodeName, at: u64, mut sequence: u64) -> u64 {
        let Some(mut operation) = self.operation.take() else {
            return sequence;
        };
        let passed = operation.stages.partition_point(|stage| stage.at <= at);
        let stages: Vec<Stage> = operation.stages.drain(..passed).collect();
        for stage in stages {
            self.apply(node, &stage.effect, stage.at);
            let effects = vec![stage.effect];
            sequence = self
                .ledger
                .add(sequence, stage.at, &operation, true, effects);
        }
        self.operation = Some(operation);
        sequence
    }

    /// Aborts the operation: effects until now have taken place, and no other will.
    pub fn stop(&mut self, node: &NodeName, at: u64, sequence: u64) -> u64 {
        let sequence = self.pass(node, at, sequence);
        self.operation = None;
        sequence
    }

    /// Ends the operation: its effects take place, numbered from `sequence` on. Gives the next number.
    pub fn finish(&mut self, node: &NodeName, at: u64, sequence: u64) -> u64 {
        let sequence = self.pass(node, at, sequence);
        let Some(mut operation) = self.operation.take() else {
            return sequence;
        };
        let effects = std::mem::take(&mut operation.effects);
        for effect in &effects {
            self.apply(node, effect, at);
        }
        self.ledger.add(sequence, at, &operation, false, effects)
    }

    fn apply(&mut self, node: &NodeName, effect: &Effect, at: u64) {
        match effect {
            Effect::PoweredOn => self.switch(PowerState::On, at),
            Effect::PoweredOff => self.switch(PowerState::Off, at),
            Effect::Prepared => {
                self.provision = ProvisionState::Available;
                self.prepared = true;
                self.last_error = None;
                self.clean_step = None;
            }
            Effect::WroteDisk(name) => self.partition(node, name, true),
            Effect::WipedDisk(name) | Effect::WipedMetadata(name) => {
                self.partition(node, name, false);
            }
            Effect::Deployed(deployed) => self.deployed(node, deployed, at),
            Effect::Destroyed => {
                self.rest();
                self.prepared = false;
                self.image = None;
                self.last_error = None;
                self.clean_step = None;
                for member in self.members.values_mut() {
                    member.stop(at);
                    member.lost = true;
                }
                self.switch(self.power, at);
            }
            Effect::Forgotten => {
                self.provision = ProvisionState::Enroll;
                self.retired = None;
            }
            Effect::Retired(reason) => {
                // A retired machine is never available (ironic-retirement).
                if self.provision == ProvisionState::Available {
                    self.provision = ProvisionState::Manageable;
                }
                self.retired = Some(reason.clone());
            }
            Effect::Unretired => self.retired = None,
            Effect::MaintenanceBegan(reason) => self.maintenance = Some(reason.clone()),
            Effect::MaintenanceEnded => self.maintenance = None,
            Effect::Managed => {
                self.provision = ProvisionState::Manageable;
                self.last_error = None;
            }
            Effect::Provided => {
                self.provision = ProvisionState::Available;
                self.last_error = None;
                self.clean_step = None;
            }
            Effect::CleanStepBegun(step) => {
                self.provision = ProvisionState::Cleaning;
                self.clean_step = Some(step.clone());
            }
            Effect::BiosSet(settings) => self.bios.extend((**settings).clone()),
            Effect::BiosReset => self.bios.clear(),
            Effect::HardwareSet(values) => self.hardware.extend((**values).clone()),
            Effect::Serviced => self.last_error = None,
            Effect::Cleaned => {
                self.provision = ProvisionState::Manageable;
                self.prepared = false;
                self.clean_step = None;
                self.last_error = None;
            }
            Effect::Failed { kind, message } => {
                let cleans = *kind == StepKind::Clean || self.provision.is_cleaning();
                if cleans {
                    // No deploy until a person has intervened (ironic-cleaning).
                    self.provision = ProvisionState::CleanFailed;
                    self.maintenance = Some(message.clone());
                } else if let Some((_, _, failed)) = states_of(*kind) {
                    self.provision = failed;
                }
                if kind.facts().actor == Actor::Hardware {
                    self.last_error = Some(message.clone());
                }
            }
            _ => self.apply_to_cluster(node, effect, at),
        }
    }

    /// Applies an effect to its node and its members.
    fn apply_to_cluster(&mut self, node: &NodeName, effect: &Effect, at: u64) {
        match effect {
            Effect::Evicted(pod) | Effect::PodDeleted(pod) => {
                self.pods.gone.insert(pod.uid.clone());
            }
            Effect::MemberAdded(added) => {
                let MemberAdded {
                    cluster,
                    id,
                    at: places,
                    votes_after,
                } = &**added;
                let [name, peer_url, client_url] = places;
                let member = Member {
                    id: id.clone(),
                    name: name.clone(),
                    peer_url: peer_url.clone(),
                    client_url: client_url.clone(),
                    votes_from: at.saturating_add(*votes_after),
                    votes_after: *votes_after,
                    lost: false,
                };
                self.members.insert(cluster.clone(), member);
            }
            Effect::MemberRemoved(removed) => {
                self.members.remove(&removed.cluster);
            }
            Effect::NodeDeleted { .. } => {
                self.cluster = None;
                (self.has_fallen, self.returned_at) = (false, None);
                self.out_of_service = false;
                self.pods = Pods::default();
            }
            Effect::NodeJoined { uid } => {
                let labels = [(HOST_NAME.clone(), node.shared().clone())].into();
                self.join(uid, labels, at);
            }
            Effect::OutOfService => self.out_of_service = true,
            Effect::InService => {
                self.out_of_service = false;
                // What comes back are other pods.
                self.pods = Pods {
                    since: at,
                    ..Pods::default()
                };
            }
            Effect::KubeletStopped => {
                self.kubelet_stopped = true;
                if let Some(cluster) = &mut self.cluster {
                    let (key, value) = DECOMMISSION;
                    cluster.labels.insert(Arc::from(key), Arc::from(value));
                }
                self.switch(self.power, at);
            }
            _ => {
                if let Some(cluster) = &mut self.cluster {
                    apply_to_node(cluster, &mut self.pods, effect, at);
                }
            }
        }
    }

    fn deployed(&mut self, node: &NodeName, deployed: &Deployed, at: u64) {
        let Deployed { image, uid, labels } = deployed;
        let mut labels = labels.clone();
        labels.insert(HOST_NAME.clone(), node.shared().clone());
        self.provision = ProvisionState::Active;
        self.image = Some(image.clone());
        self.kubelet_stopped = false;
        self.last_error = None;
        self.join(uid, labels, at);
    }

    /// Its node registers with the cluster anew.
    fn join(&mut self, uid: &Arc<str>, labels: Labels, at: u64) {
        self.pods = Pods::default();
        self.cluster = Some(ClusterNode {
            uid: uid.clone(),
            labels,
            kept_labels: KEPT.clone(),
            ..ClusterNode::default()
        });
        (self.has_fallen, self.returned_at) = (false, None);
        self.switch(self.power, at);
    }

    /// The state in which an unused machine waits.
    fn rest(&mut self) {
        self.provision = if self.retired.is_some() {
            ProvisionState::Manageable
        } else {
            ProvisionState::Available
        };
    }

    fn switch(&mut self, power: PowerState, at: u64) {
        for member in self.members.values_mut() {
            match power {
                PowerState::On => member.start(at),
                PowerState::Off => member.stop(at),
            }
        }
        self.power = power;
        let runs = power == PowerState::On && self.image.is_some() && !self.kubelet_stopped;
        if let Some(cluster) = &mut self.cluster {
            match (cluster.ready, runs) {
                (true, false) => self.has_fallen = true,
                (false, true) if self.has_fallen => self.returned_at = Some(at),
                _ => {}
            }
            cluster.ready = runs;
        }
    }

    /// A missing disk was plugged in before it was written.
    fn partition(&mut self, node: &NodeName, name: &Arc<str>, partitioned: bool) {
        match self.disks.iter_mut().find(|disk| disk.name == *name) {
            Some(disk) => disk.partitioned = partitioned,
            None => {
                let disk = new_disk(node, name, SIZES[1]);
                self.disks.push(Disk {
                    partitioned,
                    ..disk
                });
                self.disks.sort();
            }
        }
    }
}

fn apply_to_node(cluster: &mut ClusterNode, pods: &mut Pods, effect: &Effect, at: u64) {
    match effect {
        Effect::Relabelled(relabelled) => {
            let Relabelled { set, remove } = &**relabelled;
            for key in remove {
                cluster.labels.remove(key);
            }
            let set = set.iter().map(|(key, value)| (key.clone(), value.clone()));
            cluster.labels.extend(set);
        }
        Effect::Cordoned(run) => {
            cluster.unschedulable = true;
            cluster.cordoned_by = Some(Arc::from(run.as_str()));
        }
        Effect::Uncordoned => {
            cluster.unschedulable = false;
            cluster.cordoned_by = None;
            // What comes back are other pods; nothing is scheduled on a node that is not Ready.
            if cluster.ready {
                *pods = Pods {
                    since: at,
                    ..Pods::default()
                };
            }
        }
        Effect::NodeRestored(restored) => {
            let NodeRestored {
                labels,
                unschedulable,
            } = &**restored;
            for (key, value) in labels {
                if !cluster.labels.contains_key(key) {
                    cluster.labels.insert(key.clone(), value.clone());
                }
            }
            cluster.unschedulable |= unschedulable;
        }
        Effect::LabelsCleared(keys) => {
            for key in &**keys {
                cluster.labels.remove(key);
            }
        }
        _ => {}
    }
}
