//! The plan as text: a legend, each stage with its changes in order, the steps, what is blocked, and the summary.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::fold::Piece;
use super::forecast;
use super::outline::{self, Alike, OutlinePart, Stage, outline, visible_changes};
use super::summary::summary;
use super::{View, fold, rehearsal, steps, words};
use crate::diff::FieldChange;
use crate::plan::{Change, ChangeKind, Plan};
use crate::report::{Palette, Role, Visible, counted, unfinished};

/// Nodes that a fold names.
const MOST_NAMES: usize = 8;
/// Nodes that a fold names if their data is lost.
const MOST_DESTRUCTIVE_NAMES: usize = 40;
/// Lines of machines that lose data, each for those that lose the same.
const MOST_DESTRUCTIVE_LINES: usize = 10;
/// Groups without work that are named.
const MOST_IDLE: usize = 20;
/// Reasons for which changes are blocked that are shown.
const MOST_BLOCKS: usize = 20;
/// Nodes of which it is shown what an approval covers.
const MOST_COVERED: usize = 10;
/// Commits between the last site action and the target that are shown.
const MOST_COMMITS: usize = 20;
/// Lines of changes that have nothing below them, before they fold.
const MOST_LINES: usize = 5;

/// Writes the plan.
///
/// # Errors
///
/// Only if `out` fails.
pub fn text(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    heading(out, plan, view)?;
    destroyed(out, plan, view)?;
    let parts = outline(plan);
    if visible_changes(plan).next().is_some() {
        writeln!(out, "\n{}", legend(plan, view.palette))?;
    }
    let (stages, others) = fold::stages(&parts, view.full);
    for fold::Shown { part, like } in &stages {
        stage(out, part, view)?;
        folded(out, like, " like this", view)?;
    }
    folded(out, &others, "", view)?;
    idle(out, &parts, view)?;
    let expected = forecast::lines(plan, view.full);
    if !expected.is_empty() {
        let title = view.palette.paint(Role::Strong, "Forecast");
        writeln!(out, "\n{title}")?;
    }
    for line in expected {
        writeln!(out, "  {line}")?;
    }
    if let Some((title, lines)) = rehearsal::lines(plan) {
        writeln!(out, "\n{}", view.palette.paint(Role::Strong, title))?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    steps::write(out, plan, view)?;
    guards(out, plan, view.palette)?;
    blocked(out, plan, view)?;
    denied(out, plan, view)?;
    approvals(out, plan, view.palette)?;
    covers(out, plan, view)?;
    if !plan.warnings.is_empty() || !plan.policies.warned.is_empty() {
        writeln!(out)?;
    }
    for verdict in &plan.policies.warned {
        let head = view.palette.paint(Role::Warning, "warning:");
        writeln!(out, "{head} {}", words::verdict(verdict))?;
    }
    for warning in &plan.warnings {
        let head = view.palette.paint(Role::Warning, "warning:");
        writeln!(out, "{head} {}", Visible(warning))?;
    }
    writeln!(out)?;
    for line in summary(plan) {
        let role = if line.starts_with("BLOCKED")
            || line.starts_with("DENIED")
            || line.starts_with("UNAPPROVED")
            || line.starts_with("BREAK-GLASS")
            || line.starts_with("LOOSENING")
        {
            Role::Destructive
        } else {
            Role::Strong
        };
        writeln!(out, "{}", view.palette.paint(role, line))?;
    }
    if !plan.is_empty() {
        let line = format!("Effect: {}", words::effect(plan));
        writeln!(out, "{}", view.palette.paint(Role::Faint, line))?;
    }
    Ok(())
}

/// The parts that an approval covers.
fn covers(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    let Some(covers) = words::covers(plan, if view.full { usize::MAX } else { MOST_COVERED })
    else {
        return Ok(());
    };
    writeln!(out, "\n{}", view.palette.paint(Role::Strong, covers.title))?;
    for (name, parts) in covers.parts {
        writeln!(out, "  {name}")?;
        for part in parts {
            writeln!(out, "    {part}")?;
        }
    }
    match covers.more {
        0 => Ok(()),
        more => {
            let line = format!(
                "  … and {}; --full shows all",
                counted(more, "more node", "more nodes")
            );
            writeln!(out, "{}", view.palette.paint(Role::Faint, line))
        }
    }
}

/// Names the groups in which nothing is to be done.
fn idle(out: &mut dyn Write, parts: &[OutlinePart<'_>], view: View) -> fmt::Result {
    let idle: Vec<&str> = parts
        .iter()
        .filter_map(|part| match &part.stage {
            Stage::Group(group) if part.nodes == 0 => Some(group.name.as_str()),
            _ => None,
        })
        .collect();
    if idle.is_empty() || idle.len() == parts.len() {
        return Ok(());
    }
    let more = match view.full {
        true => 0,
        false => idle.len().saturating_sub(MOST_IDLE),
    };
    let names = idle[..idle.len() - more].join(", ");
    write!(out, "\nNothing to do in: {}", Visible(&names))?;
    match more {
        0 => writeln!(out),
        more => writeln!(out, " and {}", counted(more, "more group", "more groups")),
    }
}

fn heading(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    let (target, base) = words::revisions(plan);
    let title = format!("Site {}: {}", plan.site, plan.request.action);
    writeln!(
        out,
        "{} {base} → {target}, as of {}",
        view.palette.paint(Role::Strong, Visible(&title)),
        Visible(&plan.options.as_of)
    )?;
    for notice in &plan.notices {
        let head = view.palette.paint(Role::Warning, "warning:");
        writeln!(out, "{head} {}", Visible(notice))?;
    }
    if let Some(run) = &plan.unfinished {
        let message = format!("warning: {}", unfinished(run));
        writeln!(out, "{}", view.palette.paint(Role::Warning, message))?;
    }
    if let Some(refusal) = words::refusal(plan) {
        let line = view.palette.paint(Role::Warning, Visible(&refusal));
        writeln!(out, "{line}")?;
    }
    if let Some(flags) = words::flags(plan) {
        writeln!(out, "{flags}")?;
    }
    history(out, plan, view)?;
    Ok(())
}

/// The commits that lead to the target.
fn history(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    for part in words::history(plan) {
        let role = match part.is_refused {
            true => Role::Destructive,
            false => Role::Strong,
        };
        writeln!(out, "{}", view.palette.paint(role, part.title))?;
        let most = match view.full {
            true => part.commits.len(),
            false => MOST_COMMITS,
        };
        for commit in part.commits.iter().take(most) {
            let id = view
                .palette
                .paint(Role::Faint, words::short(&commit.commit));
            writeln!(out, "  {id} {}", Visible(&commit.subject))?;
        }
        let more = part.commits.len().saturating_sub(most);
        if more > 0 {
            writeln!(out, "  … and {more} more; --full shows all")?;
        }
    }
    Ok(())
}

/// The machines that lose data or are taken away, before all else that is done.
fn destroyed(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    let is_done = |change: &&Change| {
        change.wipes_or_takes_away()
            && change.blocked.is_none()
            && !change.excluded
            && !change.shown_only
    };
    let all = outline::gather_by(visible_changes(plan).filter(is_done), |change| {
        format!("{:?}{}", change.kind, words::headline(change))
    });
    let nodes: usize = all.iter().map(|alike| alike.changes.len()).sum();
    if nodes == 0 {
        return Ok(());
    }
    let palette = view.palette;
    let machines = counted(nodes, "machine is wiped", "machines are wiped");
    let title = format!("{machines} or taken away");
    writeln!(out, "\n{}", palette.paint(Role::Destructive, title))?;
    let lines = match view.full {
        true => all.len(),
        false => MOST_DESTRUCTIVE_LINES,
    };
    for alike in all.iter().take(lines) {
        let Some(first) = alike.first() else {
            continue;
        };
        let most = match view.full {
            true => alike.changes.len(),
            false => MOST_DESTRUCTIVE_NAMES,
        };
        let changes = alike.changes.iter().copied();
        let names = words::names(changes, most, |name| Visible(name).to_string());
        let sign = palette.paint(role(first.kind), first.kind.sign());
        writeln!(out, "  {sign:>3} {}: {names}", words::headline(first))?;
    }
    let rest = all.iter().skip(lines).flat_map(|alike| &alike.changes);
    match fold::sum(rest.copied()) {
        sum if sum.is_empty() => Ok(()),
        sum => writeln!(out, "  … and {sum}; --full shows all"),
    }
}

/// The signs that occur in a plan, with their meaning.
fn legend(plan: &Plan, palette: Palette) -> String {
    let occur: BTreeSet<&str> = visible_changes(plan)
        .map(|change| change.kind.sign())
        .collect();
    let entries = [
        (ChangeKind::Create, "deploy"),
        (ChangeKind::Relabel, "change in place"),
        (ChangeKind::Redeploy, "tear down and build again"),
        (ChangeKind::Destroy, "tear down"),
        (ChangeKind::Drift, "drifted"),
        (ChangeKind::Unknown, "not known, or not ours yet"),
        (ChangeKind::Accept, "stays as it is"),
        (ChangeKind::Operation, "as asked"),
    ];
    let entries: Vec<String> = entries
        .iter()
        .filter(|(kind, _)| occur.contains(kind.sign()))
        .map(|(kind, words)| format!("{} {words}", palette.paint(role(*kind), kind.sign())))
        .collect();
    format!("  {}", entries.join("   "))
}

fn role(kind: ChangeKind) -> Role {
    match kind {
        ChangeKind::Create => Role::Added,
        ChangeKind::Redeploy | ChangeKind::Destroy => Role::Destructive,
        ChangeKind::Adopt | ChangeKind::Unknown | ChangeKind::Drift => Role::Warning,
        ChangeKind::Record
        | ChangeKind::AwaitReady
        | ChangeKind::Rename
        | ChangeKind::Relabel
        | ChangeKind::Service
        | ChangeKind::Retire
        | ChangeKind::Unretire
        | ChangeKind::Operation
        | ChangeKind::Accept
        | ChangeKind::None => Role::Changed,
    }
}

fn stage(out: &mut dyn Write, part: &OutlinePart<'_>, view: View) -> fmt::Result {
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
    for piece in fold::pieces(part, view.full) {
        let (all, what) = match &piece {
            Piece::Alike(alike) => {
                changes(out, alike, view)?;
                continue;
            }
            Piece::SameFields(all) => (all, "more with the same fields"),
            Piece::Others(all) => (all, "more"),
        };
        let destroys = all.iter().any(|change| change.destructive);
        let (most, role) = match destroys {
            true => (MOST_DESTRUCTIVE_NAMES, Role::Removed),
            false => (MOST_NAMES, Role::Faint),
        };
        let names = words::names(all.iter().copied(), most, |name| Visible(name).to_string());
        let sum = fold::sum(all.iter().copied());
        let line = format!(
            "… and {} {what}, {sum}: {names}; --full shows all",
            all.len()
        );
        writeln!(out, "      {}", palette.paint(role, line))?;
    }
    Ok(())
}

/// Groups that are not shown by themselves.
fn folded(out: &mut dyn Write, parts: &[&OutlinePart<'_>], what: &str, view: View) -> fmt::Result {
    if parts.is_empty() {
        return Ok(());
    }
    let role = match fold::destroys(parts) {
        true => Role::Removed,
        false => Role::Faint,
    };
    let line = fold::said_of(parts, what, MOST_NAMES);
    let line = format!("… and {}; --full shows all", Visible(&line));
    writeln!(out, "\n{}", view.palette.paint(role, line))
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
        self::change(out, change, view)?;
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

/// A change, with its reasons, its fields and what blocks it.
pub(in crate::report) fn change(out: &mut dyn Write, change: &Change, view: View) -> fmt::Result {
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
        match block.way_out(1) {
            Some(way) => writeln!(out, "      blocked: {reason}; {}", Visible(&way)),
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
        if let Some(accepted) = &field.accepted {
            writeln!(out, "        accepted {}", Visible(accepted))?;
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

/// The verdicts that deny.
fn denied(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    if plan.is_denied() {
        writeln!(out, "\n{}", view.palette.paint(Role::Destructive, "DENIED"))?;
    }
    for verdict in &plan.policies.denied {
        writeln!(out, "  {}", words::verdict(verdict))?;
    }
    Ok(())
}

/// Writes the signatures that a plan needs and has; nothing if it needs none.
///
/// # Errors
///
/// Only if `out` fails.
pub fn approvals(out: &mut dyn Write, plan: &Plan, palette: Palette) -> fmt::Result {
    if plan.approvals.is_empty() {
        return Ok(());
    }
    let from = format!("by the rules of {}", Visible(&plan.approvals.rules_from));
    writeln!(
        out,
        "\n{} {}",
        palette.paint(Role::Strong, "Approvals"),
        palette.paint(Role::Faint, from)
    )?;
    for (line, is_open) in words::approvals(plan) {
        match is_open {
            true => writeln!(out, "  {}", palette.paint(Role::Destructive, line))?,
            false => writeln!(out, "  {line}")?,
        }
    }
    Ok(())
}

/// The guards that become weaker, or hold only as they are in force.
fn guards(out: &mut dyn Write, plan: &Plan, palette: Palette) -> fmt::Result {
    let lines = words::guards(plan);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", palette.paint(Role::Strong, "Guards"))?;
    for (line, is_weaker) in lines {
        match is_weaker {
            true => writeln!(out, "  {}", palette.paint(Role::Warning, line))?,
            false => writeln!(out, "  {line}")?,
        }
    }
    Ok(())
}

/// The blocked changes, and the flags that allow them.
fn blocked(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    let palette = view.palette;
    let all = outline::blocked(plan);
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", palette.paint(Role::Destructive, "BLOCKED"))?;
    let most = if view.full { all.len() } else { MOST_BLOCKS };
    for alike in all.iter().take(most) {
        let Some((first, block)) = alike
            .first()
            .and_then(|first| Some((first, first.blocked.as_ref()?)))
        else {
            continue;
        };
        let changes = &alike.changes;
        let (kind, reason) = (first.kind, block.reason_for(changes.len()));
        let names = words::names(changes.iter().copied(), MOST_NAMES, |name| {
            Visible(name).to_string()
        });
        let sign = palette.paint(role(kind), kind.sign());
        let verb = words::verb(first);
        let reason = Visible(&reason);
        write!(out, "  {sign:>3} {verb} {names}: {reason}")?;
        match block.way_out(changes.len()) {
            Some(way) => writeln!(out, "; {}", palette.paint(Role::Hint, Visible(&way)))?,
            None => writeln!(out)?,
        }
    }
    let rest = all.iter().skip(most).map(|alike| alike.changes.len());
    match rest.sum() {
        0 => Ok(()),
        more => writeln!(
            out,
            "  … and {} for other reasons; --full shows all",
            counted(more, "node", "nodes")
        ),
    }
}
