//! From which states a step may begin, and through which it leads, as tables.

use super::machine::Machine;
use crate::backend::ActError;
use crate::design::NodeName;
use crate::lifecycle::{self, Flags, ProvisionState, Verb};
use crate::step::StepKind;
use std::sync::Arc;

/// From which states each kind of step may begin that is more than one verb; the others by the node's
/// life ([`lifecycle::step`]), if they are a verb, else in any.
const LEGAL: [(StepKind, &[ProvisionState]); 6] = [
    (
        StepKind::Prepare,
        &[
            ProvisionState::Enroll,
            ProvisionState::Manageable,
            ProvisionState::InspectFailed,
            ProvisionState::Available,
            ProvisionState::DeployFailed,
            ProvisionState::Error,
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
    (StepKind::Service, &[ProvisionState::Active]),
    (StepKind::ServiceLive, &[ProvisionState::Active]),
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
        if let Some(verb) = verb_of(kind) {
            let flags = Flags {
                retired: self.retired.is_some(),
                maintenance: self.maintenance.is_some(),
                protected: self.protected,
            };
            let refused = lifecycle::step(self.provision, verb, flags).err();
            return refused.map(|refusal| format!("`{node}`: {refusal}"));
        }
        let state = self.provision;
        if let Some((_, legal)) = LEGAL.iter().find(|(each, _)| *each == kind)
            && !legal.contains(&self.provision)
        {
            let legal: Vec<&str> = legal.iter().map(|each| each.as_str()).collect();
            return Some(format!(
                "`{node}` is {state}, and `{kind}` can begin only where it is {}",
                legal.join(", ")
            ));
        }
        if matches!(
            kind,
            StepKind::Prepare
                | StepKind::Deploy
                | StepKind::Destroy
                | StepKind::Service
                | StepKind::ServiceLive
        ) && let Some(reason) = &self.maintenance
        {
            return Some(format!(
                "`{node}` is in maintenance ({reason}), and `{kind}` is refused there"
            ));
        }
        if matches!(kind, StepKind::Prepare | StepKind::Deploy)
            && let Some(reason) = &self.retired
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

/// The verb that a kind of step sends to the machine, if it is one.
const fn verb_of(kind: StepKind) -> Option<Verb> {
    Some(match kind {
        StepKind::Manage => Verb::Manage,
        StepKind::Provide => Verb::Provide,
        StepKind::Clean => Verb::Clean,
        StepKind::PowerOn => Verb::PowerOn,
        StepKind::PowerOff => Verb::PowerOff,
        _ => return None,
    })
}

/// The error of a step that a rule forbids.
pub(super) fn permanent<T>(message: impl Into<Arc<str>>) -> Result<T, ActError> {
    Err(ActError::Permanent(message.into()))
}
