//! A machine as MAAS shows it, and what that means.
//!
//! MAAS's statuses are a table ([`STATUSES`]). Three things stand beside it: whether a system is on the machine,
//! since it may be tested in any state; tags of trueup's own, since MAAS knows neither retirement nor maintenance;
//! and its owner. Nothing in an answer is trusted to be there: what is not understood is as if it was absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::shown::{
    Block, BootDisk, FileSystem, Gateways, Interface, VolumeGroup, or_empty, or_none,
};
use super::tag;
use crate::backend::hardware::poll::Listed;
use crate::backend::hardware::provisioner::{ProvisionedObject, Roster};
use crate::backend::http::plain;
use crate::identity::Identity;
use crate::lifecycle::{CleanInterface, Flags, OfferedStep, PowerState, ProvisionState as S, Verb};
use crate::observed::{Capabilities, Capability, Disk, Fact, ObservedNode};

/// Longest text of another author that is shown.
const LONGEST: usize = 500;

/// The only clean step: what a release does with the disks.
pub(super) const ERASE: &str = "erase_devices";

/// Keys of the owner data of trueup's own.
pub(super) mod key {
    /// The run that deployed the machine.
    pub(in super::super) const RUN: &str = "trueup-run";
    /// The step that deployed the machine.
    pub(in super::super) const STEP: &str = "trueup-step";
    /// Set before trueup locks the machine: a lock without it is another's.
    pub(in super::super) const LOCK: &str = "trueup-lock";
}

/// Numbers of statuses that steps ask for.
pub(super) mod status {
    pub(in super::super) const NEW: u8 = 0;
    pub(in super::super) const FAILED_COMMISSIONING: u8 = 2;
    pub(in super::super) const READY: u8 = 4;
    pub(in super::super) const DEPLOYED: u8 = 6;
    pub(in super::super) const BROKEN: u8 = 8;
    pub(in super::super) const ALLOCATED: u8 = 10;
    pub(in super::super) const FAILED_TESTING: u8 = 22;
}

/// One row: number and name of a status of MAAS, what it is in a machine's life, and what it is where a system is on
/// the machine.
pub(super) const STATUSES: &[(u8, &str, S, S)] = &[
    (status::NEW, "New", S::Enroll, S::Enroll),
    (1, "Commissioning", S::Inspecting, S::Inspecting),
    (
        status::FAILED_COMMISSIONING,
        "Failed commissioning",
        S::InspectFailed,
        S::InspectFailed,
    ),
    (3, "Missing", S::Other, S::Other),
    (status::READY, "Ready", S::Available, S::Available),
    (5, "Reserved", S::Other, S::Other),
    (status::DEPLOYED, "Deployed", S::Active, S::Active),
    (7, "Retired", S::Other, S::Other),
    (status::BROKEN, "Broken", S::Error, S::Error),
    (9, "Deploying", S::Deploying, S::Deploying),
    (
        status::ALLOCATED,
        "Allocated",
        S::Available,
        S::DeployFailed,
    ),
    (11, "Failed deployment", S::DeployFailed, S::DeployFailed),
    (12, "Releasing", S::Deleting, S::Deleting),
    (13, "Releasing failed", S::Error, S::Error),
    (14, "Disk erasing", S::Cleaning, S::Cleaning),
    (15, "Failed disk erasing", S::CleanFailed, S::CleanFailed),
    (16, "Rescue mode", S::Rescue, S::Rescue),
    (17, "Entering rescue mode", S::Rescuing, S::Rescuing),
    (
        18,
        "Failed to enter rescue mode",
        S::RescueFailed,
        S::RescueFailed,
    ),
    (19, "Exiting rescue mode", S::Unrescuing, S::Unrescuing),
    (
        20,
        "Failed to exit rescue mode",
        S::UnrescueFailed,
        S::UnrescueFailed,
    ),
    (21, "Testing", S::Inspecting, S::Servicing),
    (
        status::FAILED_TESTING,
        "Failed testing",
        S::InspectFailed,
        S::ServiceFailed,
    ),
];

