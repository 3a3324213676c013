//! The node's life, with Ironic's names, as tables that can be laid beside the specification.

mod cleaning;

use serde::{Deserialize, Serialize};

pub use cleaning::{CleanInterface, OWN_STEPS, OfferedStep, OwnStep, Tie, in_order};

/// The provision state of a machine (Ironic's names; ironic-cleaning, ironic-retirement).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisionState {
    /// Known by name only.
    Enroll,
    /// Credentials are being tried.
    Verifying,
    /// Managed, not yet ready for use.
    Manageable,
    /// Hardware is being looked at.
    Inspecting,
    /// Inspection failed.
    InspectFailed,
    /// Being cleaned.
    Cleaning,
    /// Cleaning waits for the machine.
    CleanWait,
    /// Cleaning is paused on purpose.
    CleanHold,
    /// Cleaning failed; the machine is fenced.
    CleanFailed,
    /// Ready to be deployed.
    Available,
    /// Being deployed.
    Deploying,
    /// The deploy waits for the machine.
    WaitCallback,
    /// The deploy failed.
    DeployFailed,
    /// In use.
    Active,
    /// Being torn down.
    Deleting,
    /// Tear-down failed.
    Error,
    /// Being rescued, adopted or otherwise in a state trueup does not drive.
    Other,
}

impl ProvisionState {
    /// Whether the machine carries a deployed system, or may.
    #[must_use]
    pub fn is_deployed(self) -> bool {
        matches!(self, Self::Active)
    }

    /// Whether something is under way that trueup must wait for.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Verifying
                | Self::Inspecting
                | Self::Cleaning
                | Self::CleanWait
                | Self::Deploying
                | Self::WaitCallback
                | Self::Deleting
        )
    }
}

/// Whether a machine is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PowerState {
    /// On.
    On,
    /// Off.
    Off,
}
