//! A thing of a plan or a run, for people and for programs.

use std::fmt::{self, Write};

use super::words::{MOST_CAUSES, explain_step, intro, standing};
use super::written;
use crate::plan::{
    Explanation, ExplanationBasis, StepCause, StepExplanation, StepStanding, StepTiming,
    SubjectKind,
};
use crate::report::plan::{View, about, at_most, change, duration};
use crate::report::{Palette, Role, Visible, counted};

/// Writes an explanation for people.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_thing(
    out: &mut dyn Write,
    explanation: &Explanation,
    palette: Palette,
) -> fmt::Result {
    heading(out, explanation, palette)?;
    if let Some(own) = &explanation.change {
        let view = View {
            palette,
            full: true,
            steps: false,
        };
        change(out, own, view)?;
    }
    if let Some(unchanged) = &explanation.unchanged {
        writeln!(out, "  Nothing is done to it: {}", Visible(unchanged))?;
    }
    if let Some(why) = &explanation.unobserved {
        writeln!(out, "  Its machine could not be observed: {}", Visible(why))?;
    }
    if let Some(group) = &explanation.group {
        writeln!(out, "  {}", about(group))?;
    }
    for blocked in &explanation.blocked {
        let (node, block) = (blocked.node.as_str(), &blocked.block);
        write!(
            out,
            "  {} is blocked: {}",
            Visible(node),
            Visible(&block.reason)
        )?;
        match &block.flag {
            Some(flag) => writeln!(out, " ({})", Visible(flag))?,
            None => writeln!(out)?,
        }
    }
    unblocking(out, explanation, palette)?;
    if !explanation.steps.is_empty() {
        writeln!(out, "\n{}", palette.paint(Role::Strong, "Steps"))?;
        for each in &explanation.steps {
            step(out, each, palette)?;
        }
    }
    if explanation.more_steps > 0 {
        let more = counted(explanation.more_steps, "more step", "more steps");
        let command = explain_step(&explanation.basis);
        writeln!(out, "  … and {more}; `{}` explains one", Visible(&command))?;
    }
    if !explanation.ways_out.is_empty() {
        writeln!(out, "\n{}", palette.paint(Role::Strong, "Ways out"))?;
    }
    for way in &explanation.ways_out {
        writeln!(out, "  {}", Visible(&way.what))?;
        if let Some(command) = &way.command {
            writeln!(out, "      {}", palette.paint(Role::Hint, Visible(command)))?;
        }
    }
    Ok(())
}

fn heading(out: &mut dyn Write, explanation: &Explanation, palette: Palette) -> fmt::Result {
    let subject = &explanation.subject;
    let kind = match subject.kind {
        SubjectKind::Node => "Node",
        SubjectKind::Step => "Step",
        SubjectKind::Group => "Group",
        SubjectKind::Run => "Run",
    };
    let name = palette.paint(Role::Strong, Visible(&subject.name));
    let site = Visible(explanation.site.as_str());
    match &explanation.basis {
        ExplanationBasis::Plan => writeln!(out, "{kind} {name} of site {site}, by a plan made now"),
        ExplanationBasis::File { path } | ExplanationBasis::ServicePlan { path } => {
            writeln!(
                out,
                "{kind} {name} of site {site}, by the plan {}",
                Visible(path)
            )
        }
        ExplanationBasis::Run {
            run,
            outcome,
            halted,
            unfinished,
            may_be_begun,
        } => {
            let run = match subject.kind {
                SubjectKind::Run => String::new(),
                SubjectKind::Node | SubjectKind::Step | SubjectKind::Group => {
                    format!(", in run {}", Visible(run.as_str()))
                }
            };
            let state = match unfinished.as_ref().map(|unfinished| unfinished.state) {
                Some(state) => state.words(),
                None => "has ended",
            };
            let outcome = outcome.map(|outcome| format!(": {}", outcome.words()));
            writeln!(
                out,
                "{kind} {name} of site {site}{run}, which {state}{}",
                outcome.unwrap_or_default()
            )?;
            if let Some(why) = halted {
                writeln!(out, "Halted: {}", Visible(why))?;
            }
            if *may_be_begun {
                writeln!(
                    out,
                    "What is planned here may have begun: the process of the run has not published all that it did"
                )?;
            }
            Ok(())
        }
    }
}

