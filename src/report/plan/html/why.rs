//! Why a run is as it is: its steps with their smallest causes.

use std::fmt::{self, Write};

use crate::plan::{Explanation, StepStanding};
use crate::report::counted;
use crate::report::escape::{html_sentence, xml};
use crate::report::explain::words::{MOST_CAUSES, explain_step, intro, standing};

/// Writes the steps of an explanation with their smallest causes, as a part of a page.
///
/// # Errors
///
/// Only if `out` fails.
pub(super) fn write(out: &mut dyn Write, explanation: &Explanation) -> fmt::Result {
    if explanation.steps.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-why\"><h2 id=\"h-why\">Why</h2><ul class=\"plain\">"
    )?;
    for step in &explanation.steps {
        write!(out, "<li>")?;
        step_html(
            out,
            &step.step.to_string(),
            step.standing,
            step.message.as_deref(),
        )?;
        if !step.causes.is_empty() {
            writeln!(out, "<br>{}<ul>", intro(step))?;
            for cause in step.causes.iter().take(MOST_CAUSES) {
                write!(out, "<li>")?;
                step_html(
                    out,
                    &cause.step.to_string(),
                    cause.standing,
                    cause.message.as_deref(),
                )?;
                writeln!(out, "</li>")?;
            }
            match step.causes.len().saturating_sub(MOST_CAUSES) {
                0 => writeln!(out, "</ul>")?,
                more => writeln!(out, "<li>… and {more} more</li></ul>")?,
            }
        }
        writeln!(out, "</li>")?;
    }
    writeln!(out, "</ul>")?;
    if explanation.more_steps > 0 {
        let more = counted(explanation.more_steps, "more step", "more steps");
        let command = explain_step(&explanation.basis);
        writeln!(
            out,
            "<p>… and {more}; <code>{}</code> explains one</p>",
            xml(&command)
        )?;
    }
    writeln!(out, "</section>")
}

fn step_html(
    out: &mut dyn Write,
    step: &str,
    standing: StepStanding,
    message: Option<&str>,
) -> fmt::Result {
    let (words, _) = self::standing(standing);
    write!(out, "<code>{}</code> {}", xml(step), words)?;
    message.map_or(Ok(()), |message| {
        write!(out, ": {}", html_sentence(message))
    })
}
