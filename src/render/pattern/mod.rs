//! Regular expressions with the meaning that Python's `re` gives them.
//!
//! Patterns in documents were written for Python. They are translated into the syntax of an engine whose
//! time is linear in the text, so what needs backtracking (look-around, backreferences, `$` in the middle) is
//! refused by name. A pattern without special characters never becomes a regular expression at all.
//!
//! An accepted pattern means the same as in Python, but for one thing: if a pattern prefers to match nothing
//! (`a??`), Python replaces the nothing and then searches at the same place; here it continues at the
//! next character.

mod size;
mod template;
mod translate;

use std::sync::Arc;

use regex::{Captures, Regex, RegexBuilder};

pub use size::{pattern_size, search_cost};
pub(super) use template::Template;

/// Bytes that a compiled expression may take.
const SIZE_LIMIT: usize = 4 << 20;

/// Why a text cannot be used as a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    /// Something that Python has, and that cannot be matched in linear time.
    #[error("{0} cannot be matched in linear time")]
    Unsupported(&'static str),
    /// Python's `re` would not accept it either.
    #[error("{0}")]
    Invalid(String),
    /// The compiled expression would be too large.
    #[error("the expression is too large")]
    TooLarge,
}

/// The cost of replacing a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A search of that cost.
    Search(u64),
    /// So many bytes of the result are there.
    Written(usize),
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    text: Arc<str>,
    engine: Engine,
    /// Its size, repetitions written out; 0 if it is searched for as it is.
    size: u64,
}

#[derive(Debug)]
enum Engine {
    Literal,
    Expression {
        regex: Regex,
        /// The engine's number of each of Python's groups, the whole match being 0.
        groups: Vec<usize>,
        /// Groups that hold the line break before which `$` matched.
        ends: Vec<usize>,
    },
}

/// One match: the span of each group, in bytes, the whole match being 0.
pub(super) struct Match {
    spans: Vec<Option<(usize, usize)>>,
}

impl Match {
    fn whole(&self) -> (usize, usize) {
        self.spans.first().copied().flatten().unwrap_or_default()
    }

    /// The text of a group: outer `None` if there is no such group, inner if it took no part.
    pub(super) fn group<'t>(&self, text: &'t str, number: usize) -> Option<Option<&'t str>> {
        let span = self.spans.get(number)?;
        Some(span.and_then(|(start, end)| text.get(start..end)))
    }
}

impl Pattern {
    /// Compiles a pattern.
    pub(super) fn new(text: &Arc<str>) -> Result<Self, PatternError> {
        let (engine, size) = if is_literal(text) {
            (Engine::Literal, 0)
        } else {
            let translation = translate::translate(text)?;
            let regex = RegexBuilder::new(&translation.text)
                .size_limit(SIZE_LIMIT)
                .build()
                .map_err(|error| match error {
                    regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
                    // The last line holds the problem, those before it draw the translated text.
                    error => {
                        let text = error.to_string();
                        let line = text.lines().last().unwrap_or_default();
                        let reason = line.strip_prefix("error: ").unwrap_or(line);
                        PatternError::Invalid(reason.trim().to_owned())
                    }
                })?;
            let engine = Engine::Expression {
                regex,
                groups: translation.groups,
                ends: translation.ends,
            };
            (engine, pattern_size(text))
        };
        Ok(Self {
            text: text.clone(),
            engine,
            size,
        })
    }

    /// Whether it has no special characters, so that it matches itself and nothing else.
    pub(super) fn is_literal(&self) -> bool {
        matches!(self.engine, Engine::Literal)
    }

    /// Its size, repetitions written out; 0 if it is searched for as it is.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The cost of searching so many bytes for it.
    pub(super) fn cost(&self, bytes: usize) -> u64 {
        search_cost(self.size, bytes)
    }

    /// The first match at or after a position (Python's `re.search`).
    pub(super) fn search(&self, text: &str, from: usize) -> Option<Match> {
        match &self.engine {
            Engine::Literal => {
                let start = from + text.get(from..)?.find(&*self.text)?;
                Some(Match {
                    spans: vec![Some((start, start + self.text.len()))],
                })
            }
            Engine::Expression {
                regex,
                groups,
                ends,
            } => regex
                .captures_at(text, from)
                .map(|captures| spans(&captures, groups, ends)),
        }
    }

