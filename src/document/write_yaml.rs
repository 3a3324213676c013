//! Values to YAML, in the style a person would write.
//!
//! Block style, two spaces, keys in their order. A string is plain only if PyYAML (YAML 1.1) and
//! YAML 1.2's core schema both read the same string back; several lines become a literal block where
//! that is exact, and everything else is quoted. A text that would make a line a command of the pipeline
//! that prints it is in double quotes, with one sign of the command escaped. Numbers, booleans, nulls and dates are written in
//! the form that PyYAML reads back to the same value. Nothing recurses.

use std::fmt::Write as _;

use super::hidden::{has_command_mark, is_command_mark, is_hidden, leading_command};
use super::positions::{is_old_line_break, is_printable};
use super::{Entries, Key, KeyKind, Node, REDACTED, Value, python_float, scalar};

/// Longest key that YAML allows without `?` before it, less what the quotes may add.
const SIMPLE_KEY: usize = 1000;

const SPACES: &str = "                                                                ";

enum Open<'n> {
    Map(Entries<'n>),
    List(std::slice::Iter<'n, Node>),
}

/// Appends a value as a YAML document (without `---`), ended by a line break.
///
/// Secrets are written as [`REDACTED`] unless `show_secrets`.
pub fn write_yaml(node: &Node, show_secrets: bool, out: &mut String) {
    let mut open: Vec<Open<'_>> = Vec::new();
    // Whether the next entry continues the line of the `-` before it.
    let mut on_dash_line = true;
    match opened(node, show_secrets) {
        Some(collection) => open.push(collection),
        None => {
            write_leaf(node, show_secrets, 0, out);
            out.push('\n');
        }
    }
    while let Some(top) = open.len().checked_sub(1) {
        let indent = 2 * top;
        let (value, in_list) = match &mut open[top] {
            Open::Map(fields) => match fields.next() {
                Some((key, field)) => {
                    start_line(&mut on_dash_line, indent, out);
                    write_key(key, indent, out);
                    (&field.node, false)
                }
                None => {
                    open.pop();
                    continue;
                }
            },
            Open::List(items) => match items.next() {
                Some(item) => {
                    start_line(&mut on_dash_line, indent, out);
                    out.push('-');
                    (item, true)
                }
                None => {
                    open.pop();
                    continue;
                }
            },
        };
        match opened(value, show_secrets) {
            Some(collection) => {
                out.push(if in_list { ' ' } else { '\n' });
                on_dash_line = in_list;
                // A dash and its blank are as wide as a level.
                open.push(collection);
            }
            None => {
                out.push(' ');
                write_leaf(value, show_secrets, indent, out);
                out.push('\n');
            }
        }
    }
}

fn start_line(on_dash_line: &mut bool, indent: usize, out: &mut String) {
    if !std::mem::take(on_dash_line) {
        push_spaces(indent, out);
    }
}

fn push_spaces(mut count: usize, out: &mut String) {
    while count > SPACES.len() {
        out.push_str(SPACES);
        count -= SPACES.len();
    }
    out.push_str(&SPACES[..count]);
}

/// The entries of a list or map that has any and is no secret.
fn opened(node: &Node, show_secrets: bool) -> Option<Open<'_>> {
    match &node.value {
        _ if node.is_secret() && !show_secrets => None,
        Value::Map(map) if !map.is_empty() => Some(Open::Map(map.iter())),
        Value::List(list) if !list.is_empty() => Some(Open::List(list.iter())),
        _ => None,
    }
}

/// A scalar, an empty collection or a secret; without the last line break.
fn write_leaf(node: &Node, show_secrets: bool, indent: usize, out: &mut String) {
    if node.is_secret() && !show_secrets {
        out.push_str(REDACTED);
        return;
    }
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        Value::BigInteger(text) | Value::Timestamp(text) => out.push_str(text),
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => {
            if text.contains('\n') && is_literal(text) {
                write_literal(text, indent + 2, out);
            } else {
                write_line(text, out);
            }
        }
        Value::List(_) => out.push_str("[]"),
        Value::Map(_) => out.push_str("{}"),
    }
}

fn write_key(key: &Key, indent: usize, out: &mut String) {
    let start = out.len();
    match key.kind {
        KeyKind::String => write_line(&key.text, out),
        KeyKind::Float => match key.to_value() {
            Value::Float(number) => write_float(number, out),
            _ => out.push_str(&key.text),
        },
        KeyKind::Null | KeyKind::Bool | KeyKind::Integer | KeyKind::Timestamp => {
            out.push_str(&key.text);
        }
    }
    if out.len() - start > SIMPLE_KEY {
        out.insert_str(start, "? ");
        out.push('\n');
        push_spaces(indent, out);
    }
    out.push(':');
}

fn write_float(number: f64, out: &mut String) {
    if number.is_nan() {
        out.push_str(".nan");
    } else if number.is_infinite() {
        out.push_str(if number > 0.0 { ".inf" } else { "-.inf" });
    } else {
        let text = python_float(number);
        match text.split_once('e') {
            Some((mantissa, exponent)) if !mantissa.contains('.') => {
                let _ = write!(out, "{mantissa}.0e{exponent}");
            }
            _ => out.push_str(&text),
        }
    }
}

