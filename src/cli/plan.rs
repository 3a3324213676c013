//! `trueup plan`: all changes and steps from the applied to the designed state, shown and saved.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::diagnostic::in_shell;
use crate::observed::{self, Observations};
use crate::plan::{ChangeKind, Plan, PlanEffect, effect, saved};
use crate::report;
use crate::report::Palette;
use crate::report::json::Escaped;
use crate::report::sites::PlanForm;
use crate::repository::Repository;
use crate::site::At;

use super::action;
use super::apply::{ProcessClock, actor};
use super::context::Context;
use super::interrupted;
use super::planning::{PlanArguments, resolve};
use super::sites::SitesArguments;
use super::value::{number, rehearsals, size};
use super::{Failure, FailureKind};
use crate::plan::Request;
use crate::repository::Signature;
use crate::run::Connection;
use crate::workflow::{self, Checkout, Client, FilesBack, Planned, Planner, apply_command, follow};

#[derive(Debug, Args)]
pub(super) struct PlanCommand {
    /// Action, `update` by default, and its nodes: names, globs, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE
    #[arg(value_name = "ACTION NODE")]
    pub(super) words: Vec<String>,
    #[command(flatten)]
    pub(super) arguments: PlanArguments,
    /// Revision: worktree, committed, successful-site-action, last-site-action, or any that git understands [default: worktree, and for actions on nodes committed]
    #[arg(long, value_name = "R")]
    pub(super) rev: Option<String>,
    /// Plan the way back to a revision of the past, and list what does not return: successful-site-action~1, a run, a tag, a commit, or a day for the last success until then
    #[arg(long, value_name = "R", conflicts_with_all = ["rev", "all_sites", "affected_by"])]
    to: Option<String>,
    /// Commit the way back: the files of the site as of `--to` on top of HEAD, with the guards as they are now
    #[arg(long, requires = "to")]
    write: bool,
    /// Take the guards of `--to`, too
    #[arg(long, requires = "to")]
    with_guards: bool,
    /// Save the plan, to be applied as it is
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["all_sites", "affected_by"])]
    out: Option<PathBuf>,
    /// Save the observed state of the site, for `--observed` elsewhere
    #[arg(long, value_name = "FILE", conflicts_with_all = ["observed", "all_sites", "affected_by"])]
    save_observed: Option<PathBuf>,
    /// Simulate the run so many times, in each of which some steps go wrong, and show what fails how often
    #[arg(long, value_name = "RUNS", value_parser = rehearsals, conflicts_with_all = ["all_sites", "affected_by"])]
    rehearse: Option<usize>,
    /// The seed of the first simulated run: the same seed is the same run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number, requires = "rehearse")]
    seed: u64,
    /// Exit with 2 if there are changes, 3 if some are destructive
    #[arg(long)]
    pub(super) detailed_exitcode: bool,
    #[command(flatten)]
    pub(super) view: ViewArguments,
    #[command(flatten)]
    pub(super) sites: SitesArguments,
}

/// How a plan is shown.
#[derive(Debug, Clone, Args)]
pub(super) struct ViewArguments {
    /// Output format
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    format: PlanFormat,
    /// Show every step
    #[arg(long)]
    steps: bool,
    /// Show everything, without folding
    #[arg(long)]
    pub(super) full: bool,
    /// The longest markdown, in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = size)]
    max_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// For people.
    Text,
    /// For scripts; the same as the saved file.
    Json,
    /// For a pull request.
    Markdown,
    /// A page for a browser, one file.
    Html,
    /// Counts for a merge request of GitLab (`artifacts:reports:terraform`).
    Gitlab,
    /// The graph, for Graphviz.
    Dot,
    /// The graph, for Mermaid.
    Mermaid,
}

impl ViewArguments {
    /// Whether it is one of the formats that the report of a run has.
    pub(super) fn shows_runs(&self) -> bool {
        matches!(
            self.format,
            PlanFormat::Text | PlanFormat::Json | PlanFormat::Html | PlanFormat::Markdown
        )
    }

    /// Whether it is for a comment.
    pub(super) fn is_markdown(&self) -> bool {
        self.format == PlanFormat::Markdown
    }

    /// Whether it is a page.
    pub(super) fn is_html(&self) -> bool {
        self.format == PlanFormat::Html
    }

    /// Whether it is for scripts.
    pub(super) fn is_json(&self) -> bool {
        self.format == PlanFormat::Json
    }

