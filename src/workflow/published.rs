//! A run that is done, and whose end the remote does not have.

use super::{Failure, FailureKind};
use crate::design::RunId;
use crate::record::Outcome;
use crate::run::Publication;

/// The hint if the remote refuses a tag.
pub const RETRY_TAG: &str = "the next `trueup apply` retries, once its rules take the tag";

/// The failure of a run whose end is not published, or that succeeded while the remote still refuses the tag of an earlier
/// one (`owed`). One that was interrupted is to be resumed in any case.
#[must_use]
pub fn unpublished(
    publication: Option<Publication>,
    owed: Option<&RunId>,
    run: &RunId,
    outcome: Outcome,
) -> Option<Failure> {
    let failure = |text: String| Failure::new(FailureKind::Unpublished, text);
    match publication {
        None | Some(Publication::Whole) => owed
            .filter(|_| outcome == Outcome::Succeeded)
            .map(|owed| {
                failure(format!(
                    "run {run} is done ({}), and the remote does not have the tag of run {owed}, which it refused",
                    outcome.words()
                ))
                .hint(RETRY_TAG)
            }),
        Some(_) if outcome == Outcome::Interrupted => None,
        Some(Publication::TagOwed { tag, why }) => Some(failure(format!(
            "run {run} is done ({}), and the remote refuses its tag `{tag}`: {why}",
            outcome.words()
        ))
        .hint("its records are published and mark the tag as owed; the next `trueup apply` retries")),
        Some(Publication::Missing { why }) => Some(failure(format!(
            "run {run} is done ({}), and not published: {why}",
            outcome.words()
        ))
        .hint("nothing is lost: its records and its lock wait in this clone, and the next command here that asks the remote publishes them first, such as `trueup log`")),
    }
}
