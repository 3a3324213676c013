//! Firmware, settings and parts of a machine as its controller shows them, as far as its Hardware documents name them.
//!
//! | value | read from |
//! | --- | --- |
//! | `firmware.bios`, `expect.cpus`, `expect.cores`, `expect.memory_gib` | the system, which is read anyway |
//! | `expect.drives` | the drives, which are read anyway |
//! | `firmware.bmc` | the manager of the system |
//! | other firmware | the inventory of the UpdateService, by the ids of its members |
//! | `bios.NAME` | the attributes of the BIOS |
//! | `boot.order` | the system, and its boot options if it does not order them by aliases |
//! | `raid.volumes` | the volumes of each storage |
//! | `raid.hot_spares` | the drives |
//! | `bmc.ntp`, `bmc.services_off` | the NetworkProtocol of the manager |
//! | `boot.secure_boot` | the SecureBoot resource: what is in effect, if it shows that |
//!
//! So a subsystem costs a request only if a document names something of it. What a controller does not have, or does not
//! answer, is not shown, and differs from nothing.

use std::sync::Arc;

use serde_json::Value;

use super::boot_order;
use super::machine::Machine;
use super::network_protocol::Protocols;
use super::resource::Resource;
use crate::backend::ActError;
use crate::backend::hardware::provided::EVERYTHING;
use crate::backend::hardware::terms::Terms;
use crate::design::NodeDesign;
use crate::observed::{FixedValue, HardwareSeen, LearnedHardware};

/// The values of a machine, and the resources from which they were read.
#[derive(Debug, Default)]
pub(super) struct HardwareReading {
    pub(super) seen: HardwareSeen,
    pub(super) bios: Option<Resource>,
    pub(super) secure_boot: Option<Resource>,
    pub(super) protocols: Option<Protocols>,
    pub(super) updates: Option<Updates>,
    /// The paths of the system and of its manager.
    pub(super) system: Option<Arc<str>>,
    pub(super) manager: Option<Arc<str>>,
    /// The terms of the attributes of the BIOS, if they were read.
    pub(super) terms: Option<Arc<Terms>>,
    /// The values of RAID that are enforced, not as designed, and cannot be made.
    pub(super) fixed: Vec<FixedValue>,
    /// The error that ended the reading before its end.
    pub(super) error: Option<ActError>,
}

/// The UpdateService of a controller, and the members of its inventory.
#[derive(Debug)]
pub(super) struct Updates {
    pub(super) service: Resource,
    pub(super) components: Vec<Resource>,
}

