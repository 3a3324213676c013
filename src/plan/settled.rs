//! Machines of which nothing comes: nearly all of a large site, in nearly every plan.

use super::drift::Drift;
use super::subject::{Membership, Seen, Subject};
use crate::design::{Design, NodeDesign};
use crate::observed::{Fact, ObservedNode};
use crate::record::{NodeRecord, Phase};

/// Whether a machine is as it was designed, was last applied and is now, so that an update does nothing
/// to it and says nothing of it, whatever is asked for.
///
/// Whoever reads what was seen machine by machine need not keep it of those
/// ([`Input::settled`](super::Input::settled)).
#[must_use]
pub fn is_settled(
    design: &Design,
    after: &NodeDesign,
    record: &NodeRecord,
    seen: &ObservedNode,
) -> bool {
    let subject = Subject {
        name: &after.name,
        after: Some(after),
        old: None,
        before: None,
        record: Some(record),
        machine: Some(seen),
        seen: Seen::of(Some(seen), Some(record)),
        // Whether there is a cluster may not be known yet: its node counts as one of it.
        membership: match &seen.cluster {
            Fact::Known(Some(node)) => Membership::In(node),
            _ => Membership::NoCluster,
        },
        pods: None,
        remediation: None,
    };
    let is_as_designed = || {
        subject
            .differing()
            .is_some_and(|sections| sections.is_empty())
    };
    let is_retired = || {
        let mut retirements = design.retirements.iter();
        record.retired.is_some()
            || seen.retired.is_some()
            || retirements.any(|retirement| retirement.selector.matches(after))
    };
    record.phase == Phase::Deployed
        && subject.seen.is_deployed()
        && is_as_designed()
        && subject.down().is_none()
        && !Drift::of(subject, after).is_some()
        && !is_retired()
}
