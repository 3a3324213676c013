//! Character counts of the YAML scanner to byte offsets of marks.
//!
//! The scanner counts characters. In a text of ASCII only, as nearly all are, that is the same;
//! otherwise a table of the characters that are longer than a byte gives the difference.
//! The same pass finds the characters that no YAML text may hold.

/// Where a scanner that was started somewhere in a text is, in bytes.
#[derive(Debug)]
pub(super) struct Positions {
    /// For each character longer than a byte: its number, and how many bytes more than characters
    /// there are up to its end.
    long: Vec<(u32, u32)>,
    /// Number of the character if the scanner was started.
    base: u32,
    /// Byte offset of the same.
    base_offset: u32,
    length: u32,
}

/// A character that does not belong into a text, and its byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stray {
    /// The character.
    pub(super) character: char,
    /// Bytes from the start of the text.
    pub(super) offset: u32,
}

/// Characters that YAML 1.1 takes for a line break, and YAML 1.2 does not.
pub(super) fn is_old_line_break(character: char) -> bool {
    matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether PyYAML reads the character outside of escapes.
pub(super) fn is_printable(character: char) -> bool {
    matches!(character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
        | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

impl Positions {
    /// Goes through a text once. The list holds the first stray character of each line at most.
    pub(super) fn of(text: &str) -> (Self, Vec<Stray>) {
        let mut positions = Self {
            long: Vec::new(),
            base: 0,
            base_offset: 0,
            length: text.len() as u32,
        };
        let mut strays = Vec::new();
        let plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
        if text.bytes().all(plain) {
            return (positions, strays);
        }
        let (mut extra, mut line_has_stray) = (0, false);
        for (number, (offset, character)) in text.char_indices().enumerate() {
            if character == '\n' {
                line_has_stray = false;
            }
            let length = character.len_utf8() as u32;
            if length > 1 {
                extra += length - 1;
                positions.long.push((number as u32, extra));
            }
            let stray = !is_printable(character) || is_old_line_break(character);
            if stray && !line_has_stray {
                line_has_stray = true;
                strays.push(Stray {
                    character,
                    offset: offset as u32,
                });
            }
        }
        (positions, strays)
    }

    /// The byte offset of a character, counted from where the scanner was started.
    pub(super) fn offset(&self, character: usize) -> u32 {
        let number = self.base.saturating_add(character as u32);
        let before = self.long.partition_point(|(long, _)| *long < number);
        let extra = match before {
            0 => 0,
            _ => self.long[before - 1].1,
        };
        (number + extra).min(self.length)
    }

    /// Restarts the scanner at a byte offset, further on than the last.
    pub(super) fn restart(&mut self, text: &str, offset: u32) {
        let between = &text[self.base_offset as usize..offset as usize];
        self.base += between.chars().count() as u32;
        self.base_offset = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_bytes_in_any_text_and_after_a_restart() {
        for text in ["", "abc", "aü€b\u{1f600}c", "üü\nüü\n"] {
            let (mut positions, _) = Positions::of(text);
            for (number, (offset, _)) in text.char_indices().enumerate() {
                assert_eq!(positions.offset(number), offset as u32, "{text} {number}");
            }
            assert_eq!(positions.offset(text.chars().count()), text.len() as u32);
            if let Some((offset, _)) = text.char_indices().nth(2) {
                positions.restart(text, offset as u32);
                for (number, (at, _)) in text[offset..].char_indices().enumerate() {
                    assert_eq!(positions.offset(number), (offset + at) as u32, "{text}");
                }
            }
        }
    }

    #[test]
    fn stray_characters_are_found_once_a_line() {
        let (_, strays) = Positions::of("a\u{7}b\u{7}\r\n\tü\u{2028}\n");
        let found: Vec<_> = strays.iter().map(|s| (s.character, s.offset)).collect();
        assert_eq!(found, [('\u{7}', 1), ('\u{2028}', 9)]);
    }
}
