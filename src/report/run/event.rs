//! An event as one line.

use std::fmt::{self, Write};

use super::{milliseconds, role};
use crate::journal::StepOutcome;
use crate::report::{Palette, Role, Visible, counted, short_id};
use crate::run::{EventKind, GroupResult, RunEvent};

/// Writes one line: the time, since when the run began, and what happens.
///
/// # Errors
///
/// Only if `out` fails.
pub fn line(out: &mut dyn Write, event: &RunEvent, palette: Palette) -> fmt::Result {
    let clock = event.time.get(11..19).unwrap_or(&event.time);
    let seconds = event.elapsed_ms / 1_000;
    let since = format!(
        "+{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    write!(
        out,
        "{} {}  ",
        Visible(clock),
        palette.paint(Role::Faint, since)
    )?;
    what(out, &event.kind, palette)?;
    writeln!(out)
}

/// The event, without time and line break.
pub(super) fn what(out: &mut dyn Write, kind: &EventKind, palette: Palette) -> fmt::Result {
    let warning = |text| palette.paint(Role::Warning, text);
    match kind {
        EventKind::RunStarted { .. } => run_started(out, kind),
        EventKind::GroupStarted { group, nodes } => write!(
            out,
            "group {} starts, {}",
            Visible(group.as_str()),
            counted(*nodes, "node", "nodes")
        ),
        EventKind::StepStarted { .. }
        | EventKind::StepRetried { .. }
        | EventKind::StepProgress { .. }
        | EventKind::StepFinished { .. } => of_step(out, kind, palette),
        EventKind::GateEvaluated { .. } => gate_evaluated(out, kind, palette),
        EventKind::GroupFinished { result } => group_finished(out, result, palette),
        EventKind::Checkpoint { nodes } => {
            write!(out, "records written, {}", counted(*nodes, "node", "nodes"))
        }
        EventKind::Stopping { running } => write!(
            out,
            "{}: nothing new starts, {} still running; Ctrl-C again stops at once, and `trueup apply --resume` resumes the run",
            warning("stopping"),
            counted(*running, "step is", "steps are")
        ),
        EventKind::Warning { message } => {
            write!(out, "{} {}", warning("warning:"), Visible(message))
        }
        EventKind::RunFinished { report } => write!(
            out,
            "run {} {} after {}",
            Visible(report.run.as_str()),
            palette.paint(role(report.outcome), report.outcome.words()),
            milliseconds(report.duration_ms)
        ),
    }
}

fn run_started(out: &mut dyn Write, kind: &EventKind) -> fmt::Result {
    let EventKind::RunStarted {
        run,
        site,
        action,
        revision,
        steps,
        resumed,
    } = kind
    else {
        return Ok(());
    };
    let verb = if *resumed { "resumes" } else { "starts" };
    write!(
        out,
        "run {} {verb}: {} of {} to {}, {}",
        Visible(run.as_str()),
        Visible(action),
        Visible(site.as_str()),
        Visible(short_id(revision)),
        counted(*steps, "step", "steps")
    )
}

/// An event of one step.
fn of_step(out: &mut dyn Write, kind: &EventKind, palette: Palette) -> fmt::Result {
    match kind {
        EventKind::StepStarted { step, attempt, .. } => {
            write!(out, "{} starts", Visible(&step.to_string()))?;
            if *attempt > 1 {
                write!(out, ", attempt {attempt}")?;
            }
            Ok(())
        }
        EventKind::StepRetried {
            step,
            message,
            delay_ms,
        } => write!(
            out,
            "{} {} in {}: {}",
            Visible(&step.to_string()),
            palette.paint(Role::Warning, "is retried"),
            milliseconds(*delay_ms),
            Visible(message)
        ),
        EventKind::StepProgress { step, message } => {
            write!(out, "{}: {}", Visible(&step.to_string()), Visible(message))
        }
        EventKind::StepFinished {
            step,
            outcome,
            duration_ms,
            ..
        } => {
            write!(out, "{} ", Visible(&step.to_string()))?;
            ended(out, outcome, *duration_ms, palette)
        }
        _ => Ok(()),
    }
}

fn gate_evaluated(out: &mut dyn Write, kind: &EventKind, palette: Palette) -> fmt::Result {
    let EventKind::GateEvaluated {
        group,
        stage,
        successful,
        nodes,
        passed,
        unmet,
    } = kind
    else {
        return Ok(());
    };
    let (role, verdict) = if *passed {
        (Role::Success, "holds")
    } else {
        (Role::Error, "DOES NOT HOLD")
    };
    write!(
        out,
        "group {} gate {stage} {}: {successful} of {nodes}",
        Visible(group.as_str()),
        palette.paint(role, verdict)
    )?;
    for reason in unmet {
        write!(out, "; {}", Visible(reason))?;
    }
    Ok(())
}

fn group_finished(out: &mut dyn Write, result: &GroupResult, palette: Palette) -> fmt::Result {
    let (role, verdict) = if result.succeeded {
        (Role::Success, "succeeded")
    } else {
        (Role::Error, "FAILED")
    };
    write!(
        out,
        "group {} {}",
        Visible(result.group.as_str()),
        palette.paint(role, verdict)
    )?;
    if !result.succeeded && result.critical {
        write!(out, " (critical)")?;
    }
    match &result.reason {
        Some(reason) => write!(out, ": {}", Visible(reason)),
        None => Ok(()),
    }
}

/// How a step ended.
fn ended(
    out: &mut dyn Write,
    outcome: &StepOutcome,
    duration_ms: u64,
    palette: Palette,
) -> fmt::Result {
    let after = milliseconds(duration_ms);
    match outcome {
        StepOutcome::Succeeded => write!(
            out,
            "{} after {after}",
            palette.paint(Role::Success, "succeeded")
        ),
        StepOutcome::Failed { message } => write!(
            out,
            "{} after {after}: {}",
            palette.paint(Role::Error, "FAILED"),
            Visible(message)
        ),
        StepOutcome::Unknown { message } => write!(
            out,
            "{} after {after}: {}",
            palette.paint(Role::Error, "UNKNOWN"),
            Visible(message)
        ),
        StepOutcome::Skipped { reason } => write!(
            out,
            "{}: {}",
            palette.paint(Role::Warning, "skipped"),
            Visible(reason)
        ),
        StepOutcome::NotNeeded => write!(out, "not needed"),
    }
}
