//! A run that is done, and whose end the remote does not have.

use super::{Failure, FailureKind};
use crate::design::RunId;
use crate::record::Outcome;
use crate::run::Publication;

/// The failure of a run whose end is not published. One that was interrupted is to be resumed in any case.
#[must_use]
pub fn unpublished(
    publication: Option<Publication>,
    run: &RunId,
    outcome: Outcome,
) -> Option<Failure> {
    let failure = |text: String| Failure::new(FailureKind::Unpublished, text);
    match publication {
        None | Some(Publication::Whole) => None,
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