/// The way out of each status that trueup leaves alone, by its number.
pub(super) const WAYS_OUT: &[(u8, &str)] = &[
    (
        3,
        "MAAS has lost it: test it in MAAS (`test`), or delete it there",
    ),
    (5, "reserved in MAAS: release it there"),
    (
        7,
        "MAAS itself has it as retired, which is not trueup's retirement: delete it there, to be created anew",
    ),
    (16, "exit rescue mode in MAAS (`exit_rescue_mode`)"),
    (
        17,
        "wait until MAAS has entered rescue mode, and exit it there (`exit_rescue_mode`)",
    ),
    (
        18,
        "exit rescue mode in MAAS (`exit_rescue_mode`), or mark it broken there",
    ),
    (19, "wait until MAAS has left rescue mode"),
    (
        20,
        "exit rescue mode in MAAS once more (`exit_rescue_mode`), or mark it broken there",
    ),
    (
        21,
        "wait until its tests have ended, or abort them in MAAS (`abort`)",
    ),
    (
        22,
        "test it once more in MAAS (`test`), or override the failed tests there (`override_failed_testing`)",
    ),
];

/// The way out of a status that is not in the table.
const UNKNOWN_STATUS: &str =
    "trueup does not know this status of MAAS: bring the machine to one of those in docs/maas.md";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Hardware {
    #[serde(deserialize_with = "or_empty")]
    system_serial: Arc<str>,
}

/// A machine as MAAS shows it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::backend::hardware) struct Machine {
    pub(super) system_id: Arc<str>,
    hostname: Option<Arc<str>>,
    pub(super) status: Option<u8>,
    #[serde(deserialize_with = "or_empty")]
    status_name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    status_message: Arc<str>,
    /// Since 3.5.
    #[serde(deserialize_with = "or_empty")]
    error_description: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    power_state: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    power_type: Arc<str>,
    pub(super) owner: Option<Arc<str>>,
    #[serde(deserialize_with = "or_none")]
    pub(super) owner_data: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) locked: bool,
    #[serde(deserialize_with = "or_empty")]
    osystem: Arc<str>,
    #[serde(deserialize_with = "or_none")]
    pub(super) tag_names: Vec<Arc<str>>,
    hardware_uuid: Option<Arc<str>>,
    #[serde(deserialize_with = "or_none")]
    hardware_info: Hardware,
    #[serde(deserialize_with = "or_none")]
    pub(super) interface_set: Vec<Interface>,
    #[serde(deserialize_with = "or_none")]
    pub(super) physicalblockdevice_set: Vec<Block>,
    #[serde(deserialize_with = "or_none")]
    pub(super) volume_groups: Vec<VolumeGroup>,
    #[serde(deserialize_with = "or_none")]
    raids: Vec<IgnoredAny>,
    #[serde(deserialize_with = "or_none")]
    bcaches: Vec<IgnoredAny>,
    pub(super) boot_disk: Option<BootDisk>,
    /// `uefi` or another, where MAAS has seen it boot.
    bios_boot_method: Option<Arc<str>>,
    #[serde(deserialize_with = "or_none")]
    pub(super) default_gateways: Gateways,
    /// Whether its owner is the user of the key.
    #[serde(skip)]
    pub(super) is_ours: bool,
    #[serde(skip)]
    retired: Option<Arc<str>>,
    #[serde(skip)]
    maintenance: Option<Arc<str>>,
}

impl Machine {
    /// The tags of trueup's own that carry a reason.
    pub(super) fn own_tags(&self) -> Vec<Arc<str>> {
        let kinds = [tag::RETIRED, tag::MAINTENANCE];
        let of = |name: &&Arc<str>| kinds.iter().any(|kind| tag::is_of(kind, name));
        self.tag_names.iter().filter(of).cloned().collect()
    }