    /// The form of a report about several sites; `None`: a drawing is of one plan.
    pub(super) fn form_of_several(&self, palette: Palette) -> Option<PlanForm> {
        match self.format {
            PlanFormat::Text => Some(PlanForm::Text(self.text(palette))),
            PlanFormat::Json => Some(PlanForm::Json),
            PlanFormat::Markdown => Some(PlanForm::Markdown(self.max_bytes)),
            PlanFormat::Dot | PlanFormat::Mermaid | PlanFormat::Html | PlanFormat::Gitlab => None,
        }
    }

    fn text(&self, palette: Palette) -> report::plan::View {
        report::plan::View {
            palette,
            full: self.full,
            steps: self.steps,
        }
    }
}

/// Steps that a graph has a box each for: twice as many are wider than a screen can be scrolled through.
const MOST_BOXES: usize = 100;

/// Prints a plan, piece by piece: with every step it may be larger than all else that is in memory.
pub(super) fn print(context: &Context, plan: &Plan, view: &ViewArguments) -> Result<(), Failure> {
    let printer = &context.printer;
    match view.format {
        PlanFormat::Text => {
            let view = view.text(printer.out);
            printer.stream_text(|out| report::plan::text(out, plan, view))
        }
        PlanFormat::Json => {
            printer.stream_bytes(|out| saved::write_to(plan, &mut Escaped::new(out)))?;
            Ok(())
        }
        PlanFormat::Markdown => {
            let digest = saved::digest(plan);
            let comment = report::plan::Comment {
                max_bytes: view.max_bytes,
                digest: Some(&digest),
            };
            printer.stream(|out| report::plan::markdown(out, plan, &comment))
        }
        PlanFormat::Html => printer.stream(|out| report::plan::html(out, plan, None)),
        PlanFormat::Gitlab => printer.stream(|out| report::plan::gitlab(out, plan)),
        PlanFormat::Dot => printer.stream(|out| report::plan::dot(out, plan, MOST_BOXES)),
        PlanFormat::Mermaid => printer.stream(|out| report::plan::mermaid(out, plan, MOST_BOXES)),
    }
}

/// Prints a plan that was saved, after the way back that it goes, which a text has nowhere else.
pub(super) fn print_saved(
    context: &Context,
    plan: &Plan,
    view: &ViewArguments,
) -> Result<(), Failure> {
    if let (Some(way), PlanFormat::Text) = (&plan.way_back, view.format) {
        let lines = report::plan::way_back(way, usize::MAX);
        context.printer.stream_text(|out| {
            let mut lines = lines.iter();
            lines.try_for_each(|line| writeln!(out, "{}", report::Visible(line)))
        })?;
    }
    print(context, plan, view)
}

pub(super) fn run(context: &mut Context, command: &PlanCommand) -> Result<u8, Failure> {
    let Some(request) = command.arguments.request(&command.words)? else {
        return Err(no_action(context, &command.words[0]));
    };
    command.refuse_printed_file()?;
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let connection = command.arguments.remote.connection(&repository)?;
    let arguments = &command.arguments;
    if let Some(word) = &command.to {
        return back(context, command, (&checkout, &connection), &request, word);
    }
    let at = match &command.rev {
        Some(rev) if request.action.has_target_revision() => {
            let message = format!("`--rev {rev}` does not belong to `{}`", request.action);
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("`--target-revision` says of which revision nodes are built"));
        }
        Some(rev) => resolve(context, &checkout, &connection, rev)?,
        None => arguments.revision(context, &checkout, &connection, &request, At::Worktree)?,
    };
    let planner = Planner {
        client: &*context,
        checkout: &checkout,
        at,
        connection: &connection,
        request: &request,
        plan_request: &arguments.plan_request(context),
    };
    let planned = planner.plan()?;
    if let Some(path) = &command.save_observed {
        save_observed(context, &repository, path, planned.observations.as_ref())?;
    }
    conclude(context, command, (&checkout, &connection), planned)
}

/// A word that is no action may be a plan that was saved.
fn no_action(context: &Context, word: &str) -> Failure {
    let unknown = action::unknown(word);
    let folder = context.directory();
    if !folder.join(word).is_file() {
        return unknown;
    }
    if workflow::saved_plan(folder, word.as_ref()).is_err() {
        let failure = Failure::new(FailureKind::Usage, unknown.message);
        return failure.hint("a file behind `plan` is a saved plan, and this is none: a plan is made of all documents of the checkout");
    }
    let file = in_shell([word]);
    Failure::new(FailureKind::Usage, unknown.message).hint(format!(
        "of a saved plan, `trueup show {file}` prints it, and `trueup apply {file}` carries it out"
    ))
}

