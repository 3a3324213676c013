//! Text of a file to documents: every document that can be read, and all problems at once.
//!
//! A syntax error costs one document only: reading goes on at the next line that begins with `---`.
//! Nothing here changes [`Sources`](crate::diagnostic::Sources), so that files can be read on several threads; the byte
//! ranges that hold secrets are handed back, for the caller to hide.

use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::build::Builder;
use super::envelope::from_envelope;
use super::positions::{Positions, is_old_line_break};
use super::syntax::{Opened, explain};
use super::{Document, Limits, LoadSettings, Node};
use crate::diagnostic::{Diagnostic, Diagnostics, Mark, SourceId};

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct LoadedFile {
    /// Its documents in order. One with problems is among them as long as schema and name could be
    /// read, so that what refers to it does not seem to refer to nothing.
    pub documents: Vec<Arc<Document>>,
    /// All problems, in the order in which they were met.
    pub diagnostics: Diagnostics,
    /// Byte ranges that hold secrets, for [`Sources::hide`](crate::diagnostic::Sources::hide).
    pub secret: Vec<(u32, u32)>,
    /// How many bytes and values it has, aliases written out, for [`SiteLimits`](super::SiteLimits).
    pub size: (u64, u64),
}

/// A YAML document that is not understood further yet.
#[derive(Debug)]
struct RawDocument {
    node: Node,
    /// Where the next document begins, or the text ends.
    end: u32,
    diagnostics: Diagnostics,
}

#[derive(Debug, Default)]
struct Parsed {
    documents: Vec<RawDocument>,
    /// Problems that belong to no document that could be read.
    diagnostics: Diagnostics,
    /// Whether a document could not be read.
    incomplete: bool,
    /// How many values there are.
    values: usize,
}

/// Reads the documents of a text (from [`decode`](super::decode)) that was added to the sources as
/// `source`.
#[must_use]
pub fn load(source: SourceId, text: &str, settings: &LoadSettings) -> LoadedFile {
    let parsed = parse(source, text, &settings.limits);
    let mut file = LoadedFile {
        size: (text.len() as u64, parsed.values as u64),
        ..LoadedFile::default()
    };
    let whole = (0, text.len() as u32);
    let mut listed = 0;
    let mut hide_all = parsed.incomplete && mentions_encrypted(text);
    for raw in parsed.documents {
        if raw.node.is_null() {
            file.diagnostics.extend(raw.diagnostics);
            continue;
        }
        let start = raw.node.mark.offset;
        let (document, problems) = from_envelope(raw.node, settings);
        let is_encrypted = document
            .as_ref()
            .is_some_and(|document| document.is_encrypted);
        let broken = !problems.is_empty();
        let text_of_it = text.get(start as usize..raw.end as usize).unwrap_or(text);
        let mut conceal_from = None;
        if broken && (is_encrypted || text_of_it.contains("encrypted")) {
            hide_all = true;
            conceal_from = Some(0);
        } else if let Some(document) = document.as_ref().filter(|_| is_encrypted) {
            let from = document.data.mark.offset;
            file.secret.push((from, raw.end));
            conceal_from = Some(from);
        }
        for diagnostic in raw.diagnostics {
            let concealed = conceal_from
                .is_some_and(|from| diagnostic.mark.is_some_and(|mark| mark.offset >= from));
            file.diagnostics.push(match concealed {
                true => conceal(diagnostic),
                false => diagnostic,
            });
        }
        listed += problems.len();
        match listed.checked_sub(settings.limits.problems) {
            None | Some(0) => file.diagnostics.extend(problems),
            // Those of the first document that is too much are left out as one.
            Some(over) if over <= problems.len() => {
                let message = format!(
                    "more than {} errors in the documents of this file",
                    settings.limits.problems
                );
                let mark = Mark::new(source, start);
                let last = Diagnostic::error("yaml-too-many-problems", mark, message);
                file.diagnostics.push(last);
            }
            Some(_) => {}
        }
        file.documents.extend(document.map(Arc::new));
    }
    if hide_all {
        file.secret = vec![whole];
        file.diagnostics = file.diagnostics.into_iter().map(conceal).collect();
    }
    for diagnostic in parsed.diagnostics {
        let diagnostic = if hide_all {
            conceal(diagnostic)
        } else {
            diagnostic
        };
        file.diagnostics.push(diagnostic);
    }
    file
}

/// Reads the values of a text that holds no documents in an envelope: one value for each `---`.
#[must_use]
pub fn load_values(source: SourceId, text: &str, limits: &Limits) -> (Vec<Node>, Diagnostics) {
    let parsed = parse(source, text, limits);
    let mut diagnostics = parsed.diagnostics;
    let mut values = Vec::with_capacity(parsed.documents.len());
    for document in parsed.documents {
        diagnostics.extend(document.diagnostics);
        values.push(document.node);
    }
    (values, diagnostics)
}

