//! The changes that a run has begun whose process has not published them: their machines show it.

use std::collections::BTreeMap;

use super::subject::Observation;
use crate::design::NodeName;
use crate::lifecycle::ProvisionState;
use crate::observed::Observations;
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
        }
    }
}

/// Whether a machine is not what its record says.
fn is_other(record: Option<&NodeRecord>, state: ProvisionState) -> bool {
    match record.is_some_and(|record| record.phase == Phase::Deployed) {
        true => !state.is_deployed(),
        false => {
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
