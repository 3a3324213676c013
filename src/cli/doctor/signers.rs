//! Checks of the people whose signatures a site asks for.

use std::collections::BTreeSet;

use super::checks::Checks;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::design::Guards;
use crate::repository::Repository;
use crate::workflow::{
    Checkout, policy_in_force, recovery_keys, signers_out_of_time, signers_problems,
};

/// Checks that the signatures which a site asks for can count.
pub(super) fn signers(
    context: &Context,
    checkout: &Checkout<'_>,
    guards: &Guards,
    checks: &mut Checks,
) {
    let (repository, policy) = (checkout.repository, &guards.policy);
    if !policy.asks_for_signatures() {
        return;
    }
    let head = match repository.head() {
        Ok(head) => head,
        Err(error) => return checks.failure("signers", &Failure::from(error), ""),
    };
    let now = context.now();
    let problems = signers_problems(repository, head, policy, now);
    if !problems.is_empty() {
        let next = problems[0].1;
        let found: Vec<String> = problems.into_iter().map(|(text, _)| text).collect();
        return checks.fail("signers", found.join("; "), next);
    }
    let in_force = match policy_in_force(checkout) {
        Ok(in_force) => in_force.filter(|(commit, _)| Some(*commit) != head),
        Err(failure) => return checks.failure("signers", &failure, ""),
    };
    let mut late = BTreeSet::new();
    // An approval has to hold by the signers that are in force, too, whatever the documents say.
    if let Some((commit, policy)) = &in_force {
        let problems = signers_problems(repository, Some(*commit), policy, now);
        if !problems.is_empty() {
            let found: Vec<String> = problems.into_iter().map(|(text, _)| text).collect();
            let text = format!(
                "of {}, which is in force: {}",
                commit.short(),
                found.join("; ")
            );
            return checks.fail(
                "signers",
                text,
                "those who are left approve `trueup apply guards` of documents with keys that count, if they are enough",
            );
        }
        late.extend(signers_out_of_time(repository, Some(*commit), policy, now));
    }
    late.extend(signers_out_of_time(repository, head, policy, now));
    let late: Vec<String> = late.into_iter().collect();
    match late.is_empty() {
        true => checks.ok("signers", format!("`{}` names keys that count", policy.allowed_signers())),
        false => checks.warn(
            "signers",
            late.join("; "),
            "another key, or another time, in the file of allowed signers, and `trueup apply guards`",
        ),
    }
}

/// Checks that a site which asks for approvals does not depend on its signers alone.
pub(super) fn recovery(
    context: &Context,
    repository: &Repository,
    guards: &Guards,
    checks: &mut Checks,
) {
    let Some(policy) = &guards.policy.approvals else {
        return;
    };
    let keys = match recovery_keys(repository, &guards.policy, context.now()) {
        Ok(keys) => keys.unwrap_or_default() as u64,
        Err(failure) => {
            checks.failure("approvals", &failure, "`trueup validate`");
            return;
        }
    };
    match &policy.recovery {
        Some(recovery) if keys < recovery.count => checks.warn(
            "approvals",
            format!(
                "asked for, and `approvals.recovery` asks for {} of {}, of whom {keys} have a key that counts among the allowed signers",
                recovery.count,
                recovery.of.join(", ")
            ),
            "their public keys in the file of allowed signers, and `trueup apply guards`",
        ),
        Some(recovery) => checks.ok(
            "approvals",
            format!(
                "asked for; `trueup apply guards` can be approved by {} of {}, too",
                recovery.count,
                recovery.of.join(", ")
            ),
        ),
        None if policy.rules.is_empty() => {}
        None => checks.warn(
            "approvals",
            "asked for, and the Policy has no `approvals.recovery`: when too few of the allowed signers are left, nothing can \
             be approved any more, nor can the rules be changed",
            "`approvals: {recovery: {count: 1, of: [PRINCIPAL]}}` in the Policy, with a key that is kept offline in the file \
             of allowed signers, and `trueup apply guards`, while enough signers are there to approve it",
        ),
    }
}
