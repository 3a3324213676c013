//! `trueup apply`: carries a plan out, or goes on with an interrupted run.

pub(in crate::cli) mod airship;
mod consent;
mod process;
mod recheck;
mod resume;
mod saved;
mod watch;
mod window;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::process::listen;
use self::resume::resume;
use self::saved::{apply_saved, not_before_its_day};
use crate::apply::{self, StillHolds, Work};
use crate::backend::{self, Backends};
use crate::cli::action;
use crate::cli::context::Context;
use crate::cli::interrupted;
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::verbose;
use crate::cli::{Failure, FailureKind};
use crate::design::{Design, NodeDesign, NodeName, RunId};
use crate::plan::{self, Action, Plan, Request, saved as saved_plan};
use crate::record::{Outcome, Packed, RunRecord, Store};
use crate::report::airship::Reason;
use crate::report::run::Reporter;
use crate::report::{self, Visible};
use crate::repository::CommitId;
use crate::run::{
    self, ApprovedPlan, Begun, GitWork, Process, Proposal, Publication, Recorder, admit, begin,
    with_heartbeat,
};
use crate::run::{EventKind, Finished, RunEvent, Stop};
use crate::site::At;
use crate::workflow::Checkout;
use crate::workflow::{self, Planned, Planner};

pub(in crate::cli) use process::{ProcessClock, actor};

/// How often the session looks at its lock and its records.
const HEARTBEAT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ApplyCommand {
    /// A saved plan, or what to do and the nodes to do it to; without any, the committed documents are planned first
    #[arg(value_name = "PLAN or ACTION NODE", conflicts_with = "resume")]
    words: Vec<String>,
    #[command(flatten)]
    arguments: PlanArguments,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// With a PLAN or --resume: allow what the plan allows, where this is its effect, as `plan` and `show` print it
    #[arg(long, value_name = "DIGEST")]
    effect: Option<String>,
    /// Go on with the interrupted run
    #[arg(long)]
    resume: bool,
    /// With --resume: what came of a step that nobody can tell about from outside
    #[arg(long, value_name = "STEP=done|not-begun", requires = "resume")]
    decide: Vec<String>,
    /// With --resume: take the lock of a run elsewhere that has not moved for ten minutes
    #[arg(long, requires = "resume")]
    take_over_dead: bool,
    /// Give an interrupted run up for this one
    #[arg(long, conflicts_with = "resume")]
    supersede: bool,
    /// How to print what happens
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// How long what runs is waited for after the first Ctrl-C, in seconds [default: without limit on a terminal, else 5]
    #[arg(long, value_name = "SECONDS")]
    stop_grace: Option<u64>,
    /// Stop as at the first Ctrl-C after so many seconds
    #[arg(long, value_name = "SECONDS")]
    stop_after: Option<u64>,
    /// Run outside the maintenance windows of the policy
    #[arg(long)]
    outside_windows: bool,
    #[command(flatten)]
    watching: Watching,
    #[arg(skip)]
    hooks: watch::Hooks,
    /// What is carried out, as soon as that is known.
    #[arg(skip)]
    asked: OnceCell<Action>,
}

/// How failed machines are watched for.
#[derive(Clone, Debug, Default, Args)]
struct Watching {
    /// With `remediate`: stay, and remediate what asks for it
    #[arg(long, conflicts_with_all = ["resume", "supersede", "stop_after"])]
    watch: bool,
    /// With --watch: where `/healthz`, `/readyz` and `/metrics` are answered, such as `0.0.0.0:8080`
    #[arg(long, value_name = "ADDRESS:PORT", requires = "watch")]
    listen: Option<String>,
    /// With --watch: the name of the Lease of which one watcher holds it
    #[arg(
        long,
        value_name = "NAME",
        requires = "watch",
        default_value = "trueup-remediation"
    )]
    lease: String,
    /// With --watch: after how many seconds without a sign the active watcher is taken for dead
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value_t = 15,
        value_parser = clap::value_parser!(u64).range(2..=3600))]
    lease_duration: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: progress on stderr, the report on stdout.
    Text,
    /// One JSON object a line and event.
    Json,
}

