//! `trueup try`: a sandbox of the site, in which all commands work as always and nothing real is reached.

mod faults;
mod files;
mod make;
mod operations;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

pub(super) use make::{Origin, make};
pub(super) use operations::Begun;

use super::basis::{Basis, basis};
use super::client::simulated_sites;
use super::context::Context;
use super::planning::PlanArguments;
use super::revision::{ReadArguments, load_sound};
use super::value::{duration, number, rehearsals};
use super::{Failure, FailureKind, clock};
use crate::backend::hardware::sim::advance_time;
use crate::guard::Machines;
use crate::plan::Plan;
use crate::record::Store;
use crate::report;
use crate::repository::{CommitId, Repository};
use crate::site::{At, Depth, Detail, Sandbox, SandboxSettings};
use crate::workflow::Checkout;

#[derive(Debug, Subcommand)]
pub(super) enum TryCommand {
    /// Make a sandbox of the site as it is committed and observed
    New(Box<make::NewCommand>),
    /// Let steps of nodes fail from now on
    Fail(faults::StepWords),
    /// Let machines be out of reach from now on
    Lose(faults::NodeWords),
    /// Let steps of nodes take several times as long from now on
    Slow(faults::SlowWords),
    /// Kill the process that begins a step, once
    Kill(faults::KillWords),
    /// Take faults back
    Repair(faults::RepairWords),
    /// Rehearse the plan, with seeded faults, and show what fails how often
    FireDrill(Box<FireDrillCommand>),
    /// Let the steps fail that fail in a rehearsed run of the plan
    Seed(Box<SeedCommand>),
    /// Set the clock of the sandbox ahead
    Clock(ClockCommand),
    /// List the commands that changed the sandbox
    Log,
    /// Restore the machines, records and faults before a command
    Undo(UndoCommand),
    /// Copy the sandbox as it is into a new folder
    Branch(BranchCommand),
}

#[derive(Debug, Args)]
pub(super) struct FireDrillCommand {
    /// How many simulated runs
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = rehearsals)]
    runs: usize,
    /// The seed of the first simulated run: the same seed is the same run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number)]
    seed: u64,
    #[command(flatten)]
    arguments: PlanArguments,
}

#[derive(Debug, Args)]
pub(super) struct SeedCommand {
    /// The seed of the run, as `trueup try fire-drill` shows it
    #[arg(value_name = "SEED", value_parser = number)]
    seed: u64,
    #[command(flatten)]
    arguments: PlanArguments,
}

#[derive(Debug, Args)]
pub(super) struct ClockCommand {
    /// How far: `+3d`, `+12h`, `+30m`
    #[arg(value_name = "+TIME", value_parser = ahead)]
    by: Duration,
}

#[derive(Debug, Args)]
pub(super) struct UndoCommand {
    /// The number of the command, as `trueup try log` lists it; the last one by default
    #[arg(value_name = "N", value_parser = number)]
    operation: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct BranchCommand {
    /// The folder of the copy: a new or an empty one
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The longest time that a clock is set ahead at once.
const LONGEST: Duration = Duration::from_secs(3660 * 24 * 3600);

/// A time ahead, also in days and weeks.
fn ahead(text: &str) -> Result<Duration, String> {
    let text = text.strip_prefix('+').unwrap_or(text);
    // A bare number would be seconds, and is more likely meant as hours or days.
    if text != "0" && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a time ahead has a unit, as `+4h` or `+2d`".to_owned());
    }
    let days = |suffix: char, days: u64| {
        let count = text.strip_suffix(suffix)?.parse::<u64>().ok()?;
        count.checked_mul(days * 24 * 3600)
    };
    let seconds = match days('d', 1).or_else(|| days('w', 7)) {
        Some(seconds) => seconds,
        None => duration(text)?,
    };
    let time = Duration::from_secs(seconds);
    match time.is_zero() || time > LONGEST {
        true => Err("it is from a second to ten years".to_owned()),
        false => Ok(time),
    }
}

impl TryCommand {
    /// Whether it changes the state of a sandbox.
    fn changes(&self) -> bool {
        match self {
            Self::Fail(_)
            | Self::Lose(_)
            | Self::Slow(_)
            | Self::Kill(_)
            | Self::Repair(_)
            | Self::Seed(_)
            | Self::Clock(_)
            | Self::Undo(_) => true,
            Self::New(_) | Self::FireDrill(_) | Self::Log | Self::Branch(_) => false,
        }
    }
}

/// Begins a command in a sandbox: by its clock, and with a copy of its state where the command may change it.
pub(super) fn enter(
    context: &Context,
    command: &super::Command,
    arguments: &[OsString],
) -> Result<Option<Begun>, Failure> {
    // One whose settings are gone is refused by what loads its documents.
    let Ok(Some(sandbox)) = Sandbox::around(context.directory()) else {
        return Ok(None);
    };
    clock::set_ahead(sandbox.ahead());
    let changes = match command {
        super::Command::Try(command) => command.changes(),
        other => other.changes_site(),
    };
    if !changes {
        return Ok(None);
    }
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    let words: Vec<_> = words.collect();
    let begun = operations::begin(context, sandbox, format!("trueup {}", words.join(" ")))?;
    Ok(Some(begun))
}

/// Whether a command in this folder may export traces: each does, so that git is not asked.
pub(super) fn exports_traces(context: &Context) -> bool {
    matches!(Sandbox::around(context.directory()), Ok(None))
}

/// A site in a sandbox.
struct Place<'a> {
    context: &'a Context,
    sandbox: Sandbox,
    checkout: Checkout<'a>,
}

