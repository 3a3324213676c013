//! Maps and lists on one line: `{name: edge, tags: [worker]}`.

use std::sync::Arc;

/// A value on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flow<'t> {
    /// A scalar, as it is written.
    Scalar(&'t str),
    /// The entries of a list.
    List(Vec<Self>),
    /// The fields of a map; a key may have no value.
    Map(Vec<(&'t str, Option<Self>)>),
}

/// The text of a key without its quotes; `None` if it has escapes.
pub(super) fn key_name(key: &str) -> Option<&str> {
    let inner = |quote: char| key.strip_prefix(quote)?.strip_suffix(quote);
    match inner('"').or_else(|| inner('\'')) {
        Some(inner) => (!inner.contains(['\\', '\''])).then_some(inner),
        None => Some(key),
    }
}

/// The place of a key among the names of a map: behind them if it is none of them.
pub(super) fn rank(names: &[Arc<str>], key: &str) -> usize {
    let name = key_name(key);
    let found = names.iter().position(|known| Some(&**known) == name);
    found.unwrap_or(names.len())
}

/// The length of the quoted text that a text begins with, quotes included; `None` if it does not end in it.
pub(super) fn quoted_length(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let open = quote.len_utf8();
    closing(quote, &text[open..]).map(|length| open + length)
}

/// The length of the rest of a quoted text at the beginning of a text, its closing quote included; `None` if it does not end
/// in it. Lines are read one by one, since an escape ends with its line.
pub(super) fn closing(quote: char, text: &str) -> Option<usize> {
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        match character {
            '\\' if quote == '"' => {
                rest.next();
            }
            _ if character == quote => {
                // Two single quotes are one in the text.
                if quote == '\'' && rest.peek().is_some_and(|(_, next)| *next == '\'') {
                    rest.next();
                    continue;
                }
                return Some(at + 1);
            }
            _ => {}
        }
    }
    None
}

/// Reads a map or a list at the beginning of a text: it and what is behind it. `None` if it is none that is known.
pub(super) fn read(text: &str) -> Option<(Flow<'_>, &str)> {
    let rest = text.trim_start();
    if let Some(rest) = rest.strip_prefix('{') {
        return read_map(rest);
    }
    if let Some(rest) = rest.strip_prefix('[') {
        return read_list(rest);
    }
    let (scalar, rest) = read_scalar(rest)?;
    Some((Flow::Scalar(scalar), rest))
}

fn read_list(text: &str) -> Option<(Flow<'_>, &str)> {
    let mut items = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix(']') {
            return Some((Flow::List(items), behind));
        }
        let (item, behind) = read(rest)?;
        items.push(item);
        rest = separated(behind, ']')?;
    }
}

fn read_map(text: &str) -> Option<(Flow<'_>, &str)> {
    let mut fields = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((Flow::Map(fields), behind));
        }
        let (key, behind) = read_scalar(rest)?;
        let behind = behind.trim_start();
        let (value, behind) = match behind.strip_prefix(':') {
            Some(behind) => {
                let (value, behind) = read(behind)?;
                (Some(value), behind)
            }
            None => (None, behind),
        };
        fields.push((key, value));
        rest = separated(behind, '}')?;
    }
}

/// The text behind the comma after an entry, or at the end of the collection.
fn separated(text: &str, end: char) -> Option<&str> {
    let text = text.trim_start();
    match text.strip_prefix(',') {
        Some(rest) => Some(rest.trim_start()),
        None => text.starts_with(end).then_some(text),
    }
}

fn read_scalar(text: &str) -> Option<(&str, &str)> {
    if text.starts_with(['"', '\'']) {
        let length = quoted_length(text)?;
        return Some(text.split_at(length));
    }
    if text.starts_with(['&', '*', '!', '|', '>', '%', '@', '`', '#', '?', '{', '[']) {
        return None;
    }
    let mut end = text.len();
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let is_end = match character {
            ',' | ']' | '}' => true,
            '[' | '{' => return None,
            ':' => next.is_none_or(|next| matches!(next, ' ' | ',' | ']' | '}' | '[' | '{')),
            ' ' if next == Some('#') => return None,
            _ => false,
        };
        if is_end {
            end = at;
            break;
        }
    }
    let scalar = text[..end].trim_end();
    (!scalar.is_empty()).then_some((scalar, &text[end..]))
}

impl<'t> Flow<'t> {
    /// Appends it, the keys of each map in the order of its path.
    pub(super) fn write(
        &self,
        path: &mut Vec<&'t str>,
        order: &dyn Fn(&[&str]) -> Vec<Arc<str>>,
        out: &mut String,
    ) {
        match self {
            Self::Scalar(text) => out.push_str(text),
            Self::List(items) => {
                out.push('[');
                path.push(super::ENTRY);
                for (number, item) in items.iter().enumerate() {
                    out.push_str(if number > 0 { ", " } else { "" });
                    item.write(path, order, out);
                }
                path.pop();
                out.push(']');
            }
            Self::Map(fields) => {
                let names = order(path);
                let mut fields: Vec<&(&'t str, Option<Self>)> = fields.iter().collect();
                fields.sort_by_key(|(key, _)| rank(&names, key));
                out.push('{');
                for (number, (key, value)) in fields.into_iter().enumerate() {
                    out.push_str(if number > 0 { ", " } else { "" });
                    out.push_str(key);
                    if let Some(value) = value {
                        out.push_str(": ");
                        path.push(key_name(key).unwrap_or_default());
                        value.write(path, order, out);
                        path.pop();
                    }
                }
                out.push('}');
            }
        }
    }
}
