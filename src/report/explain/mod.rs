//! Explanations: a code, a word, a field of a document, and a thing of a plan or a run.

mod code;
mod field;
mod glossary;
mod thing;
pub(in crate::report) mod words;

use std::fmt::{self, Write};

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::{Visible, json};

pub use code::{CodeReference, code, codes, write_code, write_code_json};
pub use field::{FieldExample, write_field, write_field_json};
pub use glossary::{WordReference, word, word_names, write_word, write_word_json};
pub use thing::{write_thing, write_thing_json};

/// The version of the JSON of an explanation.
pub const FORMAT_VERSION: u32 = 1;

/// Columns of a terminal that prose fills.
const COLUMNS: usize = 80;

/// An explanation for programs: its kind, and its fields beside it.
#[derive(Serialize)]
struct Written<'a, T: Serialize> {
    format_version: u32,
    kind: &'static str,
    #[serde(flatten)]
    explained: &'a T,
}

/// Writes an explanation for programs.
fn written(out: &mut dyn Write, kind: &'static str, explained: &impl Serialize) -> fmt::Result {
    let written = Written {
        format_version: FORMAT_VERSION,
        kind,
        explained,
    };
    json::pretty(out, &written)
}

/// Writes prose in lines of at most 80 columns, each behind `indent`. No word is broken.
fn wrapped(out: &mut dyn Write, text: &str, indent: &str) -> fmt::Result {
    let mut width = 0;
    for word in text.split_whitespace() {
        let word = Visible(word).to_string();
        match width {
            0 => out.write_str(indent)?,
            _ if width + 1 + word.width() > COLUMNS - indent.len() => {
                write!(out, "\n{indent}")?;
                width = 0;
            }
            _ => {
                out.write_char(' ')?;
                width += 1;
            }
        }
        out.write_str(&word)?;
        width += word.width();
    }
    writeln!(out)
}
