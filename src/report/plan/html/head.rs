//! The verdict, which is understood in ten seconds, and what else a reviewer must know before the details.

use std::fmt::{self, Write};

use super::data::result;
use super::model::Model;
use crate::plan::{ChangeKind, Plan};
use crate::record::Outcome;
use crate::report::escape::{html_sentence, xml};
use crate::report::html::node_name;
use crate::report::plan::way_back::{MOST, way_back};
use crate::report::plan::{forecast, outline, rehearsal, summary, words};
use crate::report::run::{requested, signature_words};
use crate::report::{Role, counted, unfinished};

/// Nodes of which it is shown what an approval covers.
const MOST_COVERED: usize = 200;
/// Drains that have a line each.
const FEW_DRAINS: usize = 200;

/// Opens the page: verdict, figures, notices.
pub(super) fn write(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let plan = model.plan;
    let (site, action) = (xml(plan.site.as_str()), xml(plan.request.action.as_str()));
    write!(
        out,
        "<a class=\"skip\" href=\"#main\">Skip to the changes</a>\n<header class=\"top\">\n\
         <p class=\"eyebrow\"><b>trueup</b> {} · site <b>{site}</b> · {action}</p>\n",
        if model.run.is_some() { "run" } else { "plan" }
    )?;
    match model.run {
        Some(_) => of_run(out, model)?,
        None => of_plan(out, model)?,
    }
    for line in summary(plan) {
        writeln!(out, "<p class=\"summary\">{}</p>", html_sentence(&line))?;
    }
    figures(out, model)?;
    let (target, base) = words::revisions(plan);
    write!(
        out,
        "<p class=\"meta\"><code>{}</code> → <code>{}</code>, as of {}",
        xml(&base),
        xml(&target),
        xml(&plan.options.as_of)
    )?;
    if !plan.is_empty() {
        write!(out, " · effect <code>{}</code>", xml(&words::effect(plan)))?;
    }
    writeln!(out, "</p>")?;
    if let Some(flags) = words::flags(plan) {
        writeln!(out, "<p class=\"note flags\">{}</p>", xml(&flags))?;
    }
    for (line, is_weaker) in words::guards(plan) {
        let class = if is_weaker { "note warn" } else { "note" };
        writeln!(
            out,
            "<p class=\"{class}\">Guards: {}</p>",
            html_sentence(&line)
        )?;
    }
    for line in plan.way_back.iter().flat_map(|way| way_back(way, MOST)) {
        writeln!(
            out,
            "<p class=\"note warn\">{}</p>",
            html_sentence(line.trim_start())
        )?;
    }
    for notice in &plan.notices {
        writeln!(out, "<p class=\"note warn\">{}</p>", html_sentence(notice))?;
    }
    if let Some(run) = &plan.unfinished {
        writeln!(
            out,
            "<p class=\"note warn\">{}</p>",
            html_sentence(&unfinished(run))
        )?;
    }
    writeln!(out, "</header>\n<main id=\"main\">")
}

fn of_plan(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let plan = model.plan;
    let (all, idle) = model.destructive();
    let verdict = match (all, all - idle) {
        (0, _) => "No machine is wiped or taken away".to_owned(),
        (_, 0) => {
            let machines = counted(all, "machine", "machines");
            format!("{machines} would be wiped or taken away")
        }
        (_, done) => {
            let done = counted(done, "machine is wiped", "machines are wiped");
            format!("{done} or taken away")
        }
    };
    let more = match idle {
        0 => String::new(),
        idle if idle == all => ", blocked or left out".to_owned(),
        idle => format!(", {idle} more blocked or left out"),
    };
    let grave = if all > 0 { " class=\"grave\"" } else { "" };
    let refusal = words::refusal(plan);
    let (class, state) = match (&refusal, plan.is_empty()) {
        (Some(_), _) => ("pill stop", "Refused as it stands"),
        (None, true) => ("pill", "Nothing to apply"),
        (None, false) => ("pill go", "Can be applied"),
    };
    writeln!(
        out,
        "<h1{grave}>{verdict}{more}</h1>\n<p><span class=\"{class}\">{state}</span></p>"
    )?;
    match refusal {
        Some(refusal) => writeln!(
            out,
            "<p class=\"note warn\">{}</p>",
            html_sentence(&refusal)
        ),
        None => Ok(()),
    }
}

