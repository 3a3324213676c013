//! The kinds of step: what each does, how much harm it can do, and what it waits for.
//!
//! A plan is a graph of steps. Everything about a kind that does not depend on the backend stands in
//! the table of [`StepKind`]; the backends bring `probe` and `act` for the kinds that touch the world.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

#[macro_use]
mod parameters;
mod cleaning;
mod id;
pub mod kinds;
mod left_pods;
mod reason;

use std::sync::Arc;
use std::time::Duration;

use crate::design::NodeName;
use serde::{Deserialize, Serialize};

pub use cleaning::{CleanStep, Cleaning, DeployStep, clean_step_begins, clean_step_of};
pub use id::{NoStepId, StepId};
pub use kinds::{
    AcceptDifferencesParameters, AcceptIdentityParameters, Actor, AdoptParameters,
    AwaitReadyParameters, CheckEtcdParameters, CleanParameters, ClearLabelsParameters,
    DeployParameters, DestroyParameters, DrainParameters, Effect, Facts, KindStage, KindSubject,
    LeavingRole, Loss, Notes, Parameters, PrepareParameters, ProvideParameters, RecordContext,
    RecordParameters, RelabelParameters, RemediateParameters, RemoveEtcdParameters,
    RemoveFromClusterParameters, RenameParameters, RestoreNodeParameters, SOAK_SLACK,
    ServiceLiveParameters, ServiceParameters, SetMaintenanceParameters, SetOutOfServiceParameters,
    SetRetiredParameters, ShutdownKubeletParameters, SoakParameters, StepKind, UncordonParameters,
    UnsetOutOfServiceParameters, VerifySiteParameters,
};
pub use left_pods::LeftPods;
use parameters::NoParameters;
pub use parameters::{EtcdRemoval, Given, OnDrainTimeout, SoakTerms};
pub use reason::FailureReason;

#[cfg(test)]
pub(crate) use parameters::of_settings;

/// The note of a step of which an operator decided that it is done: nothing has seen its end.
pub const DECIDED_DONE: &str = "an operator decided that it is done";

/// How long a drain waits for pods that only a silent kubelet could end, by its timeout in seconds (0: none): as long as Kubernetes
/// itself waits until it evicts the pods of such a node (`tolerationSeconds` of `not-ready` and `unreachable`), or a quarter of its time.
#[must_use]
pub fn kubelet_silence(timeout: u64) -> Duration {
    const LONGEST: Duration = Duration::from_secs(300);
    match timeout {
        0 => LONGEST,
        timeout => LONGEST.min(Duration::from_secs(timeout) / 4),
    }
}

/// A step by its position in the plan's list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// The step at this position. A plan has far fewer than 2³² steps.
    #[must_use]
    pub fn from_position(position: usize) -> Self {
        Self(u32::try_from(position).unwrap_or(u32::MAX))
    }
}

/// The event of another step that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Its success; if it fails or is skipped, so is this one.
    Success,
    /// Its end, whatever the result.
    Done,
}

/// That a step waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Need {
    /// The other step.
    pub step: StepIndex,
    /// The event.
    pub wait: Wait,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// Longest time that it may take, in seconds; 0: no bound of its own.
    pub timeout: u64,
    /// How much harm it can do to this node: that of its kind, less if there is nothing to lose.
    pub effect: Effect,
    /// Runs only if no earlier group has sent the node already: the node is in more than one group.
    pub standby: bool,
    /// Those of its kind, if any is given.
    pub parameters: Option<Arc<Parameters>>,
    /// Its dependencies, sorted.
    pub needs: Vec<Need>,
}

impl Step {
    /// Whether it is the soak that an earlier run owes.
    #[must_use]
    pub fn is_owed_soak(&self) -> bool {
        self.id.kind == StepKind::Soak && self.id.wave == Some(0)
    }

    /// Its parameters.
    #[must_use]
    pub fn given(&self) -> &dyn Given {
        match self.parameters.as_deref() {
            Some(parameters) => parameters.given(),
            None => &NoParameters {},
        }
    }

    /// The nodes that it watches in a soak; of any other kind none.
    pub fn soaked(&self) -> impl Iterator<Item = &NodeName> {
        let terms = self.given().soak().as_deref();
        terms.into_iter().flat_map(|terms| &terms.nodes)
    }
}
