//! The changes themselves: what differs, why, which disks, and which steps; those that are alike once.

use std::fmt::{self, Write};

use super::model::{Class, Model, looks};
use crate::diff::FieldChange;
use crate::plan::{Change, Plan};
use crate::report::counted;
use crate::report::escape::{html_sentence, visible, xml};
use crate::report::html::{compared, node_name};
use crate::report::plan::outline::gather_by;
use crate::report::plan::words;
use crate::step::{Effect, Step, StepKind, Wait};

/// Changes that are written with their fields and steps; of more there are the names and what happens to them.
const MOST_CLASSES: usize = 400;
/// Names that neither fold nor scroll.
const FEW_NAMES: usize = 200;
/// Fields of a change that are written.
const MOST_FIELDS: usize = 100;

/// The changes that destroy data or take machines away, none of them folded; many names scroll.
pub(super) fn destructive(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let (classes, _) = model.split();
    if classes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section class=\"destructive\" aria-labelledby=\"h-destructive\">\
         <h2 id=\"h-destructive\">Wiped or taken away</h2>"
    )?;
    list(out, model, classes, 0)?;
    writeln!(out, "</section>")
}

/// All other changes.
pub(super) fn others(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let (before, classes) = model.split();
    if classes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-others\"><h2 id=\"h-others\">Other changes</h2>"
    )?;
    list(out, model, classes, before.len())?;
    writeln!(out, "</section>")
}

fn list(
    out: &mut dyn Write,
    model: &Model<'_>,
    classes: &[Class<'_>],
    number: usize,
) -> fmt::Result {
    let shown = &classes[..classes.len().min(MOST_CLASSES)];
    for (class, number) in shown.iter().zip(number..) {
        one(out, model, class, number)?;
    }
    let rest = classes[shown.len()..]
        .iter()
        .flat_map(|class| &class.machines);
    let rest = rest.map(|machine| model.machines[*machine].change);
    let rest = gather_by(rest, |change| {
        let Change {
            kind,
            does,
            blocked,
            excluded,
            shown_only,
            ..
        } = change;
        format!(
            "{kind:?}{does:?}{}{excluded}{shown_only}",
            blocked.is_some()
        )
    });
    for alike in rest {
        let Some(first) = alike.first() else {
            continue;
        };
        let what = words::verb(first);
        open(out, first, &what, alike.changes.len(), None)?;
        let changes = alike.changes.iter().copied();
        names(out, changes, first.destructive, true)?;
        writeln!(
            out,
            "<p class=\"more\">Their fields and steps differ; the plan as JSON has them all.</p></article>"
        )?;
    }
    Ok(())
}

fn open(
    out: &mut dyn Write,
    first: &Change,
    what: &str,
    machines: usize,
    id: Option<usize>,
) -> fmt::Result {
    write!(out, "<article class=\"change {}\"", looks(first))?;
    if let Some(id) = id {
        write!(out, " id=\"c{id}\"")?;
    }
    write!(
        out,
        "><h3><span class=\"sign\">{}</span> {} <span class=\"count\">{}</span>",
        xml(first.kind.sign().trim()),
        xml(what),
        counted(machines, "machine", "machines")
    )?;
    if first.blocked.is_some() {
        write!(out, " <span class=\"pill stop\">Blocked</span>")?;
    }
    if first.unverified {
        write!(out, " <span class=\"pill warn\">Unverified machine</span>")?;
    }
    writeln!(out, "</h3>")
}

/// The names of all machines, in one text, with their disks if those differ. If nothing is destroyed, many fold.
fn names<'c>(
    out: &mut dyn Write,
    changes: impl ExactSizeIterator<Item = &'c Change>,
    is_destructive: bool,
    disks: bool,
) -> fmt::Result {
    let all = changes.len();
    // Names that are wiped are never folded: many of them scroll.
    let begin = match (all > FEW_NAMES, is_destructive) {
        (false, _) => "<p class=\"names\">".to_owned(),
        (true, true) => format!(
            "<p class=\"names many\" role=\"group\" aria-label=\"Names of {all} machines\" tabindex=\"0\">"
        ),
        (true, false) => {
            format!("<details><summary>Names of {all} machines</summary><p class=\"names\">")
        }
    };
    out.write_str(&begin)?;
    for (number, change) in changes.enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        let name = change.node.as_str();
        match all > FEW_NAMES {
            true => write!(out, "{comma}{}", xml(name))?,
            false => write!(out, "{comma}{}", node_name(name))?,
        }
        if disks && !change.disks.is_empty() {
            let disks: Vec<String> = change.disks.iter().map(|disk| xml(disk)).collect();
            write!(out, " ({})", disks.join(", "))?;
        }
    }
    out.write_str(match all > FEW_NAMES && !is_destructive {
        true => "</p></details>\n",
        false => "</p>\n",
    })
}

