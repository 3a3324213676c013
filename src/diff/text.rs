//! Values as short texts on one line, and texts line by line.
//!
//! A value in a plan or on a terminal must neither break a line nor fill the screen, and no secret is in it.

use std::sync::Arc;

use similar::{ChangeTag, TextDiff};

use crate::document::{
    JsonLayout, Node, REDACTED, Value, write_json, write_json_string, write_yaml,
};

/// The longest text of a value, in characters.
pub const LONGEST_TEXT: usize = 100;

/// How much of what is alike stays in front of the first difference of long texts.
const CONTEXT: usize = 24;

/// Both sides of a difference as they may be shown: on one line each, cut around the first character that
/// differs if they are long.
///
/// If one side is secret, both are.
#[must_use]
pub fn shown(before: Option<&Node>, after: Option<&Node>) -> [Option<Arc<str>>; 2] {
    let is_secret = [before, after]
        .iter()
        .flatten()
        .any(|node| node.is_secret());
    let text = |node: &Node| {
        if is_secret {
            return REDACTED.to_owned();
        }
        line(node)
    };
    let texts = [before.map(text), after.map(text)];
    let start = match &texts {
        [Some(before), Some(after)] => start_of_window(before, after),
        _ => 0,
    };
    texts.map(|text| text.map(|text| Arc::from(window(&text, start))))
}

/// A value on one line: a scalar as YAML writes it, all else as JSON.
fn line(node: &Node) -> String {
    let mut text = String::new();
    match &node.value {
        Value::String(string) if string.contains('\n') => write_json_string(string, &mut text),
        Value::List(_) | Value::Map(_) => write_json(node, false, JsonLayout::Compact, &mut text),
        _ => {
            write_yaml(node, false, &mut text);
            text.truncate(text.trim_end().len());
            if text.contains('\n') {
                text.clear();
                write_json(node, false, JsonLayout::Compact, &mut text);
            }
        }
    }
    text
}

/// From which character on long texts are shown.
fn start_of_window(before: &str, after: &str) -> usize {
    let is_short = |text: &str| text.chars().nth(LONGEST_TEXT).is_none();
    if is_short(before) && is_short(after) {
        return 0;
    }
    let alike = before.chars().zip(after.chars());
    let alike = alike.take_while(|(left, right)| left == right).count();
    alike.saturating_sub(CONTEXT)
}

fn window(text: &str, start: usize) -> String {
    let mut letters = text.chars().skip(start);
    let mut shown = String::new();
    if start > 0 {
        shown.push('…');
    }
    let space = LONGEST_TEXT - usize::from(start > 0);
    shown.extend(letters.by_ref().take(space - 1));
    let rest: String = letters.take(2).collect();
    match rest.chars().count() {
        2 => shown.push('…'),
        _ => shown.push_str(&rest),
    }
    shown
}

/// The most lines, of both sides, in which words are compared.
const MOST_LINES_BY_WORD: usize = 200;

/// Whether a line is on both sides, or on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// On both.
    Same,
    /// Only before.
    Removed,
    /// Only after.
    Added,
}

/// A line of a comparison of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it is.
    pub kind: LineKind,
    /// Its number before, from 1.
    pub before: Option<usize>,
    /// Its number after, from 1.
    pub after: Option<usize>,
    /// Its text without the line break, in parts: those with `true` are what differs from its counterpart.
    pub parts: Vec<(bool, String)>,
}

impl Line {
    fn new<'p>(
        tag: ChangeTag,
        numbers: [Option<usize>; 2],
        parts: impl Iterator<Item = (bool, &'p str)>,
    ) -> Self {
        let [before, after] = numbers.map(|number| number.map(|at| at + 1));
        let parts = parts.map(|(differs, part)| (differs, part.trim_end_matches(['\n', '\r'])));
        Self {
            kind: match tag {
                ChangeTag::Equal => LineKind::Same,
                ChangeTag::Delete => LineKind::Removed,
                ChangeTag::Insert => LineKind::Added,
            },
            before,
            after,
            parts: parts
                .filter(|(_, part)| !part.is_empty())
                .map(|(differs, part)| (differs, part.to_owned()))
                .collect(),
        }
    }
}

/// Compares texts line by line, and, if not too many lines became others, word by word.
///
/// `context` is how many lines that are the same are kept around each difference; the hunks come in order. Texts with
/// secrets must not come here.
#[must_use]
pub fn lines(before: &str, after: &str, context: usize) -> Vec<Vec<Line>> {
    let comparison = TextDiff::from_lines(before, after);
    let mut hunks = Vec::new();
    for group in comparison.grouped_ops(context) {
        let mut hunk = Vec::new();
        for operation in &group {
            let count = operation.old_range().len() + operation.new_range().len();
            if count > MOST_LINES_BY_WORD {
                hunk.extend(comparison.iter_changes(operation).map(|change| {
                    let numbers = [change.old_index(), change.new_index()];
                    let differs = change.tag() != ChangeTag::Equal;
                    Line::new(
                        change.tag(),
                        numbers,
                        std::iter::once((differs, change.value())),
                    )
                }));
                continue;
            }
            // No time limit: the same texts always give the same lines.
            let changes = comparison.iter_inline_changes_deadline(operation, None);
            hunk.extend(changes.map(|change| {
                let numbers = [change.old_index(), change.new_index()];
                let parts = change.values().iter();
                let parts = parts.map(|(differs, part)| (*differs, &**part));
                Line::new(change.tag(), numbers, parts)
            }));
        }
        hunks.push(hunk);
    }
    hunks
}
