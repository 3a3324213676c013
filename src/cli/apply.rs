//! `trueup apply`: carries a plan out, or goes on with an interrupted run.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::apply::session::{
    self, Actor, Begun, Connection, Proposal, Recorder, TakeOver, Timekeeper, admit, begin,
    find_interrupted, with_heartbeat,
};
use crate::apply::{self, Decision, Event, EventKind, Finished, StillHolds, Stop, Work};
use crate::backend::{self, Backends};
use crate::design::{Design, Digest, NodeDesign, NodeName};
use crate::plan::{self, Plan, saved};
use crate::record::{Outcome, Store};
use crate::report;
use crate::report::run::Reporter;
use crate::repository::{CommitId, Repository};
use crate::site::{At, Depth, Loader, Settings};

use super::context::Context;
use super::interrupted;
use super::planning::{self, PlanArguments, observe_nodes};
use super::revision::{Checkout, load_sound};
use super::{Failure, FailureKind};

/// How often the session looks at its lock and its records.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The largest saved plan that is read, in bytes.
const LARGEST_PLAN: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(super) struct ApplyCommand {
    /// A saved plan; without one, the committed documents are planned first
    #[arg(value_name = "PLAN", conflicts_with = "resume")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    arguments: PlanArguments,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: progress on stderr, the report on stdout.
    Text,
    /// One JSON object a line and event.
    Json,
}

/// The exit code's kind of a session's failure.
pub(super) fn session_failure(error: &session::Error) -> Failure {
    let kind = match error.kind() {
        session::Kind::Stale => FailureKind::Stale,
        session::Kind::LockHeld => FailureKind::Locked,
        session::Kind::Guard => FailureKind::Guard,
        session::Kind::Interrupted => FailureKind::Interrupted,
        session::Kind::Error => FailureKind::Error,
    };
    Failure::from_error(kind, error, error.hint())
}

/// The clocks of this process.
pub(super) struct ProcessClock {
    begun: Instant,
}

impl ProcessClock {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
        }
    }
}

impl Timekeeper for ProcessClock {
    fn seconds(&self) -> i64 {
        jiff::Timestamp::now().as_second()
    }

