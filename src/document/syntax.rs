//! Complaints of the YAML scanner, in words that help to repair the document.

use super::Limits;
use super::build::{too_deep, unknown_alias};
use super::unclosed::{NoKey, is_closed_later, line_without_colon};
use crate::diagnostic::{Diagnostic, Mark, SourceId};

/// Part of the scanner's message, what to say instead, and the way out.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "illegal placement of ':'",
        "`:` stands where no key can be",
        "a text that holds `: ` needs quotes; otherwise a bracket before it is not closed",
    ),
    (
        "mapping values are not allowed",
        "`:` stands where no key can be",
        "a text that holds `: ` needs quotes; otherwise check the indentation of this line",
    ),
    (
        "simple key expect",
        "a key without `:` after it",
        "write `key: value`; a longer text under a key must be indented further than the key",
    ),
    (
        "did not find expected key",
        "this is no key of the map around it",
        "check the indentation; a value that begins with a quote must end with it",
    ),
    (
        "did not find expected '-' indicator",
        "this is no entry of the list around it",
        "each entry begins with `- ` in the same column",
    ),
    (
        "found unexpected end of stream",
        "a quoted text that begins here does not end",
        "close the quote",
    ),
    (
        "found unexpected document indicator",
        "a quoted text that begins here does not end before the next document",
        "close the quote",
    ),
    (
        "in quoted scalar",
        "a quoted text that begins here does not end",
        "close the quote",
    ),
    (
        "after double-quoted scalar",
        "a quoted text ends before this, and more follows",
        "a quote before it is not closed, or the text holds one: put it in the other kind of quotes",
    ),
    (
        "scanning an anchor or alias",
        "a text cannot begin with `*` or `&`",
        "put the text in quotes",
    ),
    (
        "expected ',' or ']'",
        "a list in brackets is not continued or closed",
        "separate its entries by `,` and close it with `]`",
    ),
    (
        "expected ',' or '}'",
        "a map in braces is not continued or closed",
        "separate its fields by `,` and close it with `}`; a template such as `{{ x }}` needs quotes",
    ),
    (
        "misplaced bracket",
        "a bracket is closed that was not opened",
        "remove it, or put the text in quotes",
    ),
    (
        "unexpected character",
        "no text can begin with this character",
        "put the text in quotes",
    ),
    (
        "unknown escape character",
        "a text in double quotes has a `\\` escape that does not exist",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        "did not find expected <document start>",
        "a second value follows the end of the document",
        "begin a new document with `---`, or indent this line",
    ),
    (
        "invalid indentation",
        "this line is indented less than the block that it belongs to",
        "indent it further",
    ),
    (
        "wrongly indented line in block scalar",
        "this line is indented less than the first line of the text block",
        "indent all lines of the block alike",
    ),
    (
        "comment intercepting the multiline text",
        "a comment interrupts a text of several lines",
        "put the comment before the text",
    ),
    (
        "the handle wasn't declared",
        "a tag has a prefix that no %TAG line declares",
        "remove the tag",
    ),
];

/// The complaints of the scanner at the key after a line that has no colon.
const MISSING_COLON: [&str; 2] = ["mapping values are not allowed", "simple key expect"];

