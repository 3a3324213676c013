//! The parts without which a machine is not deployed, where the policy demands those that Hardware documents expect.

use crate::design::{Guards, NodeName};
use crate::observed::ObservedNode;

/// Why a machine is not deployed: parts that are observed to be otherwise, and parts of which it is not known, since its
/// documents expect them no more while another revision that has a say does.
#[must_use]
pub fn unexpected(guards: &Guards, name: &NodeName, seen: &ObservedNode) -> Vec<String> {
    if !guards.policy.demands_expected_hardware {
        return Vec::new();
    }
    let observed = seen.unexpected_parts();
    let observed = observed
        .map(|part| format!("the policy demands the parts that are expected of it: {part}"));
    let elsewhere = guards.expected_elsewhere.get(name).into_iter().flatten();
    let elsewhere = elsewhere.map(|part| {
        let (part, value) = (&part.name, &part.value);
        format!("the guards in force demand that it has {part}: {value}, which its documents expect no more")
    });
    observed.chain(elsewhere).collect()
}
