//! From text to [`Path`].
//!
//! Strict where Deckhand's lexer is strict (a bare key holds letters, digits, `_`, `-` and `@`), so that
//! documents which are valid here are valid there; the error names the character, and quoting helps.

use std::sync::Arc;

use super::{MAX_INDEX, MAX_SEGMENTS, Path, PathError, Segment};

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// [`PathError`] if the text is not in the path language.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(PathError::Empty);
        }
        let path = |anchored, segments| Self {
            text: Arc::from(text),
            anchored,
            segments,
        };
        if matches!(trimmed, "." | "$") {
            return Ok(path(true, Vec::new()));
        }
        let mut cursor = Cursor {
            text: trimmed,
            at: 0,
        };
        cursor.take('$');
        let anchored = cursor.peek() == Some('.');
        let mut segments = Vec::new();
        if cursor.at == 0 && !anchored {
            segments.push(cursor.member()?);
        }
        while let Some(character) = cursor.peek() {
            match character {
                '.' => {
                    cursor.take('.');
                    let descends = cursor.take('.');
                    if descends && segments.contains(&Segment::Descendants) {
                        return Err(PathError::RepeatedDescent);
                    }
                    segments.extend(descends.then_some(Segment::Descendants));
                    segments.push(cursor.member()?);
                }
                '[' => segments.push(cursor.bracket()?),
                _ => return Err(cursor.unexpected(character)),
            }
            if segments.len() > MAX_SEGMENTS {
                return Err(PathError::TooLong);
            }
        }
        Ok(path(anchored, segments))
    }
}

/// A text and how far it is read, in bytes.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Which character the cursor is at, from 1.
    fn character(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn unexpected(&self, character: char) -> PathError {
        PathError::Unexpected {
            character,
            at: self.character(),
        }
    }

    /// The segments after a dot: keys, `*`, or a bracket.
    fn member(&mut self) -> Result<Segment, PathError> {
        match self.peek() {
            None => Err(PathError::Unfinished),
            Some('[') => self.bracket(),
            Some('*') => {
                self.take('*');
                Ok(Segment::EveryKey)
            }
            Some(_) => self.keys(),
        }
    }

    /// One key, or several joined by `|` or `,`.
    fn keys(&mut self) -> Result<Segment, PathError> {
        let mut keys = vec![self.key()?];
        while self.take('|') || self.take(',') {
            keys.push(self.key()?);
        }
        Ok(match <[Arc<str>; 1]>::try_from(keys) {
            Ok([key]) => Segment::Key(key),
            Err(keys) => Segment::Keys(keys),
        })
    }

    fn key(&mut self) -> Result<Arc<str>, PathError> {
        match self.peek() {
            None => return Err(PathError::Unfinished),
            Some(quote @ ('\'' | '"')) => return self.quoted(quote),
            Some(_) => {}
        }
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@')))
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(rest
                .chars()
                .next()
                .map_or(PathError::Unfinished, |character| {
                    self.unexpected(character)
                }));
        }
        self.at += end;
        Ok(Arc::from(&rest[..end]))
    }

    /// A key in quotes; a backslash takes the next character as it is.
    fn quoted(&mut self, quote: char) -> Result<Arc<str>, PathError> {
        let opened = self.character();
        self.take(quote);
        let mut key = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.at += at + quote.len_utf8();
                    return Ok(Arc::from(key));
                }
                '\\' => key.extend(characters.next().map(|(_, escaped)| escaped)),
                _ => key.push(character),
            }
        }
        Err(PathError::UnclosedQuote { at: opened })
    }

    /// `[n]`, `[*]`, `[start:end:step]`, `['key']`.
    fn bracket(&mut self) -> Result<Segment, PathError> {
        self.take('[');
        if matches!(self.peek(), Some('\'' | '"')) {
            let keys = self.keys()?;
            return match self.peek() {
                Some(']') => {
                    self.take(']');
                    Ok(keys)
                }
                Some(character) => Err(self.unexpected(character)),
                None => Err(PathError::Unfinished),
            };
        }
        let rest = self.rest();
        let end = rest.find(']').ok_or(PathError::Unfinished)?;
        let content = rest[..end].trim();
        let segment = bracket_content(content)?;
        self.at += end + 1;
        Ok(segment)
    }
}

