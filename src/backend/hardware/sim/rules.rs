//! From which states a step may begin, and through which it leads, as tables.

use super::machine::Machine;
use crate::design::NodeName;
use crate::lifecycle::ProvisionState;
use crate::step::StepKind;

/// From which states each kind of step may begin; what is not here may begin in any.
const LEGAL: [(StepKind, &[ProvisionState]); 7] = [
    (
        StepKind::Prepare,
        &[
            ProvisionState::Enroll,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
            ProvisionState::DeployFailed,
        ],
    ),
    (
        StepKind::Deploy,
        &[ProvisionState::Available, ProvisionState::DeployFailed],
    ),
    (
        StepKind::Destroy,
        &[
            ProvisionState::Active,
            ProvisionState::DeployFailed,
            ProvisionState::Error,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
        ],
    ),
    (StepKind::Relabel, &[ProvisionState::Active]),
    (
        StepKind::Manage,
        &[
            ProvisionState::Enroll,
            ProvisionState::Available,
            ProvisionState::CleanFailed,
            ProvisionState::InspectFailed,
        ],
    ),
    (
        StepKind::Provide,
        &[ProvisionState::Manageable, ProvisionState::CleanFailed],
    ),
    (
        StepKind::Clean,
        &[ProvisionState::Manageable, ProvisionState::CleanFailed],
    ),
];

/// For each kind of step the state while it is under way and the one after it failed; what is not
/// here leaves the state alone.
const STATES: [(StepKind, ProvisionState, ProvisionState); 4] = [
    (
        StepKind::Prepare,
        ProvisionState::Inspecting,
        ProvisionState::InspectFailed,
    ),
    (
        StepKind::Deploy,
        ProvisionState::Deploying,
        ProvisionState::DeployFailed,
    ),
    (
        StepKind::Destroy,
        ProvisionState::Deleting,
        ProvisionState::Error,
    ),
    (
        StepKind::Clean,
        ProvisionState::Cleaning,
        ProvisionState::CleanFailed,
    ),
];

impl Machine {
    /// Why a kind of step may not begin now, naming the state and what was asked; `None` if it may.
    #[must_use]
    pub fn refusal(&self, node: &NodeName, kind: StepKind) -> Option<String> {
        let state = state_name(self.provision);
        if let Some((_, legal)) = LEGAL.iter().find(|(each, _)| *each == kind)
            && !legal.contains(&self.provision)
        {
            let legal: Vec<_> = legal.iter().map(|each| state_name(*each)).collect();
            return Some(format!(
                "`{node}` is {state}, and `{kind}` can begin only where it is {}",
                legal.join(", ")
            ));
        }
        if matches!(
            kind,
            StepKind::Prepare | StepKind::Deploy | StepKind::Destroy
        ) && let Some(reason) = &self.maintenance
        {
            return Some(format!(
                "`{node}` is in maintenance ({reason}), and `{kind}` is refused there"
            ));
        }
        if matches!(
            kind,
            StepKind::Prepare | StepKind::Deploy | StepKind::Provide
        ) && let Some(reason) = &self.retired
        {
            return Some(format!(
                "`{node}` is {state} and retired ({reason}), and `{kind}` is refused there"
            ));
        }
        if kind == StepKind::Destroy && self.protected {
            return Some(format!(
                "`{node}` is {state} and protected, and `{kind}` is refused there"
            ));
        }
        if kind == StepKind::Deploy && !self.prepared {
            return Some(format!(
                "`{node}` is {state} but was not prepared, and `{kind}` is refused there"
            ));
        }
        None
    }
}

/// The states of a kind of step while it is under way and after it failed.
pub(super) fn states_of(kind: StepKind) -> Option<(StepKind, ProvisionState, ProvisionState)> {
    STATES.into_iter().find(|(each, ..)| *each == kind)
}

/// A state by the name that it has in files and in output.
fn state_name(state: ProvisionState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{state:?}"),
    }
}