impl PlanCommand {
    /// Refuses a file for the plan that is named as if it were for what is printed.
    fn refuse_printed_file(&self) -> Result<(), Failure> {
        let endings: &[&str] = match self.view.format {
            PlanFormat::Html => &["html", "htm"],
            PlanFormat::Markdown => &["md", "markdown"],
            PlanFormat::Dot => &["dot", "gv"],
            PlanFormat::Mermaid => &["mmd", "mermaid"],
            PlanFormat::Text | PlanFormat::Json | PlanFormat::Gitlab => &[],
        };
        let Some(path) = &self.out else {
            return Ok(());
        };
        let format = path
            .to_str()
            .and_then(|word| PlanFormat::from_str(word, false).ok());
        if let Some(format) = format.and_then(|format| format.to_possible_value()) {
            let (file, format) = (path.display(), format.get_name().to_owned());
            let text =
                format!("`-o` names the file that the plan is saved in, and `{file}` is a format");
            return Err(Failure::new(FailureKind::Usage, text).hint(format!(
                "`--format {format}` prints it; `-o ./{file}` saves the plan there"
            )));
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        if !ending.is_some_and(|ending| endings.contains(&ending)) {
            return Ok(());
        }
        let text = format!(
            "`-o` saves the plan itself, for `trueup apply`, and no page: `{}`",
            path.display()
        );
        let file = in_shell([&*path.to_string_lossy()]);
        Err(Failure::new(FailureKind::Usage, text).hint(format!(
            "what `--format` asks for is printed: `> {file}` in place of `-o {file}`"
        )))
    }
}

/// Saves and prints a plan.
fn conclude(
    context: &Context,
    command: &PlanCommand,
    (checkout, connection): (&Checkout<'_>, &Connection<'_>),
    planned: Planned,
) -> Result<u8, Failure> {
    let repository = checkout.repository;
    let mut planned = planned;
    if let Some(runs) = command.rehearse {
        planned.rehearse(command.seed, runs)?;
        if planned.plan.rehearsal.is_none() {
            context
                .printer
                .tell(super::sandbox::nothing_to_rehearse(&planned.plan));
        }
    }
    let is_observed = planned.observations.is_some();
    let clock = ProcessClock::new(context.printer);
    let closed = workflow::closed_now(&clock, planned.guarded.guards(), &planned.plan);
    let mut plan = planned.into_plan();
    plan.unfinished = interrupted::unfinished(checkout, connection)?;
    let plan = &plan;
    if let Some(path) = &command.out {
        let path = context.directory().join(path);
        save(repository, &path, plan).map_err(|error| {
            Failure::error(format!(
                "the plan could not be saved as `{}`: {error}",
                path.display()
            ))
        })?;
    }
    print(context, plan, &command.view)?;
    match (&command.out, &closed) {
        (Some(path), _) => {
            context
                .printer
                .tell(&saved_as(path, plan, is_observed, closed.as_ref()))
        }
        (None, Some(why)) => context.printer.tell(&format!("warning: {why}")),
        (None, None) => {}
    }
    let code = if command.detailed_exitcode {
        detailed(plan)
    } else {
        0
    };
    Ok(code)
}

/// Plans the way back to a revision of the past, tells what does not return, and commits it if that is asked for.
fn back(
    context: &Context,
    command: &PlanCommand,
    (checkout, connection): (&Checkout<'_>, &Connection<'_>),
    request: &Request,
    word: &str,
) -> Result<u8, Failure> {
    if request.action.is_targeted() {
        let message = format!("`--to {word}` does not belong to `{}`", request.action);
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("`--target-revision` of `redeploy` builds single nodes as of a revision"));
    }
    let store = follow(context, checkout, connection)?;
    let state = store.read()?;
    let plan_request = command.arguments.plan_request(context);
    let seconds = context.now().as_second();
    let past = workflow::past_revision(checkout, &store, &state, word, context.now())?;
    let target = past.commit;
    let files = workflow::files_back(checkout, target, command.with_guards)?;
    let preview = workflow::preview_way_back(checkout, target, &files, seconds)?;
    let is_as_then = preview == checkout.head()?;
    if let (Some(path), false, false) = (&command.out, command.write, is_as_then) {
        let text = format!(
            "a plan of what `--write` would commit cannot be applied, and is not saved as `{}`",
            path.display()
        );
        return Err(Failure::new(FailureKind::Usage, text).hint("add `--write`"));
    }
    let previewed = checkout.previewing(preview);
    let planner = Planner {
        client: context,
        checkout: &previewed,
        at: At::Commit(preview),
        connection,
        request,
        plan_request: &plan_request,
    };
    let mut planned = planner.plan()?;
    let site = checkout.site(connection.clone())?;
    let of_plan = (&planned.plan, &planned.guarded);
    let way = workflow::way_back(&site, (&store, &state), (&past, &files), of_plan)?;
    let told = report::plan::way_back(&way, usize::MAX).join("\n");
    planned.plan.way_back = Some(way);
    Client::tell(context, &told);
    if !command.write {
        let guards = if command.with_guards {
            " --with-guards"
        } else {
            ""
        };
        let hint = match is_as_then {
            true => format!("{}; `--write` would commit nothing.", as_then(&files)),
            false => format!(
                "`trueup plan --to {} --write{guards}` commits it on top of HEAD, to be reviewed and applied like any other change.",
                in_shell([word])
            ),
        };
        Client::tell(context, &hint);
        return conclude(context, command, (checkout, connection), planned);
    }
    let actor = actor(checkout.repository)?;
    let author = Signature {
        name: actor.name,
        email: actor.email,
        seconds,
    };
    let message = format!("{}\n\n{told}\n", workflow::way_back_subject(target));
    let written = workflow::commit_way_back(checkout, &files, &author, &message)?;
    let Some((commit, paths)) = written else {
        let text = format!("{}; nothing was committed.", as_then(&files));
        Client::tell(context, &text);
        return conclude(context, command, (checkout, connection), planned);
    };
    let text = format!("Committed {}: {}.", commit.short(), paths.join(", "));
    Client::tell(context, &text);
    let planner = Planner {
        checkout,
        at: At::Commit(commit),
        ..planner
    };
    let way_back = planned.plan.way_back;
    let mut planned = planner.plan_again(planned.observations)?;
    planned.plan.way_back = way_back;
    conclude(context, command, (checkout, connection), planned)
}

