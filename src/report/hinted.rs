//! Commands that are named in a text, as the operator has to type them.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// The beginning of a command.
const COMMAND: &str = "trueup ";

/// The flag that names a site.
const OF_SITE: &str = " --site";

/// Commands about no site, or about all of them.
const OF_NONE: [&str; 8] = [
    "demo", "help", "init", "man", "rollout", "schemas", "sites", "try",
];

/// A text in which each command names the site: those in backticks, and those that are a line of their own.
#[must_use]
pub fn of_site<'t>(text: &'t str, site: &str) -> Cow<'t, str> {
    if !text.contains(COMMAND) {
        return Cow::Borrowed(text);
    }
    let mut named = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        write_line(&mut named, line, site);
    }
    Cow::Owned(named)
}

fn write_line(out: &mut String, line: &str, site: &str) {
    let (words, end) = match line.strip_suffix('\n') {
        Some(words) => (words, "\n"),
        None => (line, ""),
    };
    let trimmed = words.trim_start();
    if trimmed.starts_with(COMMAND) && !words.contains('`') {
        let is_indented = trimmed.len() < words.len();
        out.push_str(words);
        if is_indented {
            name(out, words, site);
        }
        out.push_str(end);
        return;
    }
    for (position, part) in words.split('`').enumerate() {
        if position > 0 {
            out.push('`');
        }
        out.push_str(part);
        // Between two backticks.
        if position % 2 == 1 && part.starts_with(COMMAND) {
            name(out, part, site);
        }
    }
    out.push_str(end);
}

/// Adds the site to a command that has just been written, unless it names one.
fn name(out: &mut String, command: &str, site: &str) {
    let mut words = command.trim_start().split([' ', '`']).skip(1);
    let is_of_none = words.next().is_some_and(|word| OF_NONE.contains(&word));
    if !is_of_none && !command.contains(OF_SITE) {
        out.push_str(OF_SITE);
        out.push(' ');
        out.push_str(site);
    }
}

/// Text on its way to a writer, line by line, in which each command names the site.
pub struct OfSite<'a> {
    out: &'a mut dyn Write,
    site: &'a str,
    line: String,
}

impl<'a> OfSite<'a> {
    /// Nothing yet.
    pub fn new(out: &'a mut dyn Write, site: &'a str) -> Self {
        Self {
            out,
            site,
            line: String::new(),
        }
    }

    /// Writes what is left of the last line.
    ///
    /// # Errors
    ///
    /// Only if the writer fails.
    pub fn finish(self) -> fmt::Result {
        self.out.write_str(&of_site(&self.line, self.site))
    }
}

impl Write for OfSite<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                self.out.write_str(&of_site(&self.line, self.site))?;
                self.line.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_text_name_the_site_that_the_operator_named() {
        let table = [
            ("nothing to run", "nothing to run"),
            (
                "`trueup abort R` aborts it, `git push` does not, `trueup plan --site b` is another",
                "`trueup abort R --site a` aborts it, `git push` does not, `trueup plan --site b` is another",
            ),
            (
                "Ways out\n      trueup apply --resume\ntrueup is a tool",
                "Ways out\n      trueup apply --resume --site a\ntrueup is a tool",
            ),
            ("`trueup sites` lists them", "`trueup sites` lists them"),
            ("an open ` trueup plan", "an open ` trueup plan"),
            ("one `trueup plan", "one `trueup plan --site a"),
        ];
        for (text, wanted) in table {
            assert_eq!(of_site(text, "a"), wanted);
            let mut written = String::new();
            let mut lines = OfSite::new(&mut written, "a");
            for part in text.split_inclusive(' ') {
                lines.write_str(part).unwrap();
            }
            lines.finish().unwrap();
            assert_eq!(written, wanted);
        }
    }
}
