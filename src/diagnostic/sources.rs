//! The texts that marks point into.
//!
//! A [`Mark`] is eight bytes: which source, and how many characters into it. [`Sources`] owns the
//! texts and turns a mark into path, line and column for output. Lines that
//! hold secrets are marked by the loader, and are never given out; nor are those that show a credential
//! in plain text, nor any of a text that is not to be quoted at all.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::credential;

/// How many lines above one are searched for the key that it belongs to.
const LOOKED_BACK: usize = 200;

/// Which of the [`Sources`] a mark points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A position in a source: a byte offset into its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The source.
    pub source: SourceId,
    /// Bytes from its start.
    pub offset: u32,
}

impl Mark {
    /// A mark at an offset (bytes).
    #[must_use]
    pub fn new(source: SourceId, offset: u32) -> Self {
        Self { source, offset }
    }
}

/// A position as people read it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Place {
    /// Path in the repository, with forward slashes.
    #[serde(rename = "file")]
    pub path: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

/// A line of a source, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Its text without the line break; `None` if it holds a secret.
    pub text: Option<&'a str>,
}

#[derive(Clone, Debug)]
struct Source {
    path: Arc<str>,
    /// `None` if it is not held.
    text: Option<Box<Text>>,
}

#[derive(Clone, Debug)]
struct Text {
    text: Arc<str>,
    line_starts: OnceLock<Vec<u32>>,
    /// How many characters stand before each stretch of [`STRETCH`] bytes, of a text with long lines.
    characters: OnceLock<Vec<u32>>,
    secret: Vec<(u32, u32)>,
    /// The lines that may be given out, from 0; none: all.
    quotable: Option<BTreeSet<usize>>,
}

/// Bytes in which characters are counted one by one: a place in a longer line is found without a walk along it.
const STRETCH: usize = 1024;

/// How many characters begin in some bytes of a text.
fn characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u32
}