impl<'a> Place<'a> {
    fn of(context: &'a Context, repository: &'a Repository) -> Result<Self, Failure> {
        let sandbox = inside(repository)?;
        let checkout = context.checkout(repository)?;
        Ok(Self {
            context,
            sandbox,
            checkout,
        })
    }

    fn settings(&self) -> Result<SandboxSettings, Failure> {
        Ok(self.sandbox.read(&self.checkout.location.site)?)
    }

    fn write(&self, settings: &SandboxSettings) -> Result<(), Failure> {
        Ok(self.sandbox.write(&self.checkout.location.site, settings)?)
    }

    /// The file of the simulated machines.
    fn file(&self) -> Result<PathBuf, Failure> {
        let sites = simulated_sites(self.checkout.repository)?;
        let site = self.checkout.location.site.as_str();
        Ok(sites.join(site).join(files::MACHINES))
    }

    /// The names of the nodes that words mean.
    fn nodes(&self, words: &[String]) -> Result<BTreeSet<String>, Failure> {
        let (context, checkout) = (self.context, &self.checkout);
        let mut loader = checkout.loader()?;
        let settings = ReadArguments::default().settings(Depth::Typed, Detail::Designs);
        let location = &checkout.location;
        let site = load_sound(context, &mut loader, location, At::Worktree, settings)?;
        let store = Store::open(checkout.repository, &location.site)?;
        let records = store.nodes(&store.read()?)?;
        let guarded = checkout.guarded(&site)?;
        let machines = Machines::new(&guarded, &guarded.guards().groups, &records);
        let selected = machines.select(words);
        let selected = selected.map_err(|error| Failure::from(&error))?;
        Ok(selected
            .into_iter()
            .map(|node| node.as_str().to_owned())
            .collect())
    }
}

/// The sandbox that a clone is.
fn inside(repository: &Repository) -> Result<Sandbox, Failure> {
    let found = Sandbox::of(repository)?;
    found.ok_or_else(|| {
        Failure::new(
            FailureKind::Usage,
            "this clone is no sandbox: its machines may be real",
        )
        .hint("`trueup try new DIR` makes a sandbox of the site in a folder of its own")
    })
}

pub(super) fn run(context: &Context, command: &TryCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let place = |repository| Place::of(context, repository);
    match command {
        TryCommand::New(command) => make::new(context, &repository, command)?,
        TryCommand::FireDrill(command) => fire_drill(context, &repository, command)?,
        TryCommand::Fail(words) => faults::fail(context, &place(&repository)?, words)?,
        TryCommand::Lose(words) => faults::lose(context, &place(&repository)?, words)?,
        TryCommand::Slow(words) => faults::slow(context, &place(&repository)?, words)?,
        TryCommand::Kill(words) => faults::kill(context, &place(&repository)?, words)?,
        TryCommand::Repair(words) => faults::repair(context, &place(&repository)?, words)?,
        TryCommand::Seed(command) => play(context, &place(&repository)?, command)?,
        TryCommand::Clock(command) => set_clock(context, &place(&repository)?, command)?,
        TryCommand::Log => list(context, &inside(&repository)?)?,
        TryCommand::Undo(command) => undo(context, &inside(&repository)?, command)?,
        TryCommand::Branch(command) => branch(context, &repository, command)?,
    }
    Ok(0)
}

