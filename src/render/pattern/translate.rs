//! From the syntax of Python's `re` to that of the `regex` crate.
//!
//! Most of it is the same. What differs and is translated: `$` (also matches before a line break at the end),
//! `\Z`, braces that are no repetition, brackets and set operators within classes, escapes.

use std::fmt::Write;

use super::PatternError;
use super::template::{Digits, digits};

/// An expression in the engine's syntax.
pub(super) struct Translation {
    /// The expression.
    pub(super) text: String,
    /// The engine's number of each of Python's groups, the whole match being 0.
    pub(super) groups: Vec<usize>,
    /// The engine's groups that hold the line break before which `$` matched.
    pub(super) ends: Vec<usize>,
}

/// Translates an expression.
pub(super) fn translate(pattern: &str) -> Result<Translation, PatternError> {
    let mut translator = Translator {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        groups: vec![0],
        ends: Vec::new(),
        opened: 0,
        multi_line: vec![false],
        is_repeatable: false,
        flags: 0,
    };
    while let Some(character) = translator.next() {
        translator.translate(character)?;
    }
    Ok(Translation {
        text: translator.out,
        groups: translator.groups,
        ends: translator.ends,
    })
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
    groups: Vec<usize>,
    ends: Vec<usize>,
    /// How many capturing groups the output has.
    opened: usize,
    /// Whether `m` holds, for each open group.
    multi_line: Vec<bool>,
    /// Whether what comes last matches characters, so that it can be repeated.
    is_repeatable: bool,
    /// How much of the output is flags for all of the pattern, which must come first.
    flags: usize,
}