impl Text {
    /// How many characters there are between two places of the text.
    fn characters_between(&self, start: usize, end: usize) -> u32 {
        let bytes = self.text.as_bytes();
        if end - start <= STRETCH {
            return characters(&bytes[start..end]);
        }
        let before = self.characters.get_or_init(|| {
            let mut before = 0;
            let stretches = bytes.chunks(STRETCH).map(|stretch| {
                let first = before;
                before += characters(stretch);
                first
            });
            stretches.collect()
        });
        let up_to = |at: usize| {
            let stretch = (at / STRETCH).min(before.len() - 1);
            before[stretch] + characters(&bytes[stretch * STRETCH..at])
        };
        up_to(end) - up_to(start)
    }

    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let breaks = self.text.bytes().enumerate();
            std::iter::once(0)
                .chain(
                    breaks
                        .filter(|(_, byte)| *byte == b'\n')
                        .map(|(at, _)| at as u32 + 1),
                )
                .collect()
        })
    }

    fn line_text(&self, index: usize) -> &str {
        let starts = self.line_starts();
        let start = starts[index] as usize;
        let end = starts
            .get(index + 1)
            .map_or(self.text.len(), |next| *next as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}

/// All texts that were read, by [`SourceId`].
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// No texts yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text under its path in the repository.
    pub fn add(&mut self, path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceId {
        let text = Text {
            text: text.into(),
            line_starts: OnceLock::new(),
            characters: OnceLock::new(),
            secret: Vec::new(),
            quotable: None,
        };
        self.push(path.into(), Some(Box::new(text)))
    }

    /// Adds a path whose text is not held: all of its marks are at the beginning of the file.
    pub fn add_path(&mut self, path: Arc<str>) -> SourceId {
        self.push(path, None)
    }

    fn push(&mut self, path: Arc<str>, text: Option<Box<Text>>) -> SourceId {
        let id = SourceId(self.list.len() as u32);
        self.list.push(Source { path, text });
        id
    }

    fn held(&self, source: SourceId) -> Option<&Text> {
        self.list.get(source.0 as usize)?.text.as_deref()
    }

    fn held_mut(&mut self, source: SourceId) -> Option<&mut Text> {
        self.list.get_mut(source.0 as usize)?.text.as_deref_mut()
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Marks the bytes from `start` up to `end` as secret: their lines are never given out.
    pub fn hide(&mut self, source: SourceId, start: u32, end: u32) {
        if let Some(source) = self.held_mut(source) {
            source.secret.push((start, end));
        }
    }

    /// Marks a text as one of which no line is given out but those of some marks.
    pub fn quote_only(&mut self, source: SourceId, marks: impl IntoIterator<Item = Mark>) {
        let lines = marks
            .into_iter()
            .filter(|mark| mark.source == source)
            .map(|mark| self.place(mark).line as usize - 1)
            .collect();
        if let Some(source) = self.held_mut(source) {
            source.quotable = Some(lines);
        }
    }

    /// The path of a source; empty if it is unknown.
    #[must_use]
    pub fn path(&self, source: SourceId) -> Arc<str> {
        self.list
            .get(source.0 as usize)
            .map_or_else(|| Arc::from(""), |source| source.path.clone())
    }

    /// The text of a source.
    #[must_use]
    pub fn text(&self, source: SourceId) -> Arc<str> {
        self.held(source)
            .map_or_else(|| Arc::from(""), |source| source.text.clone())
    }

    /// Path, line and column of a mark.
    #[must_use]
    pub fn place(&self, mark: Mark) -> Place {
        let path = self.path(mark.source);
        let Some(source) = self.held(mark.source) else {
            return Place {
                path,
                line: 1,
                column: 1,
            };
        };
        let starts = source.line_starts();
        let index = starts.partition_point(|start| *start <= mark.offset) - 1;
        let start = starts[index] as usize;
        let end = (mark.offset as usize).min(source.text.len());
        let column = source.characters_between(start.min(end), end);
        Place {
            path,
            line: index as u32 + 1,
            column: column + 1,
        }
    }

    /// The line that a mark is on, with up to `around` lines before and after it; of a text that is not to be
    /// quoted only lines that are.
    #[must_use]
    pub fn lines(&self, mark: Mark, around: u32) -> Vec<SourceLine<'_>> {
        let Some(source) = self.held(mark.source) else {
            return Vec::new();
        };
        let is_quotable = |line: &usize| {
            let lines = source.quotable.as_ref();
            lines.is_none_or(|lines| lines.contains(line))
        };
        let starts = source.line_starts();
        let line = self.place(mark).line - 1;
        if !is_quotable(&(line as usize)) {
            return Vec::new();
        }
        let first = line.saturating_sub(around) as usize;
        let last = ((line + around) as usize).min(starts.len() - 1);
        (first..=last)
            .filter(is_quotable)
            .map(|index| {
                let text = source.line_text(index);
                let from = starts[index];
                let to = from + text.len() as u32;
                let secret = source
                    .secret
                    .iter()
                    .any(|(start, end)| *start <= to && from < *end);
                let above = (index.saturating_sub(LOOKED_BACK)..index).rev();
                let above = above.map(|index| source.line_text(index));
                let secret = secret || credential::is_shown(text, above);
                SourceLine {
                    number: index as u32 + 1,
                    text: (!secret).then_some(text),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_becomes_line_and_column_in_characters() {
        let mut sources = Sources::new();
        let id = sources.add("site.yaml", "a: 1\nü: [x, y]\n");
        let place = sources.place(Mark::new(id, 10));
        assert_eq!((place.line, place.column), (2, 5));
        assert_eq!(place.to_string(), "site.yaml:2:5");
    }

    #[test]
    fn a_place_far_along_a_line_has_its_column_in_characters() {
        for length in [1, STRETCH - 1, STRETCH, STRETCH + 1, 5 * STRETCH] {
            let mut sources = Sources::new();
            let line = "ü€a\u{1f600}".repeat(length);
            let id = sources.add("site.yaml", format!("a: 1\n{line}\n{line}"));
            let first = 5 + line.len() as u32 + 1;
            let mut column = 1;
            for (at, _) in line.char_indices().step_by(7) {
                let place = sources.place(Mark::new(id, first + at as u32));
                assert_eq!((place.line, place.column), (3, column), "{length}");
                column += 7;
            }
        }
    }

    #[test]
    fn lines_with_secrets_are_not_given_out() {
        let mut sources = Sources::new();
        let id = sources.add("site.yaml", "a: 1\nb: hunter2\nc: 3\n");
        sources.hide(id, 5, 15);
        let lines = sources.lines(Mark::new(id, 5), 1);
        let texts: Vec<_> = lines.iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(texts, vec![(1, Some("a: 1")), (2, None), (3, Some("c: 3"))]);
    }

    #[test]
    fn a_literal_credential_is_not_given_out_and_of_some_texts_nothing_is() {
        let mut sources = Sources::new();
        let id = sources.add("site.yaml", "a: 1\npassword: hunter2\nc: 3\n");
        let lines = sources.lines(Mark::new(id, 5), 1);
        let texts: Vec<_> = lines.iter().map(|line| line.text).collect();
        assert_eq!(texts, [Some("a: 1"), None, Some("c: 3")]);
        sources.quote_only(id, [Mark::new(id, 0)]);
        let lines = sources.lines(Mark::new(id, 0), 1);
        let texts: Vec<_> = lines.iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(texts, [(1, Some("a: 1"))]);
        // What surrounds the place without the place itself tells nothing.
        assert_eq!(sources.lines(Mark::new(id, 5), 1), []);
        sources.quote_only(id, []);
        assert_eq!(sources.lines(Mark::new(id, 5), 1), []);
    }

    #[test]
    fn a_mark_at_the_end_of_a_text_has_a_place() {
        let mut sources = Sources::new();
        let id = sources.add("empty.yaml", "");
        assert_eq!(
            sources.place(Mark::new(id, 0)).to_string(),
            "empty.yaml:1:1"
        );
    }
}
