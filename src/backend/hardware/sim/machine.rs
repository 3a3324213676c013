//! A simulated machine: what it is, what ever happened to it, and what is happening now.
//!
//! A machine changes in two ways only: an operation begins ([`Machine::begin`]) and ends
//! ([`Machine::finish`]), and at its end its effects take place, all at once, each with a line in the
//! machine's ledger. The effects are fixed when the operation begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::design::{Class, NodeDesign, NodeName, RunId};
use crate::lifecycle::{OWN_STEPS, OfferedStep, PowerState, ProvisionState};
use crate::observed::{Capability, ClusterNode, Disk, Fact, ObservedNode};
use crate::step::StepKind;

/// The disks of a machine whose design names none.
const DISKS: [&str; 2] = ["sda", "sdb"];
/// The size of the first disk, and that of the others, in bytes.
const SIZES: [u64; 2] = [480_103_981_056, 3_840_755_982_336];

/// What happened to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// It was switched on.
    PoweredOn,
    /// It was switched off.
    PoweredOff,
    /// It was identified and inspected, and is available.
    Prepared,
    /// A disk was partitioned and written.
    WroteDisk(Arc<str>),
    /// A system was installed and booted, and joined the cluster.
    Deployed {
        /// The digest of what was deployed.
        image: Arc<str>,
        /// The UID of its node in the cluster.
        uid: Arc<str>,
        /// The labels of its node in the cluster.
        labels: BTreeMap<Arc<str>, Arc<str>>,
    },
    /// A disk was erased.
    WipedDisk(Arc<str>),
    /// Its node was taken out of the cluster.
    LeftCluster,
    /// It was torn down: available, or manageable where it is retired.
    Destroyed,
    /// Labels of its node in the cluster were set and taken off.
    Relabelled {
        /// Set.
        set: BTreeMap<Arc<str>, Arc<str>>,
        /// Taken off.
        remove: Vec<Arc<str>>,
    },
    /// It was retired, with a reason.
    Retired(Arc<str>),
    /// Its retired flag was taken off.
    Unretired,
    /// An operation failed.
    Failed {
        /// Which.
        kind: StepKind,
        /// What was said.
        message: Arc<str>,
    },
}

/// One thing that happened, by whom and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// Its number among all effects of the site, from 1 on.
    pub sequence: u64,
    /// When, in milliseconds of the simulated world's own time.
    pub at: u64,
    /// The run that asked for it.
    pub run: RunId,
    /// The step that asked for it.
    pub step: Arc<str>,
    /// What happened.
    pub effect: Effect,
}

/// What is happening to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The run that asked for it.
    pub run: RunId,
    /// The step that asked for it.
    pub step: Arc<str>,
    /// What kind of step it is.
    pub kind: StepKind,
    /// When it ends, in milliseconds of the world's time; absent: never.
    pub ends: Option<u64>,
    /// Whether the answer at its end is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer_lost: bool,
    /// What takes place at its end.
    pub effects: Vec<Effect>,
}

impl Operation {
    /// Whether it was asked for by this step of this run.
    #[must_use]
    pub fn is(&self, run: &RunId, step: &str) -> bool {
        self.run == *run && *self.step == *step
    }
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Power.
    pub power: PowerState,
    /// Provision state.
    pub provision: ProvisionState,
    /// Disks, sorted by name.
    pub disks: Vec<Disk>,
    /// Whether it was prepared since it was last torn down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepared: bool,
    /// The digest of what is deployed on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<str>>,
    /// Its node in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterNode>,
    /// The reason, where it is retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Arc<str>>,
    /// The reason, where it is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Arc<str>>,
    /// Whether the provisioner protects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Arc<str>>,
    /// What is happening to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// How often each fault has happened to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<Arc<str>, u64>,
    /// All that ever happened to it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledger: Vec<LedgerEntry>,
}

/// From which states each kind of step may begin; what is not here may begin in any.
const LEGAL: [(StepKind, &[ProvisionState]); 4] = [
    (
        StepKind::Prepare,
        &[
            ProvisionState::Enroll,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
            ProvisionState::DeployFailed,
        ],
    ),
    (
        StepKind::Deploy,
        &[ProvisionState::Available, ProvisionState::DeployFailed],
    ),
    (
        StepKind::Destroy,
        &[
            ProvisionState::Active,
            ProvisionState::DeployFailed,
            ProvisionState::Error,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
        ],
    ),
    (StepKind::Relabel, &[ProvisionState::Active]),
];