fn fire_drill(
    context: &Context,
    repository: &Repository,
    command: &FireDrillCommand,
) -> Result<(), Failure> {
    let Basis { mut planned, .. } = basis(context, repository, &[], &command.arguments)?;
    planned.rehearse(command.seed, command.runs)?;
    let printer = &context.printer;
    if planned.plan.rehearsal.is_none() {
        printer.tell(nothing_to_rehearse(&planned.plan));
        return Ok(());
    }
    printer.stream_text(|out| report::plan::rehearsal(out, &planned.plan))?;
    let watch = match Sandbox::of(repository)? {
        Some(_) => {
            "`trueup try seed SEED` lets the same go wrong here, and `trueup apply` shows it, each with the flags of this command."
        }
        None => {
            "`trueup try new DIR` makes a sandbox, in which `trueup try seed SEED` lets one be watched."
        }
    };
    printer.tell(watch);
    Ok(())
}

/// Why a plan has no run in which anything could go wrong.
pub(super) fn nothing_to_rehearse(plan: &Plan) -> &'static str {
    match plan.is_blocked() {
        true => {
            "There is nothing to rehearse: the changes of the plan are blocked. Give the flags that `trueup plan` names."
        }
        false => "There is nothing to rehearse: the plan has no steps.",
    }
}

/// Lets the steps fail that fail in the rehearsed run of a seed.
fn play(context: &Context, place: &Place<'_>, command: &SeedCommand) -> Result<(), Failure> {
    let repository = place.checkout.repository;
    let Basis { planned, .. } = basis(context, repository, &[], &command.arguments)?;
    if planned.plan.is_blocked() || planned.plan.steps.is_empty() {
        context.printer.tell(nothing_to_rehearse(&planned.plan));
        return Ok(());
    }
    let failing = planned.failing_steps(command.seed)?;
    faults::play(context, place, &failing, command.seed)
}

fn set_clock(context: &Context, place: &Place<'_>, command: &ClockCommand) -> Result<(), Failure> {
    let file = place.file()?;
    if file.exists() {
        let passed = advance_time(&file, command.by);
        passed.map_err(|error| Failure::error(error.to_string()))?;
    }
    let by = i64::try_from(command.by.as_secs()).unwrap_or(i64::MAX);
    let ahead = place.sandbox.ahead().saturating_add(by);
    place.sandbox.set_ahead(ahead)?;
    clock::set_ahead(ahead);
    let now = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    context
        .printer
        .tell(&format!("It is {now} in the sandbox."));
    Ok(())
}

fn list(context: &Context, sandbox: &Sandbox) -> Result<(), Failure> {
    let all = operations::list(sandbox)?;
    let mut text = String::new();
    for (number, operation) in all.iter().rev() {
        let command = report::Visible(&operation.command);
        writeln!(text, "{number:>4}  {}  {command}", operation.at)?;
    }
    if text.is_empty() {
        context
            .printer
            .tell("Nothing was done in this sandbox yet.");
    }
    context.printer.print(&text)
}

fn undo(context: &Context, sandbox: &Sandbox, command: &UndoCommand) -> Result<(), Failure> {
    let (number, operation) = operations::undo(context, sandbox, command.operation)?;
    context.printer.tell(&format!(
        "The sandbox is as it was before operation {number}, `{}`. Commits and files stay as they are.",
        operation.command
    ));
    Ok(())
}

fn branch(
    context: &Context,
    repository: &Repository,
    command: &BranchCommand,
) -> Result<(), Failure> {
    let sandbox = inside(repository)?;
    let draft = make::Draft::beside(context.directory().join(&command.folder))?;
    let head = repository.head()?;
    let head: CommitId = head.ok_or_else(|| Failure::error("there is no commit to branch from"))?;
    make::copy(repository, &sandbox, head, &draft.clone())?;
    draft.finish()?;
    let shown = command.folder.display();
    context
        .printer
        .tell(&format!("Copied the sandbox to `{shown}`."));
    Ok(())
}
