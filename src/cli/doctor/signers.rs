//! Checks of the people whose signatures a site asks for.

use jiff::Timestamp;

use super::checks::Checks;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::design::Guards;
use crate::repository::Repository;
use crate::workflow::{recovery_keys, signers_out_of_time, signers_problems};

/// Checks that the signatures which a site asks for can count.
pub(super) fn signers(
    context: &Context,
    repository: &Repository,
    guards: &Guards,
    checks: &mut Checks,
) {
    let policy = &guards.policy;
    if !policy.asks_for_signatures() {
        return;
    }
    let head = match repository.head() {
        Ok(head) => head,
        Err(error) => return checks.failure("signers", &Failure::from(error), ""),
    };
    let problems = signers_problems(repository, head, policy);
    if !problems.is_empty() {
        let next = problems[0].1;
        let found: Vec<String> = problems.into_iter().map(|(text, _)| text).collect();
        return checks.fail("signers", found.join("; "), next);
    }
    let now = Timestamp::from_second(context.now().as_second());
    let late = signers_out_of_time(repository, head, policy, now.unwrap_or_default());
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
pub(super) fn recovery(repository: &Repository, guards: &Guards, checks: &mut Checks) {
    let Some(policy) = &guards.policy.approvals else {
        return;
    };
    let keys = match recovery_keys(repository, &guards.policy) {
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
                "asked for, and `approvals.recovery` asks for {} of {}, of whom {keys} have a key among the allowed signers",
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