/// For each kind of step the state while it is under way and the one after it failed; what is not
/// here leaves the state alone.
const STATES: [(StepKind, ProvisionState, ProvisionState); 3] = [
    (
        StepKind::Prepare,
        ProvisionState::Inspecting,
        ProvisionState::InspectFailed,
    ),
    (
        StepKind::Deploy,
        ProvisionState::Deploying,
        ProvisionState::DeployFailed,
    ),
    (
        StepKind::Destroy,
        ProvisionState::Deleting,
        ProvisionState::Error,
    ),
];

impl Machine {
    /// A machine as it comes from the factory: off, available, its disks those that the design names.
    #[must_use]
    pub fn factory_new(node: &NodeDesign) -> Self {
        let named: Vec<&str> = node.disks.iter().map(|name| &**name).collect();
        let names = if named.is_empty() { &DISKS[..] } else { &named };
        let mut disks: Vec<Disk> = names
            .iter()
            .enumerate()
            .map(|(position, name)| new_disk(&node.name, name, SIZES[position.min(1)]))
            .collect();
        disks.sort();
        Self {
            power: PowerState::Off,
            provision: ProvisionState::Available,
            disks,
            prepared: false,
            image: None,
            cluster: None,
            retired: None,
            maintenance: None,
            protected: false,
            last_error: None,
            operation: None,
            faults: BTreeMap::new(),
            ledger: Vec::new(),
        }
    }

    /// Why a kind of step may not begin now, naming the state and what was asked; `None` if it may.
    #[must_use]
    pub fn refusal(&self, node: &NodeName, kind: StepKind) -> Option<String> {
        let state = state_name(self.provision);
        if let Some((_, legal)) = LEGAL.iter().find(|(each, _)| *each == kind)
            && !legal.contains(&self.provision)
        {
            let legal: Vec<_> = legal.iter().map(|each| state_name(*each)).collect();
            return Some(format!(
                "`{node}` is {state}, and `{kind}` can begin only where it is {}",
                legal.join(", ")
            ));
        }
        if matches!(
            kind,
            StepKind::Prepare | StepKind::Deploy | StepKind::Destroy
        ) && let Some(reason) = &self.maintenance
        {
            return Some(format!(
                "`{node}` is in maintenance ({reason}), and `{kind}` is refused there"
            ));
        }
        if matches!(kind, StepKind::Prepare | StepKind::Deploy)
            && let Some(reason) = &self.retired
        {
            return Some(format!(
                "`{node}` is {state} and retired ({reason}), and `{kind}` is refused there"
            ));
        }
        if kind == StepKind::Destroy && self.protected {
            return Some(format!(
                "`{node}` is {state} and protected, and `{kind}` is refused there"
            ));
        }
        if kind == StepKind::Deploy && !self.prepared {
            return Some(format!(
                "`{node}` is {state} but was not prepared, and `{kind}` is refused there"
            ));
        }
        None
    }

    /// Begins an operation.
    pub fn begin(&mut self, operation: Operation) {
        if let Some((_, during, _)) = states_of(operation.kind) {
            self.provision = during;
        }
        self.operation = Some(operation);
    }

    /// Ends the operation: its effects take place, numbered from `sequence` on. Gives the next number.
    pub fn finish(&mut self, node: &NodeName, at: u64, mut sequence: u64) -> u64 {
        let Some(operation) = self.operation.take() else {
            return sequence;
        };
        for effect in operation.effects {
            self.suffer(node, &effect);
            self.ledger.push(LedgerEntry {
                sequence,
                at,
                run: operation.run.clone(),
                step: operation.step.clone(),
                effect,
            });
            sequence = sequence.saturating_add(1);
        }
        sequence
    }

