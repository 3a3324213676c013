//! `trueup apply`: applies a plan, or resumes an interrupted run.

pub(in crate::cli) mod begun;
pub(in crate::cli) mod conclude;
mod operator;
pub(in crate::cli) mod process;
pub(in crate::cli) mod report;
pub(in crate::cli) mod resume;
pub(in crate::cli) mod saved;
mod watch;

use std::cell::{Cell, OnceCell};
use std::io::IsTerminal;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use self::begun::nothing_begun;
use self::conclude::{Ready, exit_code, start};
use self::operator::{brief, confirm, show};
use self::report::{ReportFile, report_file};
use self::resume::resume;
use self::saved::apply_saved;
use crate::cli::action::{self, ActionArguments};
use crate::cli::context::Context;
use crate::cli::interrupted;
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::value::duration;
use crate::cli::{Failure, FailureKind};
use crate::plan::{Action, Plan, Request};
use crate::record::{RunRecord, Unproven, Workers};
use crate::report::airship::{self, Status};
use crate::run::{self, Process, StopHandle};
use crate::site::At;
use crate::workflow::Checkout;
use crate::workflow::{self, Equipped, Planner, ReadyPlan, signing_site, time_left};

pub(in crate::cli) use process::{ProcessClock, actor, named};

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ApplyCommand {
    /// A saved plan, or an action and its nodes; without any, the committed documents are planned first
    #[arg(value_name = "PLAN or ACTION NODE", conflicts_with = "resume")]
    words: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) arguments: PlanArguments,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// With a PLAN or --resume: allow what the plan allows, if this is its effect, as `plan` and `show` print it
    #[arg(long, value_name = "DIGEST")]
    pub(in crate::cli) effect: Option<String>,
    /// Resume the interrupted run
    #[arg(long)]
    resume: bool,
    /// With --resume: decide a step whose state could not be observed
    #[arg(long, value_name = "STEP=done|not-begun", requires = "resume")]
    pub(in crate::cli) decide: Vec<String>,
    /// With --resume: take the lock of a run elsewhere that has not moved for ten minutes
    #[arg(long, requires = "resume")]
    take_over_dead: bool,
    /// Abort an interrupted run in favour of this one
    #[arg(long, conflicts_with = "resume")]
    supersede: bool,
    /// Output format of events
    #[arg(long, value_enum, default_value_t = ApplyFormat::Text)]
    pub(in crate::cli) format: ApplyFormat,
    /// Write the report of the run to a file, too: .html, .md, .json or .xml (JUnit); may be repeated
    #[arg(long, value_name = "FILE", value_parser = report_file, conflicts_with = "watch")]
    pub(in crate::cli) report: Vec<ReportFile>,
    /// Time to wait for running steps after the first Ctrl-C, in seconds or such as `5m` [default: without limit on a terminal, else 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) stop_grace: Option<u64>,
    /// Stop as at the first Ctrl-C after this time, such as `55m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(in crate::cli) stop_after: Option<u64>,
    #[command(flatten)]
    watching: Watching,
    #[arg(skip)]
    hooks: watch::Hooks,
    /// The plan to apply, as soon as it is known.
    #[arg(skip)]
    asked: OnceCell<Action>,
    /// How many machines are not known to be as designed, if there was nothing to do.
    #[arg(skip)]
    unproven: Cell<Unproven>,
    /// The workers that carry the plan out; `None`: this process does.
    #[arg(skip)]
    pub(in crate::cli) workers: Option<Workers>,
    #[arg(skip)]
    beginning: Beginning,
    /// Whether a plan that no question follows is told in its summary alone: it is one of many sites.
    #[arg(skip)]
    is_brief: bool,
}

/// Hears that the run has begun, and how it is stopped.
#[derive(Clone, Default)]
struct Beginning(Option<Arc<dyn Fn(StopHandle) + Send + Sync>>);

impl std::fmt::Debug for Beginning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Beginning")
    }
}

impl Beginning {
    fn begins(&self, stop: &StopHandle) {
        if let Some(begins) = &self.0 {
            begins(stop.clone());
        }
    }
}

/// How failed machines are watched for.
#[derive(Clone, Debug, Default, Args)]
struct Watching {
    /// With `remediate`: stay, and remediate machines with a request
    #[arg(long, conflicts_with_all = ["resume", "supersede", "stop_after"])]
    watch: bool,
    /// With --watch: where `/healthz`, `/readyz` and `/metrics` are answered, such as `0.0.0.0:8080`
    #[arg(long, value_name = "ADDRESS:PORT", requires = "watch")]
    listen: Option<String>,
    /// With --watch: name of the Lease that the active watcher holds
    #[arg(
        long,
        value_name = "NAME",
        requires = "watch",
        default_value = "trueup-remediation"
    )]
    lease: String,
    /// With --watch: time without a renewal after which another watcher takes the Lease over
    #[arg(long, value_name = "DURATION", requires = "watch", default_value = "15s", value_parser = lease_duration)]
    lease_duration: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ApplyFormat {
    /// For people: progress on stderr, the report on stdout.
    #[default]
    Text,
    /// One JSON object a line and event.
    Json,
}