    /// The text with every match replaced (Python's `re.sub`); `None` if nothing matches.
    /// Each search may go to the end of the text, whatever it finds, and is paid for with `spend`.
    ///
    /// # Errors
    ///
    /// That of `spend`, which is also asked for the bytes of the result.
    pub(super) fn substitute<E>(
        &self,
        template: &Template,
        text: &str,
        mut spend: impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let mut result = String::new();
        let mut copied = 0;
        let mut from = 0;
        let mut last_empty = None;
        while from <= text.len() {
            spend(Effort::Search(self.cost(text.len() - from)))?;
            let Some(found) = self.search(text, from) else {
                break;
            };
            let (start, end) = found.whole();
            if start == end && last_empty == Some(start) {
                // Python matches nothing at one place only once.
                match text.get(start..).and_then(|rest| rest.chars().next()) {
                    Some(character) => from = start + character.len_utf8(),
                    None => break,
                }
                continue;
            }
            result.push_str(&text[copied..start]);
            template.expand(&found, text, &mut result);
            spend(Effort::Written(result.len()))?;
            copied = end;
            from = end;
            last_empty = (start == end).then_some(start);
        }
        if copied == 0 && result.is_empty() && last_empty.is_none() {
            return Ok(None);
        }
        result.push_str(&text[copied..]);
        Ok(Some(result))
    }

    /// How many groups it has, the whole match not counted, and the number of a named one.
    fn group_numbers(&self) -> (usize, impl Fn(&str) -> Option<usize> + '_) {
        let count = match &self.engine {
            Engine::Literal => 0,
            Engine::Expression { groups, .. } => groups.len() - 1,
        };
        let named = move |name: &str| match &self.engine {
            Engine::Literal => None,
            Engine::Expression { regex, groups, .. } => {
                let number = regex
                    .capture_names()
                    .position(|group| group == Some(name))?;
                groups.iter().position(|group| *group == number)
            }
        };
        (count, named)
    }
}

fn is_literal(text: &str) -> bool {
    !text.is_empty()
        && !text.contains([
            '\\', '.', '^', '$', '*', '+', '?', '{', '}', '[', ']', '|', '(', ')',
        ])
}

