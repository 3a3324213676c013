//! The changes that a run has begun whose process has not published them: their machines show it.

use std::collections::BTreeMap;

use super::subject::Observation;
use crate::design::{NodeName, RunId};
use crate::lifecycle::ProvisionState;
use crate::observed::{Fact, Observations, ObservedNode};
use crate::record::{NodeRecord, Phase};

/// Takes the records that nodes have if the process of a run has begun what it may have (`possible`), of those whose machines are not
/// what their records say any more: they are not taken for machines that others have built, nor for what they were.
pub fn take_begun_elsewhere(
    records: &mut BTreeMap<NodeName, NodeRecord>,
    possible: BTreeMap<NodeName, NodeRecord>,
    observations: Option<&Observations>,
) {
    let Some(seen) = observations else {
        return;
    };
    for (name, record) in possible {
        let old = records.get(&name);
        let machine = seen.nodes.get(&name).map(|machine| &**machine);
        let observation = Observation::of(machine, old);
        if let Observation::Known(_, state) = observation
            && is_other(old, state)
        {
            records.insert(name, record);
        } else if is_cordoned_by(machine, record.cordoned.as_ref())
            && let Some(old) = records.get_mut(&name)
        {
            old.cordoned = record.cordoned;
        }
    }
}

/// Whether the node of a machine is cordoned by a run, as its mark tells.
fn is_cordoned_by(machine: Option<&ObservedNode>, run: Option<&RunId>) -> bool {
    let node = machine.and_then(|machine| match &machine.cluster {
        Fact::Known(node) => node.as_ref(),
        Fact::Unknown(_) => None,
    });
    let by = node
        .filter(|node| node.unschedulable)
        .and_then(|node| node.cordoned_by.as_deref());
    by.is_some() && by == run.map(RunId::as_str)
}

/// Whether a machine is not what its record says.
fn is_other(record: Option<&NodeRecord>, state: ProvisionState) -> bool {
    match record.map(|record| record.phase) {
        Some(Phase::Deployed) => !state.is_deployed(),
        // What is on it is not known in any case.
        Some(Phase::Failed | Phase::Unknown) => false,
        None | Some(Phase::NotStarted | Phase::Prepared) => {
            let is_being_built = matches!(
                state,
                ProvisionState::Deploying
                    | ProvisionState::WaitCallback
                    | ProvisionState::DeployHold
                    | ProvisionState::DeployFailed
            );
            is_being_built || state.is_deployed()
        }
    }
}
