//! Documents as a person would write them: short maps on one line, all else a line each.

use std::fmt::{Display, Write as _};

pub(super) use crate::document::inline_text as scalar;

/// The longest line of a map.
const WIDTH: usize = 110;

/// A map on one line.
pub(super) fn map<K: Display, V: Display>(fields: impl IntoIterator<Item = (K, V)>) -> String {
    let fields = fields.into_iter();
    let fields: Vec<String> = fields
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    format!("{{{}}}", fields.join(", "))
}

/// A list on one line.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(", "))
}

/// The beginning of a document.
pub(super) fn head(schema: &str, name: &str) -> String {
    format!(
        "---\nschema: {schema}\nmetadata: {{name: {}}}\ndata:",
        scalar(name)
    )
}

/// A field with a map: on its line where it fits, else a line each.
pub(super) fn field(indent: usize, name: &str, fields: &[(String, String)], out: &mut String) {
    let spaces = " ".repeat(indent);
    let line = map(fields.iter().map(|(key, value)| (key, value)));
    if indent + name.len() + 2 + line.len() <= WIDTH {
        let _ = writeln!(out, "{spaces}{name}: {line}");
        return;
    }
    let _ = writeln!(out, "{spaces}{name}:");
    for (key, value) in fields {
        let _ = writeln!(out, "{spaces}  {key}: {value}");
    }
}
