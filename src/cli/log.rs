//! `trueup log` and `trueup show`: the site actions, and one of them or a saved plan.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};

use crate::design::{NodeName, SiteName};
use crate::diagnostic::nearest;
use crate::record::{NodeRecord, Outcome, RunRecord, State, Store};
use crate::report::run::{NodeRun, RunRow};
use crate::report::{self, Visible};
use crate::repository::{ObjectId, PushOutcome, RefUpdate, Remote, Repository};
use crate::run::{Connection, Process, unfinished_run, vouch};

use super::apply::{ProcessClock, actor};
use super::approve;
use super::context::Context;
use super::interrupted;
use super::plan::{ViewArguments, print, print_saved};
use super::planning::RemoteArguments;
use super::run_id::by_word;
use super::value::{at_least_one, size};
use super::{Failure, FailureKind};
use crate::workflow::{
    Checkout, ExplainedRun, follow, plan_of_run, record_now, report_now, run_signatures,
    saved_plan, signature_of, signing_site,
};

/// How many tags are deleted by one push: its command line is bounded.
const TAGS_AT_ONCE: usize = 500;

#[derive(Debug, Args)]
pub(super) struct LogCommand {
    /// A node: how each run that it was in left it
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    format: LogFormat,
    /// Only the newest so many
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one)]
    number: Option<usize>,
    /// First delete the tags of all site actions but the newest so many, never that of the last success; here and at the remote
    #[arg(long, value_name = "KEEP", value_parser = size)]
    prune_tags: Option<usize>,
    /// First sign the newest records, once they are checked: they were written without a signature, or by a key that does not count any more
    #[arg(long)]
    sign: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn log(context: &mut Context, command: &LogCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let connection = command.remote.connection(&repository)?;
    let store = follow(context, &checkout, &connection)?;
    if command.sign {
        let text = sign(context, &checkout, &connection)?;
        context.printer.tell(&text);
    }
    let state = store.read()?;
    if let Some(keep) = command.prune_tags {
        let site = &checkout.location.site;
        let deleted = prune_tags(&repository, &connection, site, &state, keep)?;
        for tag in &deleted {
            context.printer.tell(&format!("deleted {}", Visible(tag)));
        }
        let tags = report::counted(deleted.len(), "tag", "tags");
        let place = match connection {
            Connection::Shared { publish: true, .. } => "here and at the remote",
            Connection::Shared { .. } | Connection::Alone | Connection::Offline => "here",
        };
        context.printer.tell(&format!("{tags} deleted {place}"));
    }
    let mut ids = store.runs(&state)?;
    ids.sort_unstable();
    ids.reverse();
    ids.truncate(command.number.unwrap_or(usize::MAX));
    let mut signatures = run_signatures(&checkout, &connection, &store, &state, &ids)?;
    let mut runs: Vec<RunRow> = Vec::new();
    for id in ids {
        let record = store.run(&state, &id)?;
        runs.extend(record.map(|record| RunRow {
            signature: signatures.remove(&record.run),
            record,
        }));
    }
    without_deleted_tags(&repository, &connection, &checkout.location.site, &mut runs)?;
    let unfinished = interrupted::unfinished(&checkout, &connection)?;
    let site = checkout.site(connection.clone())?;
    if let Some(node) = &command.node {
        let node = NodeName::from(node.as_str());
        let known = store.nodes(&state)?;
        let read = |mut record: RunRecord| {
            let report = report_now(&site, (&store, &state), &mut record, unfinished.as_ref())?;
            let result = report.and_then(|report| {
                let mut nodes = report.nodes.into_iter();
                nodes.find(|result| result.node == node)
            });
            Ok(result.map(|result| {
                let plan = plan_of_run(&store, &state, &record.run).ok();
                let mut changes = plan.into_iter().flat_map(|plan| plan.changes);
                NodeRun {
                    change: changes.find(|change| change.node == node),
                    record,
                    result,
                }
            }))
        };
        return history(context, command.format, (&node, &known), runs, &read);
    }
    let (printer, unfinished) = (&context.printer, unfinished.as_ref());
    for RunRow { record, .. } in &mut runs {
        record_now(&site, (&store, &state), record, unfinished)?;
    }
    match command.format {
        LogFormat::Text => {
            printer.stream_text(|out| report::run::log(out, &runs, unfinished, printer.out))?
        }
        LogFormat::Json => printer.stream(|out| report::run::log_json(out, &runs, unfinished))?,
    }
    interrupted::tell_unfinished(context, &checkout, &connection, unfinished)?;
    Ok(0)
}

