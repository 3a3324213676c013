//! The differences between two revisions, per document and field, as text and as JSON.
//!
//! Values come as the comparison gives them out: short, on one line, and `(secret)` if a side is secret.
//! Texts of several lines are compared line by line below their field.

mod html;

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::Value as Json;

pub use html::{Compared, html};

use super::escape::{push_visible, unsafe_characters};
use super::{Palette, Role, Visible, counted, json};
use crate::design::NodeName;
use crate::diagnostic::{Mark, Place, Sources};
use crate::diff::{
    ChangedDocument, DocumentDiff, FieldDiff, Line, LineKind, PresentDocument, Reached, lines,
};
use crate::document::{Document, JsonLayout, Node, Value, write_json};

/// The version of the JSON object that [`json`](self::json()) writes.
pub const FORMAT_VERSION: u32 = 1;

/// Lines around each difference in a text of several lines.
const CONTEXT: usize = 2;
/// Nodes that a document is said to reach by name.
const MOST_NODES: usize = 8;

/// Writes every document that differs, with its sign, its place and its fields, then the counts.
///
/// # Errors
///
/// Only if `out` fails.
pub fn text(
    out: &mut dyn Write,
    diff: &DocumentDiff,
    sources: &Sources,
    reached: &Reached,
    palette: Palette,
) -> fmt::Result {
    for (_, text) in each(diff, sources, Some(reached), palette)? {
        out.write_str(&text)?;
    }
    writeln!(out, "{}", summary(diff))
}

/// How a document differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::report) enum Difference {
    Added,
    Removed,
    Changed,
}

/// Every document that differs, as text; with the nodes that it reaches, if these are known.
pub(in crate::report) fn each(
    diff: &DocumentDiff,
    sources: &Sources,
    reached: Option<&Reached>,
    palette: Palette,
) -> Result<Vec<(Difference, String)>, fmt::Error> {
    let mut all = Vec::new();
    for (kind, sign, role, documents) in [
        (Difference::Added, "+", Role::Added, &diff.added),
        (Difference::Removed, "-", Role::Removed, &diff.removed),
    ] {
        for PresentDocument { document, .. } in documents {
            let mut text = String::new();
            let sign = palette.paint(role, sign);
            heading(&mut text, sign, document, sources, palette)?;
            nodes(&mut text, document, reached, palette)?;
            all.push((kind, text));
        }
    }
    for changed in &diff.changed {
        let mut text = String::new();
        let sign = palette.paint(Role::Changed, "~");
        heading(&mut text, sign, &changed.after, sources, palette)?;
        nodes(&mut text, &changed.after, reached, palette)?;
        for difference in &changed.fields {
            field(&mut text, difference, sources, palette)?;
        }
        all.push((Difference::Changed, text));
    }
    Ok(all)
}

/// Every document that differs, as JSON on one line.
pub(in crate::report) fn each_as_json(
    diff: &DocumentDiff,
    sources: &Sources,
) -> Result<Vec<(Difference, String)>, fmt::Error> {
    let mut all = Vec::new();
    for (kind, documents) in [
        (Difference::Added, &diff.added),
        (Difference::Removed, &diff.removed),
    ] {
        for document in documents {
            all.push((kind, json::line(&side(document, sources, None))?));
        }
    }
    for document in &diff.changed {
        let line = json::line(&changed(document, sources, None)?)?;
        all.push((Difference::Changed, line));
    }
    Ok(all)
}

/// The counts on one line: `Documents: 1 added, 2 changed, 0 removed, 40 unchanged.`
#[must_use]
pub fn summary(diff: &DocumentDiff) -> String {
    if diff.is_empty() {
        return format!("No differences: {} unchanged.", diff.unchanged);
    }
    format!(
        "Documents: {} added, {} changed, {} removed, {} unchanged.",
        diff.added.len(),
        diff.changed.len(),
        diff.removed.len(),
        diff.unchanged
    )
}

fn heading(
    out: &mut dyn Write,
    sign: impl fmt::Display,
    document: &Document,
    sources: &Sources,
    palette: Palette,
) -> fmt::Result {
    let id = document.id.to_string();
    write!(out, "{sign} {}", palette.paint(Role::Strong, Visible(&id)))?;
    if let Some(layer) = &document.layer {
        write!(out, " ({})", Visible(layer))?;
    }
    let place = sources.place(document.mark);
    let place = format!("{}:{}", Visible(&place.path), place.line);
    writeln!(out, "  {}", palette.paint(Role::Faint, place))
}

