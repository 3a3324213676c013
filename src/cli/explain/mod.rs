//! `trueup explain`: a code, a word, a field of a document, or a thing of a plan or run.

mod example;

use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::apply::ProcessClock;
use super::approve;
use super::context::Context;
use super::exit;
use super::interrupted;
use super::planning::PlanArguments;
use super::run_id::by_word;
use super::{Failure, FailureKind};
use crate::design::schema::{self, NoField};
use crate::design::{NodeName, RunId};
use crate::diagnostic::nearest;
use crate::plan::{ExplanationBasis, Plan, UnfinishedRun};
use crate::record::{Outcome, State, Store};
use crate::report::explain::{self as report, WordReference};
use crate::run::Connection;
use crate::site::At;
use crate::workflow::{
    Checkout, ExplainedRun, Known, Planned, Planner, Thing, closed_for_saved, closed_now, explain,
    follow, saved_plan,
};

#[derive(Debug, Args)]
pub(super) struct ExplainCommand {
    /// A code (`rule-cidr`), a word of a plan (`redeploy`, `exit 4`), a field (`drydock/HostProfile.storage`), a node, a step (`deploy/GROUP/NODE`), group:NAME, or a run
    #[arg(value_name = "WORD", allow_hyphen_values = true)]
    word: String,
    /// A saved plan, or a run, by which it is explained [default: the run that has not ended, else a plan made now]
    #[arg(value_name = "FILE|RUN")]
    by: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    format: ExplainFormat,
    #[command(flatten)]
    arguments: PlanArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// Fields of one name that are listed.
const MOST_FIELDS: usize = 6;

pub(super) fn run(context: &mut Context, command: &ExplainCommand) -> Result<u8, Failure> {
    let (printer, word) = (context.printer, command.word.as_str());
    if let Some(code) = report::code(word) {
        match command.format {
            ExplainFormat::Text => {
                printer.stream_text(|out| report::write_code(out, &code, printer.out))?;
            }
            ExplainFormat::Json => printer.stream(|out| report::write_code_json(out, &code))?,
        }
        return Ok(0);
    }
    // Kinds are written with a capital, and some words of plans are like them.
    if word.starts_with(char::is_uppercase) && schema::is_of_kind(word) {
        return field(context, command, word);
    }
    // An exit code, also in two words of the shell.
    let both = command.by.as_ref().map(|by| format!("{word} {by}"));
    let code = both.filter(|_| word == "exit");
    if let Some(found) = of_a_plan(code.as_deref().unwrap_or(word)) {
        match command.format {
            ExplainFormat::Text => {
                printer.stream_text(|out| report::write_word(out, &found, printer.out))?;
                let fields = schema::fields_named(word);
                if !fields.is_empty() {
                    let named = named_fields(&fields);
                    printer.stream_text(|out| writeln!(out, "Fields of this name: {named}"))?;
                }
            }
            ExplainFormat::Json => printer.stream(|out| report::write_word_json(out, &found))?,
        }
        return Ok(0);
    }
    let looks_like_field = word.split('.').next().is_some_and(|first| {
        first.split('/').count() == 2 && first.starts_with(|letter: char| letter.is_lowercase())
    });
    if schema::is_of_kind(word) {
        return field(context, command, word);
    }
    match thing(context, command) {
        Err(failure) if failure.kind == FailureKind::NotFound && looks_like_field => {
            let near = schema::field(word).err().map(no_field);
            let has_near = near.as_ref().is_some_and(|near| !near.hints.is_empty());
            Err(near.filter(|_| has_near).unwrap_or(failure))
        }
        // A field by its name alone, also outside of a site.
        Err(failure) => match schema::fields_named(word).as_slice() {
            // Nodes, steps, groups and runs are those of a site.
            [] if context.repository().is_err() => {
                let message = format!("`{word}` is no code, word or field");
                let near = nearest(word, report::word_names());
                let near = near.map(|near| format!("did you mean `{near}`?"));
                Err(Failure::new(FailureKind::NotFound, message)
                    .hint_if(near)
                    .hint(format!("{}: `-C DIR` names a repository, whose nodes, steps, groups and runs are explained, too", failure.message)))
            }
            [] => Err(failure),
            [only] => field(context, command, only),
            several => Err(fields_of_several(word, several)),
        },
        Ok(code) => Ok(code),
    }
}

fn fields_of_several(word: &str, fields: &[String]) -> Failure {
    let message = format!("`{word}` is a field of several maps");
    Failure::new(FailureKind::NotFound, message).hint(named_fields(fields))
}

/// The commands that explain some fields; of many the first.
fn named_fields(fields: &[String]) -> String {
    let named = fields.iter().take(MOST_FIELDS);
    let named: Vec<String> = named
        .map(|field| format!("`trueup explain {field}`"))
        .collect();
    let more = match fields.len().saturating_sub(MOST_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

/// A word of plans and runs, or an exit code.
fn of_a_plan(word: &str) -> Option<WordReference> {
    let Some(code) = word.strip_prefix("exit ") else {
        return report::word(word);
    };
    let code: u8 = code.trim().parse().ok()?;
    let (_, meaning) = exit::CODES.into_iter().find(|(each, _)| *each == code)?;
    Some(WordReference {
        word: format!("exit {code}"),
        section: "Exit codes",
        meaning: meaning.to_owned(),
        page: "README.md",
    })
}

fn field(context: &Context, command: &ExplainCommand, word: &str) -> Result<u8, Failure> {
    let printer = context.printer;
    let field = schema::field(word).map_err(no_field)?;
    let example = example::of_field(&field);
    let example = example.as_ref();
    match command.format {
        ExplainFormat::Text => {
            printer.stream_text(|out| report::write_field(out, &field, example, printer.out))?;
        }
        ExplainFormat::Json => {
            printer.stream(|out| report::write_field_json(out, &field, example))?;
        }
    }
    Ok(0)
}

fn no_field(error: NoField) -> Failure {
    let hint = match &error {
        NoField::Kind { near, .. } | NoField::Field { near, .. } => near.as_ref(),
    };
    let hint = hint.map(|near| format!("did you mean `{near}`?"));
    Failure::new(FailureKind::NotFound, error.to_string()).hint_if(hint)
}

/// The plan by which a thing is explained, and what is known of its run.
struct Source<'a> {
    plan: Plan,
    basis: ExplanationBasis,
    known: Known<'a>,
}

fn thing(context: &mut Context, command: &ExplainCommand) -> Result<u8, Failure> {
    if let Some((plan, basis)) = of_file(context, command)? {
        return by_file(context, command, plan, basis);
    }
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let connection = command.arguments.remote.connection(&repository)?;
    let store = follow(context, &checkout, &connection)?;
    let state = store.read()?;
    let runs = store.runs(&state)?;
    let site = &checkout.location.site;
    let unfinished = interrupted::unfinished(&checkout, &connection)?;
    let here = Here {
        checkout: &checkout,
        connection: &connection,
        store: &store,
        state: &state,
        unfinished: unfinished.as_ref(),
    };
    let is_run = by_word(&store, &state, &command.word).ok().flatten();
    let is_run = is_run.filter(|_| command.word.len() >= SHORTEST_RUN);
    if let Some(by) = &command.by {
        let run = by_word(&store, &state, by)?.ok_or_else(|| {
            Failure::error(format!(
                "`{by}` is neither a file nor a run of site `{site}`"
            ))
            .hint("`trueup log` lists the runs")
        })?;
        let source = of_run(context, &here, &run)?;
        return shown(context, command, source, &|_| false);
    }
    if let Some(run) = &is_run {
        return shown(context, command, of_run(context, &here, run)?, &|_| false);
    }
    if let Some(unfinished) = &unfinished
        && runs.contains(&unfinished.run)
    {
        let source = of_run(context, &here, &unfinished.run)?;
        if Thing::named(&command.word, &source.plan, &|_| false).is_some() {
            return shown(context, command, source, &|_| false);
        }
    }
    by_new_plan(context, command, &here, runs.into_iter().max())
}

/// Fewer letters of the id of a run are more likely the name of something else.
const SHORTEST_RUN: usize = 6;

/// The records and the checkout that runs are read with.
struct Here<'a> {
    checkout: &'a Checkout<'a>,
    connection: &'a Connection<'a>,
    store: &'a Store<'a>,
    state: &'a State,
    unfinished: Option<&'a UnfinishedRun>,
}

/// The saved plan that was named; `None`: none was, or what was named is no file.
fn of_file(
    context: &Context,
    command: &ExplainCommand,
) -> Result<Option<(Plan, ExplanationBasis)>, Failure> {
    let folder = context.directory();
    let named = command.by.as_ref();
    let Some(by) = named.filter(|by| folder.join(by).exists()) else {
        return Ok(None);
    };
    let basis = ExplanationBasis::File {
        path: Arc::from(by.as_str()),
    };
    Ok(Some((saved_plan(folder, by.as_ref())?, basis)))
}

fn by_file(
    context: &Context,
    command: &ExplainCommand,
    mut plan: Plan,
    basis: ExplanationBasis,
) -> Result<u8, Failure> {
    let now = approve::refresh(context, &command.arguments.remote, &mut plan);
    let now = now.as_ref();
    let known = Known {
        records: now.map(|now| &now.records),
        reservations: now.map(|now| &now.reservations),
        outdated: now.map_or_else(Vec::new, |now| now.outdated.clone()),
        closed: closed_for_saved(&ProcessClock::new(context.printer), &plan)
            .map(|closed| closed.to_string()),
        ..Known::default()
    };
    let source = Source { plan, basis, known };
    shown(context, command, source, &|_| false)
}

fn of_run(context: &Context, here: &Here<'_>, run: &RunId) -> Result<Source<'static>, Failure> {
    let site = here.checkout.site(here.connection.clone())?;
    let read = ExplainedRun::read(
        (here.checkout, &site),
        (here.store, here.state),
        run,
        here.unfinished,
        context.now().as_second(),
    );
    let ExplainedRun { plan, basis, known } = read?;
    Ok(Source { plan, basis, known })
}

/// Explains a thing by a plan that is made now, or, if that has no such step, by the last run.
fn by_new_plan(
    context: &mut Context,
    command: &ExplainCommand,
    here: &Here<'_>,
    last: Option<RunId>,
) -> Result<u8, Failure> {
    let arguments = &command.arguments;
    let Some(request) = arguments.request(&[])? else {
        return Err(Failure::new(FailureKind::Usage, "there is no such action"));
    };
    let mut plan_request = arguments.plan_request(context);
    plan_request.only_looks = true;
    let name = command.word.strip_prefix("node:").unwrap_or(&command.word);
    plan_request.unblock = Some(match name.parse::<crate::step::StepId>() {
        Ok(step) => step.node.unwrap_or_else(|| NodeName::from(name)),
        Err(_) => NodeName::from(name),
    });
    let planner = Planner {
        client: &*context,
        checkout: here.checkout,
        at: At::Worktree,
        connection: here.connection,
        request: &request,
        plan_request: &plan_request,
    };
    let Planned {
        mut plan,
        guarded,
        records,
        reservations,
        unblocking,
        observations,
        ..
    } = planner.plan()?;
    plan.unfinished = here.unfinished.cloned();
    let is_designed = |word: &str| guarded.nodes.contains_key(word);
    let clock = ProcessClock::new(context.printer);
    let closed = closed_now(&clock, guarded.guards(), &plan);
    if Thing::named(&command.word, &plan, &is_designed).is_none()
        && let Some(last) = &last
    {
        let source = of_run(context, here, last)?;
        if Thing::named(&command.word, &source.plan, &|_| false).is_some() {
            return shown(context, command, source, &|_| false);
        }
    }
    let source = Source {
        basis: ExplanationBasis::Plan,
        known: Known {
            left_by: left_by(context, here, last, &command.word, &plan),
            records: Some(&records),
            reservations: Some(&reservations),
            observations: observations.as_ref(),
            unblocking,
            closed: closed.map(|closed| closed.to_string()),
            ..Known::default()
        },
        plan,
    };
    shown(context, command, source, &is_designed)
}

/// The last run, if a thing of a new plan has steps in it, and one of them failed or was skipped. Its plan may be none that this
/// program reads.
fn left_by(
    context: &Context,
    here: &Here<'_>,
    last: Option<RunId>,
    word: &str,
    plan: &Plan,
) -> Option<(RunId, Outcome)> {
    let run = last.filter(|_| !plan.finds_nothing())?;
    let outcome = here.store.run(here.state, &run).ok()??.outcome;
    if !outcome.has_ended() || outcome == Outcome::Succeeded {
        return None;
    }
    let Source { plan, basis, known } = of_run(context, here, &run).ok()?;
    let thing = Thing::named(word, &plan, &|_| false)?;
    let mut steps = explain(&plan, basis, &thing, known).ok()?.steps.into_iter();
    let is_left = steps.any(|step| step.is_unsuccessful());
    is_left.then_some((run, outcome))
}

fn shown(
    context: &Context,
    command: &ExplainCommand,
    source: Source<'_>,
    nodes: &dyn Fn(&str) -> bool,
) -> Result<u8, Failure> {
    let Source { plan, basis, known } = source;
    let is_own_run = match &basis {
        ExplanationBasis::Run { run, .. } => {
            let word = command.word.to_ascii_uppercase();
            word.len() >= SHORTEST_RUN && run.as_str().starts_with(&word)
        }
        ExplanationBasis::Plan
        | ExplanationBasis::File { .. }
        | ExplanationBasis::ServicePlan { .. } => false,
    };
    let thing = match is_own_run {
        true => Some(Thing::Run),
        false => Thing::named(&command.word, &plan, nodes),
    };
    let thing = thing.ok_or_else(|| {
        let mut known: Vec<&str> = plan
            .changes
            .iter()
            .map(|change| change.node.as_str())
            .collect();
        known.extend(plan.groups.iter().map(|group| group.name.as_str()));
        let of_groups = plan.groups.iter().flat_map(|group| &group.nodes);
        known.extend(of_groups.map(NodeName::as_str));
        report::codes()
            .iter()
            .for_each(|code| known.push(code.code));
        schema::kinds().for_each(|kind| known.push(schema::short(kind)));
        known.extend(report::word_names());
        Thing::unknown(&command.word, known.into_iter())
    })?;
    let explanation =
        explain(&plan, basis, &thing, known).map_err(|error| Failure::error(error.to_string()))?;
    let printer = context.printer;
    match command.format {
        ExplainFormat::Text => {
            printer.stream_text(|out| report::write_thing(out, &explanation, printer.out))?;
        }
        ExplainFormat::Json => {
            printer.stream(|out| report::write_thing_json(out, &explanation))?;
        }
    }
    Ok(0)
}