/// Prints how each run left a node.
fn history(
    context: &Context,
    format: LogFormat,
    (node, known): (&NodeName, &BTreeMap<NodeName, NodeRecord>),
    runs: Vec<RunRow>,
    read: &dyn Fn(RunRecord) -> Result<Option<NodeRun>, Failure>,
) -> Result<u8, Failure> {
    let mut found = Vec::new();
    for RunRow { record, .. } in runs {
        found.extend(read(record)?);
    }
    if found.is_empty() && !known.contains_key(node) {
        let message = format!("no run was about a node `{node}`");
        let near = nearest(node.as_str(), known.keys().map(NodeName::as_str));
        let is_run = ulid::Ulid::from_string(node.as_str()).is_ok();
        let hint = match is_run {
            true => Some(format!("`trueup show {node}` shows a run")),
            false => near.map(|near| format!("did you mean `{near}`?")),
        };
        return Err(Failure::new(FailureKind::NotFound, message)
            .hint(hint.unwrap_or_else(|| "`trueup status` lists the nodes".to_owned())));
    }
    let printer = &context.printer;
    match format {
        LogFormat::Text => {
            printer.stream_text(|out| report::run::node_history(out, &found, printer.out))?;
        }
        LogFormat::Json => {
            printer.stream(|out| report::run::node_history_json(out, node, &found))?;
        }
    }
    Ok(0)
}

/// Signs the newest records, and all before with them.
fn sign(
    context: &Context,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
) -> Result<String, Failure> {
    let site = signing_site(checkout, connection.clone())?;
    let (actor, clock) = (actor(site.repository)?, ProcessClock::new(context.printer));
    let signed = vouch(Process::new(&site, &actor, &clock))?;
    let text = signed.map(|run| format!("The records are signed up to run {run}."));
    Ok(text.unwrap_or_else(|| "There are no records to sign.".to_owned()))
}

/// The refs of the tags of the site actions of a site, by their folders.
fn tag_folders(site: &SiteName) -> [String; 2] {
    ["success", "failure"].map(|kind| format!("refs/tags/site-action-{kind}/{site}"))
}

/// The tags of the site actions of a site at the remote.
fn tags_there(remote: &Remote<'_>, site: &SiteName) -> Result<BTreeMap<String, ObjectId>, Failure> {
    let patterns = tag_folders(site).map(|folder| format!("{folder}/*"));
    Ok(remote.ls_remote(&patterns.each_ref().map(String::as_str))?)
}

/// Leaves out the tags of runs that are deleted: their records still name them. Without an answer of the remote they may be there.
fn without_deleted_tags(
    repository: &Repository,
    connection: &Connection<'_>,
    site: &SiteName,
    runs: &mut [RunRow],
) -> Result<(), Failure> {
    let mut absent = Vec::new();
    for row in runs {
        let Some(tag) = row.record.tag.as_ref().filter(|_| !row.record.tag_owed) else {
            continue;
        };
        let name = format!("refs/tags/{tag}");
        if repository.read_ref(&name)?.is_none() {
            absent.push((name, row));
        }
    }
    let there = match connection {
        _ if absent.is_empty() => return Ok(()),
        Connection::Offline => return Ok(()),
        Connection::Alone => BTreeMap::new(),
        Connection::Shared { remote, .. } => tags_there(remote, site)?,
    };
    for (name, row) in absent {
        if !there.contains_key(&name) {
            row.record.tag = None;
        }
    }
    Ok(())
}

/// Deletes the tags of site actions but the newest `keep`, by their runs, and that of the last success;
/// gives their names, the oldest first. The state is what counts, so that nothing but the tags is lost.
fn prune_tags(
    repository: &Repository,
    connection: &Connection<'_>,
    site: &SiteName,
    state: &State,
    keep: usize,
) -> Result<Vec<String>, Failure> {
    let folders = tag_folders(site);
    let mut here = BTreeMap::new();
    for folder in &folders {
        here.extend(repository.refs(folder)?);
    }
    let audience = match connection {
        Connection::Shared {
            remote,
            publish: true,
        } => Some(remote),
        Connection::Shared { .. } | Connection::Alone | Connection::Offline => None,
    };
    let mut there = BTreeMap::new();
    if let Some(remote) = audience {
        there = tags_there(remote, site)?;
    }
    let run = |name: &str| name.rsplit('/').next().map(str::to_owned);
    // Tags that people put beside those of runs are theirs.
    let is_of_run = |name: &&String| {
        let (folder, run) = name.rsplit_once('/').unwrap_or_default();
        folders.iter().any(|own| own == folder) && ulid::Ulid::from_string(run).is_ok()
    };
    let names = here.keys().chain(there.keys());
    let mut names: Vec<&String> = names.filter(is_of_run).collect();
    names.sort_unstable_by_key(|name| (run(name), *name));
    names.dedup();
    // A run that ends just now is newer than the records that were read.
    let newest = names
        .iter()
        .rfind(|name| name.starts_with(folders[0].as_str()));
    let newest = newest.map(|name| (*name).clone());
    let recorded = state
        .site
        .last_success
        .as_ref()
        .map(|action| action.run.as_str());
    names.truncate(names.len().saturating_sub(keep));
    names.retain(|name| newest.as_ref() != Some(*name) && run(name).as_deref() != recorded);
    if let Some(remote) = audience {
        let those = names.iter().filter_map(|name| there.get_key_value(*name));
        delete_there(remote, those)?;
    }
    let those = names.iter().filter_map(|name| here.get_key_value(*name));
    let those: Vec<_> = those.map(|(name, id)| (name.as_str(), *id)).collect();
    repository.delete_refs(&those)?;
    let short = |name: &&String| name.trim_start_matches("refs/tags/").to_owned();
    Ok(names.iter().map(short).collect())
}

