//! A tree of fields as lines.

use std::sync::Arc;

use super::flow::{key_name, rank};
use super::read::{Block, Content, Entry, Note, Part, Tree};
use super::{ENTRY, KeyOrder, LEVEL};

/// Writes a tree in the order of its keys.
pub(super) fn write(tree: &Tree<'_>, order: &KeyOrder<'_>) -> String {
    let mut out = String::new();
    for part in &tree.parts {
        match part {
            Part::Marker(line) => push_line(&mut out, 0, line),
            Part::Fields { head, block } => {
                let mut writer = Writer {
                    kind: kind_of(block),
                    path: Vec::new(),
                    order,
                    out: &mut out,
                };
                writer.notes(head, 0, false);
                writer.block(block, 0);
            }
        }
    }
    // One line break ends the text.
    let length = out.trim_end_matches('\n').len();
    out.truncate(length);
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// The kind of a document, as its field `schema` names it.
fn kind_of<'t>(block: &Block<'t>) -> Option<&'t str> {
    let mut entries = block.entries.iter();
    entries.find_map(|entry| match &entry.content {
        Content::Line(kind) if key_name(entry.key) == Some("schema") => key_name(kind),
        _ => None,
    })
}

/// Whether a field cannot begin on the line of a dash. An empty line above it means nothing.
fn has_comment_above(entry: &Entry<'_>) -> bool {
    let mut notes = entry.before.iter();
    notes.any(|note| matches!(note, Note::Comment(_)))
}

fn push_line(out: &mut String, indent: usize, text: &str) {
    if !text.is_empty() {
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str(text);
    }
    out.push('\n');
}

struct Writer<'w, 't> {
    kind: Option<&'t str>,
    path: Vec<&'t str>,
    order: &'w KeyOrder<'w>,
    out: &'w mut String,
}

impl<'t> Writer<'_, 't> {
    /// The names of the fields at a path of the document, in their order.
    fn names(kind: Option<&str>, order: &KeyOrder<'_>, path: &[&str]) -> Vec<Arc<str>> {
        match (path, kind) {
            (["data", ..], None) => Vec::new(),
            (["data", path @ ..], Some(kind)) => order(Some(kind), path),
            (path, _) => order(None, path),
        }
    }

    /// The entries of a block in their order.
    fn sorted<'b>(&self, block: &'b Block<'t>, is_on_dash: bool) -> Vec<&'b Entry<'t>> {
        let mut entries: Vec<&Entry<'t>> = block.entries.iter().collect();
        if block.is_list {
            return entries;
        }
        let names = Self::names(self.kind, self.order, &self.path);
        entries.sort_by_key(|entry| rank(&names, entry.key));
        // What stands above a field cannot stand above the first one on the line of a dash.
        match is_on_dash
            && entries
                .first()
                .is_some_and(|first| has_comment_above(first))
        {
            true => block.entries.iter().collect(),
            false => entries,
        }
    }

    fn block(&mut self, block: &Block<'t>, indent: usize) {
        let is_outermost = self.path.is_empty();
        for (number, entry) in self.sorted(block, false).into_iter().enumerate() {
            let is_first = number == 0 && !is_outermost;
            self.notes(&entry.before, indent, is_first);
            self.out.extend(std::iter::repeat_n(' ', indent));
            self.entry(entry, block.is_list, indent);
        }
        self.notes(&block.tail, indent, false);
    }

    /// Comments and empty lines, of which no two follow each other.
    fn notes(&mut self, notes: &[Note<'_>], indent: usize, is_first: bool) {
        let mut was_blank = is_first || self.out.is_empty() || self.out.ends_with("\n\n");
        for note in notes {
            match note {
                Note::Blank if was_blank => {}
                Note::Blank => self.out.push('\n'),
                Note::Comment(text) => push_line(self.out, indent, text),
            }
            was_blank = *note == Note::Blank;
        }
    }

    /// An entry whose column has been reached.
    fn entry(&mut self, entry: &Entry<'t>, is_in_list: bool, indent: usize) {
        match is_in_list {
            true => {
                self.out.push('-');
                self.path.push(ENTRY);
            }
            false => {
                self.out.push_str(entry.key);
                self.out.push(':');
                self.path.push(key_name(entry.key).unwrap_or_default());
            }
        }
        self.content(entry, is_in_list, indent);
        self.path.pop();
        self.notes(&entry.below, indent + LEVEL, false);
    }

    fn content(&mut self, entry: &Entry<'t>, is_in_list: bool, indent: usize) {
        let below = indent + LEVEL;
        match &entry.content {
            Content::Nothing => self.end(entry.comment),
            Content::Line(text) => {
                self.out.push(' ');
                self.out.push_str(text);
                self.end(entry.comment);
            }
            Content::Lines { first, lines } => {
                if !first.is_empty() {
                    self.out.push(' ');
                    self.out.push_str(first);
                }
                self.end(entry.comment);
                lines
                    .iter()
                    .for_each(|line| push_line(self.out, below, line));
            }
            Content::Literal { header, lines } => {
                self.out.push(' ');
                self.out.push_str(header);
                self.end(entry.comment);
                lines
                    .iter()
                    .for_each(|line| push_line(self.out, below, line));
            }
            Content::Flow(flow) => {
                self.out.push(' ');
                let (kind, order) = (self.kind, self.order);
                let names = |path: &[&str]| Self::names(kind, order, path);
                flow.write(&mut self.path, &names, self.out);
                self.end(entry.comment);
            }
            Content::Brackets { first, lines } => {
                self.out.push(' ');
                self.out.push_str(first);
                self.end("");
                for (column, text) in lines {
                    push_line(self.out, indent.saturating_add_signed(*column), text);
                }
            }
            Content::Block(block) if is_in_list => self.item(block, entry.comment, indent),
            Content::Block(block) => {
                self.end(entry.comment);
                self.block(block, below);
            }
        }
    }

    /// A map or a list as an entry of a list: it begins on the line of the dash if nothing stands above it.
    fn item(&mut self, block: &Block<'t>, comment: &str, indent: usize) {
        let below = indent + LEVEL;
        let entries = self.sorted(block, true);
        let is_below = entries.first().is_none_or(|first| has_comment_above(first));
        if is_below || !comment.is_empty() {
            self.end(comment);
            self.block(block, below);
            return;
        }
        for (number, entry) in entries.into_iter().enumerate() {
            if number == 0 {
                self.out.push(' ');
            } else {
                self.notes(&entry.before, below, false);
                self.out.extend(std::iter::repeat_n(' ', below));
            }
            self.entry(entry, block.is_list, below);
        }
        self.notes(&block.tail, below, false);
    }

    fn end(&mut self, comment: &str) {
        match (comment.is_empty(), comment.starts_with(' ')) {
            (true, _) => {}
            (false, true) => self.out.push_str(comment),
            (false, false) => {
                self.out.push(' ');
                self.out.push_str(comment);
            }
        }
        self.out.push('\n');
    }
}
