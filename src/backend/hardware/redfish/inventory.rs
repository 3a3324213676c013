//! The drives and network interfaces of a machine, and whether it is the one that is meant.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::try_join_all;

use super::boot::{installs_from, only_continuous};
use super::drive::Drive;
use super::machine::{Machine, Sight};
use super::media::Medium;
use super::powered::power_of;
use super::resource::{Part, Resource};
use super::settings::{Source, field};
use crate::backend::hardware::proof::proven;
use crate::backend::{ActError, Order};
use crate::design::{NodeDesign, Section};
use crate::identity::Proof;
use crate::lifecycle::{OWN_STEPS, OfferedStep};
use crate::observed::{Built, Capabilities, Capability, Disk, Fact, ObservedNode};

/// Most drives, or interfaces, of one machine that are read.
const MOST: usize = 1000;
/// Requests at once to one controller.
const AT_ONCE: usize = 2;

/// Said where the provision state would be.
const KEPT_BY_RECORDS: &str = "a management controller keeps no provision state; the records do";
/// Said where the Kubernetes node would be.
const NO_CLUSTER: &str = "not observable over a management controller";

/// The maker and the firmware of a system, as it shows them.
pub(super) fn built(system: &Resource) -> Built {
    Built {
        maker: system.text("/Manufacturer").map(Arc::from),
        firmware: system.text("/BiosVersion").map(Arc::from),
    }
}

