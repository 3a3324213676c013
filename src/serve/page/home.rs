//! The first page: the site, what runs, drift, plans, runs, and the other sites of the repository.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::words::{navigation, outcome, short, time};
use crate::record::Phase;
use crate::report::plan::rounded;
use crate::report::{counted, html_sentence, xml};
use crate::serve::own::{
    PlanView, RunView, SiteListed, SiteView, plan_views, recorded_runs, site_views,
};
use crate::serve::shared::Shared;
use crate::workflow::Failure;

/// The nodes of drift that are listed; the API has all.
const MOST: usize = 100;

/// The lists of the page.
pub(super) struct Lists {
    /// The site of the service.
    pub(super) site: String,
    sites: Vec<SiteListed>,
    plans: Vec<PlanView>,
    runs: Vec<RunView>,
}

impl Lists {
    /// Reads them.
    pub(super) fn read(shared: &Shared, runs: usize) -> Result<Self, Failure> {
        let sites = site_views(shared)?;
        let served = sites.iter().find(|site| site.is_served);
        Ok(Self {
            site: served.map(|site| site.name.clone()).unwrap_or_default(),
            plans: plan_views(shared)?,
            runs: recorded_runs(shared, runs)?,
            sites,
        })
    }
}

/// Writes the page; `site`: the site, or why it cannot be loaded.
pub(super) fn write(
    out: &mut dyn Write,
    site: &Result<Arc<SiteView>, String>,
    lists: &Lists,
) -> fmt::Result {
    navigation(out)?;
    top(out, site, lists)?;
    writeln!(out, "<main id=\"main\">")?;
    let unfinished = unfinished(lists);
    if let Some(run) = unfinished {
        running(out, run)?;
    }
    if let Ok(site) = site {
        drift(out, site, unfinished.is_some_and(is_running))?;
    }
    plans(out, &lists.plans)?;
    runs(out, &lists.runs)?;
    sites(out, &lists.sites)?;
    writeln!(
        out,
        "</main>\n<footer><p>By the committed design and the records; no machine was asked. \
         <a href=\"/api/v1/status\">Status</a> and <a href=\"/metrics\">metrics</a> are for programs.</p></footer>"
    )
}

fn top(out: &mut dyn Write, site: &Result<Arc<SiteView>, String>, lists: &Lists) -> fmt::Result {
    writeln!(
        out,
        "<header class=\"top\"><p class=\"eyebrow\">site <b>{}</b></p>",
        xml(&lists.site)
    )?;
    let site = match site {
        Ok(site) => site,
        Err(why) => {
            return writeln!(
                out,
                "<h1 class=\"grave\">The site cannot be loaded</h1><p class=\"note stop\">{}</p></header>",
                html_sentence(why)
            );
        }
    };
    let (all, differing) = (site.status.nodes.len(), site.differing());
    let verdict = match differing {
        0 => format!("{} as designed", counted(all, "node is", "nodes are")),
        _ => format!(
            "{differing} of {} from the design",
            counted(all, "node differs", "nodes differ")
        ),
    };
    let pill = match (unfinished(lists).is_some_and(is_running), differing) {
        (true, _) => "<span class=\"pill\">A run is in progress</span>",
        (false, 0) => "<span class=\"pill go\">No drift</span>",
        (false, _) => "<span class=\"pill warn\">To be applied</span>",
    };
    writeln!(out, "<h1>{verdict}</h1>\n<p>{pill}</p>")?;
    figures(out, site, lists)?;
    writeln!(
        out,
        "<p class=\"meta\">Design of commit {}</p></header>",
        short(&site.status.revision)
    )
}