impl Translator<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn literal(&mut self, character: char) {
        push_literal(&mut self.out, character);
    }

    fn translate(&mut self, character: char) -> Result<(), PatternError> {
        let is_repetition = match character {
            '*' | '+' | '?' => true,
            '{' => self.counts().is_some(),
            _ => false,
        };
        if is_repetition && !self.is_repeatable {
            return Err(PatternError::Invalid("nothing to repeat".to_owned()));
        }
        self.is_repeatable = !is_repetition && !matches!(character, '^' | '$' | '|' | '(');
        match character {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.open()?,
            ')' => {
                if self.multi_line.len() > 1 {
                    self.multi_line.pop();
                }
                self.out.push(')');
            }
            '$' => self.end()?,
            '{' if is_repetition => self.brace(),
            '*' | '+' | '?' => {
                self.out.push(character);
                self.lazy();
            }
            '.' | '^' | '|' => self.out.push(character),
            _ => self.literal(character),
        }
        Ok(())
    }

    /// After a repetition `?` makes it lazy.
    fn lazy(&mut self) {
        if self.take("?") {
            self.out.push('?');
        }
    }

    /// `$`: at the end, or before a line break that ends the text.
    fn end(&mut self) -> Result<(), PatternError> {
        if self.multi_line.last() == Some(&true) {
            self.out.push('$');
        } else if is_last(self.rest) {
            // The break is matched and cut off afterwards, the engine cannot look ahead.
            self.opened += 1;
            self.ends.push(self.opened);
            self.out.push_str(r"(?:(\n)?\z)");
        } else {
            return Err(PatternError::Unsupported("a `$` before something else"));
        }
        Ok(())
    }

    /// The counts of a repetition, if the brace that was read begins one, and what follows it.
    fn counts(&self) -> Option<(&str, &str)> {
        let (counts, rest) = self.rest.split_once('}')?;
        let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (!counts.is_empty() && is_number(least) && is_number(most)).then_some((counts, rest))
    }

    fn brace(&mut self) {
        let Some((counts, rest)) = self.counts() else {
            return;
        };
        let least = if counts.starts_with(',') { "{0" } else { "{" };
        let text = format!("{least}{counts}}}");
        self.rest = &self.rest[self.rest.len() - rest.len()..];
        self.out.push_str(&text);
        self.lazy();
    }

    fn open(&mut self) -> Result<(), PatternError> {
        let inherited = self.multi_line.last() == Some(&true);
        let unsupported = |what| Err(PatternError::Unsupported(what));
        if !self.take("?") {
            self.capture();
            self.out.push('(');
        } else if self.take(":") {
            self.out.push_str("(?:");
        } else if self.take("P<") {
            let (name, rest) = self
                .rest
                .split_once('>')
                .ok_or_else(|| PatternError::Invalid("a group name is not closed".to_owned()))?;
            self.rest = rest;
            self.capture();
            self.out.push_str("(?P<");
            self.out.push_str(name);
            self.out.push('>');
        } else if self.take("P=") {
            return unsupported("a backreference");
        } else if self.take("#") {
            let (_, rest) = self
                .rest
                .split_once(')')
                .ok_or_else(|| PatternError::Invalid("a comment is not closed".to_owned()))?;
            self.rest = rest;
            return Ok(());
        } else if self.take("=") || self.take("!") {
            return unsupported("a look-ahead");
        } else if self.take("<=") || self.take("<!") {
            return unsupported("a look-behind");
        } else if self.take(">") {
            return unsupported("an atomic group");
        } else if self.take("(") {
            return unsupported("a conditional group");
        } else {
            return self.flags(inherited);
        }
        self.multi_line.push(inherited);
        Ok(())
    }

    /// `(?ims)` for all of the pattern, `(?i-m:…)` for a part of it.
    fn flags(&mut self, inherited: bool) -> Result<(), PatternError> {
        let wrong = || PatternError::Invalid("unknown extension after `(?`".to_owned());
        let end = self.rest.find([')', ':']).ok_or_else(wrong)?;
        let (flags, rest) = self.rest.split_at(end);
        let (on, off) = flags.split_once('-').unwrap_or((flags, ""));
        if flags.is_empty() || !flags.bytes().all(|flag| b"aimsu-".contains(&flag)) {
            return Err(wrong());
        }
        // `a` and `u` choose the tables of characters, of which there is one here.
        let engine: String = flags.chars().filter(|flag| !"au".contains(*flag)).collect();
        let multi_line = (inherited || on.contains('m')) && !off.contains('m');
        self.rest = &rest[1..];
        if rest.starts_with(')') {
            if self.out.len() > self.flags {
                let text = "flags for all of the pattern must come first";
                return Err(PatternError::Invalid(text.to_owned()));
            }
            if let Some(last) = self.multi_line.last_mut() {
                *last = multi_line;
            }
            if !engine.is_empty() {
                self.out.push_str("(?");
                self.out.push_str(&engine);
                self.out.push(')');
                self.flags = self.out.len();
            }
        } else {
            self.multi_line.push(multi_line);
            self.out.push_str("(?");
            self.out.push_str(&engine);
            self.out.push(':');
        }
        Ok(())
    }

    fn capture(&mut self) {
        self.opened += 1;
        self.groups.push(self.opened);
    }

    /// A backslash outside a class.
    fn escape(&mut self) -> Result<(), PatternError> {
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let (escape, length) = digits(self.rest);
            self.rest = &self.rest[length..];
            return match escape {
                Digits::Character(character) => {
                    self.literal(character);
                    Ok(())
                }
                Digits::Group(_) => Err(PatternError::Unsupported("a backreference")),
                Digits::TooLarge => Err(bad_escape('0')),
            };
        }
        match self.rest.chars().next() {
            Some('Z') => self.out.push_str(r"\z"),
            Some(anchor @ ('A' | 'b' | 'B')) => self.out.extend(['\\', anchor]),
            _ => {
                match self.character_escape()? {
                    Escape::Class(class) => self.out.extend(['\\', class]),
                    Escape::Character(character) => self.literal(character),
                }
                return Ok(());
            }
        }
        self.is_repeatable = false;
        self.next();
        Ok(())
    }

    /// The meaning of a backslash both within and outside classes.
    fn character_escape(&mut self) -> Result<Escape, PatternError> {
        let ends = || PatternError::Invalid("a backslash ends the pattern".to_owned());
        let character = self.next().ok_or_else(ends)?;
        Ok(Escape::Character(match character {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => return Ok(Escape::Class(character)),
            'a' => '\u{7}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.hexadecimal(character, 2)?,
            'u' => self.hexadecimal(character, 4)?,
            'U' => self.hexadecimal(character, 8)?,
            letter if letter.is_ascii_alphabetic() => return Err(bad_escape(letter)),
            other => other,
        }))
    }

    fn hexadecimal(&mut self, letter: char, length: usize) -> Result<char, PatternError> {
        let character = self
            .rest
            .get(..length)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|text| u32::from_str_radix(text, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| bad_escape(letter))?;
        self.rest = &self.rest[length..];
        Ok(character)
    }

    /// A class, every member written out so that nothing in it is special to the engine.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.take("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            if !is_first && self.take("]") {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            let from = match self.member()? {
                Escape::Class(class) => {
                    self.out.extend(['\\', class]);
                    continue;
                }
                Escape::Character(character) => character,
            };
            self.literal(from);
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.take("-");
                match self.member()? {
                    Escape::Character(to) if from <= to => {
                        self.out.push('-');
                        self.literal(to);
                    }
                    Escape::Character(to) => {
                        let text = format!("bad character range `{from}-{to}`");
                        return Err(PatternError::Invalid(text));
                    }
                    Escape::Class(class) => {
                        let text = format!("bad character range `{from}-\\{class}`");
                        return Err(PatternError::Invalid(text));
                    }
                }
            }
        }
    }

    fn member(&mut self) -> Result<Escape, PatternError> {
        let character = self
            .next()
            .ok_or_else(|| PatternError::Invalid("a `[` is not closed".to_owned()))?;
        if character != '\\' {
            return Ok(Escape::Character(character));
        }
        if self.take("b") {
            return Ok(Escape::Character('\u{8}'));
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let octal = self
                .rest
                .bytes()
                .take(3)
                .take_while(|byte| (b'0'..=b'7').contains(byte))
                .count();
            let code = u32::from_str_radix(&self.rest[..octal], 8).ok();
            self.rest = &self.rest[octal..];
            return code
                .filter(|code| *code <= 0o377)
                .and_then(char::from_u32)
                .map(Escape::Character)
                .ok_or_else(|| bad_escape('0'));
        }
        self.character_escape()
    }
}

