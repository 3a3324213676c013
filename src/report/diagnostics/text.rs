//! Problems as a person reads them: what, where with the lines shown, and the way out.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::snippet;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity, Sources};
use crate::report::{Palette, Role, Visible, counted};

/// Warnings of one code that are shown before the others are counted.
const FEW: usize = 3;

/// Writes every problem with its lines, then the line of counts; nothing if there is no problem. Unless they are to
/// be shown in `full`, of many warnings with one code the first few are shown, and the others counted.
///
/// # Errors
///
/// Only if `out` fails.
pub fn text(
    out: &mut dyn Write,
    diagnostics: &Diagnostics,
    sources: &Sources,
    palette: Palette,
    full: bool,
) -> fmt::Result {
    each(out, diagnostics, sources, (palette, full))?;
    if !diagnostics.is_empty() {
        writeln!(out, "{}", summary(diagnostics))?;
    }
    Ok(())
}

/// The same without the line of counts.
fn each(
    out: &mut dyn Write,
    diagnostics: &Diagnostics,
    sources: &Sources,
    (palette, full): (Palette, bool),
) -> fmt::Result {
    let mut warnings: BTreeMap<String, usize> = BTreeMap::new();
    for diagnostic in diagnostics {
        if diagnostic.severity == Severity::Warning {
            let number = warnings.entry(diagnostic.code.to_string()).or_default();
            *number += 1;
            if !full && *number > FEW {
                continue;
            }
        }
        one(out, diagnostic, sources, palette)?;
        writeln!(out)?;
    }
    for (code, number) in warnings
        .iter()
        .filter(|(_, number)| !full && **number > FEW)
    {
        let more = counted(number - FEW, "more warning", "more warnings");
        let line = format!("… and {more} [{code}]; `trueup validate --full` shows all");
        writeln!(out, "{}\n", palette.paint(Role::Faint, line))?;
    }
    Ok(())
}

/// Errors that are shown of a part of a report before the others are counted.
const MANY: usize = 50;

/// Writes the problems of a part of a report, without the line of counts: of many errors the first, unless they are to be shown
/// in `full`.
pub(in crate::report) fn limited(
    out: &mut dyn Write,
    diagnostics: &Diagnostics,
    sources: &Sources,
    (palette, full): (Palette, bool),
) -> fmt::Result {
    let (errors, _) = diagnostics.counts();
    if full || errors <= MANY {
        return each(out, diagnostics, sources, (palette, full));
    }
    let mut met = 0;
    let shown = diagnostics.iter().filter(|each| {
        let is_error = each.severity == Severity::Error;
        met += usize::from(is_error);
        !is_error || met <= MANY
    });
    let shown: Diagnostics = shown.cloned().collect();
    each(out, &shown, sources, (palette, full))?;
    let more = counted(errors - MANY, "more error", "more errors");
    let line = format!("… and {more}; `trueup validate --full` shows all");
    writeln!(out, "{}", palette.paint(Role::Faint, line))
}

/// The counts: `2 errors, 1 warning`; `no problems` for none.
#[must_use]
pub fn summary(diagnostics: &Diagnostics) -> String {
    let (errors, warnings) = diagnostics.counts();
    let errors = (errors > 0).then(|| counted(errors, "error", "errors"));
    let warnings = (warnings > 0).then(|| counted(warnings, "warning", "warnings"));
    match (errors, warnings) {
        (Some(errors), Some(warnings)) => format!("{errors}, {warnings}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "no problems".to_owned(),
    }
}

fn one(
    out: &mut dyn Write,
    diagnostic: &Diagnostic,
    sources: &Sources,
    palette: Palette,
) -> fmt::Result {
    let role = match diagnostic.severity {
        Severity::Error => Role::Error,
        Severity::Warning => Role::Warning,
    };
    let head = format!("{}[{}]", diagnostic.severity, diagnostic.code);
    writeln!(
        out,
        "{}: {}",
        palette.paint(role, head),
        palette.paint(Role::Strong, Visible(&diagnostic.message))
    )?;
    snippets(out, diagnostic, sources, (role, palette))?;
    if let Some(hint) = &diagnostic.hint {
        writeln!(
            out,
            "{} {}",
            palette.paint(Role::Hint, "hint:"),
            Visible(hint)
        )?;
    }
    Ok(())
}

/// The places that a diagnostic is about.
fn snippets(
    out: &mut dyn Write,
    diagnostic: &Diagnostic,
    sources: &Sources,
    (role, palette): (Role, Palette),
) -> fmt::Result {
    // One gutter for all snippets of a diagnostic, as wide as the largest line number in it.
    let related = diagnostic.related.iter().map(|related| related.mark);
    let marks = diagnostic.mark.into_iter().chain(related);
    let last = marks.map(|mark| sources.place(mark).line + 1).max();
    let gutter = last.unwrap_or(1).to_string().len();
    if let Some(mark) = diagnostic.mark {
        let look = snippet::Look {
            arrow: "-->",
            pointer: '^',
            label: "",
            around: 1,
            gutter,
            role,
            palette,
        };
        snippet::write(out, sources, mark, &look)?;
    } else if let Some(path) = &diagnostic.path {
        let arrow = palette.paint(Role::Faint, "-->");
        writeln!(out, "{:gutter$}{arrow} {}", "", Visible(path))?;
    }
    for related in &diagnostic.related {
        let look = snippet::Look {
            arrow: ":::",
            pointer: '-',
            label: &related.message,
            around: 0,
            gutter,
            role: Role::Hint,
            palette,
        };
        snippet::write(out, sources, related.mark, &look)?;
    }
    Ok(())
}
