//! The pods that a drain left on its node, as `--on-drain-timeout continue` allows it: a note of its step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The note begins with it.
const NOTE: &str = "pods left: ";

/// Pods that are named; a node of a cluster as Kubernetes supports it runs no more than 110.
const MOST_NAMED: usize = 200;

/// Pods that a drain left on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPods {
    /// How many.
    pub count: usize,
    /// The first of them, as `NAMESPACE/NAME`, sorted.
    pub names: Vec<Arc<str>>,
}

impl LeftPods {
    /// These pods, in any order.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        names.sort_unstable();
        let count = names.len();
        names.truncate(MOST_NAMED);
        Self { count, names }
    }

    /// The note of the step.
    #[must_use]
    pub fn to_note(&self) -> String {
        // Numbers and texts, which can always be written.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{NOTE}{json}")
    }

    /// Reads a note; `None` if it is about something else.
    #[must_use]
    pub fn of_note(note: &str) -> Option<Self> {
        serde_json::from_str(note.strip_prefix(NOTE)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_keeps_the_number_of_pods_and_the_first_names() {
        let few = LeftPods::new(["web/b".to_owned(), "db/a".to_owned()]);
        assert_eq!((few.count, &*few.names[0]), (2, "db/a"));
        assert_eq!(LeftPods::of_note(&few.to_note()), Some(few));
        let many = LeftPods::new((0..1000).map(|number| format!("web/{number}")));
        assert_eq!((many.count, many.names.len()), (1000, MOST_NAMED));
        for other in ["", "pods left: ", "pods left: 7", "{\"count\":1}"] {
            assert_eq!(LeftPods::of_note(other), None, "{other}");
        }
    }
}
