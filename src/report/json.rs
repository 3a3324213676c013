//! JSON that can be shown on a terminal.
//!
//! What serde_json leaves as it is though it can drive a terminal or mislead a reader (DEL, the C1
//! controls, direction marks) is written as `\u` escapes: the same value for every parser of JSON.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::escape::is_unsafe;

/// The value over several lines, with a line break at the end.
///
/// # Errors
///
/// The value cannot be written as JSON (a map whose keys are no texts).
pub fn pretty<T: Serialize>(value: &T) -> Result<String, std::fmt::Error> {
    let mut text = write(value, Some(PrettyFormatter::new()))?;
    text.push('\n');
    Ok(text)
}

/// The value on one line, without a line break.
///
/// # Errors
///
/// The value cannot be written as JSON (a map whose keys are no texts).
pub fn line<T: Serialize>(value: &T) -> Result<String, std::fmt::Error> {
    write(value, None)
}

fn write<T: Serialize>(
    value: &T,
    pretty: Option<PrettyFormatter<'static>>,
) -> Result<String, std::fmt::Error> {
    let mut bytes = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, Safe { pretty }))
        .map_err(|_| std::fmt::Error)?;
    String::from_utf8(bytes).map_err(|_| std::fmt::Error)
}

struct Safe {
    pretty: Option<PrettyFormatter<'static>>,
}

/// Hands a call on to the pretty formatter, or to `otherwise` where everything goes on one line.
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
        let mut rest = fragment;
        while let Some((at, character)) = rest.char_indices().find(|(_, each)| is_unsafe(*each)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + character.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_would_let_through_to_a_terminal_is_escaped_and_read_back_the_same() {
        let value = serde_json::json!({"a": ["\u{9b}2J", "\u{202e}x", "\u{1b}"], "b": {}, "c": [], "ü": "漢"});
        for text in [pretty(&value).unwrap(), line(&value).unwrap()] {
            assert!(
                !text.trim_end().chars().any(|c| is_unsafe(c) && c != '\n'),
                "{text}"
            );
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                value
            );
        }
        assert_eq!(
            line(&value).unwrap(),
            "{\"a\":[\"\\u009b2J\",\"\\u202ex\",\"\\u001b\"],\"b\":{},\"c\":[],\"ü\":\"漢\"}"
        );
    }
}
