//! The plan as a person reads it, as a comment of a pull request, and as pictures of its graph.
//!
//! Steps that destroy data or take a machine away are in every format, with their count, and are never folded out
//! of sight. Changes that are alike are shown once: `outline` gathers them, all formats share it.

mod fold;
mod forecast;
mod gitlab;
mod graph;
mod html;
mod markdown;
mod outline;
mod parts;
mod rehearsal;
mod steps;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod verdicts;
mod way_back;
pub(super) mod words;

pub use gitlab::gitlab;
pub use graph::{dot, mermaid};
pub use html::{RunPage, html};
pub use markdown::{Comment, DEFAULT_MAX_BYTES, markdown, marker};
pub(in crate::report) use parts::{few, nodes};
pub use parts::{parts, parts_json};
pub use rehearsal::write as rehearsal;
pub use summary::{scope, summary};
pub(in crate::report) use text::change;
pub use text::{approvals, text};
pub use verdicts::{verdicts, verdicts_json};
pub use way_back::way_back;

use crate::report::Palette;

/// How much is shown, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// With which colours.
    pub palette: Palette,
    /// Every node and field, nothing folded.
    pub full: bool,
    /// Every step.
    pub steps: bool,
}

pub(crate) use words::rounded;
pub(super) use words::{about, at_most, duration};