    /// Adds what the answer about the machine does not hold: the user of the key, and the comments of tags.
    pub(super) fn complete(&mut self, user: &str, comments: &BTreeMap<Arc<str>, Arc<str>>) {
        self.is_ours = self.owner.as_deref() == Some(user);
        let reason = |kind: &str| {
            let tag = self.tag_names.iter().find(|name| tag::is_of(kind, name))?;
            let comment = comments.get(tag).map(|comment| plain(comment, LONGEST));
            let comment = comment.filter(|comment| !comment.trim().is_empty());
            Some(Arc::from(
                comment.unwrap_or_else(|| "no reason given".to_owned()),
            ))
        };
        self.retired = reason(tag::RETIRED);
        self.maintenance = reason(tag::MAINTENANCE);
    }

    /// Whether a system is on it, or was begun.
    pub(super) fn has_system(&self) -> bool {
        !self.osystem.is_empty()
    }

    /// Where it stands in a machine's life.
    pub(super) fn state(&self) -> S {
        let row = STATUSES.iter().find(|row| Some(row.0) == self.status);
        let state = match row {
            None => return S::Other,
            Some((_, _, _, with)) if self.has_system() => *with,
            Some((_, _, without, _)) => *without,
        };
        let is_held = self.retired.is_some() || self.has_tag(tag::MANAGED);
        match state {
            S::Available if is_held => S::Manageable,
            // Marked by trueup, which marks only what carries nothing.
            S::Error if self.status == Some(status::BROKEN) && self.has_tag(tag::MAINTENANCE) => {
                S::Manageable
            }
            state => state,
        }
    }

    /// Whether it carries a tag of a kind.
    pub(super) fn has_tag(&self, kind: &str) -> bool {
        self.tag_names.iter().any(|name| tag::is_of(kind, name))
    }

    /// Its status in MAAS's own word.
    pub(super) fn status_name(&self) -> String {
        match plain(&self.status_name, 40) {
            name if name.is_empty() => "unknown".to_owned(),
            name => name,
        }
    }

    /// Whether MAAS does nothing with it.
    pub(super) fn is_idle(&self) -> bool {
        !self.state().is_transient()
    }

    /// The running operation, for messages.
    pub(super) fn doing(&self) -> String {
        let name = self.status_name();
        match plain(&self.status_message, 120) {
            said if said.is_empty() || said == name => name,
            said => format!("{name}: {said}"),
        }
    }

    /// MAAS's error, if its status is one.
    pub(super) fn error(&self) -> Option<String> {
        let is_error = matches!(
            self.state(),
            S::InspectFailed
                | S::DeployFailed
                | S::Error
                | S::CleanFailed
                | S::RescueFailed
                | S::UnrescueFailed
                | S::ServiceFailed
        );
        let texts = [&self.error_description, &self.status_message];
        let mut texts = texts.into_iter().map(|text| plain(text, LONGEST));
        let text = texts.find(|text| !text.trim().is_empty());
        text.filter(|_| is_error && self.status != Some(status::ALLOCATED))
    }

    /// Status and error, for a failure.
    pub(super) fn failed(&self) -> String {
        let name = self.status_name();
        match self.error().filter(|error| *error != name) {
            Some(error) => format!("{name}: {error}"),
            None => name,
        }
    }