/// Spans by Python's numbers, a line break that only `$` matched before cut off.
fn spans(captures: &Captures<'_>, groups: &[usize], ends: &[usize]) -> Match {
    let limit = ends
        .iter()
        .find_map(|end| captures.get(*end))
        .map_or(usize::MAX, |line_break| line_break.start());
    Match {
        spans: groups
            .iter()
            .map(|group| {
                captures
                    .get(*group)
                    .map(|span| (span.start().min(limit), span.end().min(limit)))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substitute(pattern: &str, value: &str, text: &str) -> String {
        let pattern = Pattern::new(&Arc::from(pattern)).unwrap();
        let template = Template::parse(value, &pattern).unwrap();
        pattern
            .substitute(&template, text, |_| Ok::<(), ()>(()))
            .unwrap()
            .unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn all_matches_are_replaced_as_python_replaces_them() {
        // pattern, replacement, text, re.sub(pattern, replacement, text)
        for (pattern, value, text, expected) in [
            (
                "DOMAIN",
                "example.org",
                "a.DOMAIN,b.DOMAIN",
                "a.example.org,b.example.org",
            ),
            ("DOMAIN", "", "DOMAIN", ""),
            (
                "(MAAS_IP)",
                "10.0.0.1",
                "http://MAAS_IP/",
                "http://10.0.0.1/",
            ),
            ("^(.*):(.*)$", r"\2 \1", "image:v1", "v1 image"),
            ("^(.*):(.*)$", r"\2 \1", "image:v1\n", "v1 image\n"),
            ("a$", "b", "a\na\n", "a\nb\n"),
            ("(?m)a$", "b", "a\na\n", "b\nb\n"),
            ("(a|b$)", r"[\1]", "ab\n", "[a][b]\n"),
            ("(b$|a)", r"[\1]", "ab\n", "[a][b]\n"),
            ("x*", "-", "abxd", "-a-b--d-"),
            ("$", "X", "a\n", "aX\nX"),
            ("", "-", "ab", "-a-b-"),
            (r"\Z", "!", "a", "a!"),
            (
                "(?P<first>a)(?P<second>b)",
                r"\g<second>\g<first>",
                "ab",
                "ba",
            ),
            ("(a)|(b)", r"<\1\2>", "ab", "<a><b>"),
            ("{{ name }}", "n1", "x {{ name }}", "x n1"),
            ("a{,2}b", "-", "aaab", "a-"),
            ("[]a]", "-", "]a[", "--["),
            ("[[]", "-", "a[", "a-"),
            ("[a&&b~~-]", "+", "a&b~-c", "+++++c"),
            (r"\<\>\-\/", "-", "<>-/", "-"),
            (r"[\]\-\d]", ".", "]-1x", "...x"),
            ("(?i)domain", "d", "DoMain", "d"),
            ("(?#note)a", "b", "a", "b"),
            (r"\x41\u00e9\101", "-", "AéA", "-"),
            (r"[^\n]+", "-", "a\nb", "-\n-"),
            ("a]", "-", "a]", "-"),
            ("ä", "\\\\", "ä", "\\"),
        ] {
            assert_eq!(
                substitute(pattern, value, text),
                expected,
                "re.sub({pattern:?}, {value:?}, {text:?})"
            );
        }
    }

    #[test]
    fn groups_are_numbered_as_python_numbers_them() {
        let pattern = Pattern::new(&Arc::from("^(?:(x)|(.*)):((.*)$)")).unwrap();
        let text = "image:v1\n";
        let found = pattern.search(text, 0).unwrap();
        let groups: Vec<_> = (0..6).map(|number| found.group(text, number)).collect();
        assert_eq!(
            groups,
            [
                Some(Some("image:v1")),
                Some(None),
                Some(Some("image")),
                Some(Some("v1")),
                Some(Some("v1")),
                None
            ]
        );
    }

    #[test]
    fn what_needs_backtracking_or_is_no_expression_is_refused_by_name() {
        for (pattern, expected) in [
            ("(?=a)", "a look-ahead cannot be matched in linear time"),
            ("(?!a)", "a look-ahead cannot be matched in linear time"),
            ("(?<=a)", "a look-behind cannot be matched in linear time"),
            (r"(a)\1", "a backreference cannot be matched in linear time"),
            (
                "(?P<a>x)(?P=a)",
                "a backreference cannot be matched in linear time",
            ),
            (
                "(a)?(?(1)b)",
                "a conditional group cannot be matched in linear time",
            ),
            ("(?>a)", "an atomic group cannot be matched in linear time"),
            (
                r"a$\n",
                "a `$` before something else cannot be matched in linear time",
            ),
            (
                r"(a|$)+",
                "a `$` before something else cannot be matched in linear time",
            ),
            (r"a\q", "bad escape `\\q`"),
            ("a**", "nothing to repeat"),
            ("^*", "nothing to repeat"),
            ("a(?i)b", "flags for all of the pattern must come first"),
            (r"(a|\b+)", "nothing to repeat"),
            ("[a", "a `[` is not closed"),
            ("a\\", "a backslash ends the pattern"),
            ("[z-a]", "bad character range `z-a`"),
            ("(((a{1000}){1000}){1000})", "the expression is too large"),
        ] {
            let error = Pattern::new(&Arc::from(pattern)).unwrap_err();
            assert_eq!(error.to_string(), expected, "{pattern}");
        }
        for pattern in ["(a", "a)", "*a"] {
            assert!(
                matches!(
                    Pattern::new(&Arc::from(pattern)),
                    Err(PatternError::Invalid(_))
                ),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_result_that_grows_too_long_is_refused() {
        let pattern = Pattern::new(&Arc::from("a")).unwrap();
        let template = Template::parse(&"b".repeat(10), &pattern).unwrap();
        let text = "a".repeat(20);
        let at_most = |limit: usize| {
            let spend = move |effort| match effort {
                Effort::Written(bytes) if bytes > limit => Err(bytes),
                _ => Ok(()),
            };
            pattern.substitute(&template, &text, spend)
        };
        assert_eq!(at_most(199), Err(200));
        assert!(at_most(200).is_ok());
    }

    #[test]
    fn each_search_is_paid_for_with_all_that_it_may_go_through() {
        let pattern = Pattern::new(&Arc::from("a(.*z)?")).unwrap();
        let template = Template::parse("b", &pattern).unwrap();
        let mut searched = 0;
        let result = pattern.substitute(&template, &"a".repeat(1_000), |effort| {
            if let Effort::Search(cost) = effort {
                searched += cost;
            }
            Ok::<(), ()>(())
        });
        assert_eq!(result, Ok(Some("b".repeat(1_000))));
        // Each of a thousand matches visits the rest of the text.
        assert!(searched > 1_000 * 1_000 / 2 * pattern.size() / 32);
    }

    #[test]
    fn a_hostile_pattern_takes_linear_time() {
        let pattern = Pattern::new(&Arc::from("(a*)*(a*)*b")).unwrap();
        assert!(pattern.search(&"a".repeat(100_000), 0).is_none());
    }
}
