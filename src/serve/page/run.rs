//! The page of a run, which the script keeps up to date while it runs.

use std::fmt::{self, Write};

use super::words::{navigation, sentence, short, time};
use crate::report::plan::rounded;
use crate::report::{html_sentence, xml};
use crate::serve::own::{GroupProgress, NodeProgress, RunProgress, RunView};

/// The nodes in work, or failed, that are listed.
const MOST: usize = 500;

/// A run as it is shown.
pub(super) struct View<'a> {
    pub(super) run: &'a RunView,
    pub(super) progress: &'a RunProgress,
    /// The newest lines of its log.
    pub(super) lines: &'a [String],
    /// The id of the event behind which the lines end.
    pub(super) after: u64,
}

/// Writes the page.
pub(super) fn write(out: &mut dyn Write, view: &View<'_>) -> fmt::Result {
    navigation(out)?;
    let (run, progress) = (view.run, view.progress);
    let id = xml(&run.id);
    let is_running = progress.outcome == "running";
    let source = match is_running {
        true => format!(
            " data-events=\"/api/v1/runs/{id}/events?after={}\" data-progress=\"/api/v1/runs/{id}/progress\"",
            view.after
        ),
        false => String::new(),
    };
    let class = match &*progress.outcome {
        "running" => "",
        "succeeded" => " class=\"over-succeeded\"",
        "failed" | "abandoned" => " class=\"over-failed\"",
        _ => " class=\"over-partly\"",
    };
    writeln!(out, "<div id=\"run\"{class}{source}>")?;
    top(out, view, is_running)?;
    writeln!(out, "<main id=\"main\">")?;
    groups(out, &progress.groups)?;
    nodes(out, ("failed", "Failed", "failed"), &progress.failed)?;
    nodes(out, ("work", "In work", ""), &progress.in_work)?;
    writeln!(
        out,
        "<section aria-labelledby=\"h-log\"><h2 id=\"h-log\">Log</h2>\
         <div class=\"log\" id=\"log\" role=\"log\" aria-live=\"off\" aria-labelledby=\"h-log\" tabindex=\"0\">\
         <ol id=\"log-lines\">"
    )?;
    for line in view.lines {
        writeln!(out, "<li>{}</li>", html_sentence(line))?;
    }
    writeln!(out, "</ol></div></section></main></div>")?;
    writeln!(
        out,
        "<footer><p>The log has the newest lines; <code>trueup show {id}</code> prints the record.</p></footer>"
    )
}

fn top(out: &mut dyn Write, view: &View<'_>, is_running: bool) -> fmt::Result {
    let (run, progress) = (view.run, view.progress);
    let id = xml(&run.id);
    writeln!(
        out,
        "<header class=\"top\"><p class=\"eyebrow\">site <b>{}</b> · {} · run <b>{id}</b></p>\
         <h1 id=\"title\" data-action=\"{}\">{}</h1>",
        xml(&run.site),
        xml(&run.action),
        xml(&run.action),
        sentence(&run.action, &progress.outcome)
    )?;
    if is_running {
        writeln!(
            out,
            "<p class=\"live\" id=\"live\" role=\"status\"><b id=\"live-word\">as of now</b></p>\
             <noscript><p class=\"note\">Without scripts the page shows the run as of when it was loaded. \
             <a href=\"/runs/{id}\">Load it again</a></p></noscript>"
        )?;
    }
    let hidden = if is_running { " hidden" } else { "" };
    writeln!(
        out,
        "<p id=\"report\"{hidden}><a href=\"/api/v1/runs/{id}.html\">Report with plan, graph and nodes</a></p>\
         <div class=\"overall\"><progress id=\"overall\" max=\"{}\" value=\"{}\" aria-label=\"Steps that have ended\"></progress></div>",
        progress.steps.max(1),
        progress.steps_ended
    )?;
    let (word, time_of_it) = match (is_running, progress.remaining_ms) {
        (false, _) => ("Took", xml(&rounded(progress.elapsed_ms / 1000))),
        (true, Some(milliseconds)) => ("Left, about", xml(&rounded(milliseconds / 1000))),
        (true, None) => ("Left, about", "–".to_owned()),
    };
    let in_work = if progress.in_work.is_empty() {
        "quiet"
    } else {
        "k-change"
    };
    let failed = if progress.failed.is_empty() {
        "quiet"
    } else {
        "k-destroy"
    };
    writeln!(
        out,
        "<dl class=\"figures\">\
         <div class=\"figure\"><dt>Steps</dt><dd class=\"value\" id=\"steps\">{} of {}</dd></div>\
         <div class=\"figure {in_work}\"><dt>Nodes in work</dt><dd class=\"value\" id=\"work-count\">{}</dd></div>\
         <div class=\"figure {failed}\"><dt>Nodes failed</dt><dd class=\"value\" id=\"failed-count\">{}</dd></div>\
         <div class=\"figure\"><dt id=\"time-word\">{word}</dt><dd class=\"value\" id=\"remaining\">{time_of_it}</dd></div></dl>",
        progress.steps_ended,
        progress.steps,
        progress.in_work.len(),
        progress.failed.len(),
    )?;
    let requested = run.requested.as_ref();
    let by = requested
        .map(|request| &*request.subject)
        .or(run.actor.as_deref());
    write!(out, "<p class=\"meta\">Began {}", time(&run.started))?;
    if let Some(by) = by {
        write!(out, " for {}", xml(by))?;
    }
    if let Some(request) = requested {
        write!(out, ", request <code>{}</code>", xml(&request.id))?;
    }
    if let Some(ended) = &run.ended {
        write!(out, " · ended {}", time(ended))?;
    }
    writeln!(out, " · commit {}</p></header>", short(&run.revision))
}

