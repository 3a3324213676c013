//! A simulated machine: what it is, what ever happened to it, and what is happening now.
//!
//! A machine changes only by an operation: it begins ([`Machine::begin`]), what is on its way takes
//! place ([`Machine::pass`]), and it ends ([`Machine::finish`]) or is aborted ([`Machine::stop`]). Each
//! effect is a line in the machine's ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ledger::{Effect, Ledger, Operation};
use crate::design::{Class, ClusterName, NodeDesign, NodeName, RunId, Section};
use crate::identity::Proof;
use crate::lifecycle::{OWN_STEPS, OfferedStep, PowerState, ProvisionState};
use crate::observed::{Capability, ClusterNode, Disk, Fact, ObservedNode};

/// The disks of a machine whose design names none.
const DISKS: [&str; 2] = ["sda", "sdb"];
/// The size of the first disk, and that of the others, in bytes.
pub(super) const SIZES: [u64; 2] = [480_103_981_056, 3_840_755_982_336];

/// The time of what does not come by itself.
const NEVER: u64 = u64::MAX;

/// A machine's member of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its id, in hexadecimal digits.
    pub id: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Where members reach it.
    pub peer_url: Arc<str>,
    /// Where clients reach it.
    pub client_url: Arc<str>,
    /// From when on it votes, in milliseconds of the world's time; before, it is a learner.
    pub votes_from: u64,
    /// How long it is a learner, in milliseconds.
    #[serde(default)]
    pub votes_after: u64,
    /// Whether its data was wiped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

impl Member {
    /// It stops at some time: a learner learns no more.
    pub(super) fn stop(&mut self, at: u64) {
        if self.votes_from > at {
            self.votes_from = NEVER;
        }
    }

    /// It starts at some time: a learner that was stopped begins again.
    pub(super) fn start(&mut self, at: u64) {
        if self.votes_from == NEVER && !self.lost {
            self.votes_from = at.saturating_add(self.votes_after);
        }
    }
}

/// The state of the pods of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pods {
    /// When pods last came back, in milliseconds of the world's time; 0: with the node.
    pub since: u64,
    /// The UIDs of those that are gone.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<Arc<str>>,
}

impl Pods {
    /// Whether all are there that came with the node.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        *self == Self::default()
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
    /// Whether that node was Ready and ceased to be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_fallen: bool,
    /// When that node was Ready again last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_at: Option<u64>,
    /// The pods of its node.
    #[serde(default, skip_serializing_if = "Pods::is_untouched")]
    pub pods: Pods,
    /// Whether its node is marked as out of service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_service: bool,
    /// Whether its kubelet was stopped and disabled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kubelet_stopped: bool,
    /// Its members of etcd clusters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<ClusterName, Member>,
    /// The clean step that runs or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_step: Option<Arc<str>>,
    /// The settings of its BIOS that are not as it came from the factory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bios: BTreeMap<Arc<str>, Arc<str>>,
    /// Firmware and settings that were changed since it came from the factory, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hardware: BTreeMap<Arc<str>, Arc<str>>,
    /// The reason, if it is retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Arc<str>>,
    /// The reason, if it is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Arc<str>>,
    /// Whether the provisioner protects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Arc<str>>,
    /// The running operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<Operation>>,
    /// How often each fault has happened to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<Arc<str>, u64>,
    /// All that ever happened to it, oldest first.
    #[serde(default, skip_serializing_if = "Ledger::is_empty")]
    pub ledger: Ledger,
}

impl Machine {
    /// A machine as it comes from the factory: off, available, its disks those that the design names.
    #[must_use]
    pub fn factory_new(node: &NodeDesign) -> Self {
        let names = match node.disks.is_empty() {
            true => Arc::from(DISKS.map(Arc::from)),
            false => node.disks.clone(),
        };
        let mut disks: Vec<Disk> = names
            .iter()
            .enumerate()
            .map(|(position, name)| new_disk(&node.name, name, SIZES[position.min(1)]))
            .collect();
        disks.sort();
        Self {
            disks,
            ..Self::unknown()
        }
    }

