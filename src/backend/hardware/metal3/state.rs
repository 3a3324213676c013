//! Where a host stands, in the words of a machine's life, and what a plan sees of it.
//!
//! The operator's states are a table ([`STATES`]). Two things stand beside them: what the operator is
//! about to do because the host is meant to be otherwise (an available host that has an image will be
//! provisioned, a provisioned one without its image will be wiped), and trueup's own labels and
//! annotations, since hosts know neither retirement nor maintenance nor "managed, but not available".

use std::sync::Arc;

use super::resource::{Host, ObjectReference, Storage, key};
use crate::backend::hardware::provisioner::{ProvisionedObject, Roster};
use crate::backend::http::plain;
use crate::identity::Identity;
use crate::lifecycle::{Flags, PowerState, ProvisionState as S, Verb};
use crate::observed::{Capabilities, Capability, Disk, Fact, ObservedNode};

/// Longest text of another author that is shown.
const LONGEST: usize = 500;

/// Group and kind under which trueup claims a host.
pub(super) const CLAIM: (&str, &str) = ("trueup.dev/v1", "Site");

/// One row: a state of the operator's, what it is in a machine's life, and what it is where the operator
/// has failed at it. It tries again by itself in all of them.
pub(super) const STATES: &[(&str, S, S)] = &[
    ("", S::Enroll, S::Enroll),
    ("unmanaged", S::Enroll, S::Enroll),
    ("registering", S::Verifying, S::Enroll),
    ("match profile", S::Inspecting, S::InspectFailed),
    ("inspecting", S::Inspecting, S::InspectFailed),
    ("preparing", S::Cleaning, S::CleanFailed),
    ("ready", S::Available, S::Available),
    ("available", S::Available, S::Available),
    ("provisioning", S::Deploying, S::DeployFailed),
    ("provisioned", S::Active, S::Active),
    ("externally provisioned", S::Active, S::Active),
    ("deprovisioning", S::Deleting, S::Error),
    ("powering off before delete", S::Deleting, S::Error),
    ("deleting", S::Deleting, S::Error),
];

impl Host {
    /// Where it stands in a machine's life.
    pub(super) fn state(&self) -> S {
        let name = self.status.provisioning.state.trim();
        let row = STATES.iter().find(|(known, ..)| *known == name);
        let Some((_, state, failed)) = row else {
            return S::Other;
        };
        let of = |working: S, broken: S| if self.has_failed() { broken } else { working };
        let state = of(*state, *failed);
        match state {
            _ if self.is_going() => of(S::Deleting, S::Error),
            S::Available if self.spec.online && self.wants_system() => {
                of(S::Deploying, S::DeployFailed)
            }
            S::Available if self.is_retired() || self.annotation(key::MANAGEABLE).is_some() => {
                S::Manageable
            }
            S::Active if self.is_to_be_wiped() => of(S::Deleting, S::Error),
            S::Active if &*self.status.operational_status == "servicing" => S::Servicing,
            state => state,
        }
    }

    /// Its state in the operator's own word.
    pub(super) fn state_name(&self) -> String {
        match self.status.provisioning.state.trim() {
            "" => "new".to_owned(),
            name => plain(name, 60),
        }
    }

    /// Whether its deletion was asked for.
    pub(super) fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether a system is meant to be on it.
    pub(super) fn wants_system(&self) -> bool {
        self.spec.image.is_some() || self.spec.custom_deploy.is_some()
    }

    /// Whether the operator is about to wipe what is deployed on it: its image was changed or taken away, or
    /// no longer marked as externally provisioned.
    fn is_to_be_wiped(&self) -> bool {
        if self.spec.externally_provisioned {
            return false;
        }
        let done = &self.status.provisioning;
        let image = self.spec.image.as_ref().map_or("", |image| &image.url);
        let method = self.spec.custom_deploy.as_ref();
        let method = method.map_or("", |deploy| &deploy.method);
        image != done.image.url.trim() || method != done.custom_deploy.method.trim()
    }

    /// Whether what it is meant to carry is what it carries.
    pub(super) fn carries(&self, image: &str) -> bool {
        let wanted = self.spec.image.as_ref().map(|image| &*image.url);
        wanted == Some(image) && self.status.provisioning.image.url.trim() == image
    }

