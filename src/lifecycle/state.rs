//! The states of a machine, and which of them carry a system, last, or wait for intervention.
//!
//! The names are Ironic's. A state that has no name here is [`ProvisionState::Other`]: it is shown, and
//! nothing is done to such a machine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The provision state of a machine (Ironic's names; ironic-cleaning, ironic-retirement).
///
/// The specification's CLEANED is where cleaning leads, not a state; its CLEANFAIL is
/// [`Self::CleanFailed`], its MANAGED [`Self::Manageable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisionState {
    /// Known by name only.
    Enroll,
    /// Credentials are being tried.
    Verifying,
    /// Managed, not yet ready for use.
    Manageable,
    /// Hardware is being inspected.
    Inspecting,
    /// Inspection waits for the machine.
    InspectWait,
    /// Inspection failed.
    InspectFailed,
    /// A machine that runs already is being taken over.
    Adopting,
    /// Taking it over failed.
    AdoptFailed,
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
    /// The deploy is paused on purpose.
    DeployHold,
    /// The deploy failed.
    DeployFailed,
    /// In use.
    Active,
    /// Being torn down.
    Deleting,
    /// Tear-down failed.
    Error,
    /// A rescue system is being started.
    Rescuing,
    /// The rescue waits for the machine.
    RescueWait,
    /// The rescue failed.
    RescueFailed,
    /// A rescue system runs.
    Rescue,
    /// The rescue is being ended.
    Unrescuing,
    /// Ending the rescue failed.
    UnrescueFailed,
    /// Being serviced while it is in use.
    Servicing,
    /// The service waits for the machine.
    ServiceWait,
    /// The service is paused on purpose.
    ServiceHold,
    /// The service failed.
    ServiceFailed,
    /// In a state that trueup does not know.
    Other,
}

impl ProvisionState {
    /// All states but [`Self::Other`].
    pub const ALL: [Self; 30] = [
        Self::Enroll,
        Self::Verifying,
        Self::Manageable,
        Self::Inspecting,
        Self::InspectWait,
        Self::InspectFailed,
        Self::Adopting,
        Self::AdoptFailed,
        Self::Cleaning,
        Self::CleanWait,
        Self::CleanHold,
        Self::CleanFailed,
        Self::Available,
        Self::Deploying,
        Self::WaitCallback,
        Self::DeployHold,
        Self::DeployFailed,
        Self::Active,
        Self::Deleting,
        Self::Error,
        Self::Rescuing,
        Self::RescueWait,
        Self::RescueFailed,
        Self::Rescue,
        Self::Unrescuing,
        Self::UnrescueFailed,
        Self::Servicing,
        Self::ServiceWait,
        Self::ServiceHold,
        Self::ServiceFailed,
    ];

    /// The name that Ironic has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enroll => "enroll",
            Self::Verifying => "verifying",
            Self::Manageable => "manageable",
            Self::Inspecting => "inspecting",
            Self::InspectWait => "inspect wait",
            Self::InspectFailed => "inspect failed",
            Self::Adopting => "adopting",
            Self::AdoptFailed => "adopt failed",
            Self::Cleaning => "cleaning",
            Self::CleanWait => "clean wait",
            Self::CleanHold => "clean hold",
            Self::CleanFailed => "clean failed",
            Self::Available => "available",
            Self::Deploying => "deploying",
            Self::WaitCallback => "wait call-back",
            Self::DeployHold => "deploy hold",
            Self::DeployFailed => "deploy failed",
            Self::Active => "active",
            Self::Deleting => "deleting",
            Self::Error => "error",
            Self::Rescuing => "rescuing",
            Self::RescueWait => "rescue wait",
            Self::RescueFailed => "rescue failed",
            Self::Rescue => "rescue",
            Self::Unrescuing => "unrescuing",
            Self::UnrescueFailed => "unrescue failed",
            Self::Servicing => "servicing",
            Self::ServiceWait => "service wait",
            Self::ServiceHold => "service hold",
            Self::ServiceFailed => "service failed",
            Self::Other => "other",
        }
    }

    /// The state that Ironic calls so; [`Self::Other`] for a name that is not known.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == name);
        known.unwrap_or(Self::Other)
    }

    /// Whether the machine carries a deployed system, or may.
    #[must_use]
    pub const fn is_deployed(self) -> bool {
        matches!(self, Self::Active) || !self.is_driven()
    }

    /// Whether something is under way that trueup must wait for.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Verifying
                | Self::Inspecting
                | Self::InspectWait
                | Self::Adopting
                | Self::Cleaning
                | Self::CleanWait
                | Self::Deploying
                | Self::WaitCallback
                | Self::Deleting
                | Self::Rescuing
                | Self::RescueWait
                | Self::Unrescuing
                | Self::Servicing
                | Self::ServiceWait
        )
    }

    /// Whether it is paused on purpose, until a client continues it.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::CleanHold | Self::DeployHold | Self::ServiceHold)
    }

    /// Whether it is being cleaned: neither its power nor its state may be changed then
    /// (ironic-cleaning, "REST API impact").
    #[must_use]
    pub const fn is_cleaning(self) -> bool {
        matches!(self, Self::Cleaning | Self::CleanWait | Self::CleanHold)
    }

    /// Whether trueup brings machines into this state and out of it. The others belong to other
    /// work on a machine (rescue, service), which is left alone.
    #[must_use]
    pub const fn is_driven(self) -> bool {
        !matches!(
            self,
            Self::Rescuing
                | Self::RescueWait
                | Self::RescueFailed
                | Self::Rescue
                | Self::Unrescuing
                | Self::UnrescueFailed
                | Self::Servicing
                | Self::ServiceWait
                | Self::ServiceHold
                | Self::ServiceFailed
                | Self::Adopting
                | Self::AdoptFailed
                | Self::Other
        )
    }
}

impl fmt::Display for ProvisionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