/// Says that no file of the site goes back.
fn as_then(files: &FilesBack) -> &'static str {
    match files.kept.is_empty() {
        true => "The files of the site are as they were there",
        false => "Only files that guard the site differ",
    }
}

/// Says where a plan was saved, which effect it has, and how it is applied.
fn saved_as(
    path: &Path,
    plan: &Plan,
    is_observed: bool,
    closed: Option<&workflow::Error>,
) -> String {
    let digest = PlanEffect::of(plan).digest();
    let pin = effect::short(&digest);
    let path = path.display();
    let refusals = plan.refusals().into_iter().map(|each| each.reason);
    let refusals: Vec<String> = refusals.collect();
    if !refusals.is_empty() {
        let why = refusals.join("; ");
        return format!(
            "Saved as `{path}`, effect {pin}; `trueup apply` refuses it as it stands: {why}."
        );
    }
    let command = apply_command(plan, &path);
    // An action on no machine observes none.
    if !is_observed && plan.steps.iter().any(|step| step.id.node.is_some()) {
        return format!(
            "Saved as `{path}`, effect {pin}. Nothing was observed for it: `{command}` observes first, and applies it only where \
             machines and clusters need no other steps (else it ends with 5)."
        );
    }
    match closed {
        Some(why) => {
            format!("Saved as `{path}`, effect {pin}; `{command}` applies it then: {why}.")
        }
        None => format!("Saved as `{path}`, effect {pin}; `{command}` applies it."),
    }
}

fn save(repository: &Repository, path: &Path, plan: &Plan) -> io::Result<()> {
    repository.write_output(path, |out| saved::write_to(plan, out).map(drop))
}

fn save_observed(
    context: &Context,
    repository: &Repository,
    path: &Path,
    observations: Option<&Observations>,
) -> Result<(), Failure> {
    let path = context.directory().join(path);
    let unsaved = |error: &dyn std::fmt::Display| {
        Failure::error(format!(
            "cannot save the observed state as `{}`: {error}",
            path.display()
        ))
    };
    let Some(observations) = observations else {
        return Err(unsaved(&"nothing was observed"));
    };
    let written = repository.write_output(&path, |out| observed::write(observations, out));
    written.map_err(|error| unsaved(&error))
}

/// 0: no changes, or such as were accepted before; 2: changes; 3: some of them destructive or disruptive.
pub(super) fn detailed(plan: &Plan) -> u8 {
    let mut shown = plan
        .changes
        .iter()
        .filter(|change| change.kind != ChangeKind::None && !change.is_accepted());
    if plan
        .changes
        .iter()
        .any(|change| change.is_disruptive() && !change.excluded)
    {
        3
    } else if shown.any(|change| !change.excluded)
        || plan.unfinished.is_some()
        || plan.repeats_soak()
    {
        2
    } else {
        0
    }
}
