//! The plan as text: a legend, each stage with its changes in order, the steps, what is blocked, and the summary.

use std::fmt::{self, Write};

use super::forecast;
use super::outline::{Alike, Part, Stage, gather, outline, shown};
use super::summary::summary;
use super::words;
use crate::diff::FieldChange;
use crate::plan::{Change, ChangeKind, Plan};
use crate::report::{Palette, Role, Visible, counted};
use crate::step::{Effect, Step, StepKind, Wait};

/// Nodes that a fold names.
const MOST_NAMES: usize = 8;
/// Nodes that a fold names where their data is lost.
const MOST_DESTRUCTIVE_NAMES: usize = 40;
/// Groups without work that are named.
const MOST_IDLE: usize = 20;
/// Lines of changes that have nothing below them, before they fold.
const MOST_LINES: usize = 5;

/// How much is shown, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// With which colours.
    pub palette: Palette,
    /// Every node and field, nothing folded.
    pub full: bool,
    /// Every step.
    pub steps: bool,
}

/// Writes the plan.
///
/// # Errors
///
/// Only where `out` fails.
pub fn text(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    heading(out, plan, view)?;
    let parts = outline(plan);
    if shown(plan).next().is_some() {
        writeln!(out, "\n{}", legend(view.palette))?;
    }
    let mut idle = Vec::new();
    for part in &parts {
        match &part.stage {
            Stage::Group(group) if part.alike.is_empty() => idle.push(group.name.as_str()),
            _ => stage(out, part, view)?,
        }
    }
    if !idle.is_empty() && idle.len() < parts.len() {
        let more = match view.full {
            true => 0,
            false => idle.len().saturating_sub(MOST_IDLE),
        };
        let names = idle[..idle.len() - more].join(", ");
        write!(out, "\nNothing to do in: {}", Visible(&names))?;
        match more {
            0 => writeln!(out)?,
            more => writeln!(out, " and {}", counted(more, "more group", "more groups"))?,
        }
    }
    let expected = forecast::lines(plan);
    if !expected.is_empty() {
        let title = view.palette.paint(Role::Strong, "Forecast");
        writeln!(out, "\n{title}")?;
    }
    for line in expected {
        writeln!(out, "  {line}")?;
    }
    steps(out, plan, view)?;
    blocked(out, plan, view.palette)?;
    if !plan.warnings.is_empty() {
        writeln!(out)?;
    }
    for warning in &plan.warnings {
        let head = view.palette.paint(Role::Warning, "warning:");
        writeln!(out, "{head} {}", Visible(warning))?;
    }
    writeln!(out)?;
    for line in summary(plan) {
        let role = if line.starts_with("BLOCKED") {
            Role::Destructive
        } else {
            Role::Strong
        };
        writeln!(out, "{}", view.palette.paint(role, line))?;
    }
    Ok(())
}

fn heading(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    let (target, base) = words::revisions(plan);
    let title = format!("Site {}: {}", plan.site, plan.action);
    writeln!(
        out,
        "{} {base} → {target}, as of {}",
        view.palette.paint(Role::Strong, Visible(&title)),
        Visible(&plan.options.as_of)
    )?;
    if !plan.target.dirty.is_empty() {
        let files = counted(plan.target.dirty.len(), "file differs", "files differ");
        let message = format!("{files} from the commit; commit before applying");
        writeln!(out, "{}", view.palette.paint(Role::Warning, message))?;
    }
    if !plan.intermediate_commits.is_empty() {
        let commits = counted(plan.intermediate_commits.len(), "commit", "commits");
        writeln!(
            out,
            "{commits} between the last site action and the target, allowed:"
        )?;
        for commit in &plan.intermediate_commits {
            let id = view
                .palette
                .paint(Role::Faint, words::short(&commit.commit));
            writeln!(out, "  {id} {}", Visible(&commit.subject))?;
        }
    }
    Ok(())
}

fn legend(palette: Palette) -> String {
    let entries = [
        (ChangeKind::Create, "deploy"),
        (ChangeKind::Relabel, "change in place"),
        (ChangeKind::Redeploy, "tear down and build again"),
        (ChangeKind::Destroy, "tear down"),
        (ChangeKind::Drift, "drifted"),
        (ChangeKind::Unknown, "not known, or not ours yet"),
    ];
    let entries: Vec<String> = entries
        .iter()
        .map(|(kind, words)| format!("{} {words}", palette.paint(role(*kind), kind.sign())))
        .collect();
    format!("  {}", entries.join("   "))
}

fn role(kind: ChangeKind) -> Role {
    match kind {
        ChangeKind::Create => Role::Added,
        ChangeKind::Redeploy | ChangeKind::Destroy => Role::Destructive,
        ChangeKind::Adopt | ChangeKind::Unknown | ChangeKind::Drift => Role::Warning,
        _ => Role::Changed,
    }
}

