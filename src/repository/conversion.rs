//! The conversions that git makes by rules of its own when a file is committed, as `convert.c` of git makes them.

use std::borrow::Cow;
use std::sync::Arc;

/// Which line ends become LF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum LineEnds {
    /// None: the bytes are committed as they are.
    #[default]
    Unchanged,
    /// CRLF in a file that is taken for text, unless it is committed with CRLF.
    Guessed,
    /// Every CRLF.
    Text,
}

/// How the bytes of a file are changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Conversion {
    pub(super) line_ends: LineEnds,
    /// Whether `$Id: …$` becomes `$Id$`.
    pub(super) has_keyword: bool,
    /// A program or an encoding that would change it, and that is not applied here.
    pub(super) filter: Option<Arc<str>>,
}

impl Conversion {
    /// A number that differs where files are converted in other ways.
    pub(super) fn code(&self) -> u8 {
        let line_ends = match self.line_ends {
            LineEnds::Unchanged => 0,
            LineEnds::Guessed => 1,
            LineEnds::Text => 2,
        };
        line_ends + 4 * u8::from(self.has_keyword) + 8 * u8::from(self.filter.is_some())
    }
}

/// Whether a line ends with CRLF.
pub(super) fn has_crlf(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\r\n")
}

/// Whether git takes a file for no text, if it must guess.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let (mut printable, mut other) = (0usize, 0usize);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            0 => return true,
            b'\r' if bytes.get(at + 1) != Some(&b'\n') => return true,
            b'\r' | b'\n' => {}
            // What DOS ended files with.
            0x1a if at + 1 == bytes.len() => {}
            0x08 | b'\t' | 0x1b | 0x0c => printable += 1,
            0x7f | 0..0x20 => other += 1,
            _ => printable += 1,
        }
    }
    printable >> 7 < other
}

/// The text with LF for each CRLF.
pub(super) fn with_line_feeds(bytes: Vec<u8>) -> Vec<u8> {
    if !has_crlf(&bytes) {
        return bytes;
    }
    let mut changed = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if !(byte == b'\r' && rest.peek() == Some(&b'\n')) {
            changed.push(byte);
        }
    }
    changed
}

/// The text with `$Id$` for each `$Id: …$` on one line.
pub(super) fn without_keyword(bytes: &[u8]) -> Cow<'_, [u8]> {
    const BEGIN: &[u8] = b"$Id:";
    let mut changed = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(BEGIN.len()).position(|part| part == BEGIN) {
        let (before, keyword) = rest.split_at(at + BEGIN.len());
        let end = keyword.iter().position(|byte| matches!(byte, b'$' | b'\n'));
        let Some(end) = end else { break };
        if keyword[end] == b'$' {
            changed.extend_from_slice(&before[..at]);
            changed.extend_from_slice(b"$Id$");
            rest = &keyword[end + 1..];
        } else {
            changed.extend_from_slice(before);
            rest = keyword;
        }
    }
    if changed.is_empty() {
        return Cow::Borrowed(bytes);
    }
    changed.extend_from_slice(rest);
    Cow::Owned(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_of_text_become_line_feeds_and_binary_files_are_told_as_git_tells_them() {
        assert_eq!(
            with_line_feeds(b"a\r\nb\rc\n\r\n".to_vec()),
            b"a\nb\rc\n\n".to_vec()
        );
        for (bytes, binary) in [
            (&b"a: 1\r\nb: 2\r\n"[..], false),
            (b"\0a\r\n", true),
            (b"a\rb\r\n", true),
            (b"\x01\x02\r\n", true),
            ("größe: 1\r\n".as_bytes(), false),
            (b"a: 1\r\n\x1a", false),
        ] {
            assert_eq!(is_binary(bytes), binary, "{bytes:?}");
        }
    }

    #[test]
    fn a_keyword_is_taken_back_to_its_name() {
        for (text, committed) in [
            ("# $Id: 1a2b $ and $Id: 3 $\n", "# $Id$ and $Id$\n"),
            ("# $Id$\n", "# $Id$\n"),
            ("# $Id: open\n$\n", "# $Id: open\n$\n"),
            ("# $Id: open", "# $Id: open"),
        ] {
            assert_eq!(&*without_keyword(text.as_bytes()), committed.as_bytes());
        }
    }
}
