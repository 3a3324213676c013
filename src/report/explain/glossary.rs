//! The words of plans, runs and tables. The page of the documentation is the only place of these texts: it is compiled in,
//! and its tables are read here.

use std::fmt::{self, Write};

use serde::Serialize;

use super::{wrapped, written};
use crate::report::{Palette, Role};

const PAGE: &str = include_str!("../../../docs/words.md");

/// A word, as it is described for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WordReference {
    /// The word.
    pub word: String,
    /// The subject that it belongs to.
    pub section: &'static str,
    /// Its meaning.
    pub meaning: String,
    /// Where all words of its kind are listed.
    pub page: &'static str,
}

/// The word that is meant, however it is spelt in a plan or a table: `BLOCKED`, `not started`.
#[must_use]
pub fn word(name: &str) -> Option<WordReference> {
    let name = name.trim().to_lowercase().replace([' ', '_'], "-");
    rows()
        .find(|(word, ..)| *word == name)
        .map(|(word, section, meaning)| WordReference {
            word: word.to_owned(),
            section,
            meaning: meaning.to_owned(),
            page: "docs/words.md",
        })
}

/// All words, in the order of the page.
#[must_use]
pub fn word_names() -> Vec<&'static str> {
    rows().map(|(word, ..)| word).collect()
}

/// Each word with its section and its meaning.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let mut section = "";
    PAGE.lines().filter_map(move |line| {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        let (word, meaning) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((word, section, meaning.trim_end_matches(" |")))
    })
}

/// Writes a word for people.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_word(out: &mut dyn Write, word: &WordReference, palette: Palette) -> fmt::Result {
    let name = palette.paint(Role::Strong, &word.word);
    writeln!(out, "{name}  ({})\n", word.section)?;
    wrapped(out, &word.meaning, "  ")?;
    writeln!(out, "\n{} lists all such words.", word.page)
}

/// Writes a word for programs.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_word_json(out: &mut dyn Write, word: &WordReference) -> fmt::Result {
    written(out, "word", word)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::design::Rung;
    use crate::lifecycle::ProvisionState;
    use crate::plan::ChangeKind;
    use crate::step::StepKind;

    #[test]
    fn each_kind_of_step_each_rung_each_sign_and_each_state_is_a_word_and_no_word_is_there_twice() {
        for kind in StepKind::ALL {
            assert!(word(kind.as_str()).is_some(), "{kind}");
        }
        for rung in Rung::ALL {
            assert_eq!(
                word(rung.as_str()).unwrap().section,
                "How far a change goes"
            );
        }
        for state in ProvisionState::ALL {
            let found = word(state.as_str()).map(|word| word.section);
            assert_eq!(found, Some("States of a machine"), "{}", state.as_str());
        }
        for kind in [
            ChangeKind::Create,
            ChangeKind::Adopt,
            ChangeKind::Record,
            ChangeKind::Redeploy,
            ChangeKind::Destroy,
            ChangeKind::Drift,
            ChangeKind::Operation,
            ChangeKind::Accept,
        ] {
            let found = word(kind.sign()).map(|word| word.section);
            assert_eq!(found, Some("Signs of a plan"), "{kind:?}");
        }
        let names: BTreeSet<&str> = word_names().into_iter().collect();
        assert_eq!(names.len(), rows().count());
        assert!(rows().all(|(_, _, meaning)| !meaning.contains("](")));
    }

    #[test]
    fn a_word_is_found_however_it_is_spelt() {
        assert_eq!(word("BLOCKED"), word("blocked"));
        assert_eq!(word("not started").unwrap().word, "not-started");
        assert_eq!(word("edge-1"), None);
    }
}
