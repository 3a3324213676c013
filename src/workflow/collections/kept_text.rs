//! The text of documents that are put in again: a client that reads them and writes them out loses comments and order.

use std::collections::BTreeMap;

use crate::diagnostic::Sources;
use crate::document::{Limits, Node, load_values};

/// A document of a file: its text from its `---` to the next, and its value.
struct Piece<'t> {
    text: &'t str,
    value: Node,
}

/// Schema, layer and name.
type Identity = (String, String, String);

/// The text of a file whose documents are those of `new`: each that is equal to one of `old` has the text and the place that
/// it has there, one that differs its new text in that place, and those that `old` has not stand behind all others.
///
/// `None`: a text cannot be taken apart, and the new one is to be kept as it is.
pub(super) fn kept(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let new = std::str::from_utf8(new).ok()?;
    // A text with comments was written by a person, who may have changed nothing else.
    if new
        .lines()
        .any(|line| line.trim_start().starts_with('#') || line.contains(" #"))
    {
        return None;
    }
    let old = pieces(std::str::from_utf8(old).ok()?)?;
    let new = pieces(new)?;
    let mut written = BTreeMap::new();
    for (at, piece) in new.iter().enumerate() {
        if written.insert(identity(&piece.value)?, at).is_some() {
            return None;
        }
    }
    let mut text = String::new();
    for piece in &old {
        if let Some(at) = written.remove(&identity(&piece.value)?) {
            let piece = match new[at].value == piece.value {
                true => piece,
                false => &new[at],
            };
            put(&mut text, piece.text);
        }
    }
    let mut added: Vec<usize> = written.into_values().collect();
    added.sort_unstable();
    for at in added {
        put(&mut text, new[at].text);
    }
    Some(text.into_bytes())
}

/// Adds a document, behind a `---` of its own if another one precedes it.
fn put(text: &mut String, piece: &str) {
    if !text.is_empty() {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if !piece.lines().any(is_start) {
            text.push_str("---\n");
        }
    }
    text.push_str(piece);
}

fn identity(value: &Node) -> Option<Identity> {
    let text = |path: &[&str]| value.at(path).and_then(Node::as_str).map(str::to_owned);
    Some((
        text(&["schema"])?,
        text(&["metadata", "layeringDefinition", "layer"]).unwrap_or_default(),
        text(&["metadata", "name"])?,
    ))
}

/// Whether a line begins a document: nothing else of YAML can begin so.
fn is_start(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// The documents of a text; what stands before the first `---` belongs to the first one.
fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    let mut starts = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        // Directives count for the document behind them, and end that before it.
        if line.starts_with('%') || line.trim_end() == "..." {
            return None;
        }
        if is_start(line) {
            starts.push(offset);
        }
        offset += line.len();
    }
    let before = &text[..starts.first().copied().unwrap_or(text.len())];
    let is_comment = |line: &str| line.trim().is_empty() || line.starts_with('#');
    match starts.first_mut() {
        Some(first) if before.lines().all(is_comment) => *first = 0,
        _ => starts.insert(0, 0),
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut sources = Sources::new();
    let mut pieces = Vec::with_capacity(starts.len());
    for (start, end) in starts.iter().copied().zip(ends) {
        let text = &text[start..end];
        let source = sources.add("document", text);
        let (mut values, problems) = load_values(source, text, &Limits::default());
        let value = values.pop()?;
        if problems.has_errors() || !values.is_empty() {
            return None;
        }
        // Nothing between two `---`.
        if !value.is_null() {
            pieces.push(Piece { text, value });
        }
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# The racks of hall 2.\n---\nschema: drydock/Rack/v1  # hall 2\nmetadata: {name: b}\ndata: {x: 1, y: [a]}\n---\n\
                       # Older.\nschema: drydock/Rack/v1\nmetadata:\n  name: a\ndata: {}\n";

    fn text(new: &str) -> Option<String> {
        kept(OLD.as_bytes(), new.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn documents_that_are_equal_keep_their_text_and_their_order() {
        let a = "---\ndata: {}\nmetadata: {name: a}\nschema: drydock/Rack/v1\n";
        let b = "---\ndata:\n  y:\n  - a\n  x: 1\nmetadata: {name: b}\nschema: drydock/Rack/v1\n";
        assert_eq!(text(&format!("{a}{b}")).as_deref(), Some(OLD));
        let (first, second) = OLD.split_at(OLD.rfind("---").unwrap());
        let changed = b.replace("x: 1", "x: 2");
        assert_eq!(
            text(&format!("{a}{changed}")),
            Some(format!("{changed}{second}"))
        );
        let new = "---\nschema: drydock/Rack/v1\nmetadata: {name: c}\ndata: {}\n";
        assert_eq!(text(&format!("{new}{a}{b}")), Some(format!("{OLD}{new}")));
        assert_eq!(text(b), Some(first.to_owned()));
        let bare = new.trim_start_matches("---\n").trim_end();
        assert_eq!(
            text(&format!("{bare}\n{b}")),
            Some(format!("{first}{new}").trim_end().to_owned() + "\n")
        );
    }

    #[test]
    fn what_cannot_be_taken_apart_is_left_as_it_is_given() {
        for odd in [
            "%YAML 1.2\n---\nschema: x\n",
            "- 1\n",
            &format!("{OLD}# Checked.\n"),
            "---\nschema: drydock/Rack/v1\nmetadata: {name: a}\n---\nschema: drydock/Rack/v1\nmetadata: {name: a}\n",
            "---\nschema: [\n",
        ] {
            assert_eq!(text(odd), None, "{odd}");
        }
        assert_eq!(kept(&[0xff], b"x: 1"), None);
    }
}