/// Deletes tags at the remote.
fn delete_there<'t>(
    remote: &Remote<'_>,
    tags: impl Iterator<Item = (&'t String, &'t ObjectId)>,
) -> Result<(), Failure> {
    let updates = tags.map(|(name, id)| RefUpdate {
        name: name.clone(),
        old: Some(*id),
        new: None,
    });
    let updates: Vec<RefUpdate> = updates.collect();
    for some in updates.chunks(TAGS_AT_ONCE) {
        if let PushOutcome::LostRace { name, .. } = remote.push(some)? {
            return Err(Failure::error(format!(
                "`{name}` is another tag by now at the remote `{}`",
                remote.name()
            )));
        }
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(super) struct ShowCommand {
    /// A saved plan, or the id of a run, of which the beginning is enough [default: the last run]
    #[arg(value_name = "FILE|RUN")]
    what: Option<String>,
    /// Show the plan of the run instead of its report
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    view: ViewArguments,
}

/// The run that a word means; without one, the newest.
fn recorded(
    store: &Store<'_>,
    state: &State,
    what: Option<&str>,
) -> Result<Option<RunRecord>, Failure> {
    let run = match what {
        Some(what) => by_word(store, state, what)?,
        None => store.runs(state)?.into_iter().max(),
    };
    match run {
        Some(run) => Ok(store.run(state, &run)?),
        None => Ok(None),
    }
}

pub(super) fn show(context: &mut Context, command: &ShowCommand) -> Result<u8, Failure> {
    let what = command.what.as_deref();
    let folder = context.directory();
    if let Some(file) = what.filter(|what| folder.join(what).exists()) {
        let mut plan = saved_plan(folder, file.as_ref())?;
        approve::refresh(context, &RemoteArguments::default(), &mut plan);
        print_saved(context, &plan, &command.view)?;
        return Ok(0);
    }
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let mut here = checkout.site_here()?;
    let mut store = here.store()?;
    let mut state = store.read()?;
    let mut found = recorded(&store, &state, what)?;
    let is_final = |found: &Option<RunRecord>| {
        let outcome = found.as_ref().map(|record| record.outcome);
        outcome.is_some_and(Outcome::has_ended)
    };
    if !is_final(&found) {
        // A new clone has them at its remote, and what other clones do is known there.
        let connection = RemoteArguments::default().connection(&repository)?;
        match follow(context, &checkout, &connection) {
            Ok(followed) => {
                (here, store) = (checkout.site(connection)?, followed);
                state = store.read()?;
                found = recorded(&store, &state, what)?;
            }
            Err(failure) if found.is_some() => context.printer.tell(&format!(
                "warning: {}: the run is shown as it is known here",
                failure.message
            )),
            Err(failure) => return Err(failure),
        }
    }
    let site = &checkout.location.site;
    let mut record = found.ok_or_else(|| match what {
        Some(what) => {
            let text = format!("`{what}` is neither a file nor a run of site `{site}`");
            Failure::error(text).hint("`trueup log` lists the runs")
        }
        None => {
            let message = format!("nothing was applied to site `{site}` yet");
            Failure::new(FailureKind::NotFound, message)
        }
    })?;
    let run = record.run.clone();
    if !command.plan && !command.view.shows_runs() {
        let message = "the report of a run is printed as text, Markdown, JSON or HTML";
        let hint = format!("`trueup show {run} --plan` prints its plan in any format");
        return Err(Failure::new(FailureKind::Usage, message).hint(hint));
    }
    let plan = || plan_of_run(&store, &state, &run);
    if command.plan {
        print(context, &plan()?, &command.view)?;
        return Ok(0);
    }
    let unfinished = unfinished_run(&here)?;
    let ending = report_now(&here, (&store, &state), &mut record, unfinished.as_ref())?;
    let signature = signature_of(&checkout, &store, &state, &run)?;
    let ways_out = match unfinished
        .as_ref()
        .filter(|unfinished| unfinished.run == run)
    {
        Some(_) => interrupted::ways_out(&here, &run),
        None => Vec::new(),
    };
    let row = RunRow { record, signature };
    let (printer, ending) = (&context.printer, ending.as_ref());
    if command.view.is_json() {
        printer.stream(|out| report::run::show_json(out, &row, ending))?;
    } else if command.view.is_markdown() {
        printer.stream(|out| report::run::show_markdown(out, &row.record, ending))?;
    } else if command.view.is_html() {
        let now = context.now().as_second();
        let (plan, explanation) =
            ExplainedRun::whole(&checkout, &here, (&store, &state), &run, now)?;
        let page = report::plan::RunPage {
            explanation: explanation.as_ref(),
            record: &row.record,
            signature: row.signature.as_ref(),
            report: ending,
            ways_out: &ways_out,
        };
        printer.stream(|out| report::plan::html(out, &plan, Some(page)))?;
    } else {
        let full = command.view.full;
        printer.stream_text(|out| {
            report::run::show(out, &row, ending, printer.out, full)?;
            report::ways_out_text(out, &ways_out)
        })?;
    }
    Ok(0)
}
