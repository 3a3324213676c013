//! Two revisions of a design as one that forbids what either forbids.
//!
//! A node may be built of an older revision, and what was decided since holds all the same: whose
//! retirement was decided, what is protected, and how much may be out of service.

use crate::design::{Design, RedeployPolicy, WipePolicy};

/// `design` with the retirements of `newest` beside its own, and the stricter of each guard.
#[must_use]
pub fn strictest(design: &Design, newest: &Design) -> Design {
    let mut both = design.clone();
    both.retirements.extend(newest.retirements.iter().cloned());
    let (policy, other) = (&mut both.policy, &newest.policy);
    policy.protected.extend(other.protected.iter().cloned());
    let windows = &mut policy.maintenance_windows;
    if windows.is_empty() {
        windows.clone_from(&other.maintenance_windows);
    }
    let least = |one: Option<usize>, other: Option<usize>| one.into_iter().chain(other).min();
    let (limits, others) = (&mut policy.max_unavailable, &other.max_unavailable);
    limits.total = least(limits.total, others.total);
    limits.percent = limits.percent.into_iter().chain(others.percent).min();
    limits.per_rack = least(limits.per_rack, others.per_rack);
    for (tag, limit) in &others.by_tag {
        let own = limits.by_tag.entry(tag.clone()).or_insert(*limit);
        *own = (*own).min(*limit);
    }
    if other.wipe == WipePolicy::Require {
        policy.wipe = WipePolicy::Require;
    }
    if other.redeploy_on_change == RedeployPolicy::Never {
        policy.redeploy_on_change = RedeployPolicy::Never;
    }
    policy.parallelism = least(policy.parallelism, other.parallelism);
    let fewest = policy.max_failures.into_iter().chain(other.max_failures);
    policy.max_failures = fewest.min();
    both
}
