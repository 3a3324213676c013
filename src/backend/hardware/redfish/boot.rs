//! From where a machine boots next: the boot override, and images as virtual media.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::machine::Machine;
use super::resource::Resource;
use super::settings::{Mode, Source};
use crate::backend::ActError;
use crate::backend::hardware::level::{self, Pace};
use crate::backend::hardware::written::for_node;
use crate::design::NodeDesign;

/// How long a boot override or an image may take to show.
const TIME: Duration = Duration::from_secs(180);

/// How a boot override is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BootOverride {
    /// It is not as asked for.
    No,
    /// For the next boot only.
    Once,
    /// For every boot, though it was asked for once: it is to be taken back.
    Continuous,
}

/// The boot sources that carry out a way to deploy, best first.
fn targets(from: Source) -> &'static [&'static str] {
    match from {
        Source::Pxe => &["Pxe"],
        Source::VirtualMedia => &["Cd", "UsbCd", "Usb"],
        Source::UefiHttp => &["UefiHttp"],
    }
}

/// The boot source that a machine offers for a way to deploy; where it lists none, the first.
fn target(system: &Resource, from: Source) -> Option<&'static str> {
    let offered = system.texts("/Boot/BootSourceOverrideTarget@Redfish.AllowableValues");
    let mut wanted = targets(from).iter();
    if offered.is_empty() {
        return wanted.next().copied();
    }
    wanted.find(|target| offered.contains(target)).copied()
}

fn boot_override(system: &Resource, target: &str) -> BootOverride {
    let is_set = system.text("/Boot/BootSourceOverrideTarget") == Some(target);
    match system.text("/Boot/BootSourceOverrideEnabled") {
        Some("Once") if is_set => BootOverride::Once,
        Some("Continuous") if is_set => BootOverride::Continuous,
        _ => BootOverride::No,
    }
}

