//! How large a pattern is when its repetitions are written out.
//!
//! An engine whose time is linear in the text still visits, in the worst case, each place of the pattern for each
//! character: `[ab]*a[ab]{6000}c` is short, and costs six thousand steps a character. The size shows that beforehand, whatever the dialect.
//! It never is too small; where the text of a pattern can be read in two ways the larger one counts.

/// Steps of an engine that cost as much as the visit of a value.
const STEPS: u64 = 16;

/// The cost of a search of a text for a pattern of a size, in visits of a value.
#[must_use]
pub fn search_cost(size: u64, bytes: usize) -> u64 {
    size.saturating_mul(bytes as u64) / STEPS
}

/// A group that is open.
#[derive(Default)]
struct Group {
    size: u64,
    /// The size of what a repetition would repeat.
    last: u64,
}

impl Group {
    fn add(&mut self, size: u64) {
        self.size = self.size.saturating_add(size);
        self.last = size;
    }

    fn repeat(&mut self, times: u64) {
        let repeated = self.last.saturating_mul(times.max(1));
        self.size = self.size.saturating_sub(self.last).saturating_add(repeated);
        self.last = repeated;
    }
}

/// The number of places in a pattern, repetitions written out.
#[must_use]
pub fn pattern_size(pattern: &str) -> u64 {
    if is_verbose(pattern) {
        return largest(pattern);
    }
    let mut open = vec![Group::default()];
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = after;
        let mut group = open.pop().unwrap_or_default();
        match character {
            '\\' => {
                rest = escaped(after);
                group.add(1);
            }
            '[' => {
                rest = class(after);
                group.add(1);
            }
            '(' => {
                open.push(group);
                group = Group::default();
            }
            ')' => {
                // One without its beginning ends what there was.
                let mut above = open.pop().unwrap_or_default();
                above.add(group.size.max(1));
                group = above;
            }
            '|' => group.last = 0,
            '*' | '+' | '?' => {}
            '{' => match repetition(after) {
                Some((times, after)) => {
                    group.repeat(times);
                    rest = after;
                }
                None => group.add(1),
            },
            _ => group.add(1),
        }
        open.push(group);
    }
    let sizes = open.iter().map(|group| group.size);
    sizes.fold(0, u64::saturating_add).max(1)
}

/// Whether blanks and comments may stand in a pattern, in which anything may.
fn is_verbose(pattern: &str) -> bool {
    pattern.match_indices("(?").any(|(at, start)| {
        let flags = pattern[at + start.len()..].chars();
        flags
            .take_while(|flag| flag.is_ascii_alphabetic() || *flag == '-')
            .any(|flag| flag == 'x')
    })
}

/// The size if every repetition repeated all of the pattern.
fn largest(pattern: &str) -> u64 {
    let times = pattern
        .match_indices('{')
        .filter_map(|(at, _)| repetition(&pattern[at + 1..]));
    times.fold(pattern.len() as u64, |size, (times, _)| {
        size.saturating_mul(times.max(1))
    })
}

/// The text behind an escape.
fn escaped(text: &str) -> &str {
    let mut characters = text.chars();
    let letter = characters.next();
    let rest = characters.as_str();
    match (letter, rest.strip_prefix('{')) {
        (Some('p' | 'P' | 'x' | 'u' | 'U' | 'k' | 'g'), Some(inside)) => {
            inside.split_once('}').map_or(rest, |(_, after)| after)
        }
        _ => rest,
    }
}

/// The text behind a class, which ends as early as it may in any dialect.
fn class(text: &str) -> &str {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            ']' if !is_escaped => return &text[at + 1..],
            _ => is_escaped = character == '\\' && !is_escaped,
        }
    }
    text
}

/// How often a repetition repeats at most, and what follows it.
fn repetition(text: &str) -> Option<(u64, &str)> {
    let (inside, after) = text.split_once('}')?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
    let number = |text: &str| match text.trim() {
        "" => Some(0),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().unwrap_or(u64::MAX))
        }
        _ => None,
    };
    (!inside.trim().is_empty()).then_some(())?;
    Some((number(least)?.max(number(most)?), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_count_as_if_they_were_written_out() {
        for (pattern, size) in [
            ("", 1),
            ("abc", 3),
            ("[a-z]+", 1),
            (r"[\]a]{3}", 3),
            ("[ab]*a[ab]{6000}c", 6003),
            ("((ab){10}c){5}d", 106),
            (r"^(\d{1,3}\.){3}\d{1,3}$", 17),
            ("a{,4}b{2,}", 6),
            (r"\p{Letter}{4}", 4),
            ("a{b}c", 5),
            ("a|b{3}|c", 5),
            ("a)b", 2),
            ("(a{99999999999999999999}){2}", u64::MAX),
        ] {
            assert_eq!(pattern_size(pattern), size, "{pattern}");
        }
        for hidden in [
            "(?x)#[\na{6000}#]",
            "(?x)#\\\n(a{60}){100}",
            "[]|[ab]*a[ab]{6000}]",
            "[a[b]c]{6000}",
            "[[]a{6000}",
            "(a{6000}",
            "(?#(){6000})a{6000}",
        ] {
            assert!(pattern_size(hidden) >= 6000, "{hidden}");
        }
    }
}