enum Escape {
    Character(char),
    Class(char),
}

fn bad_escape(letter: char) -> PatternError {
    PatternError::Invalid(format!("bad escape `\\{letter}`"))
}

fn push_literal(out: &mut String, character: char) {
    // What is no letter or digit may be escaped; control characters go by their number.
    if character.is_ascii_punctuation() && !matches!(character, '<' | '>') {
        out.push('\\');
        out.push(character);
    } else if character.is_ascii_control() {
        let _ = write!(out, "\\x{:02x}", u32::from(character));
    } else {
        out.push(character);
    }
}

/// Whether nothing that could match a character follows, so that `$` is the last thing of every way through.
fn is_last(mut rest: &str) -> bool {
    loop {
        if rest.is_empty() {
            return true;
        }
        if let Some(after) = rest.strip_prefix(')') {
            if after.starts_with(['*', '+', '?', '{']) {
                return false;
            }
            rest = after;
        } else if rest.starts_with('|') {
            // The other ways of this group do not follow; what follows the group does.
            rest = after_alternatives(rest);
        } else {
            return false;
        }
    }
}

/// The rest from the bracket on that closes the group that `text` is in.
fn after_alternatives(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut class = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (character, class) {
            ('\\', _) => {
                characters.next();
            }
            ('[', None) => class = Some(at),
            // A bracket that is first in a class is a member of it.
            (']', Some(open)) if !matches!(&text[open + 1..at], "" | "^") => class = None,
            ('(', None) => depth += 1,
            (')', None) if depth == 0 => return &text[at..],
            (')', None) => depth -= 1,
            _ => {}
        }
    }
    ""
}