fn figures(out: &mut dyn Write, site: &SiteView, lists: &Lists) -> fmt::Result {
    let figure = |out: &mut dyn Write,
                  class: &str,
                  (name, state): (&str, &str),
                  value: usize,
                  more: &str| {
        let class = if value == 0 { "quiet" } else { class };
        writeln!(
            out,
            "<div class=\"figure {class}\"><dt><a href=\"/nodes?state={state}\">{name}</a></dt>\
             <dd class=\"value\">{value}</dd><dd>{}</dd></div>",
            xml(more)
        )
    };
    writeln!(out, "<dl class=\"figures\">")?;
    let all = site.status.nodes.len();
    let deployed = site.in_phase(Phase::Deployed);
    figure(
        out,
        "k-create",
        ("Deployed", "deployed"),
        deployed,
        &format!("of {}", counted(all, "node", "nodes")),
    )?;
    let differing = site.differing();
    figure(
        out,
        "k-attention",
        ("Differ", "differs"),
        differing,
        "from the committed design",
    )?;
    let failed = site.in_phase(Phase::Failed);
    figure(
        out,
        "k-destroy",
        ("Failed", "failed"),
        failed,
        "in their last run",
    )?;
    let unknown = site.in_phase(Phase::Unknown);
    if unknown > 0 {
        let more = match unfinished(lists).is_some_and(is_running) {
            true => "a run is in progress",
            false => "need to be observed",
        };
        figure(out, "k-attention", ("Unknown", "unknown"), unknown, more)?;
    }
    let served = lists.sites.iter().find(|site| site.is_served);
    let success = served.and_then(|site| site.last_success.as_ref());
    let run = success.and_then(|success| lists.runs.iter().find(|run| run.id == success.run));
    if let Some(success) = success {
        let at = run.map_or_else(|| xml(&success.run), |run| time(&run.started));
        writeln!(
            out,
            "<div class=\"figure\"><dt>Last success</dt><dd class=\"value\">{}</dd><dd>{at}</dd></div>",
            short(&success.revision)
        )?;
    }
    writeln!(out, "</dl>")
}

/// The run that has not ended: it is in progress, or was interrupted.
fn unfinished(lists: &Lists) -> Option<&RunView> {
    let mut runs = lists.runs.iter();
    runs.find(|run| matches!(&*run.outcome, "running" | "interrupted") && run.ended.is_none())
}

fn is_running(run: &RunView) -> bool {
    &*run.outcome == "running"
}

fn running(out: &mut dyn Write, run: &RunView) -> fmt::Result {
    let (id, action) = (xml(&run.id), xml(&run.action));
    writeln!(
        out,
        "<section class=\"card\" aria-labelledby=\"h-running\"><h2 id=\"h-running\">{action} {}</h2>\
         <p>Began {} for {}. <a href=\"/runs/{id}\">Follow run {id}</a></p></section>",
        outcome(&run.outcome),
        time(&run.started),
        xml(by(run))
    )
}

/// For whom a run is.
fn by(run: &RunView) -> &str {
    let requested = run.requested.as_ref().map(|request| &*request.subject);
    requested
        .or(run.actor.as_deref())
        .unwrap_or("an unknown actor")
}

fn drift(out: &mut dyn Write, site: &SiteView, is_running: bool) -> fmt::Result {
    writeln!(
        out,
        "<section id=\"drift\" aria-labelledby=\"h-drift\"><h2 id=\"h-drift\">Drift</h2>"
    )?;
    if site.drift.is_empty() {
        writeln!(
            out,
            "<p class=\"empty\">Every node is as it is designed, by its record.</p>"
        )?;
        return writeln!(out, "</section>");
    }
    if is_running {
        writeln!(
            out,
            "<p class=\"note\">A run is in progress: the state of its nodes is not known before it has ended.</p>"
        )?;
    }
    writeln!(
        out,
        "<table class=\"rows\"><thead><tr><th scope=\"col\">Node</th><th scope=\"col\">A plan would</th>\
         <th scope=\"col\">Why</th></tr></thead><tbody>"
    )?;
    for node in site.drift.iter().take(MOST) {
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"message\">{}</td></tr>",
            xml(&node.node),
            xml(&node.change),
            xml(&node.differs.join("; "))
        )?;
    }
    writeln!(out, "</tbody></table>")?;
    let more = site.drift.len().saturating_sub(MOST);
    if more > 0 {
        writeln!(
            out,
            "<p class=\"more\">… and {more} more; <a href=\"/api/v1/drift\">all of them</a> for programs</p>"
        )?;
    }
    writeln!(out, "</section>")
}

