//! Problems found in documents: what, where, why and the way out.
//!
//! A problem in a document is a value, not an error: every stage of validation reports all that it
//! finds, and the list is sorted by place before it is shown. Positions travel as [`Mark`]s
//! (a source and an offset); line, column and the lines themselves are looked up in [`Sources`]
//! only when something is printed.

mod chain;
mod credential;
mod shell;
mod sources;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use chain::{chain, json_problem, without_code};
pub use credential::{has_password, is_credential, without_credentials};
pub use shell::in_shell;
pub use sources::{Mark, Place, SourceId, SourceLine, Sources};

/// `1 error`, `2 errors`: a number and its noun.
#[must_use]
pub fn counted(number: usize, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{number} {noun}")
}

/// `a`, `b` and 7 more.
pub fn some_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 10;
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.take(SHOWN).map(|name| format!("`{name}`")).collect();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Digits of a commit's id or a digest that tell it from all others for people.
const SHORT: usize = 12;

/// The beginning of a commit's id or a digest, for people.
#[must_use]
pub fn short_id(id: &str) -> &str {
    id.char_indices()
        .nth(SHORT)
        .map_or(id, |(end, _)| &id[..end])
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The documents cannot be used.
    Error,
    /// The documents can be used, but should be checked.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// The stable name of a kind of problem, such as `yaml-duplicate-key`.
///
/// Codes are lower-case words joined by hyphens, the first word being the stage that reports them
/// (`yaml`, `envelope`, `schema`, `render`, `reference`, `rule`). They never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Code(pub &'static str);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A second place that belongs to a problem, such as the first of two equal keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Related {
    /// Where.
    pub mark: Mark,
    /// The label, as a short phrase (`first defined here`).
    pub message: String,
}

/// One problem in the documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// The stable code of this kind of problem.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// Its place; `None` if the problem belongs to no line (a missing file).
    pub mark: Option<Mark>,
    /// The file it is about, if there is no mark (path in the repository).
    pub path: Option<Arc<str>>,
    /// The problem: one sentence, no trailing period, names and paths in backticks.
    pub message: String,
    /// The way out, if there is one (`did you mean …`).
    pub hint: Option<String>,
    /// Other places that belong to it.
    pub related: Vec<Related>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(code: &'static str, mark: Mark, message: impl Into<String>) -> Self {
        Self {
            code: Code(code),
            severity: Severity::Error,
            mark: Some(mark),
            path: None,
            message: message.into(),
            hint: None,
            related: Vec::new(),
        }
    }

    /// A warning at a place.
    pub fn warning(code: &'static str, mark: Mark, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, mark, message)
        }
    }

    /// An error about a whole file, or about no file at all.
    pub fn error_in(code: &'static str, path: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            code: Code(code),
            severity: Severity::Error,
            mark: None,
            path: path.map(Arc::from),
            message: message.into(),
            hint: None,
            related: Vec::new(),
        }
    }

    /// A warning about a whole file, or about no file at all.
    pub fn warning_in(code: &'static str, path: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error_in(code, path, message)
        }
    }

    /// Whether it names a document that is missing: those that are there are each as they are to be.
    #[must_use]
    pub fn is_of_references(&self) -> bool {
        self.code.0.starts_with("reference-")
    }

    /// Whether it is a warning of one of these codes.
    #[must_use]
    pub fn is_silenced_by(&self, codes: &BTreeSet<Arc<str>>) -> bool {
        self.severity == Severity::Warning && codes.contains(self.code.0)
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint<'a>(mut self, hint: impl Into<Cow<'a, str>>) -> Self {
        self.hint = Some(hint.into().into_owned());
        self
    }

    /// Makes it a warning.
    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Adds `did you mean` if one of `candidates` is near to `wrong`.
    #[must_use]
    pub fn did_you_mean<'a>(
        self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        match nearest(wrong, candidates) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// Adds another place that belongs to it.
    #[must_use]
    pub fn related(mut self, mark: Mark, message: impl Into<String>) -> Self {
        self.related.push(Related {
            mark,
            message: message.into(),
        });
        self
    }
}

/// The candidate that a person who wrote `wrong` most likely meant, if any is near enough, or the only one that has it as one
/// of its words (`windows`: `maintenance_windows`).
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let others = candidates
        .into_iter()
        .filter(|candidate| *candidate != wrong);
    let others: Vec<&str> = others.collect();
    let likeness = others
        .iter()
        .map(|candidate| (strsim::jaro_winkler(wrong, candidate), *candidate));
    let near = likeness
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, left), (b, right)| a.total_cmp(b).then_with(|| right.cmp(left)))
        .map(|(_, candidate)| candidate);
    near.or_else(|| {
        let mut with_it = others
            .into_iter()
            .filter(|candidate| candidate.split(['_', '-']).any(|word| word == wrong));
        with_it.next().filter(|_| with_it.next().is_none())
    })
}

/// A list of problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds all of another list.
    pub fn extend(&mut self, other: impl IntoIterator<Item = Diagnostic>) {
        self.list.extend(other);
    }

    /// Drops the warnings of some codes.
    pub fn silence(&mut self, codes: &BTreeSet<Arc<str>>) {
        self.list.retain(|each| !each.is_silenced_by(codes));
    }

    /// Whether there is no problem at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether at least one is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// How many errors and how many warnings there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let errors = self
            .list
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .count();
        (errors, self.list.len() - errors)
    }

    /// All of them, in the order of the list.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Sorts by path, offset, code and message, and drops repetitions.
    pub fn sort(&mut self, sources: &Sources) {
        let place = |diagnostic: &Diagnostic| {
            let path = match (&diagnostic.mark, &diagnostic.path) {
                (Some(mark), _) => sources.path(mark.source),
                (None, Some(path)) => path.clone(),
                (None, None) => Arc::from(""),
            };
            let offset = diagnostic.mark.map_or(0, |mark| mark.offset);
            (path, offset)
        };
        self.list.sort_by_cached_key(|diagnostic| {
            (
                place(diagnostic),
                diagnostic.code,
                diagnostic.message.clone(),
                diagnostic.severity,
            )
        });
        // A file that was read twice has its problems twice.
        self.list.dedup_by(|later, first| {
            (later.code, later.severity, &later.message)
                == (first.code, first.severity, &first.message)
                && place(later) == place(first)
        });
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<T: IntoIterator<Item = Diagnostic>>(iter: T) -> Self {
        Self {
            list: iter.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_candidate_is_suggested_and_a_far_one_is_not() {
        assert_eq!(
            nearest("hardware_profle", ["host_profile", "hardware_profile"]),
            Some("hardware_profile")
        );
        assert_eq!(nearest("zebra", ["host_profile", "rack"]), None);
    }

    #[test]
    fn a_list_sorts_by_path_and_offset_and_drops_repetitions() {
        let mut sources = Sources::new();
        let b = sources.add("b.yaml", "x\ny\n");
        let a = sources.add("a.yaml", "x\n");
        let late = Diagnostic::error("yaml-x", Mark::new(b, 2), "late");
        let early = Diagnostic::error("yaml-x", Mark::new(b, 0), "early");
        let first = Diagnostic::warning("yaml-x", Mark::new(a, 0), "first");
        let mut list: Diagnostics = [late.clone(), early.clone(), first.clone(), late.clone()]
            .into_iter()
            .collect();
        list.sort(&sources);
        assert_eq!(
            list.into_iter().collect::<Vec<_>>(),
            vec![first, early, late]
        );
    }
}
