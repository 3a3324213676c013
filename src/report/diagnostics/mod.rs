//! Problems in documents, as text with the lines shown, and in the formats that pull requests understand.
//!
//! All formats take the list in its order (the caller has sorted it) and the texts that it points
//! into. Lines that hold secrets are never shown: the sources do not give them out.

mod gitlab;
mod machine;
mod snippet;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Place, Sources};

pub use gitlab::codequality;
pub use machine::{FORMAT_VERSION, github, json, junit, sarif};
pub(super) use machine::{Problem, problem};
pub(super) use text::limited;
pub use text::{summary, text};

/// Where a diagnostic is: its place, or at least its file.
fn whereabouts(diagnostic: &Diagnostic, sources: &Sources) -> (Option<Arc<str>>, Option<Place>) {
    match (diagnostic.mark, &diagnostic.path) {
        (Some(mark), _) => {
            let place = sources.place(mark);
            (Some(place.path.clone()), Some(place))
        }
        (None, path) => (path.clone(), None),
    }
}