impl Machine<'_> {
    /// Whether it can boot from where it should.
    pub(super) async fn check_boot(&self, system: &Resource) -> Result<(), ActError> {
        let from = self.backend.settings.deploy.from;
        if target(system, from).is_none() {
            let offered = system.texts("/Boot/BootSourceOverrideTarget@Redfish.AllowableValues");
            let wanted = targets(from).join(" nor ");
            return self.refuse(&format!(
                "it cannot be booted from {wanted}, but only from: {}",
                offered.join(", ")
            ));
        }
        if from == Source::VirtualMedia {
            self.drive_for_images().await?;
        }
        Ok(())
    }

    /// Has it boot from where it should the next time, and reads that back.
    pub(super) async fn boot_next(&self, node: &NodeDesign) -> Result<BootOverride, ActError> {
        let settings = &self.backend.settings;
        let system = self.read_system().await?;
        let Some(target) = target(&system, settings.deploy.from) else {
            self.check_boot(&system).await?;
            return Ok(BootOverride::No);
        };
        let mut boot = json!({
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": target,
        });
        if let Some(mode) = settings.deploy.mode {
            boot["BootSourceOverrideMode"] = json!(match mode {
                Mode::Uefi => "UEFI",
                Mode::Legacy => "Legacy",
            });
        }
        if let (Source::UefiHttp, Some(image)) = (settings.deploy.from, &settings.image) {
            boot["HttpBootUri"] = json!(for_node(image, node));
        }
        let body = json!({ "Boot": boot });
        let is_set = || async {
            let system = self.read_system().await?;
            Ok::<_, ActError>(boot_override(&system, target) != BootOverride::No)
        };
        let set = || async {
            let system = self.read_system().await?;
            self.controller.patch(&system, &body).await?;
            Ok(())
        };
        let what = self.about(&format!("boot override to {target}"));
        let pace = Pace::within(&what, settings.settling, TIME);
        // Set in any case: mode and address are not part of what is read.
        set().await?;
        level::bring(true, pace, is_set, set).await?;
        Ok(boot_override(&self.read_system().await?, target))
    }

    /// Takes a boot override back.
    pub(super) async fn boot_as_usual(&self) -> Result<(), ActError> {
        let system = self.read_system().await?;
        let body = json!({"Boot": {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}});
        match self
            .controller
            .patch(&system, &body)
            .await
            .map_err(ActError::from)
        {
            Err(ActError::Permanent(_)) => {
                // Some know no `None`.
                let body = json!({"Boot": {"BootSourceOverrideTarget": "Hdd"}});
                self.controller.patch(&system, &body).await?;
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Whether its boot override was used up.
    pub(super) async fn override_is_used(&self) -> Result<bool, ActError> {
        let system = self.read_system().await?;
        let enabled = system.text("/Boot/BootSourceOverrideEnabled");
        Ok(enabled.is_none_or(|enabled| enabled == "Disabled"))
    }

    /// The virtual drive that takes images.
    async fn drive_for_images(&self) -> Result<Resource, ActError> {
        let system = self.read_system().await?;
        let mut collections: Vec<Arc<str>> = Vec::new();
        collections.extend(system.link("/VirtualMedia").map(Arc::from));
        for manager in system.links("/Links/ManagedBy") {
            let manager = self.controller.get_if_there(&manager).await?;
            let link = manager
                .as_ref()
                .and_then(|manager| manager.link("/VirtualMedia"));
            collections.extend(link.map(Arc::from));
        }
        let mut usb = None;
        for collection in collections {
            let Some(members) = self.controller.get_if_there(&collection).await? else {
                continue;
            };
            for path in members.links("/Members") {
                let drive = self.controller.get(&path).await?;
                let kinds = drive.texts("/MediaTypes");
                if kinds.contains(&"CD") || kinds.contains(&"DVD") {
                    return Ok(drive);
                }
                if usb.is_none() && kinds.contains(&"USBStick") {
                    usb = Some(drive);
                }
            }
        }
        match usb {
            Some(drive) => Ok(drive),
            None => self.refuse("it has no virtual drive that takes images (`VirtualMedia`)"),
        }
    }

    /// Inserts the node's image, and reads that back.
    pub(super) async fn insert(&self, node: &NodeDesign) -> Result<(), ActError> {
        let Some(image) = &self.backend.settings.image else {
            return self
                .refuse("`hardware.redfish.image` is not set, so there is no image to boot from");
        };
        let image = for_node(image, node);
        let path = self.drive_for_images().await?.path;
        let is_inserted = || async {
            let drive = self.controller.get(&path).await?;
            let same = drive.text("/Image") == Some(&*image);
            Ok::<_, ActError>(same && drive.boolean("/Inserted") != Some(false))
        };
        let insert = || async {
            let drive = self.controller.get(&path).await?;
            if drive.boolean("/Inserted") == Some(true) {
                self.eject_from(&drive).await?;
            }
            let body = json!({"Image": image, "Inserted": true, "WriteProtected": true});
            match drive.action("VirtualMedia.InsertMedia") {
                Some(action) => self.controller.post(&action.target, &body).await?,
                None => self.controller.patch(&drive, &body).await?,
            };
            Ok(())
        };
        let what = self.about("image inserted");
        let pace = Pace::within(&what, self.backend.settings.settling, TIME);
        level::bring(true, pace, is_inserted, insert).await
    }

    /// Takes out whatever is inserted.
    pub(super) async fn eject(&self) -> Result<(), ActError> {
        let drive = self.drive_for_images().await?;
        if drive.boolean("/Inserted") == Some(true) {
            self.eject_from(&drive).await?;
        }
        Ok(())
    }

    async fn eject_from(&self, drive: &Resource) -> Result<(), ActError> {
        match drive.action("VirtualMedia.EjectMedia") {
            Some(action) => self.controller.post(&action.target, &json!({})).await?,
            None => {
                let body = json!({"Image": null, "Inserted": false});
                self.controller.patch(drive, &body).await?
            }
        };
        Ok(())
    }
}