fn one(out: &mut dyn Write, model: &Model<'_>, class: &Class<'_>, number: usize) -> fmt::Result {
    let first = class.first;
    let what = words::headline(first);
    open(out, first, &what, class.machines.len(), Some(number))?;
    let machines = class.machines.iter();
    let changes = machines.map(|machine| model.machines[*machine].change);
    names(out, changes, first.destructive, false)?;
    if let Some(block) = &first.blocked {
        let machines = class.machines.len();
        let reason = block.reason_for(machines);
        write!(out, "<p class=\"note stop\">{}", html_sentence(&reason))?;
        if let Some(way) = block.way_out(machines) {
            write!(out, " <span class=\"way\">{}</span>", html_sentence(&way))?;
        }
        writeln!(out, "</p>")?;
    }
    if !first.disks.is_empty() {
        let does = if first.destructive {
            "wiped"
        } else {
            "written"
        };
        let disks: Vec<String> = first.disks.iter().map(|disk| xml(disk)).collect();
        let disks = disks.join("</b>, <b>");
        writeln!(
            out,
            "<p class=\"disks\">Disks {does} on each machine: <b>{disks}</b></p>"
        )?;
    }
    if !first.reasons.is_empty() {
        writeln!(out, "<ul class=\"reasons\">")?;
        for reason in &first.reasons {
            writeln!(out, "<li>{}</li>", html_sentence(reason))?;
        }
        writeln!(out, "</ul>")?;
    }
    let cleaning = words::cleaning(first);
    if let Some((source, steps)) = cleaning.split_first() {
        writeln!(
            out,
            "<p class=\"cleaning\">{}</p><ul class=\"plain\">",
            xml(source)
        )?;
        for step in steps {
            writeln!(out, "<li>{}</li>", html_sentence(step.trim()))?;
        }
        writeln!(out, "</ul>")?;
    }
    fields(out, first)?;
    steps(out, model.plan, class)?;
    writeln!(out, "</article>")
}

fn fields(out: &mut dyn Write, change: &Change) -> fmt::Result {
    if change.fields.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<div class=\"wide\" role=\"group\" aria-label=\"Fields that differ\" tabindex=\"0\"><table class=\"fields\"><thead><tr>\
         <th scope=\"col\">Field</th><th scope=\"col\">Before</th><th scope=\"col\">After</th>\
         <th scope=\"col\">Because of</th></tr></thead><tbody>"
    )?;
    let shown = &change.fields[..change.fields.len().min(MOST_FIELDS)];
    for (number, field) in shown.iter().enumerate() {
        let is_as_above = number > 0 && shown[number - 1].chain == field.chain;
        write!(
            out,
            "<tr><th scope=\"row\"><code>{}</code> <small>{}</small>",
            xml(&field.path),
            xml(field.section.as_str())
        )?;
        if let Some(accepted) = &field.accepted {
            write!(out, "<br><small>accepted {}</small>", xml(accepted))?;
        }
        out.write_str("</th>")?;
        compared(out, field.before.as_deref(), field.after.as_deref())?;
        chain(out, field, is_as_above)?;
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let more = change.fields.len() - shown.len();
    if more > 0 {
        let more = counted(more, "more field", "more fields");
        writeln!(out, "<p class=\"more\">and {more}</p>")?;
    }
    Ok(())
}

/// The documents from the one that was edited to the node, with file and line.
fn chain(out: &mut dyn Write, field: &FieldChange, is_as_above: bool) -> fmt::Result {
    if field.chain.is_empty() {
        return out.write_str("<td></td>");
    }
    if is_as_above {
        return out.write_str("<td class=\"why\">as above</td>");
    }
    out.write_str("<td class=\"why\"><ol>")?;
    for link in &field.chain {
        write!(
            out,
            "<li>{} <small>{}</small>",
            xml(&words::document(&link.document)),
            xml(&link.by)
        )?;
        if !link.place.path.is_empty() {
            write!(
                out,
                " <code>{}:{}</code>",
                xml(&link.place.path),
                link.place.line
            )?;
        }
        out.write_str("</li>")?;
    }
    out.write_str("</ol></td>")
}

/// The steps of each machine, and what each waits for.
fn steps(out: &mut dyn Write, plan: &Plan, class: &Class<'_>) -> fmt::Result {
    if class.steps.is_empty() {
        return Ok(());
    }
    let open = if class.first.destructive { " open" } else { "" };
    writeln!(
        out,
        "<details class=\"steps\"{open}><summary>{} for each machine</summary><ol>",
        counted(class.steps.len(), "step", "steps")
    )?;
    for step in &class.steps {
        let step = &plan.steps[*step];
        write!(out, "<li><code>{}</code>", step.id.kind)?;
        if step.effect == Effect::Destructive {
            out.write_str(" <b class=\"grave\">destructive</b>")?;
        }
        if step.standby {
            out.write_str(", only if not sent before")?;
        }
        if step.timeout > 0 {
            write!(out, ", at most {}", words::duration(step.timeout))?;
        }
        for (wait, what) in [(Wait::Success, "success"), (Wait::Done, "the end")] {
            let names = needs(plan, step, wait);
            if !names.is_empty() {
                write!(out, ", after {what} of {}", names.join(" and "))?;
            }
        }
        writeln!(out, "</li>")?;
    }
    writeln!(out, "</ol></details>")
}

/// The steps that a step of any machine of a class waits for, each once.
fn needs(plan: &Plan, step: &Step, wait: Wait) -> Vec<String> {
    let needs = step.needs.iter().filter(|need| need.wait == wait);
    let needs = needs.filter_map(|need| plan.steps.get(need.step.0 as usize));
    let mut names: Vec<String> = Vec::new();
    for other in needs {
        let kind = other.id.kind;
        let name = match (&other.id.node, &other.id.group) {
            (Some(_), _) if other.id.node == step.id.node => format!("<code>{kind}</code>"),
            (Some(_), _) => format!("<code>{kind}</code> of other machines"),
            (None, Some(_)) if kind == StepKind::StartWave => "the start of its wave".to_owned(),
            (None, Some(group)) => {
                let group = xml(&visible(group.as_str()));
                format!("<code>{kind}</code> of group {group}")
            }
            (None, None) => format!("<code>{kind}</code>"),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