fn of_run(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let Some(run) = model.run else {
        return Ok(());
    };
    let outcome = run.record.outcome;
    let class = match outcome {
        Outcome::Succeeded => "pill go",
        Outcome::Failed | Outcome::Abandoned => "pill stop",
        _ => "pill warn",
    };
    let count = |wanted: &str| {
        let machines = model.machines.iter().filter(|machine| machine.works);
        machines.filter(|machine| result(machine) == wanted).count()
    };
    let (failed, done) = (count("failed"), count("done"));
    let grave = if failed > 0 { " class=\"grave\"" } else { "" };
    writeln!(
        out,
        "<h1{grave}>{} done, {failed} failed</h1>\n<p><span class=\"{class}\">{}</span></p>",
        counted(done, "machine", "machines"),
        outcome.words()
    )?;
    let record = run.record;
    write!(
        out,
        "<p class=\"meta\">Run <code>{}</code>",
        xml(record.run.as_str())
    )?;
    let requested = record.requested.as_deref().map(requested);
    for (name, value) in [
        ("by", record.actor.as_deref()),
        ("for", requested.as_deref()),
        ("began", Some(&*record.started)),
        ("ended", record.ended.as_deref()),
        ("tagged", record.tag.as_deref()),
    ] {
        if let Some(value) = value {
            write!(out, " · {name} {}", xml(value))?;
        }
    }
    for approval in &record.approvals {
        write!(out, " · approved by {}", xml(&approval.by))?;
    }
    let signature = run.signature.and_then(signature_words);
    if let Some((Role::Success, words)) = &signature {
        write!(out, " · signed by {}", xml(words))?;
    }
    writeln!(out, "</p>")?;
    if let Some((Role::Warning | Role::Error, words)) = &signature {
        writeln!(
            out,
            "<p class=\"note stop\">Signature: {}</p>",
            html_sentence(words)
        )?;
    }
    if !run.ways_out.is_empty() {
        writeln!(out, "<div class=\"note\"><p>Ways out:</p><ul>")?;
        for way in run.ways_out {
            writeln!(out, "<li>{}</li>", html_sentence(way))?;
        }
        writeln!(out, "</ul></div>")?;
    }
    of_report(out, model)
}

/// The nodes that are not done, with the reason of each, and the next steps.
fn of_report(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let Some(report) = model.run.and_then(|run| run.report) else {
        return Ok(());
    };
    let (begun, not_begun): (Vec<_>, Vec<_>) = report
        .unfinished()
        .partition(|node| node.step().is_some() || node.reason().is_some());
    if !begun.is_empty() {
        writeln!(
            out,
            "<table class=\"failed\"><caption>Not done</caption><thead><tr><th scope=\"col\">Machine</th>\
             <th scope=\"col\">Step</th><th scope=\"col\">Reason</th></tr></thead><tbody>"
        )?;
        for node in begun {
            writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td><code>{}</code></td><td>{}</td></tr>",
                node_name(node.node.as_str()),
                xml(node.step().unwrap_or("")),
                html_sentence(node.reason().unwrap_or(""))
            )?;
        }
        writeln!(out, "</tbody></table>")?;
    }
    if !not_begun.is_empty() {
        let names: Vec<String> = not_begun
            .iter()
            .map(|node| node_name(node.node.as_str()))
            .collect();
        writeln!(
            out,
            "<details><summary>{} not begun</summary><p class=\"names\">{}</p></details>",
            counted(names.len(), "machine", "machines"),
            names.join(", ")
        )?;
    }
    for line in &report.undelivered {
        writeln!(
            out,
            "<p class=\"note warn\">Not told: {}</p>",
            html_sentence(line)
        )?;
    }
    for next in &report.next {
        writeln!(
            out,
            "<p class=\"note warn\">Next: {}</p>",
            html_sentence(next)
        )?;
    }
    Ok(())
}

/// A figure: what, how much, and what belongs to it.
struct Figure {
    class: &'static str,
    name: String,
    value: String,
    more: String,
}

