//! Where the mistake is that made the scanner stop, which is often lines before: a bracket that is not closed, a key without
//! its colon.

use saphyr_parser::Event;

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

    /// The innermost bracket that is open at `offset`, where the scanner stopped; it had told of what ends at `told`.
    pub(super) fn bracket(&self, text: &str, told: u32, offset: u32) -> Option<u32> {
        let is_bracket = |at: &u32| matches!(text.as_bytes().get(*at as usize), Some(b'[' | b'{'));
        let mut open: Vec<u32> = self.0.iter().copied().filter(is_bracket).collect();
        for (at, bracket) in brackets(text, told, offset) {
            match bracket {
                b'[' | b'{' => open.push(at),
                _ => {
                    open.pop();
                }
            }
        }
        open.pop()
    }
}

/// Whether the bracket that is open at `offset` is closed further on in the document.
pub(super) fn is_closed_later(text: &str, offset: u32) -> bool {
    let rest = &text[offset as usize..];
    let end = rest.find("\n---").unwrap_or(rest.len()) as u32;
    let mut depth = 0_i64;
    for (_, bracket) in brackets(text, offset, offset + end) {
        depth += match bracket {
            b'[' | b'{' => 1,
            _ => -1,
        };
        if depth < 0 {
            return true;
        }
    }
    false
}

/// The brackets between two offsets that are in no quotes and in no comment.
fn brackets(text: &str, from: u32, to: u32) -> impl Iterator<Item = (u32, u8)> {
    let bytes = text.as_bytes();
    let to = (to as usize).min(bytes.len());
    let mut at = from as usize;
    std::iter::from_fn(move || {
        while at < to {
            let (here, byte) = (at, bytes[at]);
            let before = here.checked_sub(1).map_or(b'\n', |before| bytes[before]);
            at += 1;
            match byte {
                b'[' | b']' | b'{' | b'}' => return Some((here as u32, byte)),
                b'#' if before.is_ascii_whitespace() => at = behind(bytes, at, to, b'\n'),
                b'"' | b'\'' if before.is_ascii_whitespace() || b"[{,:".contains(&before) => {
                    at = behind(bytes, at, to, byte);
                }
                _ => {}
            }
        }
        None
    })
}

/// The offset behind the next `end`; one behind a backslash does not count in double quotes.
fn behind(bytes: &[u8], from: usize, to: usize, end: u8) -> usize {
    let mut at = from;
    while at < to && bytes[at] != end {
        at += if end == b'"' && bytes[at] == b'\\' {
            2
        } else {
            1
        };
    }
    (at + 1).min(to)
}

/// A line that should have been a key with its value.
pub(super) struct NoKey {
    /// Where its text begins.
    pub(super) at: u32,
    /// Whether it has a colon, and no space after it.
    pub(super) has_colon: bool,
}

/// The line whose colon is missing, if the scanner stopped at `offset`: at the colon of the key after it, or before that key.
pub(super) fn line_without_colon(text: &str, offset: u32) -> Option<NoKey> {
    let at = (offset as usize).min(text.len());
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let key = text[line..at].trim();
    if key.contains(char::is_whitespace) || key.starts_with(['"', '\'', '[', '{', '&', '*', '-']) {
        return None;
    }
    let before = text[..line].trim_end();
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let content = before[begin..].trim_start();
    let is_other =
        content.starts_with(['#', '-', '?', '|', '>', '"', '\'', '[', '{', '&', '*', '!']);
    if content.is_empty() || is_other || content.contains(": ") || content.ends_with(':') {
        return None;
    }
    Some(NoKey {
        at: (before.len() - content.len()) as u32,
        has_colon: content.contains(':'),
    })
}