fn stage(out: &mut dyn Write, part: &Part<'_>, view: View) -> fmt::Result {
    let palette = view.palette;
    match &part.stage {
        Stage::Group(group) => {
            let title = format!("Group {}", group.name);
            let about = words::about(group);
            writeln!(
                out,
                "\n{} ({about})",
                palette.paint(Role::Strong, Visible(&title))
            )?;
        }
        Stage::Asked => writeln!(out, "\n{}", palette.paint(Role::Strong, "As asked"))?,
        Stage::Outside => {
            writeln!(out, "\n{}", palette.paint(Role::Strong, "In no group"))?;
        }
        Stage::Left => {
            let title = "No longer in the design";
            writeln!(out, "\n{}", palette.paint(Role::Strong, title))?;
        }
    }
    for alike in &part.alike {
        changes(out, alike, view)?;
    }
    Ok(())
}

/// Changes that are alike: all of them where asked, else the first and how many more there are.
fn changes(out: &mut dyn Write, alike: &Alike<'_>, view: View) -> fmt::Result {
    let total = alike.changes.len();
    let Some(first) = alike.first() else {
        return Ok(());
    };
    let bare = first.fields.is_empty()
        && first.reasons.is_empty()
        && first.blocked.is_none()
        && first.cleaning.is_none();
    let whole = match (view.full, bare) {
        (true, _) => total,
        (false, true) if total <= MOST_LINES + 1 => total,
        (false, true) => MOST_LINES,
        (false, false) => 1,
    };
    for change in &alike.changes[..whole] {
        one(out, change, view)?;
    }
    if whole < total {
        let most = if first.destructive {
            MOST_DESTRUCTIVE_NAMES
        } else {
            MOST_NAMES
        };
        let rest = &alike.changes[whole..];
        let names = words::names(rest.iter().copied(), most, |name| Visible(name).to_string());
        let hint = if rest.len() > most {
            "; --full shows all"
        } else {
            ""
        };
        let line = format!("… and {} more like this: {names}{hint}", rest.len());
        let role = if first.destructive {
            Role::Removed
        } else {
            Role::Faint
        };
        writeln!(out, "      {}", view.palette.paint(role, line))?;
    }
    Ok(())
}

fn one(out: &mut dyn Write, change: &Change, view: View) -> fmt::Result {
    let palette = view.palette;
    let sign = palette.paint(role(change.kind), change.kind.sign());
    let name = palette.paint(Role::Strong, Visible(change.node.as_str()));
    write!(out, "  {sign:>3} {name}: ")?;
    let headline = words::headline(change);
    if change.destructive {
        write!(out, "{}", palette.paint(Role::Destructive, headline))?;
    } else {
        write!(out, "{headline}")?;
    }
    if change.blocked.is_some() {
        write!(out, " {}", palette.paint(Role::Destructive, "BLOCKED"))?;
    }
    writeln!(out)?;
    for reason in &change.reasons {
        writeln!(out, "      {}", Visible(reason))?;
    }
    for line in words::cleaning(change) {
        writeln!(out, "      {line}")?;
    }
    fields(out, &change.fields, view)?;
    if let Some(block) = &change.blocked {
        let reason = Visible(&block.reason);
        match &block.flag {
            Some(flag) => writeln!(out, "      blocked: {reason}; {}", words::way_out(flag, 1)),
            None => writeln!(out, "      blocked: {reason}"),
        }?;
    }
    Ok(())
}

/// The fields, each chain once below the fields that it brought.
fn fields(out: &mut dyn Write, fields: &[FieldChange], view: View) -> fmt::Result {
    let most = if view.full {
        fields.len()
    } else {
        words::MOST_FIELDS
    };
    let palette = view.palette;
    let shown = &fields[..fields.len().min(most)];
    for (index, field) in shown.iter().enumerate() {
        let (sign, role) = match (&field.before, &field.after) {
            (None, _) => ("+", Role::Added),
            (_, None) => ("-", Role::Removed),
            _ => ("~", Role::Changed),
        };
        let sign = palette.paint(role, sign);
        write!(out, "      {sign} {} ", field.section)?;
        write!(out, "{}: ", Visible(&field.path))?;
        match (&field.before, &field.after) {
            (None, after) => writeln!(out, "{}", words::value(after.as_deref()))?,
            (before, None) => writeln!(out, "{}", words::value(before.as_deref()))?,
            (before, after) => writeln!(
                out,
                "{} → {}",
                words::value(before.as_deref()),
                words::value(after.as_deref())
            )?,
        }
        let next = shown.get(index + 1);
        if !field.chain.is_empty() && next.is_none_or(|next| next.chain != field.chain) {
            let chain = format!("because {}", words::chain(&field.chain));
            writeln!(out, "        {}", palette.paint(Role::Faint, chain))?;
        }
    }
    if shown.len() < fields.len() {
        let more = counted(fields.len() - shown.len(), "more field", "more fields");
        writeln!(out, "      … and {more}; --full shows all")?;
    }
    Ok(())
}