fn figures(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let plan = model.plan;
    let figure = |class, name: &str, value: String, more: String| Figure {
        class,
        name: name.to_owned(),
        value,
        more,
    };
    let (all, idle) = model.destructive();
    let mut figures = Vec::new();
    let disks = plan.summary.wiped_disks;
    figures.push(figure(
        if all > idle { "k-destroy" } else { "quiet" },
        "Wiped or taken away",
        (all - idle).to_string(),
        match disks {
            0 => "no disk is wiped".to_owned(),
            disks => counted(disks, "disk is wiped", "disks are wiped"),
        },
    ));
    let blocked: usize = plan.summary.blocked.values().sum();
    if blocked > 0 {
        let name = words::until_unblocked(plan).to_owned();
        figures.push(figure("k-attention", "Blocked", blocked.to_string(), name));
    }
    let created = plan.count(ChangeKind::Create);
    let class = if created > 0 { "k-create" } else { "quiet" };
    figures.push(figure(
        class,
        "Deployed new",
        created.to_string(),
        String::new(),
    ));
    let changed: usize = plan.summary.changes.values().sum();
    let gone = plan.count(ChangeKind::Redeploy) + plan.count(ChangeKind::Destroy);
    let changed = changed.saturating_sub(created + gone);
    let class = if changed > 0 { "k-change" } else { "quiet" };
    let more = format!("{} unchanged", plan.unchanged);
    figures.push(figure(class, "Changed in place", changed.to_string(), more));
    if let Some(time) = plan.forecast.time {
        let most = words::at_most(time.percentile_90);
        let allowed = words::at_most(time.timeouts);
        let more = format!("90 %: under {most}; timeouts allow {allowed}");
        figures.push(figure("", "Takes about", words::rounded(time.median), more));
    }
    for cluster in &plan.forecast.etcd {
        let name = format!("etcd {}", cluster.cluster.as_str());
        let value = format!("{} → {}", cluster.now, cluster.meanwhile);
        let more = format!("voting members meanwhile, {} at the end", cluster.after);
        figures.push(figure("k-attention", &name, value, more));
    }
    if let Some(size) = plan.summary.waves {
        let (waves, reason) = words::waves(size);
        let reason = reason.to_owned();
        figures.push(figure("", "Out of service at once", waves, reason));
    }
    writeln!(out, "<dl class=\"figures\">")?;
    for Figure {
        class,
        name,
        value,
        more,
    } in figures
    {
        writeln!(
            out,
            "<div class=\"figure {class}\"><dt>{}</dt><dd class=\"value\">{}</dd><dd>{}</dd></div>",
            xml(&name),
            xml(&value),
            xml(&more)
        )?;
    }
    writeln!(out, "</dl>")
}

/// Denials, blocked changes, warnings, the forecast for workloads, and the commits.
pub(super) fn cautions(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let plan = model.plan;
    denied(out, plan)?;
    approvals(out, plan)?;
    covers(out, plan)?;
    blocked(out, plan)?;
    if !(plan.warnings.is_empty() && plan.policies.warned.is_empty()) {
        writeln!(
            out,
            "<section aria-labelledby=\"h-warnings\"><h2 id=\"h-warnings\">Warnings</h2><ul class=\"plain\">"
        )?;
        let warnings = plan.warnings.iter().map(|warning| String::from(&**warning));
        for warning in warnings.chain(plan.policies.warned.iter().map(words::verdict)) {
            writeln!(
                out,
                "<li class=\"note warn\">{}</li>",
                html_sentence(&warning)
            )?;
        }
        writeln!(out, "</ul></section>")?;
    }
    let lines = forecast::lines(plan, plan.forecast.nodes.len() <= FEW_DRAINS);
    if !lines.is_empty() {
        writeln!(
            out,
            "<section aria-labelledby=\"h-workloads\"><h2 id=\"h-workloads\">Workloads</h2><ul class=\"columns\">"
        )?;
        for line in lines {
            writeln!(out, "<li>{}</li>", html_sentence(&line))?;
        }
        writeln!(out, "</ul></section>")?;
    }
    if let Some((title, lines)) = rehearsal::lines(plan) {
        writeln!(
            out,
            "<section aria-labelledby=\"h-rehearsal\"><h2 id=\"h-rehearsal\">Rehearsal</h2><p>{}</p><ul>",
            xml(&title)
        )?;
        for line in lines {
            writeln!(out, "<li>{}</li>", html_sentence(&line))?;
        }
        writeln!(out, "</ul></section>")?;
    }
    commits(out, plan)
}

