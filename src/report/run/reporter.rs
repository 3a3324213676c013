//! Reporters of a run: plain lines, or a JSON object a line.

use std::fmt::{self, Write};

use serde::Serialize;

use super::{FORMAT_VERSION, event};
use crate::report::{Palette, json};
use crate::run::RunEvent;

/// Hears what happens in a run, and shows it.
pub trait Reporter {
    /// Something happens; it is shown when this returns.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    fn event(&mut self, event: &RunEvent) -> fmt::Result;

    /// Shows a text of any length below what was shown so far.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    fn text(&mut self, text: &str) -> fmt::Result;
}

/// One line an event, with its time.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    palette: Palette,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`.
    pub fn new(out: W, palette: Palette) -> Self {
        Self { out, palette }
    }
}

impl<W: Write> Reporter for Lines<W> {
    fn event(&mut self, event: &RunEvent) -> fmt::Result {
        // In one piece, so that lines of two writers never mix.
        let mut line = String::new();
        event::line(&mut line, event, self.palette)?;
        self.out.write_str(&line)
    }

    fn text(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)
    }
}

/// One JSON object a line: `format_version`, `time`, `elapsed_ms`, `event` and what belongs to it.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: W,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }
}

#[derive(Serialize)]
struct Versioned<'a> {
    format_version: u32,
    #[serde(flatten)]
    event: &'a RunEvent,
}

impl<W: Write> Reporter for JsonLines<W> {
    fn event(&mut self, event: &RunEvent) -> fmt::Result {
        let mut line = json::line(&Versioned {
            format_version: FORMAT_VERSION,
            event,
        })?;
        line.push('\n');
        self.out.write_str(&line)
    }

    /// A program reads events only.
    fn text(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}