/// What is not carried out, and what allows it.
fn blocked(out: &mut dyn Write, plan: &Plan, palette: Palette) -> fmt::Result {
    let all = gather(shown(plan).filter(|change| change.blocked.is_some()));
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", palette.paint(Role::Destructive, "BLOCKED"))?;
    // Once for each reason and flag, however the changes differ otherwise.
    let mut seen: Vec<(ChangeKind, &str, Option<&str>, Vec<&Change>)> = Vec::new();
    let mut positions = rustc_hash::FxHashMap::default();
    for alike in &all {
        let Some((first, block)) = alike
            .first()
            .and_then(|first| Some((first, first.blocked.as_ref()?)))
        else {
            continue;
        };
        let flag = block.flag.as_deref();
        let name = flag.and_then(|flag| flag.split([' ', '=']).next());
        let position = *positions
            .entry((first.kind, &*block.reason, name))
            .or_insert_with(|| {
                seen.push((first.kind, &*block.reason, flag, Vec::new()));
                seen.len() - 1
            });
        seen[position].3.extend(&alike.changes);
    }
    for (kind, reason, flag, changes) in seen {
        let names = words::names(changes.iter().copied(), MOST_NAMES, |name| {
            Visible(name).to_string()
        });
        let sign = palette.paint(role(kind), kind.sign());
        let verb = words::verb(kind);
        let reason = Visible(reason);
        write!(out, "  {sign:>3} {verb} {names}: {reason}")?;
        match flag {
            Some(flag) => writeln!(
                out,
                "; {}",
                palette.paint(Role::Hint, words::way_out(flag, changes.len()))
            )?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// All steps, or one line a phase.
fn steps(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    if plan.steps.is_empty() {
        return Ok(());
    }
    let palette = view.palette;
    let title = palette.paint(Role::Strong, "Steps");
    if view.steps {
        writeln!(out, "\n{title} ({})", plan.steps.len())?;
        for step in &plan.steps {
            one_step(out, plan, step, palette)?;
        }
        return Ok(());
    }
    writeln!(out, "\n{title} ({}; --steps shows all)", plan.steps.len())?;
    for phase in super::graph::phases(&plan.steps) {
        let nodes = match phase.kind {
            kind if !phase.of_nodes => kind.to_string(),
            kind => {
                let nodes = counted(phase.steps, "node", "nodes");
                let together = plan.options.parallelism;
                let at_once = if phase.steps > together && together > 0 {
                    format!(", {together} at a time")
                } else {
                    String::new()
                };
                format!("{kind} {nodes}{at_once}")
            }
        };
        let longest = if phase.timeout > 0 {
            format!(", at most {} each", words::duration(phase.timeout))
        } else {
            String::new()
        };
        let longest = if phase.of_nodes {
            longest
        } else {
            longest.replace(" each", "")
        };
        let line = match (&phase.group, phase.wave) {
            (Some(group), Some(wave)) => {
                format!("{} wave {wave}: {nodes}{longest}", Visible(group.as_str()))
            }
            (Some(group), None) => format!("{}: {nodes}{longest}", Visible(group.as_str())),
            (None, _) => format!("{nodes}{longest}"),
        };
        if phase.effect == Effect::Destructive {
            writeln!(out, "  {}", palette.paint(Role::Removed, line))?;
        } else {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn one_step(out: &mut dyn Write, plan: &Plan, step: &Step, palette: Palette) -> fmt::Result {
    let id = step.id.to_string();
    if step.effect == Effect::Destructive {
        write!(out, "  {}", palette.paint(Role::Destructive, Visible(&id)))?;
        write!(out, " destructive")?;
    } else {
        write!(out, "  {}", Visible(&id))?;
    }
    if step.standby {
        write!(out, ", only if not sent before")?;
    }
    if step.timeout > 0 {
        write!(out, ", at most {}", words::duration(step.timeout))?;
    }
    // A barrier may wait for thousands of steps; how many is what a reader wants.
    let name = |wait: Wait| -> Option<String> {
        let mut needs = step.needs.iter().filter(|need| need.wait == wait);
        let first = needs.next()?;
        let first = plan.steps.get(first.step.0 as usize)?;
        let more = match needs.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{}{more}", Visible(&first.id.to_string())))
    };
    if let Some(needs) = name(Wait::Success) {
        write!(out, ", after success of {needs}")?;
    }
    if let Some(needs) = name(Wait::Done) {
        write!(out, ", after the end of {needs}")?;
    }
    if step.id.kind == StepKind::Tag {
        write!(out, ", tags the revision")?;
    }
    writeln!(out)
}
