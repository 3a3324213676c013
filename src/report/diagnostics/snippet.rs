//! A few lines of a source, with a pointer under the place that is meant.

use std::fmt::{self, Write};

use crate::diagnostic::{Mark, Sources};
use crate::report::escape::{push_visible, unsafe_characters, width};
use crate::report::{Palette, Role, Visible};

/// Columns of a line that are shown at most; of a longer one a part around the place.
const MOST_COLUMNS: usize = 120;

/// How a snippet is drawn.
pub(super) struct Look<'a> {
    /// In front of the place.
    pub(super) arrow: &'a str,
    /// The character of the pointer.
    pub(super) pointer: char,
    /// Behind the pointer.
    pub(super) label: &'a str,
    /// How many lines before and after.
    pub(super) around: u32,
    /// Columns of the line numbers.
    pub(super) gutter: usize,
    /// How the pointer is painted.
    pub(super) role: Role,
    /// With what.
    pub(super) palette: Palette,
}

/// Writes the place, and the lines around it as far as they may be shown.
pub(super) fn write(
    out: &mut dyn Write,
    sources: &Sources,
    mark: Mark,
    look: &Look<'_>,
) -> fmt::Result {
    let place = sources.place(mark);
    let (gutter, palette) = (look.gutter, look.palette);
    writeln!(
        out,
        "{:gutter$}{} {}:{}:{}",
        "",
        palette.paint(Role::Faint, look.arrow),
        Visible(&place.path),
        place.line,
        place.column
    )?;
    let bar = palette.paint(Role::Faint, "|");
    let lines = sources.lines(mark, look.around);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{:gutter$} {bar}", "")?;
    for line in lines {
        let meant = line.number == place.line;
        let number = palette.paint(Role::Faint, line.number);
        let Some(text) = line.text else {
            let shown = palette.paint(Role::Faint, "(secret)");
            writeln!(out, "{number:>gutter$} {bar} {shown}")?;
            if meant && !look.label.is_empty() {
                let label = palette.paint(look.role, Visible(look.label));
                writeln!(out, "{:gutter$} {bar} {label}", "")?;
            }
            continue;
        };
        let column = if meant { place.column as usize - 1 } else { 0 };
        let shown = Window::around(text, column);
        if shown.text.is_empty() && !meant {
            continue;
        } else if shown.text.is_empty() {
            writeln!(out, "{number:>gutter$} {bar}")?;
        } else {
            writeln!(out, "{number:>gutter$} {bar} {}", shown.text)?;
        }
        if meant {
            let pointer: String = std::iter::repeat_n(look.pointer, shown.length.max(1)).collect();
            let space = if look.label.is_empty() { "" } else { " " };
            let under = format!("{pointer}{space}{}", Visible(look.label));
            writeln!(
                out,
                "{:gutter$} {bar} {:before$}{}",
                "",
                "",
                palette.paint(look.role, under),
                before = shown.before
            )?;
        }
    }
    Ok(())
}

/// The part of a line that is shown.
struct Window {
    /// The text, harmless.
    text: String,
    /// Columns before the place.
    before: usize,
    /// Columns of what is meant.
    length: usize,
}

impl Window {
    /// The part around a column (in characters, from 0); never reads more characters than it may show.
    fn around(text: &str, column: usize) -> Self {
        let skip = column.saturating_sub(MOST_COLUMNS / 2);
        let token_end = column + token_length(text, column);
        let mut shown = Self {
            text: if skip > 0 {
                "…".to_owned()
            } else {
                String::new()
            },
            before: 0,
            length: 0,
        };
        let mut piece = String::new();
        let mut columns = usize::from(skip > 0);
        shown.before = columns;
        let mut cut = false;
        let characters = unsafe_characters(text).enumerate().skip(skip);
        for (index, (_, character, is_unsafe)) in characters {
            if columns >= MOST_COLUMNS {
                cut = true;
                break;
            }
            piece.clear();
            // A tab is shown as blanks, so that a pointer below it stands if it should.
            if character == '\t' {
                piece.push_str("    ");
            } else {
                push_visible(&mut piece, character, is_unsafe);
            }
            let wide = width(&piece);
            if index < column {
                shown.before += wide;
            } else if index < token_end {
                shown.length += wide;
            }
            columns += wide;
            shown.text.push_str(&piece);
        }
        if cut {
            shown.text.push('…');
        } else {
            shown.text.truncate(shown.text.trim_end().len());
        }
        shown
    }
}

/// How many characters from a column on belong to one word of YAML: a quoted text, or up to the next blank,
/// comma, closing bracket or colon that ends a key.
fn token_length(text: &str, column: usize) -> usize {
    let mut characters = text.chars().skip(column).take(MOST_COLUMNS).peekable();
    let Some(first) = characters.next() else {
        return 1;
    };
    let quoted = matches!(first, '"' | '\'');
    let mut length = 1;
    while let Some(character) = characters.next() {
        if quoted {
            length += 1;
            if character == first {
                break;
            }
            continue;
        }
        let ends_key = character == ':'
            && characters
                .peek()
                .is_none_or(|next| next.is_whitespace() || *next == ',');
        if character.is_whitespace() || matches!(character, ',' | ']' | '}') || ends_key {
            break;
        }
        length += 1;
    }
    length
}