impl Machine<'_> {
    /// The observed state of a machine whose identity was judged.
    pub(super) async fn observed(
        &self,
        node: &NodeDesign,
        sight: Sight,
    ) -> Result<ObservedNode, ActError> {
        let proof = match sight.proof {
            Proof::Refused(why) => Proof::Refused(self.about(&why).into()),
            other => other,
        };
        let observed = match &proof {
            Proof::Refused(why) => ObservedNode::refused(why),
            Proof::Proven | Proof::Unverified(_) => self.observe(node, sight.system).await?,
        };
        Ok(proven(sight.identity, proof, observed))
    }

    /// Sees what its system shows of it.
    pub(super) async fn observe(
        &self,
        node: &NodeDesign,
        system: Resource,
    ) -> Result<ObservedNode, ActError> {
        let Some(power) = power_of(&system) else {
            return self.refuse("its controller does not say whether it is on (`PowerState`)");
        };
        let drives = match self.known_drives() {
            Some(drives) => Ok(drives),
            None => {
                let drives = self.drives(&system).await;
                let read = drives.as_ref().ok();
                read.inspect(|drives| self.has_drives(drives));
                drives
            }
        };
        let mut capabilities: Capabilities = [
            Capability::Prepare,
            Capability::Deploy,
            Capability::Clean,
            Capability::Retire,
            Capability::ServiceLive,
        ]
        .into();
        if system.action("ComputerSystem.Reset").is_some() {
            capabilities.insert(Capability::Power);
            capabilities.insert(Capability::Service);
            capabilities.insert(Capability::Raid);
        }
        if self.backend.can_rotate(node) {
            capabilities.insert(Capability::RotatePassword);
        }
        if let Ok(drives) = &drives {
            if !drives.is_empty() && drives.iter().all(Drive::can_be_erased) {
                capabilities.insert(Capability::Wipe);
            }
            if self
                .system_drive(node, drives)
                .is_some_and(Drive::can_be_erased)
            {
                capabilities.insert(Capability::WipeOperatingSystemDisk);
            }
        }
        let clean_steps = self.offered_steps(&system, drives.as_deref().unwrap_or_default());
        let count = drives.as_ref().ok().map(|drives| drives.len());
        let values = self.hardware_values(node, &system, count).await;
        let seen = values.seen.clone();
        let unread = values.error.as_ref().or(drives.as_ref().err());
        let unread = unread.map(|error| Arc::from(error.to_string()));
        let not_made = values.fixed.clone();
        let mut fixed = self.fixed_values(node, values).await;
        fixed.extend(not_made);
        let mut observed = ObservedNode {
            power: Fact::Known(power.into()),
            disks: match drives {
                Ok(drives) => Fact::Known(drives.iter().map(disk).collect()),
                Err(error) => Fact::Unknown(Arc::from(error.to_string())),
            },
            cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
            capabilities,
            clean_steps: clean_steps.into(),
            built: Some(Box::new(built(&system))),
            kept_by_records: true,
            boots_from: installs_from(&system)
                .map(|(target, enabled)| Arc::from(format!("{target} ({enabled})"))),
            fixed: fixed.into(),
            deploys_unverified: !self.backend.settings.deploy.is_proven(),
            ..ObservedNode::unknown(KEPT_BY_RECORDS)
        };
        observed.compare_hardware(node, &seen, unread);
        Ok(observed)
    }

    /// Reads resources, in their order, not more at once than a controller bears.
    async fn read_all(&self, paths: &[Arc<str>]) -> Result<Vec<Resource>, ActError> {
        let mut read = Vec::with_capacity(paths.len().min(MOST));
        for some in paths[..paths.len().min(MOST)].chunks(AT_ONCE) {
            read.extend(try_join_all(some.iter().map(|path| self.controller.get(path))).await?);
        }
        Ok(read)
    }

    /// The resources of a list, in its order: those that are written out as they are, the others read.
    pub(super) async fn read_parts(&self, mut parts: Vec<Part>) -> Result<Vec<Resource>, ActError> {
        parts.truncate(MOST);
        let links: Vec<Arc<str>> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Link(path) => Some(path.clone()),
                Part::Whole(_) => None,
            })
            .collect();
        let mut read = self.read_all(&links).await?.into_iter();
        let parts = parts.into_iter().filter_map(|part| match part {
            Part::Whole(resource) => Some(resource),
            Part::Link(_) => read.next(),
        });
        Ok(parts.collect())
    }

    /// Its drives, sorted by name; absent ones left out.
    pub(super) async fn drives(&self, system: &Resource) -> Result<Vec<Drive>, ActError> {
        let Some(storage) = system.link("/Storage") else {
            return Ok(Vec::new());
        };
        let members = self.controller.parts(storage, self.expands).await?;
        let units = self.read_parts(members).await?;
        let (ids, parts): (Vec<Arc<str>>, Vec<Part>) = units
            .iter()
            .flat_map(|unit| {
                let id: Arc<str> = Arc::from(unit.id());
                let drives = unit.parts("/Drives").into_iter();
                drives.map(move |drive| (id.clone(), drive))
            })
            .unzip();
        let read = ids.into_iter().zip(self.read_parts(parts).await?);
        let is_there = |drive: &Resource| drive.text("/Status/State") != Some("Absent");
        let read: Vec<_> = read.filter(|(_, drive)| is_there(drive)).collect();
        let mut ids = BTreeSet::new();
        let all_differ = read
            .iter()
            .all(|(_, drive)| ids.insert(drive.id().to_owned()));
        let mut drives: Vec<Drive> = read
            .into_iter()
            .map(|(unit, resource)| Drive {
                name: Arc::from(match all_differ {
                    true => resource.id().to_owned(),
                    false => format!("{unit}/{}", resource.id()),
                }),
                resource,
            })
            .collect();
        drives.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(drives)
    }

    /// The drive of the operating system: the one that the settings or the design name.
    pub(super) fn system_drive<'d>(
        &self,
        node: &NodeDesign,
        drives: &'d [Drive],
    ) -> Option<&'d Drive> {
        let named = |name: &str| drives.iter().find(|drive| drive.is_called(name));
        if let Some(name) = &self.backend.settings.system_drive {
            return named(name);
        }
        let devices = field(node, Section::Storage, &["storage", "physical_devices"])?.as_map()?;
        let boots = devices.iter().find(|(_, device)| {
            let label = device.node.at(&["labels", "bootdrive"]);
            label
                .and_then(|label| label.scalar_text())
                .is_some_and(|text| text == "true")
        });
        boots.and_then(|(name, _)| named(&name.text))
    }

    /// The clean steps of trueup's own that it can run.
    fn offered_steps(&self, system: &Resource, drives: &[Drive]) -> Vec<OfferedStep> {
        let erasable = !drives.is_empty() && drives.iter().all(Drive::can_be_erased);
        let has_bios = system.link("/Bios").is_some();
        let offered = OWN_STEPS.into_iter().filter(|own| match own.step {
            "erase_devices" => erasable,
            "reset_bios" | "apply_bios_settings" => has_bios,
            "verify_properties" | "verify_firmware" => true,
            _ => false,
        });
        offered.map(OfferedStep::from).collect()
    }

    /// The MAC addresses of its network interfaces.
    pub(super) async fn interfaces(&self, system: &Resource) -> Result<BTreeSet<String>, ActError> {
        let Some(collection) = system.link("/EthernetInterfaces") else {
            return Ok(BTreeSet::new());
        };
        let members = self.controller.parts(collection, self.expands).await?;
        let interfaces = self.read_parts(members).await?;
        let addresses = interfaces.iter().flat_map(|interface| {
            ["/MACAddress", "/PermanentMACAddress"].map(|pointer| interface.text(pointer))
        });
        Ok(addresses.flatten().map(str::to_owned).collect())
    }

    /// Checks that it can boot from where it should, and cleans it if that is planned.
    pub(super) async fn prepare(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let system = self.recent().await?;
        self.check_boot(&system).await?;
        self.check_power(&system).await?;
        self.check_comparisons(&system, node)?;
        if self.backend.settings.deploy.from == Source::VirtualMedia {
            let inserted = self.check_media().await?;
            for text in inserted.iter().filter_map(Medium::told) {
                order
                    .reporter
                    .progress(format!("{text}: the deploy ejects it first"));
            }
        }
        self.try_boot(node, system.clone()).await?;
        if only_continuous(&system) {
            order.reporter.progress(
                "its controller only keeps a boot override for every boot: it is taken back once the machine is on",
            );
        }
        self.clean_as_planned(order, node).await
    }
}

pub(super) fn disk(drive: &Drive) -> Disk {
    Disk {
        name: drive.name.clone(),
        serial: Arc::from(drive.serial()),
        size: drive.resource.number("/CapacityBytes").unwrap_or(0),
        // Not observable over Redfish.
        partitioned: true,
    }
}