fn groups(out: &mut dyn Write, groups: &[GroupProgress]) -> fmt::Result {
    let hidden = if groups.is_empty() { " hidden" } else { "" };
    writeln!(
        out,
        "<section aria-labelledby=\"h-groups\"{hidden}><h2 id=\"h-groups\">Groups</h2>\
         <table class=\"rows\"><thead><tr><th scope=\"col\">Group</th><th scope=\"col\">State</th>\
         <th scope=\"col\">Progress</th><th scope=\"col\">Nodes</th><th scope=\"col\">Note</th></tr></thead>\
         <tbody id=\"group-rows\">"
    )?;
    for group in groups {
        let name = xml(&group.name);
        let failed = match group.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let done = if group.nodes == 0 { 1 } else { group.done };
        writeln!(
            out,
            "<tr class=\"s-{state}\"><th scope=\"row\">{name}</th><td><span class=\"state\">{state}</span></td>\
             <td class=\"bar\"><progress max=\"{}\" value=\"{done}\" aria-label=\"Nodes of {name}\"></progress></td>\
             <td>{} of {}{failed}</td><td class=\"message\">{}</td></tr>",
            group.nodes.max(1),
            group.done,
            group.nodes,
            html_sentence(group.reason.as_deref().unwrap_or_default()),
            state = xml(&group.state),
        )?;
    }
    writeln!(out, "</tbody></table></section>")
}

fn nodes(
    out: &mut dyn Write,
    (id, title, class): (&str, &str, &str),
    nodes: &[NodeProgress],
) -> fmt::Result {
    let hidden = if nodes.is_empty() { " hidden" } else { "" };
    writeln!(
        out,
        "<section id=\"{id}\" class=\"{class}\" aria-labelledby=\"h-{id}\"{hidden}><h2 id=\"h-{id}\">{title}</h2>\
         <table class=\"rows\"><thead><tr><th scope=\"col\">Node</th><th scope=\"col\">Step</th><th scope=\"col\">Since</th>\
         <th scope=\"col\">Message</th></tr></thead><tbody id=\"{id}-rows\">"
    )?;
    for node in nodes.iter().take(MOST) {
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td><code>{}</code></td><td>{}</td><td class=\"message\">{}</td></tr>",
            xml(&node.node),
            xml(&node.step),
            xml(node.since.get(11..19).unwrap_or(&node.since)),
            html_sentence(node.message.as_deref().unwrap_or_default())
        )?;
    }
    writeln!(out, "</tbody></table></section>")
}