/// What is carried out, and on whom.
struct Task<'a> {
    plan: &'a Arc<Plan>,
    design: &'a Design,
    nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    hardware: Arc<Backends>,
    runtime: &'a tokio::runtime::Runtime,
    /// Steps that are found out about and never begun, by their positions, and why.
    refused: BTreeMap<usize, Arc<str>>,
}

fn carry(context: &Context, command: &ApplyCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = run::SiteRepository {
        repository: &repository,
        name: checkout.location.site.clone(),
        connection: command.arguments.remote.lasting_connection(&repository)?,
    };
    if command.resume {
        return resume(context, command, &checkout, &site);
    }
    let request = command.arguments.request(&command.words)?;
    if request.is_some() && command.effect.is_some() {
        let text = "`--effect` pins a saved plan, or that of a run with `--resume`";
        return Err(Failure::new(FailureKind::Usage, text));
    }
    let Some(request) = request else {
        look_out(context, command, &checkout, &site)?;
        return match &command.words[..] {
            [path] => apply_saved(context, command, &checkout, &site, path.as_ref()),
            [word, ..] => Err(action::unknown(word)),
            [] => Ok(0),
        };
    };
    if command.watching.watch {
        if request.action != Action::Remediate || !request.nodes.is_empty() {
            let text = "`--watch` belongs to `remediate` without nodes";
            return Err(Failure::new(FailureKind::Usage, text));
        }
        return watch::watch(context, command, &checkout, &site, &request);
    }
    look_out(context, command, &checkout, &site)?;
    apply_new(context, command, &checkout, &site, &request)
}

/// [`carry`], and for an action on nodes its end as Airship's status object, where a script reads it.
pub(in crate::cli) fn run(context: &mut Context, command: &ApplyCommand) -> Result<u8, Failure> {
    let result = carry(context, command);
    if let Err(failure) = &result
        && command.format == Format::Json
        && !failure.message.is_empty()
    {
        let action = command.action();
        let has_status = match action {
            Some(action) => action.is_targeted(),
            None => !command.words.is_empty(),
        };
        if has_status || failure.kind == FailureKind::Usage {
            let status = airship::of_failure(action, failure);
            context.printer.print(&airship::line(&status))?;
        }
    }
    result
}

impl ApplyCommand {
    /// What `trueup accept` carries out.
    pub(in crate::cli) fn accept(nodes: Vec<String>, yes: bool, remote: RemoteArguments) -> Self {
        let accept = std::iter::once("accept".to_owned());
        Self {
            words: accept.chain(nodes).collect(),
            arguments: PlanArguments::of_remote(remote),
            yes,
            effect: None,
            resume: false,
            decide: Vec::new(),
            take_over_dead: false,
            supersede: false,
            format: Format::Text,
            stop_grace: None,
            stop_after: None,
            outside_windows: false,
            watching: Watching::default(),
            hooks: watch::Hooks::default(),
            asked: OnceCell::new(),
        }
    }

