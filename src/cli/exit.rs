//! The table of exit codes.

use crate::workflow::{Failure, FailureKind};

/// Wrong usage.
pub(super) const USAGE: u8 = 64;

/// All exit codes, each with its meaning.
pub(super) const CODES: [(u8, &str); 11] = [
    (
        0,
        "done; with `--detailed-exitcode`: no changes, or such as were accepted before",
    ),
    (
        1,
        "an error: invalid documents, a backend that does not answer, a broken file",
    ),
    (2, "with `--detailed-exitcode`: changes"),
    (
        3,
        "with `--detailed-exitcode`: changes, some of them destructive",
    ),
    (
        4,
        "refused by a guard: blocked change, intermediate commits, files that are not committed, backends that are not trusted",
    ),
    (5, "the plan is stale"),
    (6, "another run holds the lock"),
    (7, "the run ended with failed nodes or groups"),
    (8, "interrupted; `trueup apply --resume` resumes it"),
    (
        9,
        "the run is done, and the remote does not have its records, or refuses its tag; the next command in this clone publishes them",
    ),
    (USAGE, "wrong usage"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_lists_the_exit_codes() {
        let readme = include_str!("../../README.md");
        for (code, meaning) in CODES {
            let row = format!("| {code} | {meaning} |");
            assert!(readme.contains(&row), "{row}");
        }
    }
}