/// The nodes that a document reaches, the first of them by name.
fn nodes(
    out: &mut dyn Write,
    document: &Document,
    reached: Option<&Reached>,
    palette: Palette,
) -> fmt::Result {
    let Some(reached) = reached else {
        return Ok(());
    };
    let nodes = reached.by(&document.id);
    let all = nodes.len();
    if all == 0 {
        return Ok(());
    }
    let names: Vec<&str> = nodes.take(MOST_NODES).map(|node| node.as_str()).collect();
    let more = match all - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "reaches {}: {}{more}",
        counted(all, "node", "nodes"),
        names.join(", ")
    );
    writeln!(out, "    {}", palette.paint(Role::Faint, Visible(&text)))
}

fn field(
    out: &mut dyn Write,
    difference: &FieldDiff,
    sources: &Sources,
    palette: Palette,
) -> fmt::Result {
    let (sign, role) = match (&difference.before, &difference.after) {
        (None, _) => ("+", Role::Added),
        (_, None) => ("-", Role::Removed),
        _ => ("~", Role::Changed),
    };
    let sign = palette.paint(role, sign);
    write!(out, "    {sign} {}", Visible(&difference.path))?;
    if let Some(from) = &difference.moved_from {
        write!(out, " (moved from {})", Visible(from))?;
    }
    let hunks = match (several_lines(difference), difference.moved_from.is_some()) {
        (Some((before, after)), _) => lines(before, after, CONTEXT),
        (None, moved) => {
            match difference.shown() {
                [Some(before), Some(after)] if !moved || before != after => {
                    write!(out, ": {} → {}", Visible(&before), Visible(&after))?;
                }
                [Some(only), None] | [None, Some(only)] => write!(out, ": {}", Visible(&only))?,
                _ => {}
            }
            Vec::new()
        }
    };
    let node = difference.after.as_ref().or(difference.before.as_ref());
    if let Some(node) = node {
        let place = sources.place(node.mark);
        let place = format!("{}:{}", Visible(&place.path), place.line);
        write!(out, "  {}", palette.paint(Role::Faint, place))?;
    }
    writeln!(out)?;
    each_hunk(out, &hunks, palette)
}

/// Writes the lines in which two texts without secrets differ.
///
/// # Errors
///
/// Only if `out` fails.
pub fn texts(out: &mut dyn Write, before: &str, after: &str, palette: Palette) -> fmt::Result {
    each_hunk(out, &lines(before, after, CONTEXT), palette)
}

fn each_hunk(out: &mut dyn Write, hunks: &[Vec<Line>], palette: Palette) -> fmt::Result {
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 {
            writeln!(out, "        {}", palette.paint(Role::Faint, "…"))?;
        }
        for line in hunk {
            one_line(out, line, palette)?;
        }
    }
    Ok(())
}

/// Both sides if they are texts and one of them has several lines; never if one is secret.
fn several_lines(difference: &FieldDiff) -> Option<(&str, &str)> {
    let (before, after) = (difference.before.as_ref()?, difference.after.as_ref()?);
    if before.is_secret() || after.is_secret() {
        return None;
    }
    match (&before.value, &after.value) {
        (Value::String(before), Value::String(after))
            if before.contains('\n') || after.contains('\n') =>
        {
            Some((before, after))
        }
        _ => None,
    }
}

fn one_line(out: &mut dyn Write, line: &Line, palette: Palette) -> fmt::Result {
    let (sign, role) = match line.kind {
        LineKind::Same => (" ", None),
        LineKind::Removed => ("-", Some(Role::Removed)),
        LineKind::Added => ("+", Some(Role::Added)),
    };
    match role {
        Some(role) => write!(out, "        {} ", palette.paint(role, sign))?,
        None => write!(out, "        {sign} ")?,
    }
    // What is a command is one as a whole line, however its parts are painted.
    let whole: String = line.parts.iter().map(|(_, part)| part.as_str()).collect();
    let mut characters = unsafe_characters(&whole);
    for (differs, part) in &line.parts {
        let mut text = String::with_capacity(part.len());
        for (_, character, is_unsafe) in characters.by_ref().take(part.chars().count()) {
            push_visible(&mut text, character, is_unsafe);
        }
        match role {
            Some(role) if *differs => write!(out, "{}", palette.paint(role, text))?,
            _ => out.write_str(&text)?,
        }
    }
    writeln!(out)
}

#[derive(Serialize)]
struct Differences<'a> {
    format_version: u32,
    added: Vec<One<'a>>,
    removed: Vec<One<'a>>,
    changed: Vec<Changed<'a>>,
    unchanged: usize,
}

#[derive(Serialize)]
struct One<'a> {
    schema: &'a str,
    name: &'a str,
    layer: Option<&'a str>,
    place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<&'a NodeName>>,
}