/// The scanner's complaint as a diagnostic; `offset` is where it was raised, and `bracket` the one that is open there.
pub(super) fn explain(
    source: SourceId,
    text: &str,
    offset: u32,
    info: &str,
    bracket: Option<u32>,
    limits: &Limits,
) -> Diagnostic {
    let mark = Mark::new(source, offset);
    if info.contains("recursion limit") {
        return too_deep(limits, mark);
    }
    if info.contains("unknown anchor") {
        return unknown_alias(mark);
    }
    if let Some(tab) = tab_in_indentation(text, offset, info.contains("tab")) {
        let message = "a tab stands in the indentation";
        return Diagnostic::error("yaml-tab", Mark::new(source, tab), message)
            .hint("indent with spaces; YAML does not allow tabs there");
    }
    if let Some(conflict) = conflict(text) {
        let message = "a conflict of a merge that was not resolved begins here";
        return Diagnostic::error("yaml-syntax", Mark::new(source, conflict), message)
            .hint("keep what is meant of both sides, and remove the lines of `<<<<<<<`, `=======` and `>>>>>>>`");
    }
    let bracket = bracket.filter(|_| !info.contains("quoted scalar"));
    if let Some(bracket) = bracket
        && text
            .get(bracket as usize..offset as usize)
            .is_some_and(|between| between.contains('\n'))
        && !is_closed_later(text, offset)
    {
        return unclosed(source, text, bracket);
    }
    if MISSING_COLON.iter().any(|part| info.contains(part))
        && bracket.is_none()
        && let Some(line) = line_without_colon(text, offset)
    {
        return no_key(source, &line);
    }
    if info.contains("did not find expected key")
        && let Some(entry) = entry_on_line(text, offset)
    {
        let message = "an entry of a list stands where no list is";
        return Diagnostic::error("yaml-syntax", Mark::new(source, entry), message)
            .hint("indent it like the entries before it");
    }
    let problem = match WORDS.iter().find(|(part, _, _)| info.contains(part)) {
        Some((_, message, hint)) => Diagnostic::error("yaml-syntax", mark, *message).hint(*hint),
        None => Diagnostic::error("yaml-syntax", mark, info),
    };
    match bracket {
        Some(bracket) => problem.related(Mark::new(source, bracket), "opened here"),
        None => problem,
    }
}

/// A bracket that is never closed, which is the mistake, and not the line at which it is noticed.
fn unclosed(source: SourceId, text: &str, bracket: u32) -> Diagnostic {
    let (message, hint) = match text.as_bytes().get(bracket as usize) {
        Some(b'[') => (
            "a list in brackets that begins here is not closed",
            "close it with `]`",
        ),
        _ => (
            "a map in braces that begins here is not closed",
            "close it with `}`",
        ),
    };
    Diagnostic::error("yaml-syntax", Mark::new(source, bracket), message).hint(hint)
}

/// A line without its colon, or without a space after it, which is taken for a text.
fn no_key(source: SourceId, line: &NoKey) -> Diagnostic {
    let (message, hint) = match line.has_colon {
        true => (
            "a `:` without a space after it makes no key",
            "write `key: value`",
        ),
        false => (
            "a key without `:` after it",
            "write `key: value`; a longer text under a key must be indented further than the key",
        ),
    };
    Diagnostic::error("yaml-syntax", Mark::new(source, line.at), message).hint(hint)
}

/// The `- ` that the line at `offset` begins with.
fn entry_on_line(text: &str, offset: u32) -> Option<u32> {
    let at = (offset as usize).min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let content = text[start..].trim_start_matches(' ');
    let is_entry = content.starts_with("- ") || content.starts_with("-\n");
    is_entry.then_some((text.len() - content.len()) as u32)
}

/// Where git left the first conflict of a merge.
fn conflict(text: &str) -> Option<u32> {
    const MARK: &str = "<<<<<<< ";
    let at = match text.starts_with(MARK) {
        true => 0,
        false => text.find(&format!("\n{MARK}"))? + 1,
    };
    u32::try_from(at).ok()
}

/// A tab before the first other character of the line at `offset`, or, when the scanner spoke of a
/// tab, of the next line that has one.
fn tab_in_indentation(text: &str, offset: u32, spoken_of: bool) -> Option<u32> {
    let at = (offset as usize).min(text.len());
    let mut start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    for line in text[start..].split_inclusive('\n') {
        let content = line.trim_start_matches([' ', '\t']);
        let indentation = &line[..line.len() - content.len()];
        if let Some(tab) = indentation.find('\t')
            && !content.trim_end().is_empty()
        {
            return Some((start + tab) as u32);
        }
        if !spoken_of {
            break;
        }
        start += line.len();
    }
    None
}
