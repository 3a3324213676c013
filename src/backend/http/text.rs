//! Texts from outside as they may be shown, and texts as a URL carries them.

use data_encoding::HEXUPPER;

use crate::backend::masked::masked;

/// A text from outside on one line, without secrets, control characters and what could turn a terminal's
/// writing around, and not longer than this.
#[must_use]
pub fn plain(text: &str, longest: usize) -> String {
    let text = &*masked(text);
    let mut shown = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            shown.push(' ');
        }
        for letter in word.chars() {
            let turns = matches!(letter, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if letter.is_control() || turns {
                shown.extend(letter.escape_unicode());
            } else {
                shown.push(letter);
            }
        }
        if shown.len() > longest {
            break;
        }
    }
    if shown.chars().count() > longest {
        shown = shown.chars().take(longest).collect();
        shown.push('…');
    }
    shown
}

/// A text as a query carries it: all but letters, digits and `-_.~` as `%` and two digits.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            other => {
                encoded.push('%');
                encoded.push_str(&HEXUPPER.encode(&[other]));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_query_cannot_carry_is_encoded_by_its_bytes() {
        assert_eq!(percent_encoded("52:54:00:aa"), "52%3A54%3A00%3Aaa");
        assert_eq!(percent_encoded("a-b_c.d~\u{e4}"), "a-b_c.d~%C3%A4");
    }
}
