//! Lines to a tree of fields, with the comments and empty lines between them.

use super::Unformatted;
use super::flow::{self, Flow};

/// An empty line or a comment between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note<'t> {
    /// An empty line, or several.
    Blank,
    /// A comment, from its `#` on.
    Comment(&'t str),
}

impl<'t> Note<'t> {
    fn comment(&self) -> Option<&'t str> {
        match self {
            Self::Blank => None,
            Self::Comment(text) => Some(text),
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'t> {
    Nothing,
    /// A scalar on the line of its key.
    Line(&'t str),
    /// A scalar of several lines: what stands on the line of its key, and the others without their indentation.
    Lines {
        first: &'t str,
        lines: Vec<&'t str>,
    },
    /// A block of text: its header, and its lines without their common indentation.
    Literal {
        header: &'t str,
        lines: Vec<&'t str>,
    },
    /// A map or a list on one line.
    Flow(Flow<'t>),
    /// A map or a list in brackets on several lines: the rest of the first one, and the others with the blanks that they
    /// are indented by, beside the column of the field that they belong to.
    Brackets {
        first: &'t str,
        lines: Vec<(isize, &'t str)>,
    },
    Block(Block<'t>),
}

/// The fields of a map or the entries of a list, each on lines of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block<'t> {
    pub(super) is_list: bool,
    pub(super) entries: Vec<Entry<'t>>,
    /// The comments behind the last of them.
    pub(super) tail: Vec<Note<'t>>,
}

/// A field, or an entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    pub(super) before: Vec<Note<'t>>,
    /// Its key as it is written; empty in a list.
    pub(super) key: &'t str,
    pub(super) content: Content<'t>,
    /// The comment on its line, with the blanks before it.
    pub(super) comment: &'t str,
    /// Comments below it that are indented further than it is.
    pub(super) below: Vec<Note<'t>>,
}

/// A part of a text between the lines that begin documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// A line that begins with `---`.
    Marker(&'t str),
    /// The comments above all fields, and these.
    Fields {
        head: Vec<Note<'t>>,
        block: Block<'t>,
    },
}

/// A text as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree<'t> {
    pub(super) parts: Vec<Part<'t>>,
}

impl<'t> Tree<'t> {
    /// Returns all comments, sorted.
    pub(super) fn comments(&self) -> Vec<&'t str> {
        let mut found = Vec::new();
        let mut waiting: Vec<&Block<'t>> = Vec::new();
        for part in &self.parts {
            match part {
                Part::Marker(line) => found.push(*line),
                Part::Fields { head, block } => {
                    found.extend(head.iter().filter_map(Note::comment));
                    waiting.push(block);
                }
            }
        }
        while let Some(block) = waiting.pop() {
            let inner = block.entries.iter();
            let notes = inner.flat_map(|entry| entry.before.iter().chain(&entry.below));
            found.extend(notes.chain(&block.tail).filter_map(Note::comment));
            for entry in &block.entries {
                if !entry.comment.is_empty() {
                    found.push(entry.comment.trim_start());
                }
                if let Content::Block(block) = &entry.content {
                    waiting.push(block);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

/// A line without its indentation.
#[derive(Clone, Copy, Debug)]
struct Line<'t> {
    /// From 1 on.
    number: usize,
    indent: usize,
    /// The text behind the indentation, with the blanks at its end.
    text: &'t str,
    /// The whole line.
    raw: &'t str,
}

impl Line<'_> {
    fn is_blank(self) -> bool {
        self.text.trim_end().is_empty()
    }

    fn is_comment(self) -> bool {
        self.text.starts_with('#')
    }

    /// Whether an entry of a list begins here.
    fn is_entry(self) -> bool {
        let text = self.text.trim_end();
        text == "-" || text.starts_with("- ")
    }
}

/// Reads a text that is known to be sound YAML.
pub(super) fn read(text: &str) -> Result<Tree<'_>, Unformatted> {
    let mut parts = Vec::new();
    let mut lines = Vec::new();
    for (number, raw) in text.lines().enumerate() {
        let line = Line {
            number: number + 1,
            indent: raw.len() - raw.trim_start_matches(' ').len(),
            text: raw.trim_start_matches(' '),
            raw,
        };
        let is = |word: &str| {
            let rest = raw.strip_prefix(word);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        };
        if raw.starts_with('%') || is("...") {
            let why = "it has a line that is for the YAML reader alone";
            return Err(Unformatted::at(line.number, why));
        }
        if !is("---") {
            lines.push(line);
            continue;
        }
        let rest = raw[3..].trim();
        if !rest.is_empty() && !rest.starts_with('#') {
            let why = "it has a document that begins on the line of its `---`";
            return Err(Unformatted::at(line.number, why));
        }
        parts.push(read_document(std::mem::take(&mut lines))?);
        parts.push(Part::Marker(raw.trim_end()));
    }
    parts.push(read_document(lines)?);
    Ok(Tree { parts })
}

fn read_document(lines: Vec<Line<'_>>) -> Result<Part<'_>, Unformatted> {
    let mut reader = Reader {
        lines,
        at: 0,
        notes: Vec::new(),
    };
    let first = reader.next();
    let head = reader.notes.drain(..).map(|(_, note)| note).collect();
    let mut block = match first {
        None => Block::default(),
        Some(line) if line.is_entry() || field_of(line)?.is_none() => {
            let why = "its documents are not maps with a field on each line";
            return Err(Unformatted::at(line.number, why));
        }
        Some(line) => reader.block(line.indent, line.indent)?,
    };
    if let Some(line) = reader.lines.get(reader.at) {
        let why = "it has a line that belongs to no field";
        return Err(Unformatted::at(line.number, why));
    }
    block
        .tail
        .extend(reader.notes.into_iter().map(|(_, note)| note));
    Ok(Part::Fields { head, block })
}

/// A key and what is behind its colon.
type Field<'t> = (&'t str, &'t str);

/// The field that a line begins with; `None` if it is none.
fn field_of(line: Line<'_>) -> Result<Option<Field<'_>>, Unformatted> {
    let text = line.text.trim_end();
    let refused = |why| Err(Unformatted::at(line.number, why));
    match text.chars().next() {
        Some('&' | '*' | '!') => {
            return refused("it has an anchor, an alias or a tag");
        }
        Some('?') if text == "?" || text.starts_with("? ") => {
            return refused("it has a key behind a `?`");
        }
        Some('{' | '[') => {
            return match flow::read(text) {
                Some((_, rest)) if rest.trim_start().starts_with(':') => {
                    refused("it has a key that is a map or a list")
                }
                _ => Ok(None),
            };
        }
        Some('"' | '\'') => {
            let Some(length) = flow::quoted_length(text) else {
                return Ok(None);
            };
            let (key, rest) = text.split_at(length);
            let rest = rest.trim_start().strip_prefix(':');
            return Ok(rest.map(|rest| (key, rest)));
        }
        _ => {}
    }
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        match (character, next) {
            (':', None | Some(' ' | '\t')) => {
                let (key, rest) = (&text[..at], &text[at + 1..]);
                return Ok(Some((key.trim_end(), rest)));
            }
            (' ', Some('#')) => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
}

struct Reader<'t> {
    lines: Vec<Line<'t>>,
    at: usize,
    /// Comments and empty lines that belong to nothing yet, each with its column.
    notes: Vec<(usize, Note<'t>)>,
}

impl<'t> Reader<'t> {
    /// The next line that is neither empty nor a comment; those before it become notes.
    fn next(&mut self) -> Option<Line<'t>> {
        while let Some(line) = self.lines.get(self.at) {
            let note = match line {
                line if line.is_blank() => Note::Blank,
                line if line.is_comment() => Note::Comment(line.text.trim_end()),
                line => return Some(*line),
            };
            self.notes.push((line.indent, note));
            self.at += 1;
        }
        None
    }

    /// The notes up to the last of the first comments that are indented so far at least.
    fn notes_from(&mut self, least: usize) -> Vec<Note<'t>> {
        let outer = |(indent, note): &(usize, Note<'t>)| *note != Note::Blank && *indent < least;
        let end = self.notes.iter().position(outer);
        let inner = &self.notes[..end.unwrap_or(self.notes.len())];
        let last = inner.iter().rposition(|(_, note)| *note != Note::Blank);
        let taken = self.notes.drain(..last.map_or(0, |last| last + 1));
        taken.map(|(_, note)| note).collect()
    }

    /// Reads the map or list at a column. Comments behind it belong to it from the column `tail` on.
    fn block(&mut self, indent: usize, tail: usize) -> Result<Block<'t>, Unformatted> {
        let mut block = Block::default();
        while let Some(line) = self.next() {
            if line.indent != indent {
                break;
            }
            let is_list = line.is_entry();
            if block.entries.is_empty() {
                block.is_list = is_list;
            } else if block.is_list != is_list {
                break;
            }
            let before = self.notes.drain(..).map(|(_, note)| note).collect();
            let mut entry = match is_list {
                true => self.item(line)?,
                false => self.field(line)?,
            };
            entry.before = before;
            self.next();
            // A list in the column of its field leaves the comments of the next field alone.
            entry.below = self.notes_from(indent + 1);
            block.entries.push(entry);
        }
        if let Some(line) = self.lines.get(self.at)
            && line.indent > indent
        {
            let why = "it has a line that belongs to no field";
            return Err(Unformatted::at(line.number, why));
        }
        block.tail = self.notes_from(tail);
        Ok(block)
    }

    /// Reads an entry of a list.
    fn item(&mut self, line: Line<'t>) -> Result<Entry<'t>, Unformatted> {
        let behind = &line.text[1..];
        let text = behind.trim_start_matches(' ');
        let inner = Line {
            indent: line.indent + 1 + behind.len() - text.len(),
            text,
            ..line
        };
        let is_block = !inner.is_blank()
            && !inner.is_comment()
            && (inner.is_entry() || field_of(inner)?.is_some());
        if is_block {
            self.lines[self.at] = inner;
            return Ok(Entry {
                before: Vec::new(),
                key: "",
                content: Content::Block(self.block(inner.indent, inner.indent)?),
                comment: "",
                below: Vec::new(),
            });
        }
        self.value(line, "", behind)
    }

    /// Reads a field of a map.
    fn field(&mut self, line: Line<'t>) -> Result<Entry<'t>, Unformatted> {
        match field_of(line)? {
            Some((key, rest)) if !key.is_empty() => self.value(line, key, rest),
            _ => Err(Unformatted::at(
                line.number,
                "it has a line that is no field",
            )),
        }
    }

    /// Reads the value of a field or an entry that begins on a line, from what is behind its colon or its dash.
    fn value(
        &mut self,
        line: Line<'t>,
        key: &'t str,
        rest: &'t str,
    ) -> Result<Entry<'t>, Unformatted> {
        self.at += 1;
        let text = rest.trim();
        let refused = |why| Err(Unformatted::at(line.number, why));
        if rest.contains('\t') && !text.starts_with(['"', '\'']) {
            return refused("it has a tab between fields");
        }
        let mut comment = "";
        let content = match text.chars().next() {
            None | Some('#') => {
                comment = rest.trim_end();
                self.below(line, key)?
            }
            Some('&' | '*' | '!') => return refused("it has an anchor, an alias or a tag"),
            Some('|' | '>') => {
                let (header, behind) = commented(rest);
                comment = behind;
                if header.contains(|character: char| character.is_ascii_digit()) {
                    return refused(
                        "it has a block of text whose indentation is given by a number",
                    );
                }
                self.literal(line.indent, header)
            }
            Some('{' | '[') => match flow::read(text) {
                Some((flow, behind)) if is_end(behind) => {
                    comment = behind.trim_end();
                    Content::Flow(flow)
                }
                Some(_) => return refused("it has a text behind a bracket"),
                None => self.brackets(line, text)?,
            },
            Some('"' | '\'') => match flow::quoted_length(text) {
                Some(length) if is_end(&text[length..]) => {
                    comment = text[length..].trim_end();
                    Content::Line(&text[..length])
                }
                Some(_) => return refused("it has a text behind a quote"),
                None => self.quoted(line, text)?,
            },
            Some(_) => {
                let (scalar, behind) = commented(rest);
                comment = behind;
                let lines = match comment.is_empty() {
                    true => self.continued(line.indent),
                    false => Vec::new(),
                };
                match lines.is_empty() {
                    true => Content::Line(scalar),
                    false => Content::Lines {
                        first: scalar,
                        lines,
                    },
                }
            }
        };
        Ok(Entry {
            before: Vec::new(),
            key,
            content,
            comment,
            below: Vec::new(),
        })
    }

    /// Reads the value below a key that has none on its line.
    fn below(&mut self, line: Line<'t>, key: &str) -> Result<Content<'t>, Unformatted> {
        let Some(next) = self.next() else {
            return Ok(Content::Nothing);
        };
        if next.indent == line.indent && next.is_entry() && !key.is_empty() {
            return Ok(Content::Block(self.block(next.indent, next.indent + 1)?));
        }
        if next.indent <= line.indent {
            return Ok(Content::Nothing);
        }
        if next.is_entry() || field_of(next)?.is_some() {
            return Ok(Content::Block(self.block(next.indent, next.indent)?));
        }
        let refused = |why| Err(Unformatted::at(next.number, why));
        if next.text.starts_with(['|', '>', '{', '[', '"', '\'']) || !self.notes.is_empty() {
            return refused("it has a value on the line below its key");
        }
        let (scalar, comment) = commented(next.text);
        if !comment.is_empty() {
            return refused("it has a value on the line below its key");
        }
        self.at += 1;
        let mut lines = vec![scalar];
        lines.extend(self.continued(line.indent));
        Ok(Content::Lines { first: "", lines })
    }

    /// Reads the further lines of a plain scalar.
    fn continued(&mut self, indent: usize) -> Vec<&'t str> {
        let mut lines = Vec::new();
        loop {
            let rest = &self.lines[self.at..];
            let blanks = rest.iter().take_while(|line| line.is_blank()).count();
            match rest.get(blanks) {
                Some(next) if next.indent > indent && !next.is_comment() => {
                    lines.extend(std::iter::repeat_n("", blanks));
                    lines.push(next.text.trim_end());
                    self.at += blanks + 1;
                }
                _ => return lines,
            }
        }
    }

    /// Reads a quoted text that does not end on its first line.
    fn quoted(&mut self, line: Line<'t>, first: &'t str) -> Result<Content<'t>, Unformatted> {
        let quote = first.chars().next().unwrap_or('"');
        let mut lines = Vec::new();
        loop {
            let Some(next) = self.lines.get(self.at) else {
                let why = "it has a quoted text that is not read to its end";
                return Err(Unformatted::at(line.number, why));
            };
            self.at += 1;
            lines.push(next.text.trim_end());
            match flow::closing(quote, next.text) {
                None => {}
                Some(length) if next.text[length..].trim().is_empty() => {
                    return Ok(Content::Lines { first, lines });
                }
                Some(_) => {
                    let why = "it has a text behind a quote";
                    return Err(Unformatted::at(next.number, why));
                }
            }
        }
    }

    /// Reads the lines of a block of text.
    fn literal(&mut self, indent: usize, header: &'t str) -> Content<'t> {
        let rest = &self.lines[self.at..];
        let first = rest.iter().find(|line| !line.is_blank());
        // The first line gives the column of all; what is indented less is a comment behind them.
        let column = first
            .map(|line| line.indent)
            .filter(|column| *column > indent);
        let is_inside = |line: &&Line<'t>| {
            line.is_blank() || column.is_some_and(|column| line.indent >= column)
        };
        let mut count = rest.iter().take_while(is_inside).count();
        // Empty lines behind the text are of no meaning, but where all are kept.
        if !header.contains('+') {
            let inside = &rest[..count];
            count = inside
                .iter()
                .rposition(|line| !line.is_blank())
                .map_or(0, |last| last + 1);
        }
        let inside = &rest[..count];
        let column = column.unwrap_or_default();
        let lines = inside
            .iter()
            .map(|line| line.raw.get(column..).unwrap_or_default());
        let lines = lines.collect();
        self.at += count;
        Content::Literal { header, lines }
    }

    /// Reads a map or a list in brackets that does not end on its first line.
    fn brackets(&mut self, line: Line<'t>, first: &'t str) -> Result<Content<'t>, Unformatted> {
        let mut depth = 0_usize;
        let mut lines = Vec::new();
        let mut next = Line {
            text: first,
            ..line
        };
        loop {
            let why = "it has brackets that are not read to their end";
            let refused = Unformatted::at(next.number, why);
            let behind = nested(next.text, &mut depth).ok_or_else(|| refused.clone())?;
            if let Some(behind) = behind {
                return match is_end(behind) {
                    true => Ok(Content::Brackets { first, lines }),
                    false => Err(refused),
                };
            }
            next = *self.lines.get(self.at).ok_or(refused)?;
            self.at += 1;
            let column = next.indent.cast_signed() - line.indent.cast_signed();
            lines.push((column, next.text.trim_end()));
        }
    }
}

/// Follows brackets through a line: `None` if it has what is not known there, else what is behind the last of them
/// once all are closed.
fn nested<'t>(text: &'t str, depth: &mut usize) -> Option<Option<&'t str>> {
    let mut rest = text;
    let mut before = ' ';
    while let Some(character) = rest.chars().next() {
        let begins = matches!(before, ' ' | ',' | '[' | '{' | ':');
        match character {
            '"' | '\'' if begins => {
                rest = &rest[flow::quoted_length(rest)?..];
                before = character;
                continue;
            }
            '#' if before == ' ' => return Some(None),
            '&' | '*' | '!' | '\t' if begins => return None,
            '[' | '{' => *depth += 1,
            ']' | '}' => {
                *depth = depth.checked_sub(1)?;
                if *depth == 0 {
                    return Some(Some(&rest[1..]));
                }
            }
            _ => {}
        }
        before = character;
        rest = &rest[character.len_utf8()..];
    }
    Some(None)
}

/// A plain text without its comment, and the comment with the blanks before it.
fn commented(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    match text.find(" #") {
        Some(at) => {
            let scalar = text[..at].trim_end();
            (scalar.trim_start(), &text[scalar.len()..])
        }
        None => (text.trim_start(), ""),
    }
}

/// Whether nothing but a comment follows a value.
fn is_end(behind: &str) -> bool {
    let text = behind.trim();
    text.is_empty() || (text.starts_with('#') && behind.starts_with(' '))
}
