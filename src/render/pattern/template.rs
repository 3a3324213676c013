//! Replacement texts with the meaning that Python's `re.sub` gives them.
//!
//! The value of a pattern substitution is such a template, whatever it is: `\1` and `\g<name>` stand for
//! groups, `\n` for a line break. An error never holds the text, which may be a secret.

use super::{Match, Pattern};

/// A parsed replacement text.
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Group(usize),
}

/// Why a text cannot be used as a replacement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    /// A backslash before something that means nothing.
    #[error("a backslash in the value begins no escape that a replacement may hold")]
    BadEscape,
    /// A group that the pattern does not have.
    #[error("the value refers to a group that the pattern does not have")]
    NoSuchGroup,
}

/// The meaning of a backslash and a character together; `None`: both stay.
fn escaped(character: char) -> Result<Option<char>, TemplateError> {
    Ok(Some(match character {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        letter if letter.is_ascii_alphabetic() => return Err(TemplateError::BadEscape),
        _ => return Ok(None),
    }))
}

impl Template {
    /// Parses a replacement text for a pattern.
    pub(crate) fn parse(text: &str, pattern: &Pattern) -> Result<Self, TemplateError> {
        if !text.contains('\\') {
            return Ok(Self {
                parts: vec![Part::Text(text.to_owned())],
            });
        }
        let (groups, named) = pattern.group_numbers();
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let group = match rest.chars().next().ok_or(TemplateError::BadEscape)? {
                'g' => {
                    let (name, after) = rest[1..]
                        .strip_prefix('<')
                        .and_then(|name| name.split_once('>'))
                        .ok_or(TemplateError::BadEscape)?;
                    rest = after;
                    let number = name.parse().ok().or_else(|| named(name));
                    Some(number.ok_or(TemplateError::NoSuchGroup)?)
                }
                '0'..='9' => {
                    let (escape, length) = digits(rest);
                    rest = &rest[length..];
                    match escape {
                        Digits::Character(character) => {
                            literal.push(character);
                            None
                        }
                        Digits::Group(number) => Some(number),
                        Digits::TooLarge => return Err(TemplateError::BadEscape),
                    }
                }
                character => {
                    match escaped(character)? {
                        Some(meant) => literal.push(meant),
                        // Any other backslash stays.
                        None => literal.extend(['\\', character]),
                    }
                    rest = &rest[character.len_utf8()..];
                    None
                }
            };
            if let Some(group) = group {
                if group > groups {
                    return Err(TemplateError::NoSuchGroup);
                }
                parts.push(Part::Text(std::mem::take(&mut literal)));
                parts.push(Part::Group(group));
            }
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        Ok(Self { parts })
    }

    /// Appends the replacement for one match in `text`; a group that took no part gives nothing.
    pub(super) fn expand(&self, found: &Match, text: &str, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Group(number) => out.extend(found.group(text, *number).flatten()),
            }
        }
    }
}

/// The meaning of a backslash with digits.
pub(super) enum Digits {
    Character(char),
    Group(usize),
    TooLarge,
}

/// Reads digits after a backslash as Python does, in expressions and in templates: a leading 0 or three octal
/// digits are a character, everything else is a group of one or two digits. Gives the bytes read.
pub(super) fn digits(text: &str) -> (Digits, usize) {
    let octal = text
        .bytes()
        .take(3)
        .take_while(|byte| (b'0'..=b'7').contains(byte))
        .count();
    if text.starts_with('0') || octal == 3 {
        let code = u32::from_str_radix(&text[..octal], 8).unwrap_or_default();
        return match char::from_u32(code).filter(|_| code <= 0o377) {
            Some(character) => (Digits::Character(character), octal),
            None => (Digits::TooLarge, octal),
        };
    }
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    (
        Digits::Group(text[..length].parse().unwrap_or_default()),
        length,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn expand(value: &str) -> Result<String, TemplateError> {
        let pattern = Pattern::new(&Arc::from("(?P<name>a)(b)?")).unwrap();
        let template = Template::parse(value, &pattern)?;
        let mut out = String::new();
        template.expand(&pattern.search("a", 0).unwrap(), "a", &mut out);
        Ok(out)
    }

    #[test]
    fn a_value_is_a_template_as_in_python() {
        for (value, expected) in [
            (r"c:\new", "c:\new"),
            (r"\1-\2-\g<name>-\g<1>-\g<0>", "a--a-a-a"),
            (r"\\1", r"\1"),
            (r"\101\0\07", "A\u{0}\u{7}"),
            (r"\.\ä", r"\.\ä"),
            (r"\1a", "aa"),
        ] {
            assert_eq!(expand(value).as_deref(), Ok(expected), "{value}");
        }
    }

    #[test]
    fn a_value_that_is_no_template_is_an_error_without_the_value() {
        for (value, expected) in [
            (r"\d", TemplateError::BadEscape),
            ("a\\", TemplateError::BadEscape),
            (r"\g<name", TemplateError::BadEscape),
            (r"\777", TemplateError::BadEscape),
            (r"\3", TemplateError::NoSuchGroup),
            (r"\12", TemplateError::NoSuchGroup),
            (r"\g<other>", TemplateError::NoSuchGroup),
        ] {
            assert_eq!(expand(value), Err(expected), "{value}");
        }
    }
}
