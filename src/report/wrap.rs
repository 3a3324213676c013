//! Lines on a terminal: if one is wider, it continues below at a word, further in than it began.

use std::fmt::{self, Write};

use unicode_width::UnicodeWidthChar;

/// How much further in a continuation begins.
const FURTHER: usize = 2;

/// A text on its way to a terminal of so many columns.
///
/// Words stay whole, also if one alone is wider than the terminal. Styles take no columns.
pub struct Wrapped<'a> {
    out: &'a mut dyn Write,
    columns: usize,
    line: String,
}

impl<'a> Wrapped<'a> {
    /// A text that is written to `out`.
    pub fn new(out: &'a mut dyn Write, columns: usize) -> Self {
        Self {
            out,
            columns,
            line: String::new(),
        }
    }

    /// Writes the rest, which ends in no line break.
    ///
    /// # Errors
    ///
    /// Only if `out` fails.
    pub fn finish(mut self) -> fmt::Result {
        self.flush()
    }

    fn flush(&mut self) -> fmt::Result {
        let line = std::mem::take(&mut self.line);
        if columns(&line) <= self.columns {
            return self.out.write_str(&line);
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let further = (indent + FURTHER).min(self.columns / 2);
        let (mut used, mut spaces, mut has_word) = (0, 0, false);
        for word in line.split_inclusive(' ') {
            let text = word.trim_end_matches(' ');
            let own = columns(text);
            if own > 0 && has_word && used + spaces + own > self.columns {
                write!(self.out, "\n{:further$}{text}", "")?;
                (used, spaces) = (further + own, word.len() - text.len());
            } else if !text.is_empty() {
                write!(self.out, "{:spaces$}{text}", "")?;
                (used, spaces) = (used + spaces + own, word.len() - text.len());
            } else {
                // Between columns of a table; at the end of a line none are wanted.
                spaces += word.len();
            }
            has_word |= own > 0;
        }
        Ok(())
    }
}

impl Write for Wrapped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(rest) => {
                    self.line.push_str(rest);
                    self.flush()?;
                    self.out.write_str("\n")?;
                }
                None => self.line.push_str(piece),
            }
        }
        Ok(())
    }
}

/// How many columns a text takes, its styles left out.
fn columns(text: &str) -> usize {
    let mut is_style = false;
    let mut found = 0;
    for character in text.chars() {
        match (is_style, character) {
            (false, '\u{1b}') => is_style = true,
            (false, other) => found += other.width().unwrap_or_default(),
            (true, 'm') => is_style = false,
            (true, _) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, columns: usize) -> String {
        let mut out = String::new();
        let mut to = Wrapped::new(&mut out, columns);
        to.write_str(text).unwrap();
        to.finish().unwrap();
        out
    }

    #[test]
    fn a_wide_line_continues_at_a_word_further_in() {
        assert_eq!(wrapped("short\n", 20), "short\n");
        assert_eq!(
            wrapped("  one two three four five\nsix", 16),
            "  one two three\n    four five\nsix"
        );
        let row = "NODE      RACK      REASON\n";
        assert_eq!(wrapped(row, 20), "NODE      RACK\n  REASON\n");
        // A word is never broken, and a style takes no columns.
        let tag = "a site-action-success/edge/01M8";
        assert_eq!(wrapped(tag, 12), "a\n  site-action-success/edge/01M8");
        let painted = "\u{1b}[1mone\u{1b}[0m two";
        assert_eq!(wrapped(painted, 7), painted);
    }

    proptest! {
        #[test]
        fn no_word_is_lost_or_broken(text in "[ a-z\n]{0,200}", columns in 4_usize..90) {
            let shown = wrapped(&text, columns);
            prop_assert!(text.split_whitespace().eq(shown.split_whitespace()));
            for line in shown.lines() {
                let fits = line.chars().count() <= columns;
                prop_assert!(fits || line.split_whitespace().count() <= 1, "{line:?}");
            }
        }
    }
}
