//! Complaints of the YAML scanner, in words that help to repair the document.

use saphyr_parser::Event;

use super::Limits;
use super::build::{too_deep, unknown_alias};
use crate::diagnostic::{Diagnostic, Mark, SourceId};

/// Part of the scanner's message, what to say instead, and the way out.
const WORDS: &[(&str, &str, &str)] = &[
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

/// The scanner's complaint as a diagnostic; `offset` is where it was raised.
pub(super) fn explain(
    source: SourceId,
    text: &str,
    offset: u32,
    info: &str,
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
    match WORDS.iter().find(|(part, _, _)| info.contains(part)) {
        Some((_, message, hint)) => Diagnostic::error("yaml-syntax", mark, *message).hint(*hint),
        None => Diagnostic::error("yaml-syntax", mark, info),
    }
}

/// The lists and maps that have begun and not ended if the scanner is.
#[derive(Debug, Default)]
pub(super) struct Opened(Vec<u32>);

impl Opened {
    /// Takes in an event that begins at `offset`.
    pub(super) fn see(&mut self, event: &Event<'_>, offset: u32) {
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => self.0.push(offset),
            Event::SequenceEnd | Event::MappingEnd => {
                self.0.pop();
            }
            _ => {}
        }
    }

    /// The problem at which the scanner stopped, with the bracket that is still open: often it is the
    /// one that should have been closed long before.
    pub(super) fn beside(&self, problem: Diagnostic, source: SourceId, text: &str) -> Diagnostic {
        let is_bracket =
            |at: &&u32| matches!(text.as_bytes().get(**at as usize), Some(b'[' | b'{'));
        match self.0.iter().rev().find(is_bracket) {
            Some(bracket) => problem.related(Mark::new(source, *bracket), "opened here"),
            None => problem,
        }
    }
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
