//! Characters that every output escapes: those that drive a terminal or are invisible, and marks that a
//! pipeline takes for commands.
//!
//! GitHub and Azure carry out `##[command …]` and `##vso[command …]` wherever they stand in a line that a
//! job prints, and `::command …::` where a line begins with it. Each writer escapes one character of such a
//! mark in the way that its format has, so that a reader of the format gets the original text.

/// Whether a character can drive a terminal, mislead a reader or is invisible: controls, breaks of
/// lines, marks of direction, Unicode's whole `Default_Ignorable_Code_Point`, and what else is blank.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    if character < '\u{ad}' {
        return character.is_control();
    }
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{16fe4}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d159}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether the `#` at a byte offset completes a mark such as `##[` or `##vso[`.
#[must_use]
pub fn is_command_mark(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b'#')
        && at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'#')
        && bytes[at + 1..]
            .iter()
            .find(|byte| !byte.is_ascii_alphabetic())
            == Some(&b'[')
}

/// Whether a text holds a mark such as `##[` anywhere.
#[must_use]
pub fn has_command_mark(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'#', bytes).any(|at| is_command_mark(bytes, at))
}

/// The byte offset of the first colon of a `::command` that a line begins with.
#[must_use]
pub fn leading_command(line: &str) -> Option<usize> {
    let rest = line.trim_start();
    let name = rest.strip_prefix("::")?;
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    begins.then(|| line.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn everything_that_unicode_calls_ignorable_or_a_format_is_hidden() {
        let all = r"[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Zl}\p{Zp}[\p{Cf}--\p{Prepended_Concatenation_Mark}]]";
        let all = Regex::new(all).unwrap();
        let mut text = String::new();
        let wrong: Vec<char> = (char::MIN..=char::MAX)
            .filter(|character| {
                text.clear();
                text.push(*character);
                all.is_match(&text) && !is_hidden(*character)
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        for blank in ['\u{2800}', '\u{3164}', '\u{ffa0}', '\u{115f}', '\u{ad}'] {
            assert!(is_hidden(blank), "{blank:?}");
        }
        for seen in "aZ ~ü漢\u{a0}\u{3000}م👍".chars() {
            assert!(!is_hidden(seen), "{seen:?}");
        }
    }

    #[test]
    fn a_mark_of_a_command_is_found_at_its_last_sign() {
        for (text, found) in [
            ("##[set-output name=x]y", Some(1)),
            ("a ####[x]", Some(5)),
            ("##vso[task.setvariable]", Some(1)),
            ("# [x] ## [x]", None),
            ("#[derive]", None),
            ("## a heading", None),
            ("##", None),
            ("##vso", None),
        ] {
            let bytes = text.as_bytes();
            let at = (0..bytes.len()).find(|at| is_command_mark(bytes, *at));
            assert_eq!(at, found, "{text}");
            assert_eq!(has_command_mark(text), found.is_some());
        }
        for (text, found) in [
            ("::set-output name=x::y", Some(0)),
            (" \t\u{a0}::error::x", Some(4)),
            ("::1", None),
            ("a ::error::", None),
            (": :x", None),
        ] {
            assert_eq!(leading_command(text), found, "{text}");
        }
    }
}
