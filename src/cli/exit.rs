//! The table of exit codes.

use std::collections::BTreeSet;

use crate::workflow::{Failure, FailureKind};

/// Wrong usage.
pub(super) const USAGE: u8 = 64;

/// All exit codes, each with its meaning.
pub(super) const CODES: [(u8, &str); 12] = [
    (
        0,
        "done; with `--detailed-exitcode`: no changes, or such as were accepted before",
    ),
    (
        1,
        "an error: invalid documents, files that `fmt --check` finds not formatted, a backend that does not answer, a broken file",
    ),
    (2, "with `--detailed-exitcode`: changes"),
    (
        3,
        "with `--detailed-exitcode`: changes, some of them destructive, or on rung `restart` and above",
    ),
    (
        4,
        "refused by a guard: blocked change, a rule of the site, a flag that its policy forbids, intermediate commits, files that are not committed, backends that are not trusted",
    ),
    (5, "the plan is stale"),
    (
        6,
        "another run holds the lock; `reserve`: a run or another person has the machine",
    ),
    (
        7,
        "the run ended with failed nodes or groups, etcd would not bear what was asked of it, or a rollout is stopped",
    ),
    (8, "interrupted; `trueup apply --resume` resumes it"),
    (
        9,
        "the run is done, and the remote does not have its records, or refuses its tag or that of an earlier run; the next command in this clone publishes them",
    ),
    (USAGE, "wrong usage"),
    (130, "Ctrl-C at a question: nothing was begun"),
];

/// The exit code of a failure.
pub(super) fn code(failure: &Failure) -> u8 {
    match failure.kind {
        FailureKind::Error | FailureKind::NotFound => 1,
        FailureKind::Guard => 4,
        FailureKind::Stale => 5,
        FailureKind::Locked => 6,
        FailureKind::Failed => 7,
        FailureKind::Interrupted => 8,
        FailureKind::Unpublished => 9,
        FailureKind::Usage => USAGE,
    }
}

/// Whether a command that ends with a code has failed.
pub(super) fn is_failure(code: u8) -> bool {
    code != 0 && !OF_PLANS.contains(&code)
}

/// The codes of plans with `--detailed-exitcode`: changes, and changes of which some are disruptive.
const OF_PLANS: [u8; 2] = [2, 3];

/// The exit code of a command about several sites, each of which alone would have one of these: the least of those that
/// failed, of which an error has the least; if none did and it is asked for, that of the gravest plan.
pub(super) fn combined(codes: &BTreeSet<u8>, is_detailed: bool) -> u8 {
    let mut failed = codes
        .iter()
        .filter(|code| **code != 0 && !OF_PLANS.contains(code));
    let plans = codes.iter().filter(|code| OF_PLANS.contains(code));
    match failed.next() {
        Some(code) => *code,
        None if is_detailed => plans.max().copied().unwrap_or_default(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_sites_a_failure_counts_before_changes_and_an_error_before_a_refusal() {
        let code =
            |codes: &[u8], is_detailed| combined(&codes.iter().copied().collect(), is_detailed);
        assert_eq!(code(&[], true), 0);
        assert_eq!((code(&[0, 2, 3], false), code(&[0, 2, 3], true)), (0, 3));
        assert_eq!((code(&[0, 2], true), code(&[0], true)), (2, 0));
        assert_eq!((code(&[4, 3, 1], true), code(&[4, 3], false)), (1, 4));
    }

    #[test]
    fn the_readme_lists_the_exit_codes() {
        let readme = include_str!("../../README.md");
        for (code, meaning) in CODES {
            let row = format!("| {code} | {meaning} |");
            assert!(readme.contains(&row), "{row}");
        }
    }
}