fn parse(source: SourceId, text: &str, limits: &Limits) -> Parsed {
    // Blanks after the last line break mean nothing, but the scanner counts them as a line.
    let text = match text.trim_end_matches([' ', '\t']) {
        trimmed if trimmed.ends_with(['\n', '\r']) => trimmed,
        _ => text,
    };
    let ends_open = !text.ends_with(['\n', '\r']);
    let mut parsed = Parsed::default();
    let mut builder = Builder::new(limits, text.len());
    let mut positions = check_characters(source, text, &mut builder);
    let mut lost = builder.take_diagnostics();
    let (mut base, mut count) = (0_u32, 0_usize);
    'text: loop {
        let mut parser = Parser::new_from_str(&text[base as usize..]);
        let mut start = base;
        let mut opened = Opened::default();
        let stopped = loop {
            let (event, span) = match parser.next_event() {
                None | Some(Ok((Event::StreamEnd, _))) => break 'text,
                Some(Ok(next)) => next,
                Some(Err(error)) => {
                    let offset = positions.offset(error.marker().index());
                    let diagnostic = explain(source, text, offset, error.info(), limits);
                    builder.report(opened.beside(diagnostic, source, text));
                    break offset;
                }
            };
            let offset = positions.offset(span.start.index());
            opened.see(&event, offset);
            match event {
                Event::DocumentStart(_) => {
                    start = offset;
                    count += 1;
                    if let Some(last) = parsed.documents.last_mut() {
                        last.end = last.end.min(offset);
                    }
                    if count > limits.documents {
                        let message =
                            format!("file holds more than {} documents", limits.documents);
                        let mark = Mark::new(source, offset);
                        builder.report(Diagnostic::error("yaml-too-many-documents", mark, message));
                        parsed.incomplete = true;
                        break 'text;
                    }
                    builder.begin_document();
                }
                Event::DocumentEnd => {
                    parsed
                        .documents
                        .extend(builder.take_root().map(|node| RawDocument {
                            node,
                            end: text.len() as u32,
                            diagnostics: builder.take_diagnostics(),
                        }));
                }
                mut event => {
                    let end = positions.offset(span.end.index());
                    if ends_open && end as usize == text.len() {
                        drop_added_break(&mut event);
                    }
                    if span.start.col() == 0 && is_block(&event) && offset > 0 {
                        // The scanner reads on over `---` in a text block that is not indented.
                        let block = &text[..end as usize];
                        if next_document(block, offset - 1, offset).is_some() {
                            let mark = Mark::new(source, offset);
                            let message = "a text block runs over the beginning of a document";
                            builder.report(Diagnostic::error("yaml-syntax", mark, message));
                            break offset;
                        }
                    }
                    if builder.event(event, Mark::new(source, offset)).is_err() {
                        break offset;
                    }
                }
            }
        };
        parsed.incomplete = true;
        lost.extend(builder.take_diagnostics());
        match next_document(text, start, stopped) {
            Some(next) => {
                positions.restart(text, next);
                base = next;
            }
            None => break,
        }
    }
    lost.extend(builder.take_diagnostics());
    parsed.diagnostics = lost;
    parsed.values = builder.values();
    parsed
}

/// Takes back the line break that the scanner adds to a text block at the very end of a file that
/// does not end with one; PyYAML does not add it.
fn drop_added_break(event: &mut Event<'_>) {
    if is_block(event)
        && let Event::Scalar(text, ..) = event
        && text.ends_with('\n')
    {
        text.to_mut().pop();
    }
}

fn is_block(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, _, _)
    )
}

/// The next line that begins a document: not before the line of `stopped`, and after `start`.
fn next_document(text: &str, start: u32, stopped: u32) -> Option<u32> {
    let stopped = (stopped as usize).min(text.len());
    let line = text[..stopped].rfind('\n').unwrap_or(0);
    // A byte order mark stands before the first column.
    let from = text.floor_char_boundary(line.max(start as usize));
    let ends = |at: usize| {
        let after = text.as_bytes().get(at + 4);
        after.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    };
    text[from..]
        .match_indices("\n---")
        .map(|(at, _)| from + at)
        .find(|at| ends(*at))
        .map(|at| at as u32 + 1)
}

fn check_characters(source: SourceId, text: &str, builder: &mut Builder<'_>) -> Positions {
    let (positions, strays) = Positions::of(text);
    for stray in strays {
        let mark = Mark::new(source, stray.offset);
        let number = u32::from(stray.character);
        builder.report(if is_old_line_break(stray.character) {
            let message = format!(
                "U+{number:04X} is a line break in YAML 1.1 only, here it is an ordinary character"
            );
            Diagnostic::warning("yaml-1.2-differs", mark, message)
                .hint("remove it, or write it as an escape in double quotes")
        } else {
            let message = format!("character U+{number:04X} is not allowed in YAML");
            Diagnostic::error("yaml-control-character", mark, message)
                .hint("remove it, or write it as an escape in double quotes")
        });
    }
    positions
}

/// Whether `encrypted` stands in a text as the value of a field.
fn mentions_encrypted(text: &str) -> bool {
    const WORD: &str = "encrypted";
    text.match_indices(WORD).any(|(at, _)| {
        let before = text[..at].trim_end_matches([' ', '\t', '\r', '\n', '"', '\'']);
        let after = text[at + WORD.len()..].chars().next();
        before.ends_with(':') && after.is_none_or(|next| !next.is_alphanumeric() && next != ':')
    })
}

/// The same problem without a word of the text that it was found in.
fn conceal(diagnostic: Diagnostic) -> Diagnostic {
    let message = match diagnostic.code.0 {
        "yaml-duplicate-key" => "a key is there twice in a map of this secret",
        "yaml-1.2-differs" => "YAML 1.2 reads this secret otherwise than YAML 1.1",
        "yaml-invalid-scalar" => "a date or number of this secret cannot be",
        "yaml-unknown-tag" => "a tag in this secret is not known",
        _ => return diagnostic,
    };
    Diagnostic {
        message: message.to_owned(),
        hint: None,
        ..diagnostic
    }
}