    /// Whether the operator has failed at what it does now.
    pub(super) fn has_failed(&self) -> bool {
        &*self.status.operational_status == "error"
    }

    /// The operator's error, if it has one.
    pub(super) fn error(&self) -> Option<String> {
        if !self.has_failed() {
            return None;
        }
        let (kind, text) = (&self.status.error_type, &self.status.error_message);
        let text = plain(text, LONGEST);
        Some(match (plain(kind, 60), text.trim()) {
            (kind, "") => kind,
            (kind, text) => format!("{kind}: {text}"),
        })
    }

    /// How often the operator has failed in a row.
    pub(super) fn failures(&self) -> u64 {
        let status = &self.status;
        status.error_count.max(status.provisioning_fail_count)
    }

    /// State and error, for a failure.
    pub(super) fn failed(&self) -> String {
        let state = self.state_name();
        match self.error() {
            Some(error) => format!("{state}: {error}"),
            None => state,
        }
    }

    /// Whether it is retired, by a label of trueup's own.
    pub(super) fn is_retired(&self) -> bool {
        let label = self.metadata.labels.get(key::RETIRED);
        label.is_some_and(|value| &**value == "true")
    }

    /// Why it is retired, if it is.
    pub(super) fn retired(&self) -> Option<Arc<str>> {
        self.is_retired().then(|| {
            let reason = self.annotation(key::RETIRED_REASON);
            let reason = reason.map(|text| plain(text, LONGEST)).unwrap_or_default();
            Arc::from(match reason.trim() {
                "" => "no reason given",
                reason => reason,
            })
        })
    }

    /// Why the operator leaves it alone, if it does.
    pub(super) fn left_alone(&self) -> Option<String> {
        if let Some(value) = self.annotation(key::PAUSED) {
            return Some(by("paused", key::PAUSED, value));
        }
        if let Some(value) = self.annotation(key::DETACHED) {
            return Some(by("detached", key::DETACHED, value));
        }
        (&*self.status.operational_status == "detached").then(|| "detached".to_owned())
    }

    /// The consumer of the host, if it has one: it is never taken from under it.
    pub(super) fn claimed(&self, site: &str) -> Option<String> {
        let claim = self.spec.consumer_ref.as_ref()?;
        let ObjectReference {
            api_version,
            kind,
            namespace,
            name,
            ..
        } = claim;
        if (&**api_version, &**kind) == CLAIM && **name == *site {
            return None;
        }
        let show = |text: &str| plain(text, 120);
        Some(format!(
            "used by {} {}/{}",
            show(kind),
            show(namespace),
            show(name)
        ))
    }

    /// The reason for maintenance or exclusive use, if there is one.
    pub(super) fn maintenance(&self, site: &str) -> Option<Arc<str>> {
        if let Some(reason) = self.annotation(key::MAINTENANCE) {
            return Some(Arc::from(plain(reason, LONGEST)));
        }
        let idle = || self.claimed(site).filter(|_| self.state() != S::Active);
        self.left_alone().or_else(idle).map(Arc::from)
    }

    /// The flags beside the state.
    pub(super) fn flags(&self, site: &str) -> Flags {
        Flags {
            retired: self.is_retired(),
            maintenance: self.maintenance(site).is_some(),
            protected: self.claimed(site).is_some(),
        }
    }

    /// Its power, if it was observed.
    fn power(&self) -> Fact<PowerState> {
        match self.state() {
            S::Enroll | S::Verifying | S::Other => {
                Fact::Unknown(Arc::from("the operator has not registered it"))
            }
            _ if self.status.powered_on => Fact::Known(PowerState::On),
            _ => Fact::Known(PowerState::Off),
        }
    }

    /// The machine's identity: its own UID, and the values of its inspection. Before that, the
    /// MAC address that it was given, by which alone its operator finds the machine.
    pub(super) fn identity(&self) -> Identity {
        let hardware = self.status.hardware.as_ref();
        let serial = hardware.map(|hardware| &*hardware.system_vendor.serial_number);
        let nics = hardware.map_or(&[][..], |hardware| &hardware.nics);
        let given = nics.is_empty().then_some(&*self.spec.boot_mac_address);
        let macs = nics.iter().map(|nic| &*nic.mac).chain(given);
        let identity = Identity::of(None, serial).with_macs(macs);
        identity.in_provisioner(&self.metadata.uid)
    }