#[derive(Serialize)]
struct Changed<'a> {
    schema: &'a str,
    name: &'a str,
    layer: Option<&'a str>,
    place_before: Place,
    place_after: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<&'a NodeName>>,
    fields: Vec<Field<'a>>,
}

#[derive(Serialize)]
struct Field<'a> {
    path: &'a str,
    /// Whether the values are secret, or hold secrets.
    secret: bool,
    /// Absent if the field was absent; null is a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Json>,
    place_before: Option<Place>,
    place_after: Option<Place>,
    moved_from: Option<&'a Arc<str>>,
}

/// Writes one JSON object: `format_version`, `added`, `removed`, `changed` with the fields of each document,
/// and `unchanged`; each document with the `nodes` that it reaches. Values are whole; secrets in them are `(secret)`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn json(
    out: &mut dyn Write,
    diff: &DocumentDiff,
    sources: &Sources,
    reached: &Reached,
) -> fmt::Result {
    let all = Differences {
        format_version: FORMAT_VERSION,
        added: diff
            .added
            .iter()
            .map(|each| side(each, sources, Some(reached)))
            .collect(),
        removed: diff
            .removed
            .iter()
            .map(|each| side(each, sources, Some(reached)))
            .collect(),
        changed: diff
            .changed
            .iter()
            .map(|each| changed(each, sources, Some(reached)))
            .collect::<Result<_, fmt::Error>>()?,
        unchanged: diff.unchanged,
    };
    json::pretty(out, &all)
}

fn side<'a>(
    present: &'a PresentDocument,
    sources: &Sources,
    reached: Option<&'a Reached>,
) -> One<'a> {
    let document = &present.document;
    One {
        schema: &document.id.schema,
        name: &document.id.name,
        layer: document.layer.as_deref(),
        place: sources.place(document.mark),
        nodes: reached.map(|reached| reached.by(&document.id).collect()),
    }
}

fn changed<'a>(
    document: &'a ChangedDocument,
    sources: &Sources,
    reached: Option<&'a Reached>,
) -> Result<Changed<'a>, fmt::Error> {
    let place = |node: &Option<Node>| node.as_ref().map(|node| sources.place(node.mark));
    let at = |mark: Mark| sources.place(mark);
    Ok(Changed {
        schema: &document.id.schema,
        name: &document.id.name,
        layer: document.layer.as_deref(),
        place_before: at(document.before.mark),
        place_after: at(document.after.mark),
        nodes: reached.map(|reached| reached.by(&document.id).collect()),
        fields: document
            .fields
            .iter()
            .map(|field| {
                Ok(Field {
                    path: &field.path,
                    secret: [&field.before, &field.after]
                        .into_iter()
                        .flatten()
                        .any(|node| node.is_secret()),
                    before: field.before.as_ref().map(value).transpose()?,
                    after: field.after.as_ref().map(value).transpose()?,
                    place_before: place(&field.before),
                    place_after: place(&field.after),
                    moved_from: field.moved_from.as_ref(),
                })
            })
            .collect::<Result<_, fmt::Error>>()?,
    })
}