/// The duration of a Lease, which is renewed several times in it.
fn lease_duration(text: &str) -> Result<u64, String> {
    match duration(text)? {
        seconds @ 2..=3600 => Ok(seconds),
        _ => Err("it is from 2s to 1h".to_owned()),
    }
}

/// The status object of a failure before or beside a run. `action`: `None` if the request names no action.
pub(in crate::cli) fn failed(action: Option<Action>, failure: &Failure) -> Status {
    airship::of_refusal(failure.reason(action), &failure.message, &failure.hints)
}

fn carry(context: &Context, command: &ApplyCommand) -> Result<u8, Failure> {
    command.arguments.judged_today()?;
    let repository = context.repository()?;
    for file in &command.report {
        file.refuse(context, &repository)?;
    }
    let checkout = context.checkout(&repository)?;
    let connection = command.arguments.remote.lasting_connection(&repository)?;
    let site = signing_site(&checkout, connection)?;
    if command.resume {
        return resume(context, command, &checkout, &site);
    }
    let request = command.arguments.request(&command.words)?;
    if request.is_some() && command.effect.is_some() {
        let text = "`--effect` pins a saved plan, or that of a run with `--resume`";
        return Err(Failure::new(FailureKind::Usage, text));
    }
    let Some(request) = request else {
        let path = match &command.words[..] {
            [path] => path,
            [word, ..] => return Err(action::unknown(word)),
            [] => return Ok(0),
        };
        let would_begin = || saved::would_begin(context, command, &checkout, &site, path.as_ref());
        ensure_site_is_free(context, command, &checkout, &site, &would_begin)?;
        return apply_saved(context, command, &checkout, &site, path.as_ref());
    };
    if command.watching.watch {
        if request.action != Action::Remediate || !request.nodes.is_empty() {
            let text = "`--watch` belongs to `remediate` without nodes";
            return Err(Failure::new(FailureKind::Usage, text));
        }
        return watch::watch(context, command, &checkout, &site, &request);
    }
    let would_begin = || {
        let assumed = |_: &Plan| Ok(command.is_asked());
        ready(context, command, &checkout, &site, &request, assumed).map(drop)
    };
    ensure_site_is_free(context, command, &checkout, &site, &would_begin)?;
    apply_new(context, command, &checkout, &site, &request)
}

/// [`carry`], and the end of what never became a run as Airship's status object, if a script reads it.
pub(in crate::cli) fn run(context: &mut Context, command: &ApplyCommand) -> Result<u8, Failure> {
    let result = carry(context, command);
    if let Err(failure) = &result
        && command.format == ApplyFormat::Json
        && !failure.message.is_empty()
    {
        let status = failed(command.action(), failure);
        context.printer.print(&status.to_line())?;
    }
    result
}

/// Resumes the run that was interrupted, if there is one, as `apply --resume` does.
///
/// # Errors
///
/// Those of the resumption.
pub(in crate::cli) fn resume_interrupted(
    context: &Context,
    remote: &RemoteArguments,
    stop_grace: u64,
    begins: Arc<dyn Fn(StopHandle) + Send + Sync>,
) -> Result<(), Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = signing_site(&checkout, remote.lasting_connection(&repository)?)?;
    if run::find_interrupted(&site, None).is_err() {
        return Ok(());
    }
    let arguments = PlanArguments::of_action(ActionArguments::default(), remote.clone());
    let command = ApplyCommand {
        resume: true,
        stop_grace: Some(stop_grace),
        beginning: Beginning(Some(begins)),
        ..ApplyCommand::of(Vec::new(), false, arguments)
    };
    resume(context, &command, &checkout, &site).map(|_| ())
}

/// Applies what is committed of a site, as `trueup apply --yes` does with arguments that allow nothing else.
///
/// Returns how many machines are not known to be as designed, if there was nothing to do; the record of a run has its own.
///
/// # Errors
///
/// Those of that command.
pub(in crate::cli) fn unattended(
    context: &Context,
    arguments: PlanArguments,
) -> Result<Unproven, Failure> {
    let command = ApplyCommand {
        is_brief: true,
        ..ApplyCommand::of(Vec::new(), true, arguments)
    };
    carry(context, &command)?;
    Ok(command.unproven.get())
}

impl ApplyCommand {
    /// The command with words and flags that another one has taken.
    pub(in crate::cli) fn of(words: Vec<String>, yes: bool, arguments: PlanArguments) -> Self {
        Self {
            words,
            arguments,
            yes,
            effect: None,
            resume: false,
            supersede: false,
            decide: Vec::new(),
            take_over_dead: false,
            format: ApplyFormat::Text,
            report: Vec::new(),
            stop_grace: None,
            stop_after: None,
            watching: Watching::default(),
            hooks: watch::Hooks::default(),
            asked: OnceCell::new(),
            unproven: Cell::default(),
            workers: None,
            beginning: Beginning::default(),
            is_brief: false,
        }
    }