    /// The host as a plan sees it.
    pub(super) fn observed(&self, site: &str, able: Able) -> ObservedNode {
        let state = self.state();
        let mut capabilities = capabilities(able);
        if state == S::Other {
            capabilities = Capabilities::default();
        }
        if self.spec.disable_power_off {
            capabilities.remove(Capability::Power);
        }
        ObservedNode {
            provision: Fact::Known(state),
            power: self.power(),
            retired: self.retired(),
            maintenance: self.maintenance(site),
            protected: self.claimed(site).is_some(),
            last_error: self.error().map(Arc::from),
            clean_step: None,
            disks: disks(self),
            cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
            capabilities,
            kept_by_records: false,
            clean_steps: Arc::default(),
            cleans_itself: true,
            ..ObservedNode::unknown("")
        }
    }
}

impl ProvisionedObject for Host {
    const CALLED: (&'static str, &'static str) = ("host", "UID");

    fn id(&self) -> &Arc<str> {
        &self.metadata.uid
    }

    fn provision_state(&self) -> S {
        self.state()
    }

    fn flags(&self, roster: &Roster) -> Flags {
        self.flags(&roster.site)
    }

    fn evidence(&self, _: Verb, roster: &Roster) -> Vec<(&'static str, Option<Arc<str>>)> {
        let site = &roster.site;
        vec![
            ("retired", self.retired()),
            ("in maintenance", self.maintenance(site)),
            ("protected", self.claimed(site).map(Arc::from)),
            ("last error", self.error().map(Arc::from)),
        ]
    }
}

fn by(what: &str, key: &str, value: &str) -> String {
    match plain(value, 120) {
        value if value.trim().is_empty() => format!("{what} by the annotation {key}"),
        value => format!("{what} by the annotation {key}: {value}"),
    }
}

const NO_CLUSTER: &str = "Metal3 does not report the cluster of its hosts";

/// The settings that decide the capabilities for a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Able {
    /// A teardown ends with cleaning.
    pub(super) cleans: bool,
    /// The settings name an image.
    pub(super) deploys: bool,
}

/// The operator's capabilities. It runs no clean steps on demand.
fn capabilities(able: Able) -> Capabilities {
    let all = [
        Capability::Power,
        Capability::Prepare,
        Capability::WipeOperatingSystemDisk,
        Capability::Retire,
        Capability::Service,
    ];
    let wipe = able.cleans.then_some(Capability::Wipe);
    let deploy = able.deploys.then_some(Capability::Deploy);
    all.into_iter().chain(wipe).chain(deploy).collect()
}

/// A machine that has no host yet and can be given one.
pub(super) fn not_created(able: Able) -> ObservedNode {
    ObservedNode {
        provision: Fact::Known(S::Enroll),
        cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
        capabilities: capabilities(able),
        cleans_itself: true,
        ..ObservedNode::unknown("it has no BareMetalHost yet")
    }
}

/// The disks that inspection found. Partition tables on them are not observed, so that each
/// counts as having one, unless the operator has just cleaned them.
fn disks(host: &Host) -> Fact<Vec<Disk>> {
    let Some(hardware) = &host.status.hardware else {
        return Fact::Unknown(Arc::from("the operator has not inspected it"));
    };
    let is_clean = matches!(host.state(), S::Available | S::Manageable)
        && &*host.spec.automated_cleaning_mode != "disabled";
    let disk = |storage: &Storage| {
        let name = plain(&storage.name, 120);
        Disk {
            name: Arc::from(name.strip_prefix("/dev/").unwrap_or(&name)),
            serial: Arc::from(plain(&storage.serial_number, 120)),
            size: storage.size_bytes,
            partitioned: !is_clean,
        }
    };
    let mut disks: Vec<Disk> = hardware.storage.iter().map(disk).collect();
    disks.sort();
    Fact::Known(disks)
}