/// A value with its secrets hidden.
fn value(node: &Node) -> Result<Json, fmt::Error> {
    let mut text = String::new();
    write_json(node, false, JsonLayout::Compact, &mut text);
    serde_json::from_str(&text).map_err(|_| fmt::Error)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::diff::documents;
    use crate::document::{LoadSettings, load};

    fn differences() -> (DocumentDiff, Sources) {
        let mut sources = Sources::new();
        let settings = LoadSettings::default();
        let mut load = |path: &str, text: &str| {
            let file = load(sources.add(path, text), text, &settings);
            assert!(!file.diagnostics.has_errors(), "{:#?}", file.diagnostics);
            file.documents
        };
        let before = load(
            "before.yaml",
            "---\nschema: e/A/v1\nmetadata: {schema: metadata/Document/v1, name: a, storagePolicy: cleartext, layeringDefinition: {layer: site}}\ndata: {kernel: one, gone: 1, text: \"a\\nb\\nc\\n\"}\n---\nschema: e/S/v1\nmetadata: {schema: metadata/Document/v1, name: s, storagePolicy: encrypted, layeringDefinition: {layer: site}}\ndata: hunter2\n---\nschema: e/Old/v1\nmetadata: {schema: metadata/Document/v1, name: old, storagePolicy: cleartext, layeringDefinition: {layer: site}}\ndata: {}\n",
        );
        let after = load(
            "after.yaml",
            "---\nschema: e/A/v1\nmetadata: {schema: metadata/Document/v1, name: a, storagePolicy: cleartext, layeringDefinition: {layer: site}}\ndata: {kernel: \"t\\u001b[2Jwo\", text: \"a\\nB\\nc\\n\", more: [x]}\n---\nschema: e/S/v1\nmetadata: {schema: metadata/Document/v1, name: s, storagePolicy: encrypted, layeringDefinition: {layer: site}}\ndata: hunter3\n---\nschema: e/New/v1\nmetadata: {schema: metadata/Document/v1, name: new, storagePolicy: cleartext, layeringDefinition: {layer: site}}\ndata: {}\n",
        );
        (documents(&before, &after), sources)
    }

    #[test]
    fn text_shows_documents_and_fields_with_signs_and_places_and_no_secret() {
        let (diff, sources) = differences();
        let mut out = String::new();
        text(
            &mut out,
            &diff,
            &sources,
            &Reached::default(),
            Palette::Plain,
        )
        .unwrap();
        assert!(!out.contains("hunter") && !out.contains('\u{1b}'), "{out}");
        assert_snapshot!(out, @r#"
        + e/New/v1/new (site)  after.yaml:10
        - e/Old/v1/old (site)  before.yaml:10
        ~ e/A/v1/a (site)  after.yaml:2
            - .data.gone: 1  before.yaml:4
            ~ .data.kernel: one → "t\e[2Jwo"  after.yaml:4
            + .data.more: ["x"]  after.yaml:4
            ~ .data.text  after.yaml:4
                  a
                - b
                + B
                  c
        ~ e/S/v1/s (site)  after.yaml:6
            ~ .data: (secret) → (secret)  after.yaml:8
        Documents: 1 added, 2 changed, 1 removed, 0 unchanged.
        "#);
    }

    #[test]
    fn a_line_becomes_no_command_by_the_sum_of_its_parts() {
        let line = |kind, parts: &[&str]| Line {
            kind,
            parts: parts
                .iter()
                .map(|part| (true, (*part).to_owned()))
                .collect(),
            before: None,
            after: None,
        };
        let mut out = String::new();
        for line in [
            line(LineKind::Added, &["#", "#", "[set-output name=x]", "y"]),
            line(LineKind::Same, &[":", ":error::x"]),
        ] {
            one_line(&mut out, &line, Palette::Plain).unwrap();
        }
        assert_eq!(
            out,
            "        + #\\u{23}[set-output name=x]y\n          \\u{3a}:error::x\n"
        );
    }

    #[test]
    fn json_has_whole_values_and_no_secret() {
        let (diff, sources) = differences();
        let mut out = String::new();
        json(&mut out, &diff, &sources, &Reached::default()).unwrap();
        assert!(!out.contains("hunter") && !out.contains('\u{1b}'), "{out}");
        let value: Json = serde_json::from_str(&out).unwrap();
        assert_eq!(value["format_version"], 1);
        assert_eq!(value["added"][0]["name"], "new");
        assert_eq!(value["removed"][0]["place"]["file"], "before.yaml");
        let fields = value["changed"][0]["fields"].as_array().unwrap();
        assert!(
            fields
                .iter()
                .any(|field| field["after"] == Json::from(vec!["x"])
                    && field.get("before").is_none())
        );
        let secret = &value["changed"][1]["fields"][0];
        assert_eq!(
            (&secret["secret"], &secret["after"]),
            (&Json::from(true), &Json::from("(secret)"))
        );
    }

    #[test]
    fn a_page_shows_both_sides_with_the_lines_and_words_that_differ_and_no_secret() {
        let (diff, sources) = differences();
        let mut out = String::new();
        let sides = Compared {
            site: "<x>",
            before: "main",
            after: "worktree",
            rendered: false,
        };
        html(&mut out, &diff, &sources, &Reached::default(), sides).unwrap();
        assert!(!out.contains("hunter") && !out.contains('\u{1b}'), "{out}");
        for part in [
            "site <b>&lt;x&gt;</b>",
            "<h1>2 documents changed, 1 added, 1 removed</h1>",
            "<code><del>one</del></code>",
            "   1 </i>a\n<i class=\"none\">   2 </i><del>b</del>\n<i class=\"none\">   3 </i>c\n",
            "   1 </i>a\n<i class=\"none\">   2 </i><ins>B</ins>\n<i class=\"none\">   3 </i>c\n",
            "e/New/v1/new",
        ] {
            assert!(out.contains(part), "{part}: {out}");
        }
    }

    #[test]
    fn no_difference_is_one_line() {
        let mut out = String::new();
        let none = DocumentDiff {
            unchanged: 3,
            ..DocumentDiff::default()
        };
        text(
            &mut out,
            &none,
            &Sources::new(),
            &Reached::default(),
            Palette::Plain,
        )
        .unwrap();
        assert_eq!(out, "No differences: 3 unchanged.\n");
    }
}
