//! The codes of diagnostics and of findings of the checker, each with its meaning and the way to correct it.
//!
//! The pages of the documentation are the only place of these texts: they are compiled in, and their tables are read here.

use std::fmt::{self, Write};

use serde::Serialize;

use super::{wrapped, written};
use crate::report::{Palette, Role};

/// The pages with tables of codes, and the command that reports a code of each.
const PAGES: [(&str, &str, &str); 2] = [
    (
        "docs/diagnostics.md",
        include_str!("../../../docs/diagnostics.md"),
        "trueup validate",
    ),
    (
        "docs/checker.md",
        include_str!("../../../docs/checker.md"),
        "trueup plan",
    ),
];

/// A code, as its page describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeReference {
    /// The code.
    pub code: &'static str,
    /// The section of the page in which it stands.
    pub section: &'static str,
    /// Why it is reported.
    pub why: String,
    /// The problem.
    pub problem: String,
    /// The correction.
    pub correction: String,
    /// The page.
    pub page: &'static str,
    /// The command that reports it.
    pub reported_by: &'static str,
}

/// All codes, in the order of their pages.
#[must_use]
pub fn codes() -> Vec<CodeReference> {
    PAGES.into_iter().flat_map(of_page).collect()
}

/// The code of this name.
#[must_use]
pub fn code(name: &str) -> Option<CodeReference> {
    codes().into_iter().find(|each| each.code == name)
}

fn of_page(
    (page, text, reported_by): (&'static str, &'static str, &'static str),
) -> Vec<CodeReference> {
    let mut found = Vec::new();
    let (mut section, mut why, mut columns) = ("", String::new(), Vec::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (section, columns) = (title, Vec::new());
            why.clear();
            continue;
        }
        let Some(row) = line.strip_prefix("| ") else {
            if !section.is_empty() && columns.is_empty() && !line.is_empty() {
                why.push_str(if why.is_empty() { "" } else { " " });
                why.push_str(line);
            }
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        if cells.first() == Some(&"code") {
            columns = cells;
            continue;
        }
        let name = cells
            .first()
            .and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
        let (Some(code), Some(problem)) = (name, cells.get(1)) else {
            continue;
        };
        if columns.first() != Some(&"code") {
            continue;
        }
        let own = columns.iter().position(|column| *column == "to correct it");
        let correction = match own.and_then(|column| cells.get(column)) {
            Some(correction) => without_links(correction),
            None => "plan again, from the documents; a saved plan that was altered is not used. Where the finding stays, it is a \
                     bug of trueup: report it with its code"
                .to_owned(),
        };
        found.push(CodeReference {
            code,
            section,
            why: without_links(&why),
            problem: without_links(problem),
            correction,
            page,
            reported_by,
        });
    }
    found
}

/// A text of a page, with each link as its words and the page that it leads to.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (words, target, behind))) = next_link(rest) {
        out.push_str(before);
        out.push_str(words);
        if let Some(page) = target.split('#').next().filter(|page| !page.is_empty()) {
            let _ = write!(out, " (docs/{page})");
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The first link of a text: what is before it; its words, its target and what is behind it.
fn next_link(text: &str) -> Option<(&str, (&str, &str, &str))> {
    let open = text.find('[')?;
    let middle = open + text[open..].find("](")?;
    let end = middle + text[middle..].find(')')?;
    let (words, target) = (&text[open + 1..middle], &text[middle + 2..end]);
    Some((&text[..open], (words, target, &text[end + 1..])))
}

/// Writes a code for people.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_code(out: &mut dyn Write, code: &CodeReference, palette: Palette) -> fmt::Result {
    writeln!(
        out,
        "{}  ({})",
        palette.paint(Role::Strong, code.code),
        code.section
    )?;
    for (title, text) in [
        ("Problem", &code.problem),
        ("Why", &code.why),
        ("To correct it", &code.correction),
    ] {
        if !text.is_empty() {
            writeln!(out, "\n{}", palette.paint(Role::Strong, title))?;
            wrapped(out, text, "  ")?;
        }
    }
    writeln!(
        out,
        "\n`{}` reports it; {} lists all codes.",
        code.reported_by, code.page
    )
}

/// Writes a code for programs.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_code_json(out: &mut dyn Write, code: &CodeReference) -> fmt::Result {
    written(out, "code", code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_pages_is_a_code_with_problem_and_correction() {
        let all = codes();
        for (page, text, _) in PAGES {
            let rows = text.lines().filter(|line| {
                let Some(rest) = line.strip_prefix("| `") else {
                    return false;
                };
                let word = rest.split('`').next().unwrap();
                word.contains('-') && !word.contains(' ')
            });
            let read = all.iter().filter(|code| code.page == page).count();
            assert_eq!(read, rows.count(), "{page}");
            assert!(read > 40, "{page}: {read}");
        }
        for code in &all {
            let name = code.code;
            assert!(!code.section.is_empty() && !code.why.is_empty(), "{name}");
            assert!(
                !code.problem.is_empty() && !code.correction.is_empty(),
                "{name}"
            );
            let texts = [&code.why, &code.problem, &code.correction];
            assert!(texts.iter().all(|text| !text.contains("](")), "{name}");
        }
    }

    #[test]
    fn a_code_is_found_by_its_name_alone() {
        let found = code("yaml-tab").unwrap();
        assert_eq!(found.section, "YAML");
        assert_eq!(found.correction, "indent with spaces");
        assert_eq!(code("yaml-"), None);
        assert!(
            code("check-needs")
                .unwrap()
                .correction
                .contains("plan again")
        );
        let page = "see [The simulator](simulator.md#faults), [that](x.md) and `a[0]`";
        assert_eq!(
            without_links(page),
            "see The simulator (docs/simulator.md), that (docs/x.md) and `a[0]`"
        );
    }
}
