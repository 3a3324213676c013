//! Which problems only follow from others: what refers to something that could not be read.
//!
//! A name that is missing may be in a file that is broken, or be that of a document that an earlier
//! stage left out; then it is no mistake of its own, and should not be reported, since it goes once the file
//! is repaired. Any other missing name is, and is reported beside the broken files.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics, Mark, Severity, SourceId, Sources};
use crate::document::Document;

/// Warnings of what no document has, which are judged once every document counts.
const JUDGE_THE_WHOLE: [&str; 11] = [
    "rule-address-range",
    "rule-boot-action",
    "rule-hardware-unused",
    "rule-ignored-path",
    "rule-minimum-unreachable",
    "rule-node-without-group",
    "rule-open-field",
    "rule-selector-empty",
    "rule-selector-unknown",
    "rule-selector-unknown-node",
    "rule-simulated-nobody",
];

/// The names that could not be read.
pub(super) struct Lost {
    broken: BTreeSet<SourceId>,
    /// Whether a file could not even be decoded, so that anything may have been in it.
    is_unknown: bool,
}

impl Lost {
    /// The lost names by the errors among the problems of reading.
    pub(super) fn of(diagnostics: &Diagnostics) -> Self {
        let errors = || {
            diagnostics
                .iter()
                .filter(|each| each.severity == Severity::Error)
        };
        Self {
            broken: errors()
                .filter_map(|each| each.mark.map(|mark| mark.source))
                .collect(),
            is_unknown: errors().any(|each| each.mark.is_none()),
        }
    }

    /// The problems that a stage found without those that may only follow from others: what no document at all
    /// has, and names that are missing, and that are those of a document which was read (and then left out), or a word
    /// of a broken file.
    pub(super) fn own(
        &self,
        found: Diagnostics,
        documents: &[Arc<Document>],
        sources: &Sources,
    ) -> Diagnostics {
        let is_kept = |each: &Diagnostic| {
            let is_missing = self.is_unknown && is_missing_name(each);
            !is_missing && !JUDGE_THE_WHOLE.contains(&each.code.0)
        };
        let found: Diagnostics = found.into_iter().filter(is_kept).collect();
        if self.is_unknown {
            return found;
        }
        if !found.iter().any(is_missing_name) {
            return found;
        }
        let mut names: HashSet<Arc<str>> = documents
            .iter()
            .map(|document| document.id.name.clone())
            .collect();
        // A word that is itself such a name, where it was found missing, explains nothing.
        let missing: HashSet<Mark> = found
            .iter()
            .filter(|problem| is_missing_name(problem))
            .filter_map(|problem| Some(name_at(problem.mark?, sources)?.0))
            .collect();
        for source in &self.broken {
            let text = sources.text(*source);
            let mut offset = 0;
            for word in text.split_inclusive(ends_name) {
                let name = word.trim_end_matches(ends_name);
                if !name.is_empty() && !missing.contains(&Mark::new(*source, offset)) {
                    names.insert(Arc::from(name));
                }
                offset += word.len() as u32;
            }
        }
        // What is no plain name where the problem was found (a path, a selector) may always be explained.
        let is_explained = |problem: &Diagnostic| {
            let name = problem.mark.and_then(|mark| name_at(mark, sources));
            name.is_none_or(|(_, name)| names.contains(&*name))
        };
        found
            .into_iter()
            .filter(|problem| !(is_missing_name(problem) && is_explained(problem)))
            .collect()
    }
}

/// Whether a problem is a name that nothing has.
fn is_missing_name(problem: &Diagnostic) -> bool {
    let code = problem.code.0;
    matches!(code, "render-source-missing" | "render-parent-missing")
        || code.starts_with("reference-")
}

fn ends_name(character: char) -> bool {
    !(character.is_alphanumeric() || matches!(character, '-' | '_' | '.'))
}

/// The plain name written at a mark, and where it begins.
fn name_at(mark: Mark, sources: &Sources) -> Option<(Mark, String)> {
    let text = sources.text(mark.source);
    let rest = text.get(mark.offset as usize..)?;
    let bare = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
    let name = &bare[..bare.find(ends_name).unwrap_or(bare.len())];
    let start = mark.offset + (rest.len() - bare.len()) as u32;
    name.starts_with(char::is_alphanumeric)
        .then(|| (Mark::new(mark.source, start), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_broken_file_holds_is_explained_by_it_and_another_is_not() {
        let mut sources = Sources::new();
        let broken = sources.add("broken.yaml", "name: lost\n\tname: x\nuses: \"own\"\n");
        let sound = sources.add("sound.yaml", "a: lost\nb: \"gone\"\nc: .path\nd: {e: 1}\n");
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(Diagnostic::error(
            "yaml-tab",
            Mark::new(broken, 11),
            "a tab",
        ));
        let found = |code| -> Diagnostics {
            let problem = |offset| Diagnostic::error(code, Mark::new(sound, offset), "missing");
            [3, 11, 21, 30].into_iter().map(problem).collect()
        };
        let own = |diagnostics: &Diagnostics, code| -> Vec<u32> {
            let own = Lost::of(diagnostics).own(found(code), &[], &sources);
            let marks = own.iter().filter_map(|problem| problem.mark);
            marks.map(|mark| mark.offset).collect()
        };
        assert_eq!(own(&diagnostics, "reference-node"), [11]);
        assert_eq!(own(&diagnostics, "schema-type"), [3, 11, 21, 30]);
        assert!(own(&diagnostics, "rule-selector-unknown").is_empty());
        let itself = Diagnostic::error("reference-node", Mark::new(broken, 26), "missing");
        let left = Lost::of(&diagnostics).own([itself].into_iter().collect(), &[], &sources);
        assert!(left.has_errors(), "a name does not explain itself");
        diagnostics.push(Diagnostic::error_in(
            "yaml-binary",
            Some("b.yaml"),
            "no text",
        ));
        assert!(own(&diagnostics, "reference-node").is_empty());
    }
}