/// A string on one line: plain, in single quotes or in double quotes.
fn write_line(text: &str, out: &mut String) {
    match form(text) {
        Form::Plain => out.push_str(text),
        Form::Quoted if text.contains('\'') && !text.contains(['"', '\\']) => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        Form::Quoted => {
            out.push('\'');
            for (number, part) in text.split('\'').enumerate() {
                if number > 0 {
                    out.push_str("''");
                }
                out.push_str(part);
            }
            out.push('\'');
        }
        Form::Escaped => write_escaped(text, out),
    }
}

/// A text as a scalar on one line that stands anywhere, also in a map or a list on one line.
#[must_use]
pub fn inline_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    match form(text) {
        Form::Plain if text.contains([',', '[', ']', '{', '}', ':']) => {
            let _ = write!(out, "'{}'", text.replace('\'', "''"));
        }
        Form::Plain | Form::Quoted | Form::Escaped => write_line(text, &mut out),
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Quoted,
    Escaped,
}

/// The effect of a byte on a plain scalar: 0 none, 1 depends on its neighbours, 2 needs a check of
/// the character, 3 needs escapes.
const BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b':' | b'#' => 1,
            0x80.. => 2,
            0..=0x1f | 0x7f => 3,
            _ => 0,
        };
        byte += 1;
    }
    table
};

fn form(text: &str) -> Form {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return Form::Quoted;
    };
    let mut plain = *first != b' ' && *last != b' ' && *last != b':';
    for (at, byte) in bytes.iter().enumerate() {
        match BYTES[usize::from(*byte)] {
            0 => {}
            1 if *byte == b':' => plain &= bytes.get(at + 1) != Some(&b' '),
            1 if is_command_mark(bytes, at) => return Form::Escaped,
            1 => plain &= at > 0 && bytes[at - 1] != b' ',
            2 => {
                if text.chars().any(needs_escape) {
                    return Form::Escaped;
                }
                // Blanks beyond ASCII at an end are invisible.
                plain &= text.trim().len() == text.len();
            }
            _ => return Form::Escaped,
        }
    }
    let resolves_to_itself = |text: &str| {
        scalar::resolve(text).is_ok_and(|resolved| resolved.value.is_none() && !resolved.differs)
    };
    plain &= match first {
        b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\''
        | b'"' | b'%' | b'@' | b'`' | b'?' | b':' | b'=' | b'<' => false,
        b'-' => {
            bytes.get(1).is_some_and(|next| *next != b' ')
                && !text.starts_with("---")
                && resolves_to_itself(text)
        }
        b'.' => !text.starts_with("...") && resolves_to_itself(text),
        b'y' | b'Y' | b'n' | b'N' if bytes.len() == 1 => false,
        b'0'..=b'9' | b'+' | b'~' | b'a'..=b'z' | b'A'..=b'Z' => resolves_to_itself(text),
        _ => true,
    };
    if plain { Form::Plain } else { Form::Quoted }
}

/// Characters that cannot be written as they are, or that a reader would not see as they are.
fn needs_escape(character: char) -> bool {
    is_hidden(character) || is_old_line_break(character) || !is_printable(character)
}

fn write_escaped(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, character) in text.char_indices() {
        let as_it_is = match character {
            '"' | '\\' => false,
            '#' => !is_command_mark(text.as_bytes(), at),
            ' '..='~' => true,
            other => !needs_escape(other),
        };
        if as_it_is {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + character.len_utf8();
        let _ = match character {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            '\r' => out.write_str("\\r"),
            '\0' => out.write_str("\\0"),
            '\u{1b}' => out.write_str("\\e"),
            '\u{85}' => out.write_str("\\N"),
            '\u{2028}' => out.write_str("\\L"),
            '\u{2029}' => out.write_str("\\P"),
            short if u32::from(short) < 0x100 => write!(out, "\\x{:02X}", u32::from(short)),
            short if u32::from(short) < 0x10000 => write!(out, "\\u{:04X}", u32::from(short)),
            long => write!(out, "\\U{:08X}", u32::from(long)),
        };
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// Whether a literal block gives the text back exactly, and shows all there is in it.
fn is_literal(text: &str) -> bool {
    text.contains(|character: char| !matches!(character, ' ' | '\t' | '\n'))
        && !text
            .bytes()
            .any(|byte| matches!(byte, 0..=8 | 0x0b..=0x1f | 0x7f))
        && !has_command_mark(text)
        && !text.lines().any(|line| leading_command(line).is_some())
        && (text.is_ascii()
            || !text
                .chars()
                .any(|c| !matches!(c, '\t' | '\n') && needs_escape(c)))
}

fn write_literal(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    if text.starts_with([' ', '\t', '\n']) {
        out.push('2');
    }
    let body = match text.strip_suffix('\n') {
        None => {
            out.push('-');
            text
        }
        Some(body) if body.ends_with('\n') => {
            out.push('+');
            body
        }
        Some(body) => body,
    };
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            push_spaces(indent, out);
            out.push_str(line);
        }
    }
}