    fn monotonic(&self) -> Duration {
        self.begun.elapsed()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl apply::Clock for ProcessClock {
    fn now(&self) -> Arc<str> {
        Arc::from(format!("{:.3}", jiff::Timestamp::now()))
    }
}

/// Who runs trueup: git's identity, else the account.
pub(super) fn actor(repository: &Repository) -> Result<Actor, Failure> {
    let account = || std::env::var("USER").unwrap_or_else(|_| "trueup".to_owned());
    let value = |variable: &str, key: &str| -> Result<Option<String>, Failure> {
        match std::env::var(variable) {
            Ok(value) if !value.is_empty() => Ok(Some(value)),
            _ => Ok(repository.config(key)?),
        }
    };
    let name = value("GIT_COMMITTER_NAME", "user.name")?.unwrap_or_else(account);
    let email = value("GIT_COMMITTER_EMAIL", "user.email")?
        .unwrap_or_else(|| format!("{}@localhost", account()));
    // The standard library seeds each of these from the operating system.
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    Ok(Actor {
        name,
        email,
        random: (half() << 64) | half(),
    })
}

/// What is carried out, and on whom.
struct Task<'a> {
    plan: &'a Plan,
    design: &'a Design,
    nodes: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    applied: &'a BTreeMap<NodeName, Arc<NodeDesign>>,
    hardware: Arc<Backends>,
    runtime: &'a tokio::runtime::Runtime,
}

pub(super) fn run(context: &mut Context, command: &ApplyCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = Checkout::find(context, &repository)?;
    let site = session::Site {
        repository: &repository,
        name: checkout.location.site.clone(),
        connection: command.arguments.remote.connection(&repository)?,
    };
    if command.resume {
        return resume(context, command, &checkout, &site);
    }
    look_out(context, command, &checkout, &site)?;
    match &command.plan {
        Some(path) => apply_saved(context, command, &checkout, &site, path),
        None => apply_new(context, command, &checkout, &site),
    }
}

/// Sees to it that no other run is in the way before anything is planned: what a run that goes on, or
/// was interrupted, has done is not in the records yet, so that a plan would misread it.
fn look_out(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &session::Site<'_>,
) -> Result<(), Failure> {
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new();
    match session::look_out(site, &actor, &clock) {
        Err(session::Error::Unfinished { run, .. }) if command.supersede => {
            let text = interrupted::give_up(checkout, site, &run, false)?;
            context.printer.tell(&text);
            Ok(())
        }
        other => other.map_err(|error| session_failure(&error)),
    }
}

/// Plans what is committed, shows it, asks, and carries it out.
fn apply_new(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &session::Site<'_>,
) -> Result<u8, Failure> {
    let commit = checkout.head()?;
    let planned = planning::make(
        context,
        checkout,
        At::Commit(commit),
        &command.arguments,
        &site.connection,
    )?;
    let plan = &planned.plan;
    let mut text = String::new();
    let view = report::plan::View {
        palette: context.printer.err,
        ..Default::default()
    };
    report::plan::text(&mut text, plan, view)?;
    context.printer.tell(&text);
    let selection = &planned.site.location.selection;
    admit(
        site,
        selection,
        &planned.state,
        plan,
        commit,
        &planned.site.digest,
    )
    .map_err(|error| session_failure(&error))?;
    if plan.steps.is_empty() {
        context.printer.tell("Nothing to do.");
        return Ok(0);
    }
    confirm(context, command)?;
    let Some(hardware) = planned.hardware.clone() else {
        return Err(Failure::new(
            FailureKind::Usage,
            "a plan made without asking the backends cannot be applied",
        )
        .hint("leave `--observed` away"));
    };
    let nodes = designs(&planned.site.design);
    let task = Task {
        plan,
        design: &planned.site.design,
        nodes: &nodes,
        applied: &planned.applied,
        hardware,
        runtime: &planned.runtime,
    };
    start(context, command, site, commit, &task, None)
}

/// Carries a saved plan out, if it still holds.
fn apply_saved(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &session::Site<'_>,
    path: &std::path::Path,
) -> Result<u8, Failure> {
    let path = context.directory().join(path);
    let unreadable = |kind, error: &dyn std::fmt::Display| {
        Failure::new(
            kind,
            format!("the plan `{}` cannot be applied: {error}", path.display()),
        )
    };
    let size = std::fs::metadata(&path).map(|file| file.len());
    let size = size.map_err(|error| unreadable(FailureKind::Error, &error))?;
    if size > LARGEST_PLAN {
        return Err(unreadable(FailureKind::Error, &"it is too large"));
    }
    let bytes = std::fs::read(&path).map_err(|error| unreadable(FailureKind::Error, &error))?;
    let plan = saved::read(&bytes).map_err(|error| {
        let kind = match error {
            saved::SavedError::Altered { .. } => FailureKind::Stale,
            _ => FailureKind::Error,
        };
        unreadable(kind, &error)
    })?;
    if plan.site != site.name {
        return Err(Failure::new(
            FailureKind::Usage,
            format!(
                "the plan is for site `{}`, not for `{}`",
                plan.site, site.name
            ),
        ));
    }
    let commit = checkout.head()?;
    let at = At::Commit(commit);
    let location = checkout.location_at(at)?;
    let mut loader = Loader::new(site.repository);
    let settings = Settings {
        depth: Depth::Checked,
        allow_missing_sources: true,
    };
    let loaded = load_sound(context, &mut loader, &location, at, settings)?;
    let store = Store::open(site.repository, &site.name)?;
    planning::follow(context, &store, &site.connection)?;
    let state = store.read()?;
    planning::deepen(&site.connection, &state.site, commit)?;
    admit(
        site,
        &location.selection,
        &state.site,
        &plan,
        commit,
        &loaded.digest,
    )
    .map_err(|error| session_failure(&error))?;
    if plan.steps.is_empty() {
        context.printer.tell("Nothing to do.");
        return Ok(0);
    }
    let applied = applied_of(checkout, &mut loader, &store, &plan, &site.connection)?;
    let runtime = planning::runtime(&loaded.design)?;
    let backends = planning::backend_context(site.repository, &location);
    let hardware = backend::choose(&loaded.design, &backends)
        .map_err(|error| planning::backend_failure(&error, &loader))?;
    let nodes = designs(&loaded.design);
    let task = Task {
        plan: &plan,
        design: &loaded.design,
        nodes: &nodes,
        applied: &applied,
        hardware,
        runtime: &runtime,
    };
    start(context, command, site, commit, &task, Some(&loaded.digest))
}

/// Begins the run and carries it out. `site_digest`: the plan was saved, and everything that it relies
/// on is observed again before the first step.
fn start(
    context: &Context,
    command: &ApplyCommand,
    site: &session::Site<'_>,
    commit: CommitId,
    task: &Task<'_>,
    site_digest: Option<&Digest>,
) -> Result<u8, Failure> {
    let plan_bytes = saved::write(task.plan);
    let plan_digest = saved::digest(task.plan);
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new();
    let store = Store::open(site.repository, &site.name)?;
    let today = context
        .now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date()
        .to_string();
    let observations = site_digest.map(|_| {
        let subjects: Vec<Arc<NodeDesign>> = relied_on(task);
        task.runtime
            .block_on(observe_nodes(&task.hardware, &subjects))
    });
    let proposal = Proposal {
        plan: task.plan,
        plan_bytes: &plan_bytes,
        plan_digest: &plan_digest,
        commit,
        nodes: task.nodes,
        supersede: command.supersede,
    };
    let begun = begin(site, &actor, &clock, proposal, &mut |state| {
        let records = store.nodes(state)?;
        let current = plan::Current {
            site_digest: site_digest.unwrap_or(&task.plan.target.site_digest),
            design: task.design,
            base_run: state.site.last_success.as_ref().map(|action| &action.run),
            records: &records,
            today: &today,
            observations: observations.as_ref(),
        };
        Ok(plan::stale(task.plan, &current)
            .iter()
            .map(ToString::to_string)
            .collect())
    })
    .map_err(|error| session_failure(&error))?;
    carry_out(context, command, task, begun, &clock)
}

/// Goes on with a run that was interrupted; its commit is kept.
fn resume(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &session::Site<'_>,
) -> Result<u8, Failure> {
    let decisions = decisions(&command.decide)?;
    let interrupted = find_interrupted(site, None).map_err(|error| session_failure(&error))?;
    let plan = saved::read(&interrupted.plan).map_err(|error| {
        Failure::error(format!(
            "the plan of run {} is broken: {error}",
            interrupted.record.run
        ))
    })?;
    let at = At::Commit(interrupted.commit);
    let location = checkout.location_at(at)?;
    let mut loader = Loader::new(site.repository);
    let settings = Settings {
        depth: Depth::Typed,
        allow_missing_sources: true,
    };
    let loaded = loader.load(&location, at, settings)?;
    let store = Store::open(site.repository, &site.name)?;
    let applied = applied_of(checkout, &mut loader, &store, &plan, &site.connection)?;
    let runtime = planning::runtime(&loaded.design)?;
    let backends = planning::backend_context(site.repository, &location);
    let hardware = backend::choose(&loaded.design, &backends)
        .map_err(|error| planning::backend_failure(&error, &loader))?;
    let nodes = designs(&loaded.design);
    let actor = actor(site.repository)?;
    let clock = ProcessClock::new();
    let take_over = TakeOver {
        dead: command.take_over_dead,
        longest_request: backend::longest_request(&loaded.design),
    };
    let begun = session::resume(
        site,
        &actor,
        &clock,
        &interrupted,
        &plan,
        &nodes,
        decisions,
        take_over,
    )
    .map_err(|error| session_failure(&error))?;
    let task = Task {
        plan: &plan,
        design: &loaded.design,
        nodes: &nodes,
        applied: &applied,
        hardware,
        runtime: &runtime,
    };
    carry_out(context, command, &task, begun, &clock)
}

fn carry_out(
    context: &Context,
    command: &ApplyCommand,
    task: &Task<'_>,
    begun: Begun<'_>,
    clock: &ProcessClock,
) -> Result<u8, Failure> {
    let Begun {
        session,
        mut journal,
        replay,
    } = begun;
    let stop = Stop::new();
    session.stop_when_lost(stop.handle());
    let mut reporter = reporter(context, command.format);
    // Whoever reads the events may be gone; the run goes on all the same.
    let mut sink = |event: &Event| {
        let _ = reporter.event(event);
    };
    sink(&Event {
        time: apply::Clock::now(clock),
        elapsed_ms: 0,
        kind: EventKind::RunStarted {
            run: session.run().clone(),
            site: task.plan.site.clone(),
            action: task.plan.action.clone(),
            revision: Arc::from(session.commit().to_string()),
            steps: task.plan.steps.len(),
            resumed: command.resume,
        },
    });
    let mut recorder = Recorder::new(&session, &mut sink);
    let is_terminal = std::io::stderr().is_terminal();
    let stop_grace = match command.stop_grace {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None if is_terminal => None,
        None => Some(Duration::from_secs(5)),
    };
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
        stop_grace,
        stop_after: command.stop_after.map(Duration::from_secs),
        preconditions: Arc::new(StillHolds::new(
            task.plan,
            task.design,
            task.hardware.clone(),
        )),
        may_start: &|| session.may_start(),
    };
    let finished = with_heartbeat(&session, HEARTBEAT, || {
        task.runtime.block_on(async {
            let signals = tokio::spawn(listen(stop.handle()));
            let finished = apply::execute(work, &mut recorder).await;
            signals.abort();
            finished
        })
    });
    let finished: Finished =
        finished.map_err(|error| Failure::from_error(FailureKind::Error, &error, None))?;
    let time = apply::Clock::now(clock);
    let report = recorder
        .finish(&finished, &time, finished.duration_ms)
        .map_err(|error| session_failure(&error))?;
    if command.format == Format::Text {
        let mut out = String::new();
        report::run::report(&mut out, &report, context.printer.out)?;
        context.printer.print(&out)?;
    }
    let kind = match report.outcome {
        Outcome::Succeeded => return Ok(0),
        Outcome::Interrupted | Outcome::Running => FailureKind::Interrupted,
        Outcome::Failed | Outcome::SucceededWithFailures | Outcome::Abandoned => {
            FailureKind::Failed
        }
    };
    Err(Failure::shown(kind))
}