impl Machine<'_> {
    /// The values of a machine that its Hardware documents name; `drives`: how many it has, where that was read.
    pub(super) async fn hardware_values(
        &self,
        node: &NodeDesign,
        system: &Resource,
        drives: Option<usize>,
    ) -> HardwareReading {
        let sections = node.hardware_sections();
        let wanted = sections.flat_map(|section| node.hardware(section));
        let wanted: Vec<Arc<str>> = wanted.map(|value| value.name).collect();
        let mut reading = self.values_of(&wanted, system, drives).await;
        if let Some(raid) = node.raid().filter(|_| reading.error.is_none()) {
            match self.raid_values(node, &raid, system).await {
                Ok((seen, fixed)) => {
                    reading.seen.extend(seen);
                    reading.fixed = fixed;
                }
                Err(error) => reading.error = Some(error),
            }
        }
        reading
    }

    /// All values that other machines can have, too, each subsystem for itself: one that fails to answer hides no other.
    pub(super) async fn learned(&self) -> Result<LearnedHardware, ActError> {
        let system = self.read_system().await?;
        let mut learned = LearnedHardware::default();
        let mut lacks = |what: &str, error: &ActError| {
            let text = format!("{what} could not be read: {error}");
            learned.unread.push(Arc::from(text));
        };
        let drives = self.drives(&system).await;
        let drives = drives.inspect_err(|error| lacks("expect.drives", error));
        let drives = drives.ok().map(|drives| drives.len());
        let (mut seen, mut terms) = (HardwareSeen::new(), Arc::<Terms>::default());
        for name in EVERYTHING {
            let reading = self.values_of(&[Arc::from(name)], &system, drives).await;
            if let Some(error) = &reading.error {
                lacks(name, error);
            }
            if let Some(bios) = &reading.bios {
                match self.attribute_terms(bios).await {
                    Ok(read) => terms = read.unwrap_or_default(),
                    Err(error) => {
                        // Without them a password or a serial number could be among the attributes.
                        lacks(name, &error);
                        continue;
                    }
                }
            }
            seen.extend(reading.seen);
        }
        learned.seen = terms.learned(seen);
        Ok(learned)
    }

    /// The values of these names; those that a controller shows with them are there too.
    pub(super) async fn values_of(
        &self,
        wanted: &[Arc<str>],
        system: &Resource,
        drives: Option<usize>,
    ) -> HardwareReading {
        let mut reading = HardwareReading::default();
        if wanted.is_empty() {
            return reading;
        }
        of_system(&mut reading.seen, system, drives);
        reading.system = Some(system.path.clone());
        reading.manager = system.links("/Links/ManagedBy").first().cloned();
        // What was read before a request failed counts.
        let read = self.read_values(&mut reading, wanted, system).await;
        reading.error = read.err();
        reading
    }

    async fn read_values(
        &self,
        reading: &mut HardwareReading,
        wanted: &[Arc<str>],
        system: &Resource,
    ) -> Result<(), ActError> {
        let names = |part: &str| wanted.iter().any(|name| name.starts_with(part));
        if names("bios.")
            && let Some(bios) = system.link("/Bios")
        {
            let bios = self.controller.get(bios).await?;
            let attributes = bios.value.get("Attributes").and_then(Value::as_object);
            for (name, value) in attributes.into_iter().flatten() {
                put(
                    &mut reading.seen,
                    &format!("bios.{name}"),
                    display_value(value),
                );
            }
            reading.bios = Some(bios);
        }
        if names("boot.secure_boot")
            && let Some(secure) = system.link("/SecureBoot")
        {
            let secure = self.controller.get(secure).await?;
            let is_on = in_effect(&secure).map(|on| on.to_string());
            put(&mut reading.seen, "boot.secure_boot", is_on);
            reading.secure_boot = Some(secure);
        }
        if boot_order::is_named(wanted) {
            let order = match self.boot_order(system).await {
                // Options that it lists and does not have hide nothing else of the machine.
                Err(ActError::Permanent(_)) => None,
                read => read?,
            };
            put(&mut reading.seen, boot_order::NAME, order);
        }
        if (names("firmware.bmc") || names("bmc."))
            && let Some(manager) = &reading.manager
        {
            let manager = self.controller.get(manager).await?;
            let version = manager.text("/FirmwareVersion");
            put(
                &mut reading.seen,
                "firmware.bmc",
                version.map(str::to_owned),
            );
            if names("bmc.") {
                reading.protocols = self.protocols(&manager).await?;
                let shown = reading.protocols.as_ref().map(Protocols::shown);
                for (name, value) in shown.into_iter().flatten() {
                    put(&mut reading.seen, name, value);
                }
            }
        }
        let is_own = |name: &&Arc<str>| !matches!(&***name, "firmware.bios" | "firmware.bmc");
        let mut others = wanted.iter().filter(is_own);
        if others.any(|name| name.starts_with("firmware.")) {
            self.read_updates(reading).await?;
        }
        Ok(())
    }

    /// Reads the UpdateService and the versions of its inventory.
    pub(super) async fn read_updates(&self, reading: &mut HardwareReading) -> Result<(), ActError> {
        let root = self.controller.root().await?;
        let Some(service) = root.link("/UpdateService") else {
            return Ok(());
        };
        let service = self.controller.get(service).await?;
        let mut components = Vec::new();
        if let Some(inventory) = service.link("/FirmwareInventory") {
            let members = self.controller.parts(inventory, self.expands).await?;
            components = self.read_parts(members).await?;
        }
        for component in &components {
            let version = component.text("/Version").map(str::to_owned);
            let name = format!("firmware.{}", component.id());
            put(&mut reading.seen, &name, version);
        }
        reading.updates = Some(Updates {
            service,
            components,
        });
        Ok(())
    }
}

/// Whether Secure Boot is in effect; if that is not shown, whether it is set.
fn in_effect(secure: &Resource) -> Option<bool> {
    match secure.text("/SecureBootCurrentBoot") {
        Some("Enabled") => Some(true),
        Some("Disabled") => Some(false),
        _ => secure.boolean("/SecureBootEnable"),
    }
}

/// The values that the system and its drives show.
fn of_system(seen: &mut HardwareSeen, system: &Resource, drives: Option<usize>) {
    let number = |pointer: &str| system.number(pointer).map(|number| number.to_string());
    let bios = system.text("/BiosVersion").map(str::to_owned);
    put(seen, "firmware.bios", bios);
    put(seen, "expect.cpus", number("/ProcessorSummary/Count"));
    put(seen, "expect.cores", number("/ProcessorSummary/CoreCount"));
    let memory = number("/MemorySummary/TotalSystemMemoryGiB");
    put(seen, "expect.memory_gib", memory);
    put(seen, "expect.drives", drives.map(|count| count.to_string()));
}

fn put(seen: &mut HardwareSeen, name: &str, value: Option<String>) {
    if let Some(value) = value {
        seen.insert(Arc::from(name), Arc::from(value));
    }
}

/// The value of an attribute, as documents have it.
fn display_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
