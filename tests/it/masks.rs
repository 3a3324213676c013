//! Placeholders for what differs from run to run in what is printed: ids, digests, times.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What differs from run to run, and its name; lines that are removed have none.
static DIFFERING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let all = [
        (r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "RUN"),
        (r"\bSIM-[0-9a-f]{12}\b", "SERIAL"),
        (r"\b[0-9a-f]{40}\b", "COMMIT"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\b[0-9a-f]{32}\b", "KEY"),
        (r"\b[0-9a-f]{16}\b", "EFFECT"),
        (r"\b[0-9a-f]{12}\b", "COMMIT"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "TIME"),
        (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
        // Records are written beside the steps, as fast as git is.
        (r"(?m)^\d\d:\d\d:\d\d .* records written.*\n", ""),
        (r"(?m)^\d\d:\d\d:\d\d ", "TIME "),
        (r"\bAda on [^\s,]+", "Ada on HOST"),
        (
            r"(?i)\b(mon|tues|wednes|thurs|fri|satur|sun)day\b",
            "WEEKDAY",
        ),
        (r" +\n", "\n"),
    ];
    let all = all.into_iter();
    all.map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
        .collect()
});

/// A text with each value that differs replaced by what `placeholder` gives for its name and itself.
pub(crate) fn replaced(text: &str, mut placeholder: impl FnMut(&str, &str) -> String) -> String {
    let mut text = text.to_owned();
    for (pattern, name) in DIFFERING.iter() {
        let replace = |found: &Captures<'_>| placeholder(name, &found[0]);
        text = pattern.replace_all(&text, replace).into_owned();
    }
    text
}

/// Numbered placeholders: the same id has the same one wherever it is printed.
#[derive(Default)]
pub(crate) struct Numbered {
    /// Name and value, in the order in which they were printed first.
    known: Vec<(String, String)>,
}

impl Numbered {
    /// A text with placeholders such as `RUN-1`. Times have no number, since two of one second are the same by chance.
    pub(crate) fn mask(&mut self, text: &str) -> String {
        replaced(text, |name, value| match name {
            "RUN" | "COMMIT" | "DIGEST" | "EFFECT" => self.placeholder(name, value),
            _ => name.to_owned(),
        })
    }

    fn placeholder(&mut self, name: &str, value: &str) -> String {
        let of_name = self.known.iter().filter(|(known, _)| known == name);
        let is_same = |known: &str| known.starts_with(value) || value.starts_with(known);
        let mut values = of_name.map(|(_, value)| value.as_str());
        let number = match values.clone().position(is_same) {
            Some(index) => index + 1,
            None => {
                let number = values.by_ref().count() + 1;
                self.known.push((name.to_owned(), value.to_owned()));
                number
            }
        };
        format!("{name}-{number}")
    }

    /// A command with the values that the placeholders in it stand for.
    pub(crate) fn unmask(&self, command: &str) -> String {
        let pattern = Regex::new(r"\b(RUN|COMMIT|DIGEST|EFFECT)-(\d+)\b").unwrap();
        let value = |found: &Captures<'_>| {
            let number: usize = found[2].parse().unwrap();
            let mut of_name = self.known.iter().filter(|(name, _)| *name == found[1]);
            let known = of_name.nth(number - 1);
            let (_, value) = known.unwrap_or_else(|| panic!("{} was not printed", &found[0]));
            value.clone()
        };
        pattern.replace_all(command, value).into_owned()
    }
}

#[test]
fn the_same_id_has_the_same_placeholder_however_short_it_is() {
    let mut masks = Numbered::default();
    let long = "0123456789abcdef0123456789abcdef01234567";
    let other = "f123456789abcdef0123456789abcdef01234567";
    let text = format!("{long} {other} {} 2026-01-02 03:04", &long[..12]);
    assert_eq!(masks.mask(&text), "COMMIT-1 COMMIT-2 COMMIT-1 TIME");
    assert_eq!(
        masks.unmask("git show COMMIT-2"),
        format!("git show {other}")
    );
}