/// Turns Ctrl-C and SIGTERM into requests to stop: once gracefully, twice at once.
async fn listen(stop: apply::StopHandle) {
    #[cfg(unix)]
    let mut terminate =
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(terminate) => terminate,
            Err(_) => return,
        };
    loop {
        #[cfg(unix)]
        tokio::select! {
            heard = tokio::signal::ctrl_c() => if heard.is_err() { return },
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            return;
        }
        stop.stop();
    }
}

fn reporter(context: &Context, format: Format) -> Box<dyn Reporter> {
    match format {
        Format::Json => Box::new(report::run::JsonLines::new(Plain(std::io::stdout()))),
        Format::Text if std::io::stderr().is_terminal() => Box::new(report::run::Progress::new(
            indicatif::ProgressDrawTarget::stderr(),
            context.printer.err,
        )),
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
    context
        .printer
        .tell("\nCarry this plan out? Only `yes` is taken as approval:");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == "yes" {
        Ok(())
    } else {
        Err(Failure::error("not approved; nothing was done"))
    }
}

fn decisions(texts: &[String]) -> Result<BTreeMap<Arc<str>, Decision>, Failure> {
    let mut decisions = BTreeMap::new();
    for text in texts {
        let decision = match text.rsplit_once('=') {
            Some((step, "done")) => (Arc::from(step), Decision::Done),
            Some((step, "not-begun")) => (Arc::from(step), Decision::NotBegun),
            _ => {
                return Err(Failure::new(
                    FailureKind::Usage,
                    format!("`--decide {text}` is not of the form `STEP=done` or `STEP=not-begun`"),
                ));
            }
        };
        decisions.insert(decision.0, decision.1);
    }
    Ok(decisions)
}

fn designs(design: &Design) -> BTreeMap<NodeName, Arc<NodeDesign>> {
    let nodes = design.nodes.iter();
    nodes
        .map(|(name, node)| (name.clone(), Arc::new(node.clone())))
        .collect()
}

/// The designs that were applied last, of the nodes that the plan is about.
fn applied_of(
    checkout: &Checkout<'_>,
    loader: &mut Loader<'_>,
    store: &Store<'_>,
    plan: &Plan,
    connection: &Connection<'_>,
) -> Result<BTreeMap<NodeName, Arc<NodeDesign>>, Failure> {
    let mut records = store.nodes(&store.read()?)?;
    let about: std::collections::BTreeSet<&NodeName> =
        plan.changes.iter().map(|change| &change.node).collect();
    records.retain(|name, _| about.contains(name));
    let settings = Settings {
        depth: Depth::Typed,
        allow_missing_sources: true,
    };
    let mut designs: BTreeMap<Arc<str>, Arc<Design>> = BTreeMap::new();
    for record in records.values() {
        let Some(revision) = &record.revision else {
            continue;
        };
        if !designs.contains_key(revision) {
            let at = At::Commit(planning::recorded(checkout, connection, revision)?);
            let location = checkout.location_at(at)?;
            let site = loader.load(&location, at, settings)?;
            designs.insert(revision.clone(), site.design);
        }
    }
    Ok(planning::applied(&records, &designs))
}

/// The nodes that the plan relies on.
fn relied_on(task: &Task<'_>) -> Vec<Arc<NodeDesign>> {
    let steps = task
        .plan
        .steps
        .iter()
        .filter_map(|step| step.id.node.as_ref());
    let names: std::collections::BTreeSet<&NodeName> = steps.collect();
    names
        .into_iter()
        .filter_map(|name| {
            task.nodes
                .get(name)
                .or_else(|| task.applied.get(name))
                .cloned()
        })
        .collect()
}