    /// A machine of which nothing is known: off, available, without disks.
    pub(super) fn unknown() -> Self {
        Self {
            power: PowerState::Off,
            provision: ProvisionState::Available,
            disks: Vec::new(),
            prepared: false,
            image: None,
            cluster: None,
            has_fallen: false,
            returned_at: None,
            pods: Pods::default(),
            out_of_service: false,
            kubelet_stopped: false,
            members: BTreeMap::new(),
            clean_step: None,
            bios: BTreeMap::new(),
            hardware: BTreeMap::new(),
            retired: None,
            maintenance: None,
            protected: false,
            last_error: None,
            operation: None,
            faults: BTreeMap::new(),
            ledger: Ledger::default(),
        }
    }

    /// How a step of a run ended here: what was said where it failed; `None` if it never ended.
    #[must_use]
    pub fn ended(&self, run: &RunId, step: &str) -> Option<Result<(), Arc<str>>> {
        Some(match self.ledger.end_of(run, step)? {
            Effect::Failed { message, .. } => Err(message.clone()),
            _ => Ok(()),
        })
    }

    /// The observed state of the machine.
    #[must_use]
    pub fn observed(&self) -> ObservedNode {
        ObservedNode {
            provision: Fact::Known(self.provision),
            power: Fact::Known(self.power),
            retired: self.retired.clone(),
            maintenance: self.maintenance.clone(),
            protected: self.protected,
            last_error: self.last_error.clone(),
            clean_step: self.clean_step.clone(),
            disks: Fact::Known(self.disks.clone()),
            cluster: Fact::Known(self.cluster.clone()),
            capabilities: CAPABILITIES.into(),
            kept_by_records: false,
            clean_steps: OFFERED.clone(),
            cleans_itself: false,
            deploys_unverified: false,
            boots_from: None,
            built: None,
            unsupported: Arc::default(),
            left_out: Arc::default(),
            drift: Arc::default(),
            compared: Arc::default(),
            fixed: Arc::default(),
            unread_parts: None,
            runbook: None,
            unlocked: false,
            way_out: None,
            identity: None,
            proof: Proof::Proven,
        }
    }
}

/// The clean steps of every machine.
pub(super) static OFFERED: LazyLock<Arc<[OfferedStep]>> =
    LazyLock::new(|| OWN_STEPS.map(OfferedStep::from).into());

const CAPABILITIES: [Capability; 13] = [
    Capability::Power,
    Capability::Prepare,
    Capability::Deploy,
    Capability::Wipe,
    Capability::WipeOperatingSystemDisk,
    Capability::Clean,
    Capability::DeploySteps,
    Capability::Retire,
    Capability::Relabel,
    Capability::Service,
    Capability::ServiceLive,
    Capability::RotatePassword,
    Capability::Raid,
];

pub(super) fn new_disk(node: &NodeName, name: &Arc<str>, size: u64) -> Disk {
    Disk {
        name: name.clone(),
        serial: Arc::from(format!("SIM-{}", &hexadecimal([node.as_str(), name])[..12])),
        size,
        partitioned: false,
    }
}

/// The UID of the node that a deploy makes: another one for every deploy.
pub(super) fn uid_of(node: &NodeName, run: &RunId, step: &str) -> Arc<str> {
    uuid_of([node.as_str(), run.as_str(), step])
}

/// A UID that depends on these parts only.
pub(super) fn uuid_of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Arc<str> {
    let digits = hexadecimal(parts);
    Arc::from(format!(
        "{}-{}-5{}-a{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[13..16],
        &digits[17..20],
        &digits[20..32]
    ))
}

/// The digest of what a machine is made of: all of its design that asks for a redeploy when it changes, but for the volumes
/// below it.
pub(super) fn image_of(node: &NodeDesign) -> Arc<str> {
    let digests = node
        .digests
        .iter()
        .filter(|(section, _)| section.class() == Class::Redeploy && *section != Section::Raid)
        .flat_map(|(section, digest)| [section.to_string(), digest.to_string()]);
    let digests: Vec<String> = digests.collect();
    Arc::from(hexadecimal(digests.iter().map(String::as_str)))
}

pub(super) fn hexadecimal<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize())
}
