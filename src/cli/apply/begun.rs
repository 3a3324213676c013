//! The output about a run that has begun for its workers.

use super::{ApplyCommand, ApplyFormat};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::design::{Digest, RunId};
use crate::report::Visible;

/// Prints that a run has begun.
pub(super) fn begun(
    context: &Context,
    command: &ApplyCommand,
    run: &RunId,
    digest: &Digest,
) -> Result<u8, Failure> {
    print(context, command.format, Some((run, digest)), false)
}

/// Prints that there is nothing to begin a run for.
pub(super) fn nothing_begun(context: &Context, command: &ApplyCommand) -> Result<u8, Failure> {
    print(context, command.format, None, false)
}

/// Prints that a run has begun, now or `before`, or that there is nothing to begin one for.
pub(in crate::cli) fn print(
    context: &Context,
    format: ApplyFormat,
    begun: Option<(&RunId, &Digest)>,
    before: bool,
) -> Result<u8, Failure> {
    let text = match (format, begun) {
        (ApplyFormat::Json, begun) => {
            let json = serde_json::json!({
                "run": begun.map(|(run, _)| run.as_str()),
                "plan_digest": begun.map(|(_, digest)| &**digest),
            });
            format!("{json}\n")
        }
        (ApplyFormat::Text, None) => return Ok(0),
        (ApplyFormat::Text, Some((run, digest))) => {
            let has = if before {
                "had begun before"
            } else {
                "has begun"
            };
            let (run, digest) = (Visible(run.as_str()), Visible(digest));
            format!("Run {run} {has}.\nPlan digest: {digest}\n")
        }
    };
    context.printer.print(&text)?;
    Ok(0)
}
