//! Text from outside, made harmless if it is shown.
//!
//! A document, a commit's first line or an answer of a BMC may hold escape sequences that drive a
//! terminal, direction marks that make a line read as another one, invisible characters, line
//! breaks that forge a line of output, or a command for the pipeline that prints it. None of these reaches
//! a reader as itself.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthStr;

use crate::document::{is_command_mark, is_hidden, leading_command};

/// Text on one line in which control characters, line breaks, invisible characters and marks of commands
/// are shown as escapes.
///
/// Width, alignment and fill of the formatter are honoured.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a>(pub &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !unsafe_characters(self.0).any(|(_, _, is_unsafe)| is_unsafe) {
            return f.pad(self.0);
        }
        f.pad(&visible(self.0))
    }
}

/// The same as [`Visible`], as a string.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for (_, character, is_unsafe) in unsafe_characters(text) {
        push_visible(&mut out, character, is_unsafe);
    }
    out
}

/// Writes each name on a line of its own.
///
/// # Errors
///
/// Only if `out` fails.
pub fn names<'a>(
    out: &mut dyn fmt::Write,
    names: impl IntoIterator<Item = &'a str>,
) -> fmt::Result {
    let mut names = names.into_iter();
    names.try_for_each(|name| writeln!(out, "{}", Visible(name)))
}

/// The characters of a line that begins with this text, each with its byte offset and whether it must not
/// be written as itself: because of what it is, or because a command would be complete with it.
pub(super) fn unsafe_characters(text: &str) -> impl Iterator<Item = (usize, char, bool)> {
    let colon = leading_command(text);
    text.char_indices().map(move |(at, character)| {
        let is_unsafe = is_hidden(character)
            || (character == '#' && is_command_mark(text.as_bytes(), at))
            || (character == ':' && colon == Some(at));
        (at, character, is_unsafe)
    })
}

/// Writes one character, escaped if it is unsafe.
pub(super) fn push_visible(out: &mut String, character: char, is_unsafe: bool) {
    if !is_unsafe {
        out.push(character);
        return;
    }
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        other => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(other));
        }
    }
}

/// How many columns of a terminal a text takes that went through [`visible`].
pub(super) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Text inside an element or an attribute of XML.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for (_, character, is_unsafe) in unsafe_characters(text) {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => push_visible(&mut out, other, is_unsafe),
        }
    }
    out
}

/// A sentence in HTML: what stands between backticks, as names and commands do in messages, is set as code.
pub(crate) fn html_sentence(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    let mut out = String::with_capacity(text.len() + 16);
    for (number, piece) in pieces.iter().enumerate() {
        let is_closed = number + 1 < pieces.len();
        match (number % 2 == 1, is_closed && !piece.is_empty()) {
            (false, _) => out.push_str(&xml(piece)),
            (true, true) => {
                out.push_str("<code>");
                out.push_str(&xml(piece));
                out.push_str("</code>");
            }
            (true, false) => {
                out.push('`');
                out.push_str(&xml(piece));
                out.push_str(if is_closed { "`" } else { "" });
            }
        }
    }
    out
}

/// Text in markdown that is only text: no emphasis, no HTML, no mention, no reference, no link, no cell of a table.
pub(super) fn markdown_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for (_, character, is_unsafe) in unsafe_characters(text) {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            ':' if is_unsafe => out.push_str("&#58;"),
            // A mention, a reference or a link ends at a blank without width.
            '@' | '#' => {
                out.push(character);
                out.push_str("&#8203;");
            }
            '/' if before == ':' => out.push_str("&#8203;/"),
            '.' if before == 'w' => out.push_str("&#8203;."),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '$' => {
                out.push('\\');
                out.push(character);
            }
            other => push_visible(&mut out, other, is_unsafe),
        }
        before = character;
    }
    out
}

/// Text as code inside a line of markdown, whatever backticks it holds.
pub(super) fn markdown_code(text: &str) -> String {
    let text = visible(text).replace('|', "¦");
    let longest = text
        .split(|character| character != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let blank = if longest > 0 || text.is_empty() {
        " "
    } else {
        ""
    };
    format!("{fence}{blank}{text}{blank}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_of_a_sentence_are_code_in_html() {
        let cases = [
            ("`n1` has no record", "<code>n1</code> has no record"),
            (
                "run `trueup log`, `a`",
                "run <code>trueup log</code>, <code>a</code>",
            ),
            ("`<b>` & <i>", "<code>&lt;b&gt;</code> &amp; &lt;i&gt;"),
            ("one ` alone", "one ` alone"),
            ("`` and `open", "`` and `open"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(html_sentence(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_that_drives_a_terminal_or_turns_a_line_round_is_written_as_itself() {
        let table = [
            ("plain ü 漢", "plain ü 漢"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("\u{7f}", "\\u{7f}"),
            ("soft\u{ad}hyphen", "soft\\u{ad}hyphen"),
            ("\u{3164}\u{115f}\u{ffa0}", "\\u{3164}\\u{115f}\\u{ffa0}"),
            ("a ##[set-output name=x]y", "a #\\u{23}[set-output name=x]y"),
            ("##vso[x]", "#\\u{23}vso[x]"),
            ("  ::error::x", "  \\u{3a}:error::x"),
            ("a::b [::1] ## c", "a::b [::1] ## c"),
            ("::1", "::1"),
        ];
        for (text, expected) in table {
            assert_eq!(Visible(text).to_string(), expected);
        }
        assert_eq!(format!("[{:>5}]", Visible("ab")), "[   ab]");
        assert_eq!(
            markdown_text("@all #1 `x` <b> a_b https://x www.x |\u{1b}"),
            "@&#8203;all #&#8203;1 \\`x\\` &lt;b&gt; a\\_b https:&#8203;//x www&#8203;.x \\|\\u{1b}"
        );
        assert_eq!(markdown_code("a``b|c"), "``` a``b¦c ```");
        assert_eq!(markdown_text("::error::x"), "&#58;:error::x");
        assert!(!markdown_text("##[x]").contains("##["));
        assert_eq!(xml("<a b=\"c\">\u{1b}"), "&lt;a b=&quot;c&quot;&gt;\\u{1b}");
        assert_eq!(xml("##[x]"), "#\\u{23}[x]");
    }
}
