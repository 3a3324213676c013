//! The parts without which a machine is not deployed, if the policy demands those that Hardware documents expect.

use crate::design::{Guards, NodeName};
use crate::observed::ObservedNode;

/// A reason why a machine is not deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpected {
    /// The reason, one sentence.
    pub reason: String,
    /// Whether it is that its parts could not be read.
    pub is_unread: bool,
}

/// Why a machine is not deployed: parts that could not be read or are observed to be otherwise, and parts of which it is not
/// known, since its documents expect them no more while another revision that has a say does.
#[must_use]
pub fn unexpected(guards: &Guards, name: &NodeName, seen: &ObservedNode) -> Vec<Unexpected> {
    if !guards.policy.demands_expected_hardware {
        return Vec::new();
    }
    let unread = seen.unread_parts.iter().map(|why| Unexpected {
        reason: format!(
            "the policy demands the parts that are expected of it, and not all could be read: {why}"
        ),
        is_unread: true,
    });
    let observed = seen
        .unexpected_parts()
        .map(|part| format!("the policy demands the parts that are expected of it: {part}"));
    let elsewhere = guards.expected_elsewhere.get(name).into_iter().flatten();
    let elsewhere = elsewhere.map(|part| {
        let (part, value) = (&part.name, &part.value);
        format!("the guards in force demand that it has {part}: {value}, which its documents expect no more")
    });
    let known = observed.chain(elsewhere).map(|reason| Unexpected {
        reason,
        is_unread: false,
    });
    unread.chain(known).collect()
}
