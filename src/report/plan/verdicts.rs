//! The verdicts of the rules of a site on a plan.

use std::fmt::{self, Write};

use serde::Serialize;

use super::words;
use crate::plan::Verdicts;
use crate::report::palette::{Palette, Role};
use crate::report::{counted, json};

/// Writes verdicts for people, one a line.
///
/// # Errors
///
/// Only if `out` fails.
pub fn verdicts(out: &mut dyn Write, verdicts: &Verdicts, palette: Palette) -> fmt::Result {
    for verdict in &verdicts.denied {
        let head = palette.paint(Role::Destructive, "denied:");
        writeln!(out, "{head} {}", words::verdict(verdict))?;
    }
    for verdict in &verdicts.warned {
        let head = palette.paint(Role::Warning, "warning:");
        writeln!(out, "{head} {}", words::verdict(verdict))?;
    }
    let (denied, warned) = (verdicts.denied.len(), verdicts.warned.len());
    writeln!(
        out,
        "{denied} denied, {}",
        counted(warned, "warning", "warnings")
    )
}

#[derive(Serialize)]
struct Judged<'a> {
    format_version: u32,
    policies: &'a Verdicts,
}

/// Writes verdicts as one JSON object: `format_version` and `policies`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn verdicts_json(out: &mut dyn Write, verdicts: &Verdicts) -> fmt::Result {
    json::pretty(
        out,
        &Judged {
            format_version: 1,
            policies: verdicts,
        },
    )
}
