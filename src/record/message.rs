//! The messages of the commits of records.

use crate::repository::BRANCHES;

/// Keeps a forge from starting a pipeline for a commit of a branch.
const NO_PIPELINE: &str = "[skip ci]";

/// The message of a commit that a ref holds.
pub(super) fn message_in(name: &str, text: &str) -> String {
    match name.starts_with(BRANCHES) {
        true => format!("{text}\n\n{NO_PIPELINE}"),
        false => text.to_owned(),
    }
}

/// The text of such a message.
pub(super) fn text_of(message: &str) -> &str {
    let text = message.strip_suffix(NO_PIPELINE);
    let text = text.and_then(|text| text.strip_suffix("\n\n"));
    text.unwrap_or(message)
}
