//! JSON that can be shown on a terminal.
//!
//! Characters that serde_json does not escape though they can drive a terminal or mislead a reader (DEL, the C1
//! controls, direction marks, invisible characters), and one sign of each mark that a pipeline would take
//! for a command, is written as `\u` escapes: the same value for every parser of JSON.

use std::{fmt, io};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::document::{is_command_mark, is_hidden};

/// Writes the value over several lines, with a line break at the end, as it is gone through.
///
/// # Errors
///
/// Those of `out`; or the value cannot be written as JSON (a map whose keys are no texts).
pub fn pretty<T: Serialize>(out: &mut dyn fmt::Write, value: &T) -> fmt::Result {
    write(out, value, Some(PrettyFormatter::new()))?;
    out.write_str("\n")
}

/// The value on one line, without a line break.
///
/// # Errors
///
/// The value cannot be written as JSON (a map whose keys are no texts).
pub fn line<T: Serialize>(value: &T) -> Result<String, fmt::Error> {
    let mut text = String::new();
    write(&mut text, value, None)?;
    Ok(text)
}

/// The value on one line, as it may stand in an element of HTML that holds data: nothing in it ends the element.
///
/// # Errors
///
/// Those of `out`; or the value cannot be written as JSON (a map whose keys are no texts).
pub fn in_html<T: Serialize>(out: &mut dyn fmt::Write, value: &T) -> fmt::Result {
    write(&mut NoMarkup(out), value, None)
}

/// JSON without the signs of markup: they stand in strings only, if each has an escape.
struct NoMarkup<'a>(&'a mut dyn fmt::Write);

impl fmt::Write for NoMarkup<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&']) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "\\u{:04x}", rest.as_bytes()[at])?;
            rest = &rest[at + 1..];
        }
        self.0.write_str(rest)
    }
}

fn write<T: Serialize>(
    out: &mut dyn fmt::Write,
    value: &T,
    pretty: Option<PrettyFormatter<'static>>,
) -> fmt::Result {
    let mut serializer = Serializer::with_formatter(Bytes(out), Safe { pretty });
    value.serialize(&mut serializer).map_err(|_| fmt::Error)
}

/// Bytes on their way to a text. serde_json writes signs, numbers and parts of strings, each of them text.
struct Bytes<'a>(&'a mut dyn fmt::Write);

impl io::Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that adds the escapes to the JSON of another writer.
///
/// Escaped characters stand in JSON inside texts only, so that their place need not be known. A piece continues
/// when a sign has come that is part of nothing that is escaped.
pub struct Escaped<W: io::Write> {
    out: W,
    pending: Vec<u8>,
}

impl<W: io::Write> Escaped<W> {
    /// Escapes what is written to `out`. The last piece has to end in a sign of JSON's own, or a line break.
    pub fn new(out: W) -> Self {
        Self {
            out,
            pending: Vec::new(),
        }
    }
}

impl<W: io::Write> io::Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        let ends = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphabetic() && *byte != b'#';
        if let Some(last) = self.pending.iter().rposition(ends) {
            let piece = std::str::from_utf8(&self.pending[..=last]).map_err(io::Error::other)?;
            escape(&mut self.out, piece)?;
            self.pending.drain(..=last);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a part of a JSON text with what it must not hold as escapes. Line breaks are between values.
fn escape<W: ?Sized + io::Write>(out: &mut W, text: &str) -> io::Result<()> {
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, character) in text.char_indices() {
        let is_break = matches!(character, '\n' | '\t' | '\r');
        if is_break || (!is_hidden(character) && !is_command_mark(bytes, at)) {
            continue;
        }
        out.write_all(&bytes[from..at])?;
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            write!(out, "\\u{unit:04x}")?;
        }
        from = at + character.len_utf8();
    }
    out.write_all(&bytes[from..])
}

struct Safe {
    pretty: Option<PrettyFormatter<'static>>,
}

/// Hands a call on to the pretty formatter, or to `otherwise` where everything is on one line.
macro_rules! layout {
    ($($name:ident($($argument:ident: $kind:ty),*) $otherwise:expr;)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            match &mut self.pretty {
                Some(pretty) => pretty.$name(writer $(, $argument)*),
                None => {
                    let between: fn($($kind),*) -> &'static [u8] = $otherwise;
                    writer.write_all(between($($argument),*))
                }
            }
        })*
    };
}

impl Formatter for Safe {
    layout! {
        begin_array() || b"[";
        end_array() || b"]";
        begin_array_value(first: bool) |first| if first { b"" } else { b"," };
        end_array_value() || b"";
        begin_object() || b"{";
        end_object() || b"}";
        begin_object_key(first: bool) |first| if first { b"" } else { b"," };
        begin_object_value() || b":";
        end_object_value() || b"";
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        escape(writer, fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_another_writer_is_escaped_wherever_it_is_cut() {
        let value = serde_json::json!({"##": ["##[x]\u{ad}y##vso[\u{e0001}", "::a ##"], "b": "\n"});
        let plain = serde_json::to_vec(&value).unwrap();
        for length in 1..plain.len() {
            let mut out = Vec::new();
            let mut escaped = Escaped::new(&mut out);
            for piece in plain.chunks(length) {
                io::Write::write_all(&mut escaped, piece).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            assert!(!text.contains("##[") && !text.contains("##vso[") && text.is_ascii());
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn json_in_a_page_holds_no_markup_and_is_read_back_the_same() {
        let value = serde_json::json!({"a</script>": ["<!--", "&lt;<script>", "x>y"]});
        let mut text = String::new();
        in_html(&mut text, &value).unwrap();
        assert!(!text.contains(['<', '>', '&']), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn what_json_would_let_through_to_a_terminal_is_escaped_and_read_back_the_same() {
        let value = serde_json::json!({"a": ["\u{9b}2J", "\u{202e}x", "\u{1b}"], "b": {}, "c": ["##[x]y\u{ad}"], "ü": "漢"});
        let mut lines = String::new();
        pretty(&mut lines, &value).unwrap();
        for text in [lines, line(&value).unwrap()] {
            assert!(
                !text.trim_end().chars().any(|c| is_hidden(c) && c != '\n'),
                "{text}"
            );
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                value
            );
        }
        assert_eq!(
            line(&value).unwrap(),
            "{\"a\":[\"\\u009b2J\",\"\\u202ex\",\"\\u001b\"],\"b\":{},\"c\":[\"#\\u0023[x]y\\u00ad\"],\"ü\":\"漢\"}"
        );
    }
}