fn plans(out: &mut dyn Write, plans: &[PlanView]) -> fmt::Result {
    writeln!(
        out,
        "<section id=\"plans\" aria-labelledby=\"h-plans\"><h2 id=\"h-plans\">Plans</h2>"
    )?;
    if plans.is_empty() {
        writeln!(
            out,
            "<p class=\"empty\">None is kept. <code>POST /api/v1/plans</code> makes one.</p>"
        )?;
        return writeln!(out, "</section>");
    }
    writeln!(
        out,
        "<table class=\"rows\"><thead><tr><th scope=\"col\">Made</th><th scope=\"col\">Action</th>\
         <th scope=\"col\">Changes</th><th scope=\"col\">State</th><th scope=\"col\">Effect</th><th scope=\"col\">By</th>\
         <th scope=\"col\">Read</th></tr></thead><tbody>"
    )?;
    for plan in plans {
        let (class, state) = match (plan.is_blocked, plan.is_empty) {
            (true, _) => ("pill stop", "refused as it stands"),
            (_, true) => ("pill", "nothing to apply"),
            _ => ("pill go", "can be applied"),
        };
        let made = time(&plan.created);
        let url = xml(&plan.url);
        writeln!(
            out,
            "<tr><th scope=\"row\">{made}</th><td>{} {}</td><td>{}</td><td><span class=\"{class}\">{state}</span></td>\
             <td data-name=\"effect\">{}</td><td data-name=\"by\">{}</td><td class=\"links\"><a href=\"{url}.html\" aria-label=\"Plan of {} as a page\">page</a>\
             <a href=\"{url}.md\" aria-label=\"Plan of {} as Markdown\">Markdown</a></td></tr>",
            xml(&plan.action),
            xml(&plan.nodes.join(" ")),
            changes(plan),
            short(&plan.effect),
            xml(&plan.created_by),
            xml(&plan.created),
            xml(&plan.created),
        )?;
    }
    writeln!(out, "</tbody></table></section>")
}

/// How many nodes change how, and how long it takes.
fn changes(plan: &PlanView) -> String {
    let counts = plan.changes.iter();
    let mut parts: Vec<String> = counts
        .map(|(kind, count)| format!("{count} {}", xml(kind)))
        .collect();
    if plan.wiped_disks > 0 {
        let disks = counted(plan.wiped_disks, "disk", "disks");
        parts.push(format!("<b class=\"grave\">{disks} wiped</b>"));
    }
    if let Some(seconds) = plan.seconds.filter(|seconds| *seconds > 0) {
        parts.push(format!("about {}", xml(&rounded(seconds))));
    }
    parts.join(", ")
}

fn runs(out: &mut dyn Write, runs: &[RunView]) -> fmt::Result {
    writeln!(
        out,
        "<section id=\"runs\" aria-labelledby=\"h-runs\"><h2 id=\"h-runs\">Runs</h2>"
    )?;
    if runs.is_empty() {
        writeln!(out, "<p class=\"empty\">Nothing was applied yet.</p>")?;
        return writeln!(out, "</section>");
    }
    writeln!(
        out,
        "<table class=\"rows\"><thead><tr><th scope=\"col\">Began</th><th scope=\"col\">Action</th>\
         <th scope=\"col\">Outcome</th><th scope=\"col\">Nodes</th><th scope=\"col\">Commit</th><th scope=\"col\">For</th>\
         <th scope=\"col\">Run</th></tr></thead><tbody>"
    )?;
    for run in runs {
        let id = xml(&run.id);
        let mut nodes = format!("{} done", run.succeeded);
        if run.failed > 0 {
            write!(nodes, ", <b class=\"grave\">{} failed</b>", run.failed)?;
        }
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{nodes}</td><td data-name=\"commit\">{}</td>\
             <td data-name=\"for\">{}</td><td data-name=\"run\"><a href=\"/runs/{id}\"><code>{id}</code></a></td></tr>",
            time(&run.started),
            xml(&run.action),
            outcome(&run.outcome),
            short(&run.revision),
            xml(by(run)),
        )?;
    }
    writeln!(out, "</tbody></table></section>")
}

fn sites(out: &mut dyn Write, sites: &[SiteListed]) -> fmt::Result {
    writeln!(
        out,
        "<section id=\"sites\" aria-labelledby=\"h-sites\"><h2 id=\"h-sites\">Sites of the repository</h2>\
         <table class=\"rows\"><thead><tr><th scope=\"col\">Site</th><th scope=\"col\">Last success</th>\
         <th scope=\"col\">Last action</th><th scope=\"col\">Note</th></tr></thead><tbody>"
    )?;
    for site in sites {
        let action = |action: Option<&crate::serve::own::SiteActionView>| {
            action.map_or_else(|| "none".to_owned(), |action| short(&action.revision))
        };
        let note = match (&site.error, site.is_served) {
            (Some(error), _) => html_sentence(error),
            (None, true) => "served here".to_owned(),
            (None, false) => String::new(),
        };
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td data-name=\"last success\">{}</td><td data-name=\"last action\">{}</td>\
             <td class=\"message\">{note}</td></tr>",
            xml(&site.name),
            action(site.last_success.as_ref()),
            action(site.last_action.as_ref()),
        )?;
    }
    writeln!(out, "</tbody></table></section>")
}
