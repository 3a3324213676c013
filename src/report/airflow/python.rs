//! Literals of Python, in ASCII.

use std::fmt::{self, Display, Write};

/// A text as a literal.
pub(super) fn text(value: &str) -> String {
    let mut literal = String::with_capacity(value.len() + 2);
    literal.push('"');
    for char in value.chars() {
        // Writing into a text does not fail.
        let _ = match (char, u32::from(char)) {
            ('"' | '\\', _) => write!(literal, "\\{char}"),
            (' '..='~', _) => write!(literal, "{char}"),
            (_, code @ 0..=0xff) => write!(literal, "\\x{code:02x}"),
            (_, code @ 0..=0xffff) => write!(literal, "\\u{code:04x}"),
            (_, code) => write!(literal, "\\U{code:08x}"),
        };
    }
    literal.push('"');
    literal
}

/// A literal that is made of texts.
pub(super) struct Literal(String);

impl Literal {
    /// A text or nothing.
    pub(super) fn optional(value: Option<&str>) -> Self {
        Self(value.map_or_else(|| "None".to_owned(), text))
    }

    /// A list.
    pub(super) fn list<'t>(values: impl Iterator<Item = &'t str>) -> Self {
        let values: Vec<String> = values.map(text).collect();
        Self(format!("[{}]", values.join(", ")))
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