    /// The action that was asked for, also where its flags are wrong; `None` where it is not known.
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

/// Says that a plan has nothing to be done.
fn nothing(context: &Context, command: &ApplyCommand, plan: &Plan) -> Result<u8, Failure> {
    context.printer.tell("Nothing to do.");
    let action = Some(plan.request.action).filter(|action| action.is_targeted());
    if let (Format::Json, Some(action)) = (command.format, action) {
        let status = airship::of_nothing(action, plan);
        context.printer.print(&airship::line(&status))?;
    }
    Ok(0)
}

/// Why a plan is not admitted: what could not be read, and for the specification's own actions what an
/// etcd cluster would not bear, is a failure of the step and no conflict.
fn not_admitted(error: &run::Error, plan: &Plan) -> Failure {
    let mut failure = Failure::from(error);
    let action = Some(plan.request.action).filter(|action| action.is_targeted());
    if let (run::Error::Blocked { cause, .. }, Some(action)) = (error, action) {
        let is_failure = match cause {
            plan::Cause::Rule => false,
            plan::Cause::Unreadable => true,
            plan::Cause::Etcd => matches!(action, Action::RemoveEtcd | Action::Decommission),
        };
        if is_failure {
            failure.kind = FailureKind::Failed;
        }
    }
    failure
}

/// Sees to it that no other run is in the way before anything is planned: what a run that goes on, or
/// was interrupted, has done is not in the records yet, so that a plan would misread it.
fn look_out(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
) -> Result<Option<RunRecord>, Failure> {
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new(context.printer);
    let outlook = match run::look_out(Process::new(site, &actor, &clock)) {
        Err(run::Error::Unfinished { run, .. }) if command.supersede => {
            let text = interrupted::give_up(context, checkout, site, &run, false)?;
            context.printer.tell(&text);
            return Ok(None);
        }
        other => other?,
    };
    if let Some(aside) = &outlook.set_aside {
        workflow::tell_of_set_aside(context, aside);
    }
    if let Some(run) = &outlook.ended {
        context.printer.tell(&format!(
            "Run {} had ended, and its end was not published: that is done now.",
            Visible(run.run.as_str())
        ));
    }
    Ok(outlook.ended)
}

/// Plans what is committed, shows it, asks, and carries it out.
fn apply_new(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    request: &Request,
) -> Result<u8, Failure> {
    let head = At::Commit(checkout.head()?);
    let (arguments, connection) = (&command.arguments, &site.connection);
    let at = arguments.revision(context, checkout, connection, request, head)?;
    let commit = match workflow::commit_of(at) {
        Some(commit) => commit,
        None => checkout.head()?,
    };
    let wish = arguments.wish(context);
    let planner = Planner {
        caller: context,
        checkout,
        at,
        connection,
        request,
        wish: &wish,
    };
    let planned = planner.plan()?;
    let Planned {
        plan,
        site: documents,
        state,
        records,
        observations,
        applied,
        runtime,
        hardware,
    } = planned;
    // A run of a large site needs the room that its documents take.
    let design = documents.design.clone();
    let selection = documents.location.selection.clone();
    let digest = documents.digest.clone();
    drop((documents, records, observations));
    let plan = Arc::new(plan);
    let mut text = String::new();
    let view = report::plan::View {
        palette: context.printer.err,
        ..Default::default()
    };
    report::plan::text(&mut text, &plan, view)?;
    context.printer.tell(&text);
    drop(text);
    admit(site, &selection, &state, &plan, commit, &digest)
        .map_err(|error| not_admitted(&error, &plan))?;
    not_before_its_day(context, &plan)?;
    if plan.steps.is_empty() {
        return nothing(context, command, &plan);
    }
    window::left(context, command, &design, &plan)?;
    confirm(context, command)?;
    let hardware = hardware.ok_or_else(not_observed)?;
    let task = Task {
        plan: &plan,
        design: &design,
        nodes: &design.nodes,
        applied: &applied,
        hardware: hardware.clone(),
        runtime: &runtime,
        refused: BTreeMap::new(),
    };
    let ended = start(context, command, site, commit, &task);
    if !command.watching.watch {
        // The process ends soon: taking the site apart node by node would only cost time.
        std::mem::forget((task.hardware, hardware, plan, design, applied));
    }
    ended
}

/// That a plan was made of what was observed elsewhere.
fn not_observed() -> Failure {
    let text = "a plan made without asking the backends cannot be applied";
    Failure::new(FailureKind::Usage, text).hint("leave `--observed` away")
}

/// Begins the run and carries it out.
fn start(
    context: &Context,
    command: &ApplyCommand,
    site: &run::SiteRepository<'_>,
    commit: CommitId,
    task: &Task<'_>,
) -> Result<u8, Failure> {
    window::left(context, command, task.design, task.plan)?;
    let (plan_file, plan_digest) = Packed::new(|out| saved_plan::write_to(task.plan, out))?;
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new(context.printer);
    let store = Store::open(site.repository, &site.name)?;
    let today = context.today();
    let proposal = Proposal {
        approved: ApprovedPlan {
            plan: task.plan,
            plan_file: &plan_file,
            commit,
            nodes: task.nodes,
        },
        plan_digest: &plan_digest,
        supersede: command.supersede,
    };
    let process = Process::new(site, &actor, &clock);
    let begun = begin(process, proposal, &mut |state| {
        let records = store.nodes(state)?;
        let current = plan::Current {
            site_digest: &task.plan.target.site_digest,
            design: task.design,
            base_run: state.site.last_success.as_ref().map(|action| &action.run),
            records: &records,
            today: &today,
            observations: None,
        };
        Ok(plan::stale(task.plan, &current)
            .iter()
            .map(ToString::to_string)
            .collect())
    })?;
    carry_out(context, command, task, begun, &clock)
}

fn carry_out(
    context: &Context,
    command: &ApplyCommand,
    task: &Task<'_>,
    begun: Begun<'_>,
    clock: &ProcessClock,
) -> Result<u8, Failure> {
    let unverified = task.plan.unverified();
    let identities = task.hardware.identities();
    identities.allow_unverified(unverified.map(NodeName::as_str));
    let Begun {
        session,
        mut journal,
        replay,
    } = begun;
    // That a window is open was seen before the run began; it may have closed since.
    let left =
        window::left(context, command, task.design, task.plan).unwrap_or(Some(Duration::ZERO));
    let asked = command.stop_after.map(Duration::from_secs);
    let stop_after = asked.into_iter().chain(left).min();
    let stop = Stop::new();
    session.stop_when_lost(stop.handle());
    command.hooks.begin(stop.handle());
    let mut reporter = reporter(context, command.format);
    let action = Some(task.plan.request.action).filter(|action| action.is_targeted());
    let mut heard = airship::Heard::default();
    // Whoever reads the events may be gone; the run goes on all the same.
    let mut sink = |event: &RunEvent| {
        if action.is_some() {
            heard.hear(event);
        }
        command.hooks.hear(event);
        let _ = reporter.event(event);
    };
    sink(&run_started(&session, task, command, clock));
    let mut recorder = Recorder::new(&session, &mut sink);
    let work = Work {
        run: session.run().clone(),
        plan: task.plan,
        nodes: task.nodes,
        applied: task.applied,
        hardware: task.hardware.clone(),
        log: &mut journal,
        replay,
        clock,
        stop: stop.clone(),
        stop_grace: stop_grace(command),
        stop_after,
        preconditions: Arc::new(
            StillHolds::new(task.plan.clone(), task.design, task.hardware.clone())
                .refusing(task.refused.clone()),
        ),
        may_start: &|| session.may_start(),
        fence: session.fence(),
    };
    let git = match backend::clock(task.design) {
        backend::Clock::Virtual => GitWork::Inline,
        backend::Clock::Real => GitWork::Background,
    };
    let finished = with_heartbeat(&session, HEARTBEAT, git, || {
        task.runtime.block_on(async {
            let signals = tokio::spawn(listen(stop.handle()));
            let finished = apply::execute(work, &mut recorder).await;
            signals.abort();
            finished
        })
    });
    let finished: Finished = finished.map_err(|error| broken_off(&error, session.run()))?;
    let time = apply::Clock::now(clock);
    let report = recorder.finish(&finished, &time, finished.duration_ms)?;
    if command.format == Format::Text {
        let mut out = String::new();
        report::run::report(&mut out, &report, context.printer.out, false)?;
        context.printer.print(&out)?;
    }
    let outcome = report.outcome;
    let reason = action.map(|action| heard.reason(action, outcome));
    if let (Format::Json, Some(action)) = (command.format, action) {
        let status = heard.into_status(action, &report);
        context.printer.print(&airship::line(&status))?;
    }
    let (publication, run) = (session.publication(), report.run.clone());
    if !command.watching.watch {
        std::mem::forget((session, report, finished));
    }
    if let Some(failure) = unpublished(publication, &run, outcome) {
        // It follows the report, which has said all about the run itself.
        context.printer.fail(&failure);
        return Err(Failure::shown(failure.kind));
    }
    match reason {
        // What a step found out is what a plan would have found, and exits like it.
        Some(Reason::NotFound) => Err(Failure::shown(FailureKind::NotFound)),
        Some(Reason::Conflict) => Err(Failure::shown(FailureKind::Guard)),
        Some(Reason::BadRequest) => Err(Failure::shown(FailureKind::Error)),
        _ => exit_code(outcome),
    }
}

/// The first event of a run.
fn run_started(
    session: &run::Session<'_>,
    task: &Task<'_>,
    command: &ApplyCommand,
    clock: &ProcessClock,
) -> RunEvent {
    RunEvent {
        time: apply::Clock::now(clock),
        elapsed_ms: 0,
        kind: EventKind::RunStarted {
            run: session.run().clone(),
            site: task.plan.site.clone(),
            action: Arc::from(task.plan.request.action.as_str()),
            revision: Arc::from(session.commit().to_string()),
            steps: task.plan.steps.len(),
            resumed: command.resume,
        },
    }
}

/// How long what runs is waited for after the first stop; `None`: without limit.
fn stop_grace(command: &ApplyCommand) -> Option<Duration> {
    match command.stop_grace {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None if std::io::stderr().is_terminal() => None,
        None => Some(Duration::from_secs(5)),
    }
}

/// That not everybody can see how a run ended. One that was interrupted is to be resumed in any case.
fn unpublished(publication: Option<Publication>, run: &RunId, outcome: Outcome) -> Option<Failure> {
    let failure = |text: String| Failure::new(FailureKind::Unpublished, text);
    match publication {
        None | Some(Publication::Whole) => None,
        Some(_) if outcome == Outcome::Interrupted => None,
        Some(Publication::TagOwed { tag, why }) => Some(failure(format!(
            "run {run} is done ({outcome}), and the remote refuses its tag `{tag}`: {why}"
        ))
        .hint("its records are published and say that the tag is owed; the next `trueup apply` tries again")),
        Some(Publication::Missing { why }) => Some(failure(format!(
            "run {run} is done ({outcome}), and not published: {why}"
        ))
        .hint("nothing is lost: its records and its lock wait in this clone, and the next command here that asks the remote publishes them first, such as `trueup log`")),
    }
}

/// That a run could not go on, though its machines could.
fn broken_off(error: &apply::Error, run: &RunId) -> Failure {
    let hint = matches!(error, apply::Error::Journal(_)).then(|| {
        format!("nothing more is begun; when that is mended, `trueup apply --resume` goes on with run {run}")
    });
    Failure::from_error(FailureKind::Error, error, hint)
}

/// What a run that ended so exits with.
fn exit_code(outcome: Outcome) -> Result<u8, Failure> {
    let kind = match outcome {
        Outcome::Succeeded => return Ok(0),
        Outcome::Interrupted | Outcome::Running => FailureKind::Interrupted,
        Outcome::Failed | Outcome::SucceededWithFailures | Outcome::Abandoned => {
            FailureKind::Failed
        }
    };
    Err(Failure::shown(kind))
}

fn reporter(context: &Context, format: Format) -> Box<dyn Reporter> {
    match format {
        Format::Json => Box::new(report::run::JsonLines::new(Plain(std::io::stdout()))),
        // Bars and lines of others do not go together.
        Format::Text if std::io::stderr().is_terminal() && !verbose::is_on() => {
            Box::new(report::run::Progress::new(
                indicatif::ProgressDrawTarget::stderr(),
                context.printer.err,
            ))
        }
        Format::Text => Box::new(report::run::Lines::new(
            Plain(std::io::stderr()),
            context.printer.err,
        )),
    }
}

/// Text into a stream, line by line.
struct Plain<W>(W);

impl<W: Write> std::fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0
            .write_all(text.as_bytes())
            .map_err(|_| std::fmt::Error)
    }
}

fn confirm(context: &Context, command: &ApplyCommand) -> Result<(), Failure> {
    if command.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(
            Failure::new(FailureKind::Usage, "nobody is here to approve the plan")
                .hint("give `--yes`, or a plan that was saved with `trueup plan -o FILE`"),
        );
    }
    ask(context)
}

/// Asks on a terminal for approval of what was shown.
fn ask(context: &Context) -> Result<(), Failure> {
    let question = "\nCarry this plan out? Only `yes` is taken as approval:";
    match context.printer.confirms(question, "yes")? {
        true => Ok(()),
        false => Err(Failure::error("not approved; nothing was done")),
    }
}