/// The verdicts that deny.
fn denied(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    if !plan.is_denied() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-denied\"><h2 id=\"h-denied\">Denied by rules of the site</h2><ul class=\"plain\">"
    )?;
    for verdict in &plan.policies.denied {
        let verdict = words::verdict(verdict);
        writeln!(
            out,
            "<li class=\"note stop\">{}</li>",
            html_sentence(&verdict)
        )?;
    }
    writeln!(out, "</ul></section>")
}

/// The signatures that it needs and has.
fn approvals(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    if plan.approvals.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-approvals\"><h2 id=\"h-approvals\">Approvals</h2><p>By the rules of {}.</p><ul class=\"plain\">",
        xml(&plan.approvals.rules_from)
    )?;
    for (line, is_open) in words::approvals(plan) {
        let class = if is_open { "note stop" } else { "note" };
        writeln!(out, "<li class=\"{class}\">{}</li>", xml(&line))?;
    }
    writeln!(out, "</ul></section>")
}

/// The parts that an approval covers.
fn covers(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    let Some(covers) = words::covers(plan, MOST_COVERED) else {
        return Ok(());
    };
    writeln!(
        out,
        "<details><summary>{}</summary><ul class=\"plain\">",
        xml(&covers.title)
    )?;
    for (name, parts) in &covers.parts {
        write!(out, "<li class=\"note\"><b>{}</b>", xml(name))?;
        for part in parts {
            write!(out, "<br>{}", html_sentence(part))?;
        }
        writeln!(out, "</li>")?;
    }
    if covers.more > 0 {
        let more = counted(covers.more, "more node", "more nodes");
        writeln!(
            out,
            "<li class=\"note\">… and {more}; `trueup show --full` shows all</li>"
        )?;
    }
    writeln!(out, "</ul></details>")
}

fn blocked(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    let blocked = outline::blocked(plan);
    if blocked.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-blocked\"><h2 id=\"h-blocked\">Blocked</h2><ul class=\"plain\">"
    )?;
    for alike in &blocked {
        let Some((first, block)) = alike
            .first()
            .and_then(|first| Some((first, first.blocked.as_ref()?)))
        else {
            continue;
        };
        let names = words::names(alike.changes.iter().copied(), 12, xml);
        let verb = xml(&words::verb(first));
        write!(
            out,
            "<li class=\"note stop\"><b>{verb}</b> {names}: {}",
            html_sentence(&block.reason_for(alike.changes.len()))
        )?;
        if let Some(way) = block.way_out(alike.changes.len()) {
            write!(out, " <span class=\"way\">{}</span>", html_sentence(&way))?;
        }
        writeln!(out, "</li>")?;
    }
    writeln!(out, "</ul></section>")
}

fn commits(out: &mut dyn Write, plan: &Plan) -> fmt::Result {
    let history = words::history(plan);
    if history.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-commits\"><h2 id=\"h-commits\">Commits</h2>"
    )?;
    for part in history {
        let class = if part.is_refused {
            " class=\"note stop\""
        } else {
            ""
        };
        writeln!(out, "<p{class}>{}</p>", xml(&part.title))?;
        if part.commits.is_empty() {
            continue;
        }
        writeln!(out, "<ul class=\"commits\">")?;
        for commit in part.commits {
            let id = words::short(&commit.commit);
            let (id, subject) = (xml(&id), xml(&commit.subject));
            writeln!(out, "<li><code>{id}</code> {subject}</li>")?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "</section>")
}

/// Closes the page.
pub(super) fn foot(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    writeln!(out, "</main>\n<footer>")?;
    if model.run.is_none() {
        writeln!(
            out,
            "<p>The plan holds until the documents, the last site action or the machines that it is about change. \
             <code>trueup apply PLAN</code> makes it again and refuses what is not in it.</p>"
        )?;
        if let Some(checked) = &model.plan.checked {
            // How many rules judge it differs between a plan that was just made and its file.
            let version = checked.version;
            let findings = match checked.findings {
                0 => "nothing".to_owned(),
                count => format!("{count} that it breaks"),
            };
            writeln!(
                out,
                "<p>The checker held it to its rules (version {version}), and found {findings}.</p>"
            )?;
        }
    }
    writeln!(out, "</footer>")
}