    fn suffer(&mut self, node: &NodeName, effect: &Effect) {
        match effect {
            Effect::PoweredOn => self.switch(PowerState::On),
            Effect::PoweredOff => self.switch(PowerState::Off),
            Effect::Prepared => {
                self.provision = ProvisionState::Available;
                self.prepared = true;
                self.last_error = None;
            }
            Effect::WroteDisk(name) => self.partition(node, name, true),
            Effect::WipedDisk(name) => self.partition(node, name, false),
            Effect::Deployed { image, uid, labels } => {
                self.provision = ProvisionState::Active;
                self.image = Some(image.clone());
                self.cluster = Some(ClusterNode {
                    uid: uid.clone(),
                    ready: self.power == PowerState::On,
                    unschedulable: false,
                    labels: labels.clone(),
                    ..ClusterNode::default()
                });
                self.last_error = None;
            }
            Effect::LeftCluster => self.cluster = None,
            Effect::Destroyed => {
                self.provision = if self.retired.is_some() {
                    ProvisionState::Manageable
                } else {
                    ProvisionState::Available
                };
                self.prepared = false;
                self.image = None;
                self.last_error = None;
            }
            Effect::Relabelled { set, remove } => {
                if let Some(cluster) = &mut self.cluster {
                    for key in remove {
                        cluster.labels.remove(key);
                    }
                    let set = set.iter().map(|(key, value)| (key.clone(), value.clone()));
                    cluster.labels.extend(set);
                }
            }
            Effect::Retired(reason) => {
                // A retired machine is never available (ironic-retirement).
                if self.provision == ProvisionState::Available {
                    self.provision = ProvisionState::Manageable;
                }
                self.retired = Some(reason.clone());
            }
            Effect::Unretired => self.retired = None,
            Effect::Failed { kind, message } => {
                if let Some((_, _, failed)) = states_of(*kind) {
                    self.provision = failed;
                }
                self.last_error = Some(message.clone());
            }
        }
    }

    fn switch(&mut self, power: PowerState) {
        self.power = power;
        if let Some(cluster) = &mut self.cluster {
            cluster.ready = power == PowerState::On;
        }
    }

    /// A disk that is not there yet was plugged in before it was written.
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

    /// How a step of a run ended here: what was said where it failed; `None` where it never ended.
    #[must_use]
    pub fn ended(&self, run: &RunId, step: &str) -> Option<Result<(), Arc<str>>> {
        let last = self
            .ledger
            .iter()
            .rev()
            .find(|entry| entry.run == *run && *entry.step == *step)?;
        Some(match &last.effect {
            Effect::Failed { message, .. } => Err(message.clone()),
            _ => Ok(()),
        })
    }

    /// What is seen from outside.
    #[must_use]
    pub fn observed(&self) -> ObservedNode {
        ObservedNode {
            provision: Fact::Known(self.provision),
            power: Fact::Known(self.power),
            retired: self.retired.clone(),
            maintenance: self.maintenance.clone(),
            protected: self.protected,
            last_error: self.last_error.clone(),
            clean_step: None,
            disks: Fact::Known(self.disks.clone()),
            cluster: Fact::Known(self.cluster.clone()),
            capabilities: CAPABILITIES.into(),
            kept_by_records: false,
            clean_steps: OWN_STEPS.map(OfferedStep::from).to_vec(),
        }
    }
}

const CAPABILITIES: [Capability; 7] = [
    Capability::Power,
    Capability::Prepare,
    Capability::Deploy,
    Capability::Wipe,
    Capability::WipeOperatingSystemDisk,
    Capability::Retire,
    Capability::Relabel,
];

fn states_of(kind: StepKind) -> Option<(StepKind, ProvisionState, ProvisionState)> {
    STATES.into_iter().find(|(each, ..)| *each == kind)
}

/// A state by the name that it has in files and in output.
fn state_name(state: ProvisionState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{state:?}"),
    }
}

fn new_disk(node: &NodeName, name: &str, size: u64) -> Disk {
    Disk {
        name: Arc::from(name),
        serial: Arc::from(format!("SIM-{}", &hexadecimal([node.as_str(), name])[..12])),
        size,
        partitioned: false,
    }
}

/// The UID of the node that a deploy makes: another one for every deploy.
pub(super) fn uid_of(node: &NodeName, run: &RunId, step: &str) -> Arc<str> {
    let digits = hexadecimal([node.as_str(), run.as_str(), step]);
    Arc::from(format!(
        "{}-{}-5{}-a{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[13..16],
        &digits[17..20],
        &digits[20..32]
    ))
}

/// The digest of what a machine is made of: all of its design that asks for a redeploy when it changes.
pub(super) fn image_of(node: &NodeDesign) -> Arc<str> {
    let digests = node
        .digests
        .iter()
        .filter(|(section, _)| section.class() == Class::Redeploy)
        .flat_map(|(section, digest)| [section.as_str(), &**digest]);
    Arc::from(hexadecimal(digests))
}

fn hexadecimal<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
