//! Text of a file to documents: every document that can be read, and all problems at once.
//!
//! A syntax error costs one document only: reading continues at the next line that begins with `---`.
//! Nothing here changes [`Sources`](crate::diagnostic::Sources), so that files can be read on several threads; the byte
//! ranges that hold secrets are handed back, for the caller to hide.

use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::build::Builder;
use super::envelope::{from_envelope, is_secret_kind};
use super::positions::{Positions, is_old_line_break};
use super::syntax::explain;
use super::unclosed::Opened;
use super::{Document, Limits, LoadSettings, Node};
use crate::diagnostic::{Diagnostic, Diagnostics, Mark, SourceId};

/// The content of a file.
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
        let (start, end) = (raw.node.mark.offset, raw.end);
        let (document, problems) = from_envelope(raw.node, settings);
        let is_encrypted =
            |document: &&Document| document.is_encrypted || is_secret_kind(&document.id.schema);
        let encrypted = document.as_ref().filter(is_encrypted);
        let text_of_it = text.get(start as usize..end as usize).unwrap_or(text);
        let mut conceal_from = None;
        if !problems.is_empty() && (encrypted.is_some() || text_of_it.contains("encrypted")) {
            hide_all = true;
            conceal_from = Some(0);
        } else if let Some(document) = encrypted {
            let from = document.data.mark.offset;
            file.secret.push((from, end));
            conceal_from = Some(from);
        }
        let is_concealed = |diagnostic: &Diagnostic| {
            let offset = diagnostic.mark.map(|mark| mark.offset);
            matches!((conceal_from, offset), (Some(from), Some(offset)) if offset >= from)
        };
        let told = raw.diagnostics.into_iter();
        file.diagnostics
            .extend(told.map(|diagnostic| match is_concealed(&diagnostic) {
                true => conceal(diagnostic),
                false => diagnostic,
            }));
        listed += problems.len();
        let over = listed.saturating_sub(settings.limits.problems);
        if over == 0 {
            file.diagnostics.extend(problems);
        } else if over <= problems.len() {
            // Those of the first document that is too much are left out as one.
            let last = too_many_problems(Mark::new(source, start), &settings.limits);
            file.diagnostics.push(last);
        }
        file.documents.extend(document.map(Arc::new));
    }
    if hide_all {
        file.secret = vec![whole];
        file.diagnostics = file.diagnostics.into_iter().map(conceal).collect();
    }
    let lost = parsed.diagnostics.into_iter();
    file.diagnostics
        .extend(lost.map(|diagnostic| match hide_all {
            true => conceal(diagnostic),
            false => diagnostic,
        }));
    file
}

fn too_many_problems(mark: Mark, limits: &Limits) -> Diagnostic {
    let message = format!(
        "more than {} errors in the documents of this file",
        limits.problems
    );
    Diagnostic::error("yaml-too-many-problems", mark, message)
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
    let mut builder = Builder::new(limits, text.len());
    let mut reading = Reading {
        source,
        text,
        limits,
        positions: check_characters(source, text, &mut builder),
        builder,
        count: 0,
        parsed: Parsed::default(),
    };
    let mut lost = reading.builder.take_diagnostics();
    let mut base = 0;
    while let Some(stopped) = reading.documents(base) {
        reading.parsed.incomplete = true;
        lost.extend(reading.builder.take_diagnostics());
        match next_document(text, stopped.start, stopped.at) {
            Some(next) => {
                reading.positions.restart(text, next);
                base = next;
            }
            None => break,
        }
    }
    lost.extend(reading.builder.take_diagnostics());
    let mut parsed = reading.parsed;
    parsed.diagnostics = lost;
    parsed.values = reading.builder.values();
    parsed
}

/// Where reading stopped at a document that cannot be read.
struct Stopped {
    /// The beginning of the document.
    start: u32,
    at: u32,
}

/// A text while its documents are read.
struct Reading<'t> {
    source: SourceId,
    text: &'t str,
    limits: &'t Limits,
    positions: Positions,
    builder: Builder<'t>,
    /// How many documents have begun.
    count: usize,
    parsed: Parsed,
}

impl Reading<'_> {
    /// Reads documents from an offset on; `None`: to the end of the text, or as many as are allowed.
    fn documents(&mut self, base: u32) -> Option<Stopped> {
        let mut parser = Parser::new_from_str(&self.text[base as usize..]);
        let mut start = base;
        let mut opened = Opened::default();
        let mut told = 0;
        loop {
            let (event, span) = match parser.next_event() {
                None | Some(Ok((Event::StreamEnd, _))) => return None,
                Some(Ok(next)) => next,
                Some(Err(error)) => {
                    let (source, text) = (self.source, self.text);
                    let at = self.positions.offset(error.marker().index());
                    let bracket = opened.bracket(text, self.positions.offset(told), at);
                    let problem = explain(source, text, at, error.info(), bracket, self.limits);
                    self.builder.report(problem);
                    return Some(Stopped { start, at });
                }
            };
            let at = self.positions.offset(span.start.index());
            opened.see(&event, at);
            told = span.end.index();
            match event {
                Event::DocumentStart(_) => {
                    start = at;
                    if !self.begin(at) {
                        return None;
                    }
                }
                Event::DocumentEnd => self.end(),
                event => {
                    let is_read = self.value(event, span, at);
                    if !is_read {
                        return Some(Stopped { start, at });
                    }
                }
            }
        }
    }

    /// Begins a document; false if it is one too many.
    fn begin(&mut self, at: u32) -> bool {
        self.count += 1;
        if let Some(last) = self.parsed.documents.last_mut() {
            last.end = last.end.min(at);
        }
        if self.count > self.limits.documents {
            let message = format!("file holds more than {} documents", self.limits.documents);
            self.report("yaml-too-many-documents", at, message);
            self.parsed.incomplete = true;
            return false;
        }
        self.builder.begin_document();
        true
    }

    fn end(&mut self) {
        if let Some(node) = self.builder.take_root() {
            self.parsed.documents.push(RawDocument {
                node,
                end: self.text.len() as u32,
                diagnostics: self.builder.take_diagnostics(),
            });
        }
    }

    /// Takes a part of a document; whether the document can be read on.
    fn value(&mut self, mut event: Event<'_>, span: Span, at: u32) -> bool {
        let end = self.positions.offset(span.end.index()) as usize;
        if end == self.text.len() && !self.text.ends_with(['\n', '\r']) {
            drop_added_break(&mut event);
        }
        // The scanner reads on over `---` in a text block that is not indented.
        let is_open = span.start.col() == 0 && is_block(&event) && at > 0;
        if is_open && next_document(&self.text[..end], at - 1, at).is_some() {
            let message = "a text block runs over the beginning of a document";
            self.report("yaml-syntax", at, message.to_owned());
            return false;
        }
        self.builder
            .event(event, Mark::new(self.source, at))
            .is_ok()
    }

    fn report(&mut self, code: &'static str, at: u32, message: String) {
        let mark = Mark::new(self.source, at);
        self.builder.report(Diagnostic::error(code, mark, message));
    }
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