    /// The way out of its status, where trueup leaves that alone.
    pub(super) fn way_out(&self) -> Option<&'static str> {
        if self.state().is_driven() {
            return None;
        }
        let row = WAYS_OUT
            .iter()
            .find(|(status, _)| Some(*status) == self.status);
        Some(row.map_or(UNKNOWN_STATUS, |(_, text)| text))
    }

    /// Names the user who holds it, if that is another one and nothing is deployed on it.
    fn claimed(&self) -> Option<Arc<str>> {
        let owner = self.owner.as_deref().filter(|_| !self.is_ours)?;
        let is_held = self.status == Some(status::ALLOCATED);
        is_held.then(|| {
            Arc::from(format!(
                "allocated to the user `{}` of MAAS",
                plain(owner, 60)
            ))
        })
    }

    /// Whether trueup has locked it.
    pub(super) fn is_locked_by_us(&self) -> bool {
        self.locked && self.owner_data.contains_key(key::LOCK)
    }

    /// Whether it is deployed and not locked. MAAS keeps the mark of a lock only on a machine with an owner.
    pub(super) fn can_be_locked(&self) -> bool {
        self.state() == S::Active && !self.locked && self.owner.is_some()
    }

    /// Whether it is deployed and has no owner, as one that was marked broken and fixed: MAAS switches it off, and not on.
    pub(super) fn is_stranded(&self) -> bool {
        self.state() == S::Active && self.owner.is_none()
    }

    /// Why it must not be torn down, if it is locked by another.
    fn locked(&self) -> Option<Arc<str>> {
        let is_others = self.locked && !self.is_locked_by_us();
        is_others.then(|| Arc::from("locked in MAAS, and not by trueup: unlock it there first"))
    }

    /// Why it is in maintenance, if it is.
    pub(super) fn maintenance(&self) -> Option<Arc<str>> {
        let broken = || {
            let is_broken = self.status == Some(status::BROKEN);
            is_broken.then(|| {
                Arc::from(format!(
                    "marked broken in MAAS ({})",
                    plain(&self.status_message, 120)
                ))
            })
        };
        self.maintenance
            .clone()
            .or_else(broken)
            .or_else(|| self.claimed())
    }

    /// Why it is retired, if it is.
    pub(super) fn retired(&self) -> Option<Arc<str>> {
        self.retired.clone()
    }

    /// The flags beside the state.
    fn flags(&self) -> Flags {
        Flags {
            retired: self.retired.is_some(),
            maintenance: self.maintenance().is_some(),
            protected: self.locked().is_some() || self.claimed().is_some(),
        }
    }

    /// Its power as MAAS last saw it.
    pub(super) fn power(&self) -> Option<PowerState> {
        power_of(&self.power_state)
    }

    /// Whether it boots by UEFI, which needs a partition of its own.
    pub(super) fn is_uefi(&self) -> bool {
        self.bios_boot_method.as_deref() == Some("uefi")
    }

    /// Whether disks are put together otherwise than in volume groups.
    pub(super) fn has_arrays(&self) -> bool {
        !self.raids.is_empty() || !self.bcaches.is_empty()
    }

    /// All file systems that are laid out on it, those of volume groups and of caches included.
    pub(super) fn file_systems(&self) -> impl Iterator<Item = &FileSystem> {
        let volumes = self
            .volume_groups
            .iter()
            .flat_map(|group| &group.logical_volumes);
        let blocks = self.physicalblockdevice_set.iter().chain(volumes);
        blocks.flat_map(Block::file_systems)
    }

    /// Whether MAAS can switch it.
    pub(super) fn is_switched(&self) -> bool {
        !matches!(&*self.power_type, "" | "manual")
    }

    /// The machine's identity: its id in MAAS, the UUID and serial number of its board, its MAC addresses.
    pub(super) fn identity(&self) -> Identity {
        let serial = Some(&*self.hardware_info.system_serial).filter(|text| !text.is_empty());
        let macs = self.interface_set.iter().map(|each| &*each.mac_address);
        let macs = macs.filter(|mac| !mac.is_empty());
        let identity = Identity::of(self.hardware_uuid.as_deref(), serial).with_macs(macs);
        identity.in_provisioner(&self.system_id)
    }

    /// The machine as a plan sees it.
    pub(super) fn observed(&self, able: Able) -> ObservedNode {
        let state = self.state();
        let mut capabilities = capabilities(able);
        if state == S::Other {
            capabilities = Capabilities::default();
        }
        if !self.is_switched() || self.is_stranded() {
            capabilities.remove(Capability::Power);
        }
        let power = match self.power() {
            Some(power) => Fact::Known(power),
            None => Fact::Unknown(Arc::from(no_power(&self.power_state))),
        };
        ObservedNode {
            provision: Fact::Known(state),
            power,
            retired: self.retired(),
            maintenance: self.maintenance(),
            protected: self.flags().protected,
            last_error: self.error().map(Arc::from),
            disks: self.disks(able.erases),
            cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
            capabilities,
            clean_steps: offered(),
            cleans_itself: true,
            unlocked: able.locks && self.can_be_locked(),
            way_out: self.way_out().map(Arc::from),
            ..ObservedNode::unknown("")
        }
    }

    /// The disks that commissioning found. The partitions that MAAS shows are those of the next deploy, not those
    /// on the disk: each counts as having some, unless it was erased when it was released.
    fn disks(&self, erases: bool) -> Fact<Vec<Disk>> {
        if self.physicalblockdevice_set.is_empty() {
            return Fact::Unknown(Arc::from("MAAS has not commissioned it"));
        }
        let is_clean = matches!(self.state(), S::Available | S::Manageable) && erases;
        let disk = |block: &Block| Disk {
            name: Arc::from(plain(&block.name, 120)),
            serial: Arc::from(plain(&block.serial, 120)),
            size: block.size,
            partitioned: !is_clean,
        };
        let mut disks: Vec<Disk> = self.physicalblockdevice_set.iter().map(disk).collect();
        disks.sort();
        Fact::Known(disks)
    }
}

