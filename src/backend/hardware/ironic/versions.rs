//! Parts of Ironic's API that not each version has.
//!
//! One table says since when ([`Feature::since`]); what is used of the API beside it, each version from
//! [`FLOOR`](super::api::FLOOR) on has. What a design needs and the version of a server lacks is refused where it is
//! planned, before anything is changed.

use std::sync::Arc;

use super::Ironic;
use super::api::{Api, RequestError};
use super::settings::Settings;
use crate::design::{NodeDesign, Section};
use crate::document::Node;

/// A part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// Steps of a deploy besides Ironic's own.
    DeploySteps,
    /// RAID volumes, which a step of a deploy makes.
    Raid,
    /// The terms of settings of the BIOS.
    Terms,
    /// The inventory of an inspection.
    Inventory,
    /// Versions of firmware.
    Firmware,
    /// The interface that changes firmware, of a machine that is enrolled.
    FirmwareInterface,
    /// The service of a machine in use.
    Service,
    /// Runbooks.
    Runbooks,
}

impl Feature {
    /// The minor version since which the API has it.
    pub(super) fn since(self) -> u32 {
        match self {
            Self::DeploySteps | Self::Raid => 69,
            Self::Terms => 74,
            Self::Inventory => 81,
            Self::Firmware | Self::FirmwareInterface => 86,
            Self::Service => 87,
            Self::Runbooks => 92,
        }
    }

    /// The words of a refusal: `deploy steps need`.
    fn need(self) -> &'static str {
        match self {
            Self::DeploySteps => "deploy steps (`platform.deploy_steps`) need",
            Self::Raid => "RAID volumes (`raid` of Hardware documents) need",
            Self::Terms => "the terms of BIOS settings need",
            Self::Inventory => "the inventory of an inspection needs",
            Self::Firmware => "versions of firmware need",
            Self::FirmwareInterface => "`interfaces.firmware_interface` needs",
            Self::Service => "a service needs",
            Self::Runbooks => "runbooks need",
        }
    }
}

/// The part of the API that services a machine in use; `runbook`: with one.
pub(super) fn of_service(runbook: bool) -> Feature {
    match runbook {
        true => Feature::Runbooks,
        false => Feature::Service,
    }
}

impl Api {
    /// Whether the version agreed on has something.
    pub(super) async fn has(&self, feature: Feature) -> Result<bool, RequestError> {
        self.speaks(feature.since()).await
    }

    /// Why something cannot be used; `None`: it can.
    pub(super) async fn lacks(&self, feature: Feature) -> Result<Option<String>, RequestError> {
        if self.has(feature).await? {
            return Ok(None);
        }
        let version = self.version().await?;
        Ok(Some(format!(
            "Ironic at {} speaks version {version} of its API, and {} 1.{}",
            self.authority(),
            feature.need(),
            feature.since()
        )))
    }
}

/// Whether steps are sent: none are where the list is empty.
fn has_steps(steps: &Node) -> bool {
    match steps.as_list() {
        Some(steps) => !steps.is_empty(),
        None => !steps.is_null(),
    }
}

/// The parts that the deploy of a machine uses; `is_new`: it is enrolled before.
fn used(node: &NodeDesign, settings: &Settings, is_new: bool) -> Vec<Feature> {
    let mut used = Vec::new();
    let system = node.sections.get(&Section::OperatingSystem);
    let steps = system.and_then(|section| section.at(&["platform", "deploy_steps"]));
    if steps.is_some_and(has_steps) {
        used.push(Feature::DeploySteps);
    }
    if node.enforced_raid().is_some() {
        used.push(Feature::Raid);
    }
    let enrolment = settings.enrolment.as_ref().filter(|_| is_new);
    if enrolment.is_some_and(|it| it.interfaces.contains_key("firmware_interface")) {
        used.push(Feature::FirmwareInterface);
    }
    used
}

impl Ironic {
    /// Which parts of a machine's design the version of this server cannot take, and the version that can.
    pub(super) async fn unsupported(&self, node: &NodeDesign, is_new: bool) -> Arc<[Arc<str>]> {
        let mut unsupported: Vec<Arc<str>> = Vec::new();
        for feature in used(node, &self.settings, is_new) {
            // A server that does not answer is told where it is asked for machines.
            if let Ok(Some(why)) = self.api.lacks(feature).await {
                unsupported.push(why.into());
            }
        }
        unsupported.into()
    }
}