fn unblocking(out: &mut dyn Write, explanation: &Explanation, palette: Palette) -> fmt::Result {
    let Some(unblocking) = &explanation.unblocking else {
        return Ok(());
    };
    if unblocking.flags.len() < 2 && unblocking.remaining.is_none() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{}",
        palette.paint(Role::Strong, "All that it needs")
    )?;
    for block in &unblocking.flags {
        let flag = block.flag.as_deref().unwrap_or_default();
        writeln!(out, "  {}: {}", Visible(flag), Visible(&block.reason))?;
    }
    if let Some(block) = &unblocking.remaining {
        writeln!(out, "  no flag: {}", Visible(&block.reason))?;
    }
    Ok(())
}

fn step(out: &mut dyn Write, step: &StepExplanation, palette: Palette) -> fmt::Result {
    let (words, role) = standing(step.standing);
    let id = step.step.to_string();
    write!(out, "  {}: {}", Visible(&id), palette.paint(role, words))?;
    if let Some(message) = &step.message {
        write!(out, ": {}", Visible(message))?;
    }
    writeln!(out)?;
    if let Some(times) = step
        .expected
        .filter(|_| step.standing == StepStanding::Planned)
    {
        let (begin, end) = (u64::from(times.0), u64::from(times.1));
        if end > 0 {
            let (begin, end) = (at_most(begin), at_most(end));
            writeln!(
                out,
                "      expected from {begin} to {end} after the start of the run"
            )?;
        }
    }
    if let Some(timing) = &step.timing {
        time(out, timing, palette)?;
    }
    if let [first, rest @ ..] = &step.watches[..] {
        let (shown, more) = rest.split_at(rest.len().min(MOST_CAUSES));
        let shown: String = shown.iter().map(|node| format!(", {node}")).collect();
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        writeln!(
            out,
            "      watches {}",
            Visible(&format!("{first}{shown}{more}"))
        )?;
    }
    if !step.causes.is_empty() {
        writeln!(out, "      {}", intro(step))?;
        causes(out, &step.causes, palette)?;
    }
    if !step.minimal {
        writeln!(
            out,
            "      The search was stopped at its bound: some of these may not count."
        )?;
    }
    if let Some(limit) = &step.limit {
        writeln!(out, "      {}", Visible(limit))?;
    }
    if !step.now.is_empty() {
        writeln!(out, "      what runs or begins first:")?;
        causes(out, &step.now, palette)?;
    }
    Ok(())
}

fn causes(out: &mut dyn Write, causes: &[StepCause], palette: Palette) -> fmt::Result {
    for cause in causes.iter().take(MOST_CAUSES) {
        let (words, role) = standing(cause.standing);
        let id = cause.step.to_string();
        write!(
            out,
            "        {} {}",
            Visible(&id),
            palette.paint(role, words)
        )?;
        match &cause.message {
            Some(message) => writeln!(out, ": {}", Visible(message))?,
            None => writeln!(out)?,
        }
    }
    match causes.len().saturating_sub(MOST_CAUSES) {
        0 => Ok(()),
        more => writeln!(out, "        … and {more} more; `--format json` has all"),
    }
}

fn time(out: &mut dyn Write, timing: &StepTiming, palette: Palette) -> fmt::Result {
    let (least, most) = (duration(timing.usual_least), duration(timing.usual_most));
    let usual = match least == most {
        true => format!("usual {most}"),
        false => format!("usual {least} to {most}"),
    };
    write!(out, "      {usual}, of {} recorded", timing.recorded)?;
    if let Some(running) = timing.running {
        write!(out, ", now {}", duration(running))?;
    }
    if timing.overdue {
        write!(out, ": {}", palette.paint(Role::Error, "overdue"))?;
    }
    writeln!(out)
}

/// Writes an explanation for programs.
///
/// # Errors
///
/// Only if `out` fails.
pub fn write_thing_json(out: &mut dyn Write, explanation: &Explanation) -> fmt::Result {
    written(out, "thing", explanation)
}