fn bracket_content(content: &str) -> Result<Segment, PathError> {
    let wrong = || PathError::Bracket {
        content: content.to_owned(),
    };
    if content == "*" {
        return Ok(Segment::Slice {
            start: None,
            end: None,
            step: 1,
        });
    }
    if !content.contains(':') {
        return Ok(Segment::Index(integer(content)?.ok_or_else(wrong)?));
    }
    let parts: Vec<_> = content.split(':').map(str::trim).collect();
    let part = |index: usize| match parts.get(index) {
        None | Some(&"") => Ok(None),
        Some(text) => integer(text)?.map(Some).ok_or_else(wrong),
    };
    let step = match part(2)? {
        None => 1,
        Some(step) => usize::try_from(step)
            .ok()
            .filter(|step| *step > 0)
            .ok_or_else(wrong)?,
    };
    if parts.len() > 3 {
        return Err(wrong());
    }
    Ok(Segment::Slice {
        start: part(0)?,
        end: part(1)?,
        step,
    })
}

/// An integer, `None` if the text is none.
fn integer(text: &str) -> Result<Option<i64>, PathError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    text.parse::<i64>()
        .ok()
        .filter(|number| number.unsigned_abs() <= MAX_INDEX as u64)
        .map(Some)
        .ok_or(PathError::IndexTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(text: &str) -> String {
        match Path::parse(text) {
            Ok(path) => path
                .segments
                .iter()
                .map(|segment| match segment {
                    Segment::Key(key) => format!("<{key}>"),
                    Segment::Keys(keys) => format!("<{}>", keys.join("+")),
                    Segment::EveryKey => "<*>".to_owned(),
                    Segment::Index(index) => format!("[{index}]"),
                    Segment::Slice { start, end, step } => format!("[{start:?}..{end:?}/{step}]"),
                    Segment::Descendants => "…".to_owned(),
                })
                .collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_form_of_a_path_is_understood() {
        for (text, expected) in [
            (".", ""),
            ("$", ""),
            (" . ", ""),
            (".a", "<a>"),
            ("$.a", "<a>"),
            ("schema", "<schema>"),
            ("a.b", "<a><b>"),
            ("$[0]", "[0]"),
            (".[0].x", "[0]<x>"),
            (".a-b._c.@d.X005-e", "<a-b><_c><@d><X005-e>"),
            (".a[0][10].b", "<a>[0][10]<b>"),
            (".a[-1]", "<a>[-1]"),
            (".a.'filter:authtoken'.b", "<a><filter:authtoken><b>"),
            (".\"x.y/z\".b", "<x.y/z><b>"),
            (r".'it\'s'", "<it's>"),
            (".['x y'].b", "<x y><b>"),
            (".a[*].b", "<a>[None..None/1]<b>"),
            (".a.*.b", "<a><*><b>"),
            (".a[1:3]", "<a>[Some(1)..Some(3)/1]"),
            (".a[:-1:2]", "<a>[None..Some(-1)/2]"),
            ("$.a|b.c", "<a+b><c>"),
            (".a,b", "<a+b>"),
            (".a..b", "<a>…<b>"),
            ("..b", "…<b>"),
        ] {
            assert_eq!(segments(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_reason() {
        for (text, expected) in [
            ("", "the path is empty"),
            (".a.", "the path ends where a key or an index must follow"),
            ("..", "the path ends where a key or an index must follow"),
            (".a[0", "the path ends where a key or an index must follow"),
            (".a/b", "unexpected `/` at character 3"),
            (".ä", "unexpected `ä` at character 2"),
            (".a b", "unexpected ` ` at character 3"),
            (".a?", "unexpected `?` at character 3"),
            (".'a", "the quote at character 2 is not closed"),
            (
                ".a[b]",
                "`[b]` is neither an index, nor a slice, `*` or a quoted key",
            ),
            (
                ".a[1:2:0]",
                "`[1:2:0]` is neither an index, nor a slice, `*` or a quoted key",
            ),
            (".a[99999999999]", "the index is beyond 65535"),
            (".a[65536]", "the index is beyond 65535"),
            ("..a..b", "a path may hold `..` only once"),
        ] {
            assert_eq!(segments(text), expected, "{text}");
        }
        assert_eq!(Path::parse(&".a".repeat(101)), Err(PathError::TooLong));
    }

    #[test]
    fn only_a_whole_first_step_named_data_is_left_out_of_an_action_path() {
        for (text, expected) in [
            (".data", 0),
            (".data.a", 1),
            ("$.data.a", 1),
            ("data.a", 1),
            (".database", 1),
            (".a.data", 2),
        ] {
            let path = Path::parse(text).unwrap().without_data_prefix();
            assert_eq!(path.len(), expected, "{text}");
        }
    }
}