impl Listed for Machine {
    fn id(&self) -> &Arc<str> {
        &self.system_id
    }

    fn name(&self) -> Option<&Arc<str>> {
        self.hostname.as_ref()
    }

    fn doing(&self) -> String {
        self.doing()
    }

    fn is_active(&self) -> bool {
        self.state().is_transient()
    }
}

impl ProvisionedObject for Machine {
    const CALLED: (&'static str, &'static str) = ("machine of MAAS's", "system_id");

    fn id(&self) -> &Arc<str> {
        &self.system_id
    }

    fn provision_state(&self) -> S {
        self.state()
    }

    fn flags(&self, _: &Roster) -> Flags {
        self.flags()
    }

    fn evidence(&self, _: Verb, _: &Roster) -> Vec<(&'static str, Option<Arc<str>>)> {
        vec![
            ("status in MAAS", Some(Arc::from(self.status_name()))),
            ("retired", self.retired()),
            ("in maintenance", self.maintenance()),
            ("protected", self.locked()),
            ("last error", self.error().map(Arc::from)),
            ("the way out", self.way_out().map(Arc::from)),
        ]
    }
}

/// The power that MAAS reports, if it reports any.
pub(super) fn power_of(reported: &str) -> Option<PowerState> {
    match reported {
        "on" => Some(PowerState::On),
        "off" => Some(PowerState::Off),
        _ => None,
    }
}

/// Why there is none.
pub(super) fn no_power(reported: &str) -> String {
    match reported {
        "error" => "MAAS cannot reach its management controller".to_owned(),
        other => format!("MAAS reports its power as `{}`", plain(other, 40)),
    }
}

const NO_CLUSTER: &str = "MAAS does not report the cluster of its machines";

/// The facts that decide the capabilities for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Able {
    /// A release erases the disks.
    pub(super) erases: bool,
    /// A release can erase the disk of the operating system and no other.
    pub(super) spares_disks: bool,
    /// Deployed machines are locked.
    pub(super) locks: bool,
}

fn capabilities(able: Able) -> Capabilities {
    let all = [
        Capability::Power,
        Capability::Prepare,
        Capability::Deploy,
        Capability::Clean,
        Capability::Retire,
    ];
    let wipe = able.erases.then_some(Capability::Wipe);
    let spare = able
        .spares_disks
        .then_some(Capability::WipeOperatingSystemDisk);
    all.into_iter().chain(wipe).chain(spare).collect()
}

/// The step that a release can be.
fn offered() -> Arc<[OfferedStep]> {
    Arc::from([OfferedStep {
        interface: CleanInterface::Deploy,
        step: Arc::from(ERASE),
        priority: 10,
        abortable: false,
        erases: true,
    }])
}

/// A machine that MAAS does not know yet and that can be created.
pub(super) fn not_created(able: Able) -> ObservedNode {
    ObservedNode {
        provision: Fact::Known(S::Enroll),
        cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
        capabilities: capabilities(able),
        cleans_itself: true,
        ..ObservedNode::unknown("MAAS does not know it yet")
    }
}
