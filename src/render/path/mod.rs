//! The path language of layering actions and substitutions.
//!
//! It is what Deckhand really uses of JSONPath: `.` or `$` for the whole, keys (`.a.b-c`, quoted if they hold
//! anything but letters, digits, `_`, `-` and `@`), list items (`[0]`), and, if they meet data that is
//! there, wildcards (`.*`, `[*]`), slices (`[1:3]`), unions (`a|b`, `a,b`) and one `..`. A path is parsed
//! once, then reads, writes or removes as often as one likes. Writes copy only the way down to what
//! they write, so a tree that is shared with other documents never changes for them.
//!
//! Differences from Deckhand on purpose: a quoted key may hold dots also if it is created, an index
//! reads lists only (not the characters of a string), and removal removes what the path names instead of the
//! first value that is equal to it.

mod parse;
mod read;
mod write;

use std::sync::Arc;

pub use read::{Absence, Found};
pub use write::WriteError;

use crate::diagnostic::{Diagnostic, Mark};

/// The highest list index that a path may name, because a write pads the list up to it.
pub const MAX_INDEX: usize = 65_535;

/// How many steps a path may have.
pub const MAX_SEGMENTS: usize = 100;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: Arc<str>,
    /// Whether it begins as Deckhand wants it of paths that write: `.` or `$.`, or is the root.
    anchored: bool,
    segments: Vec<Segment>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// The value under a key.
    Key(Arc<str>),
    /// The values under several keys, in the order in which they are named.
    Keys(Vec<Arc<str>>),
    /// Every value of a map.
    EveryKey,
    /// One item of a list; negative counts from the end.
    Index(i64),
    /// Some items of a list; both ends may be left out or be negative.
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: usize,
    },
    /// The value itself and everything below it, parents first.
    Descendants,
}

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There is nothing.
    #[error("the path is empty")]
    Empty,
    /// The text ends if a key or an index must follow.
    #[error("the path ends where a key or an index must follow")]
    Unfinished,
    /// A character that cannot stand where it stands.
    #[error("unexpected `{character}` at character {at}")]
    Unexpected {
        /// The character.
        character: char,
        /// Which one it is, from 1.
        at: usize,
    },
    /// A quoted key without its closing quote.
    #[error("the quote at character {at} is not closed")]
    UnclosedQuote {
        /// Where the quote opens, from 1.
        at: usize,
    },
    /// A bracket whose content is neither an index, nor a slice, `*` or keys.
    #[error("`[{content}]` is neither an index, nor a slice, `*` or a quoted key")]
    Bracket {
        /// The text between the brackets.
        content: String,
    },
    /// An index beyond [`MAX_INDEX`].
    #[error("the index is beyond {MAX_INDEX}")]
    IndexTooLarge,
    /// More steps than [`MAX_SEGMENTS`].
    #[error("the path has more than {MAX_SEGMENTS} steps")]
    TooLong,
    /// More than one `..`.
    #[error("a path may hold `..` only once")]
    RepeatedDescent,
}

impl PathError {
    /// It, at the place that holds the text.
    pub(in crate::render) fn diagnostic(&self, mark: Mark, text: &str) -> Diagnostic {
        let message = format!("`{text}` is no path: {self}");
        let diagnostic = Diagnostic::error("render-path", mark, message);
        match self {
            Self::Unexpected { .. } => {
                diagnostic.hint("a key with such characters is written in quotes, as in `.'a/b'.c`")
            }
            _ => diagnostic,
        }
    }
}

impl WriteError {
    /// It, at the place that asks for the write.
    pub(in crate::render) fn diagnostic(&self, mark: Mark, path: &Path) -> Diagnostic {
        let message = format!("nothing can be written at `{path}`: {self}");
        Diagnostic::error("render-path-write", mark, message)
    }
}

impl Path {
    /// The path as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it names the whole value.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many steps it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether it has no steps, which is the same as [`Path::is_root`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The key that it ends with.
    pub(super) fn last_key(&self) -> Option<&str> {
        match self.segments.last() {
            Some(Segment::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Whether it holds `..`, so that it reaches deeper than it is long.
    pub(super) fn descends(&self) -> bool {
        self.segments.contains(&Segment::Descendants)
    }

    /// The path of a layering action, which may begin at the document instead of its data: a first
    /// step `data` is left out. Deckhand cuts off five characters, so that its `.database` is
    /// `base`; here only a whole step counts.
    #[must_use]
    pub fn without_data_prefix(mut self) -> Self {
        if matches!(self.segments.first(), Some(Segment::Key(key)) if &**key == "data") {
            self.segments.remove(0);
        }
        self
    }

    /// The same path, beginning at the root also if the leading `.` was left out.
    #[must_use]
    pub fn anchored(mut self) -> Self {
        self.anchored = true;
        self
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