    /// Whether the operator is asked at a terminal.
    fn is_asked(&self) -> bool {
        !self.yes && std::io::stdin().is_terminal()
    }

    /// Whether its process does not end by itself.
    pub(in crate::cli) fn stays(&self) -> bool {
        self.watching.watch
    }

    /// The action that was asked for, also if its flags are wrong; `None` if it is not known.
    fn action(&self) -> Option<Action> {
        if let Some(asked) = self.asked.get() {
            return Some(*asked);
        }
        let first = self.words.first()?;
        let second = self.words.get(1).map(String::as_str);
        match (first.as_str(), second) {
            ("power", Some("off")) => Some(Action::PowerOff),
            ("power", _) => Some(Action::PowerOn),
            (word, _) => Action::named(word),
        }
    }

    /// Notes which plan is carried out.
    fn note(&self, plan: &Plan) {
        let _ = self.asked.set(plan.request.action);
    }
}

/// Reports that a plan has nothing to do.
fn nothing(
    context: &Context,
    command: &ApplyCommand,
    site: &run::SiteRepository<'_>,
    plan: &Plan,
) -> Result<u8, Failure> {
    context.printer.tell("Nothing to do.");
    command.unproven.set(plan.left_unproven());
    if command.workers.is_some() {
        return nothing_begun(context, command);
    }
    if let Some(run) = site.store()?.read()?.site.tags_owed.iter().next() {
        let text = format!("the remote does not have the tag of run {run}, which it refused");
        return Err(Failure::new(FailureKind::Unpublished, text).hint(workflow::RETRY_TAG));
    }
    if command.format == ApplyFormat::Json {
        let status = airship::of_nothing(plan.request.action, plan);
        context.printer.print(&status.to_line())?;
    }
    Ok(0)
}

/// Looks whether another run is in the way, which is aborted where that was asked for and a run of this command would begin
/// after it.
pub(in crate::cli) fn ensure_site_is_free(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    would_begin: &dyn Fn() -> Result<(), Failure>,
) -> Result<Option<RunRecord>, Failure> {
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new(context.printer);
    match workflow::ensure_site_is_free(context, Process::new(site, &actor, &clock)) {
        Err(run::Error::Unfinished { run, .. }) if command.supersede => {
            // What it has begun elsewhere is found out by the abort: before that no plan could tell whether it would begin.
            let ways = run::WaysOut::find(site, &run)?;
            if !ways.is_some_and(|ways| ways.may_be_begun) {
                would_begin()?;
            }
            let text = interrupted::abort(context, checkout, site, &run, false)?;
            context.printer.tell(&text);
            Ok(None)
        }
        Err(run::Error::Unfinished { run, site: name }) => {
            let ways = interrupted::ways_out(site, &run);
            let failure = Failure::from(run::Error::Unfinished { run, site: name });
            Err(failure.details(ways))
        }
        other => Ok(other?),
    }
}

/// The plan of what is committed, which passed every guard that stands before a run.
fn ready(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    request: &Request,
    show: impl FnOnce(&Plan) -> Result<bool, Failure>,
) -> Result<ReadyPlan, Failure> {
    let head = At::Commit(checkout.head()?);
    let (arguments, connection) = (&command.arguments, &site.connection);
    let at = arguments.revision(context, checkout, connection, request, head)?;
    let plan_request = arguments.plan_request(context);
    let planner = Planner {
        client: context,
        checkout,
        at,
        connection,
        request,
        plan_request: &plan_request,
    };
    planner.ready(site, show)
}

/// Plans what is committed, shows it, asks, and carries it out.
fn apply_new(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    request: &Request,
) -> Result<u8, Failure> {
    let shown = |plan: &Plan| {
        match command.is_brief {
            true => context.printer.tell(&brief(plan)),
            false => show(context, plan)?,
        }
        operator::loosens(context, command, plan)
    };
    let ReadyPlan {
        planned,
        commit,
        clearance,
    } = ready(context, command, checkout, site, request, shown)?;
    if planned.plan.is_empty() {
        return nothing(context, command, site, &planned.plan);
    }
    let clock = ProcessClock::new(context.printer);
    time_left(&clock, planned.guarded.guards(), &planned.plan)?;
    confirm(context, command, &planned.plan)?;
    let equipped = planned.equipped()?;
    let ready = Ready {
        commit,
        equipped: &equipped,
        clearance: &clearance,
    };
    let ended = start(context, command, site, &ready);
    if !command.watching.watch {
        // The process ends soon: taking the site apart node by node would only cost time.
        let Equipped {
            plan,
            guarded,
            applied,
            hardware,
            ..
        } = equipped;
        std::mem::forget((hardware, plan, guarded, applied));
    }
    ended
}
