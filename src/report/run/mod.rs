//! The events of a running run, its end, and the history of runs.
//!
//! A [`Reporter`] receives each event before its effect. [`Lines`] and [`JsonLines`] write
//! one line an event, [`Progress`] keeps a terminal up to date. The tables ([`log`], [`nodes`], [`status`])
//! take rows from the caller.

mod cleaning;
mod ending;
mod event;
mod files;
mod log;
mod nodes;
mod progress;
mod reporter;
mod status;
#[cfg(test)]
pub(super) mod tests;

pub use cleaning::{CleanStepsRow, clean_steps, clean_steps_json};
pub use ending::report;
pub(super) use ending::undrained_words;
pub use event::line;
pub use files::{report_junit, report_markdown, show_markdown};
pub(super) use log::signature_words;
pub use log::{
    NodeRun, RunRow, log, log_json, node_history, node_history_json, requested, show, show_json,
};
pub use nodes::{NodeRow, node_rows, nodes, nodes_json};
pub use progress::Progress;
pub use reporter::{JsonLines, Lines, Reporter};
pub use status::{StatusRow, differences, status, status_json};

use crate::record::Outcome;

use super::Role;

/// The version of the JSON objects that are written here, events included.
pub const FORMAT_VERSION: u32 = 1;

/// How an outcome is painted.
fn role(outcome: Outcome) -> Role {
    match outcome {
        Outcome::Succeeded => Role::Success,
        Outcome::Failed | Outcome::Abandoned => Role::Error,
        Outcome::SucceededWithFailures | Outcome::Interrupted | Outcome::Running => Role::Warning,
    }
}

/// Milliseconds as people read them: `0.4 s`, `12 s`, `2 h 10 min`.
fn milliseconds(milliseconds: u64) -> String {
    if milliseconds < 10_000 {
        format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100)
    } else {
        super::plan::duration(milliseconds / 1_000)
    }
}
