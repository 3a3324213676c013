//! The list of checks as it grows.

use crate::report::doctor::{Check, CheckState};
use crate::workflow::Failure;

/// The checks so far.
#[derive(Default)]
pub(super) struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, check: &'static str, state: CheckState, found: impl Into<String>) {
        self.0.push(Check {
            check,
            state,
            found: found.into(),
            next: None,
        });
    }

    pub(super) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, CheckState::Ok, found);
    }

    pub(super) fn skip(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, CheckState::Skipped, found);
    }

    pub(super) fn warn(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(check, CheckState::Warn, found);
        self.next(next.into());
    }

    pub(super) fn fail(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(check, CheckState::Fail, found);
        self.next(next.into());
    }

    /// A failure, with its own hints as next steps.
    pub(super) fn failure(&mut self, check: &'static str, failure: &Failure, otherwise: &str) {
        let mut found = failure.message.clone();
        for detail in failure.details.iter().take(3) {
            found.push_str("; ");
            found.push_str(detail);
        }
        let next = match failure.hints.is_empty() {
            true => otherwise.to_owned(),
            false => failure.hints.join("; "),
        };
        self.fail(check, found, next);
    }

    /// Whether a check has failed.
    pub(super) fn has_failed(&self, check: &str) -> bool {
        let mut checks = self.0.iter();
        checks.any(|each| each.check == check && each.state == CheckState::Fail)
    }

    fn next(&mut self, next: String) {
        if let Some(last) = self.0.last_mut() {
            last.next = Some(next).filter(|next| !next.is_empty());
        }
    }

    /// The checks, in the order in which they were made.
    pub(super) fn into_list(self) -> Vec<Check> {
        self.0
    }
}
