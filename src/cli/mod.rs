//! The command line: parse, call, report, exit code.
//!
//! The only module that reads environment, clock and terminal. Each command is a file of its own with
//! its clap type and one function; what it prints for machines goes to stdout, everything else to
//! stderr. One table (`exit::code`) maps a failure to the exit code.

mod accept;
mod action;
mod adopt;
mod apply;
mod approve;
mod basis;
mod bundle;
mod client;
mod clock;
mod comment;
mod complete;
mod console;
mod context;
mod demo;
mod diff;
mod doctor;
mod environment;
mod etcd;
mod exit;
mod explain;
mod export;
mod fmt;
mod foreign;
mod hardware;
mod help;
mod images;
mod init;
mod interrupted;
mod list_sites;
mod log;
mod manual;
mod migrate;
mod nodes;
mod observing;
mod pager;
mod plan;
mod plan_bundle;
mod plan_sites;
mod planning;
mod policy;
mod render;
mod reserve;
mod revision;
mod rollout;
mod run;
mod run_bundle;
mod run_id;
mod sandbox;
mod schemas;
mod secret_store;
mod secrets;
mod selection;
mod serve;
mod signals;
mod sites;
mod slots;
mod status;
mod telemetry;
mod trust;
mod validate;
mod value;
mod verbose;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::report::Visible;
pub use crate::workflow::{Failure, FailureKind};
use context::{Context, Printer};
use telemetry::Telemetry;

/// Reconciles a bare-metal site with its design.
#[derive(Debug, Parser)]
#[command(name = "trueup", version, about, long_about = None, propagate_version = true)]
struct CommandLine {
    #[command(flatten)]
    global: GlobalArguments,
    #[command(subcommand)]
    command: Command,
}

/// Arguments that every command takes.
#[derive(Debug, Clone, Args)]
pub struct GlobalArguments {
    /// Run as if started in this folder
    #[arg(short = 'C', value_name = "DIR", global = true)]
    directory: Option<PathBuf>,
    /// The site, if the repository holds several
    #[arg(long, value_name = "NAME", global = true)]
    site: Option<String>,
    /// Read documents of the site from a checkout of another repository that its definition names [default REV: the definition's]
    #[arg(long, value_name = "NAME=PATH[@REV]", global = true)]
    repository: Vec<String>,
    /// When to colour output
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto, global = true, value_name = "WHEN")]
    color: ColorChoice,
    /// Take Backends, Policy, EtcdClusters, NodeRetirement and CleaningPolicy from this revision, and trust it: a commit id, a full ref, or a remote's branch such as `origin/main`
    #[arg(long, value_name = "REV", global = true)]
    backends_from: Option<String>,
    /// Print long output as it is, also on a terminal, instead of by `TRUEUP_PAGER`, `PAGER` or `less`
    #[arg(long, global = true)]
    no_pager: bool,
    /// Log progress to stderr; twice: also every request; three times: also every file and wait
    #[arg(short = 'v', long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a small site that works, in a git repository of its own
    Init(init::InitCommand),
    /// Write the documents of machines and clusters that run already
    Adopt(Box<adopt::AdoptCommand>),
    /// Check every document; all errors at once
    Validate(validate::ValidateArguments),
    /// Put the keys of documents in order, and indent them
    Fmt(fmt::FmtCommand),
    /// Print the documents after layering and substitution
    Render(render::RenderArguments),
    /// Compare two revisions, per document and field
    Diff(diff::DiffCommand),
    /// Show all changes and steps from the applied to the designed state
    Plan(Box<plan::PlanCommand>),
    /// Apply a plan, or resume an interrupted run
    Apply(Box<apply::ApplyCommand>),
    /// Divide a plan among workers: its parts, their begin, their end
    #[command(subcommand)]
    Run(Box<run::RunCommand>),
    /// Bring a revision to the sites of a repository, phase by phase
    #[command(subcommand)]
    Rollout(Box<rollout::RolloutCommand>),
    /// Write all that a plan is made of, or a run, to a file
    Bundle(Box<bundle::BundleCommand>),
    /// Make the plan of a bundle again and compare, or show a run
    Replay(bundle::ReplayCommand),
    /// Try commands and faults in a simulated copy of the site
    #[command(subcommand)]
    Try(Box<sandbox::TryCommand>),
    /// Sign the effect of a saved plan as approved, with an SSH key
    Approve(approve::ApproveCommand),
    /// List the site actions
    Log(log::LogCommand),
    /// Show a saved plan or a past run
    Show(log::ShowCommand),
    /// Explain a code, a field, or why a node, step or run is as it is
    Explain(Box<explain::ExplainCommand>),
    /// Show the design, record and observed state of each node
    Status(status::StatusCommand),
    /// List the nodes that names, groups and flags select
    Nodes(nodes::NodesCommand),
    /// List the sites of the repository, and their definitions
    Sites(list_sites::ListSitesCommand),
    /// Show the health of etcd clusters, and the members they can lose
    Etcd(etcd::EtcdCommand),
    /// Write a Hardware document of what a machine has
    #[command(subcommand)]
    Hardware(hardware::HardwareCommand),
    /// Show the serial console of a machine on this terminal
    Console(console::ConsoleCommand),
    /// Serve the images that controllers fetch
    #[command(subcommand)]
    Images(images::ImagesCommand),
    /// Record that a machine stays as it is: other board, other fields
    Accept(accept::AcceptCommand),
    /// Have every plan leave a machine alone until a time
    Reserve(reserve::ReserveCommand),
    /// End the reservation of a machine
    Release(reserve::ReleaseCommand),
    /// Abort an interrupted run, and list what stays half-done
    Abort(interrupted::AbortCommand),
    /// Release the lock of a crashed run
    Unlock(interrupted::UnlockCommand),
    /// Move the records at the remote to a branch, or back
    Migrate(migrate::MigrateCommand),
    /// Check git, the remote, trust, backends, rights and clocks, each with a next step
    Doctor(doctor::DoctorCommand),
    /// Show the endpoints, files and programs that the documents of a site name, and trust them
    Trust(trust::TrustCommand),
    /// Write a saved plan as a DAG of Airflow, or one that plans all sites on a schedule
    Export(export::ExportCommand),
    /// Judge plans by the rules of the site
    Policy(policy::PolicyCommand),
    /// Publish the plan of a change as a comment, or what differs as an issue
    Comment(comment::CommentCommand),
    /// Answer the HTTP API of a site: Promenade's node endpoints, health and metrics
    Serve(serve::ServeCommand),
    /// Play a demonstration on the simulator, in a throwaway folder
    Demo(demo::DemoCommand),
    /// Write the JSON Schemas of documents and plans, for editors
    Schemas(schemas::SchemasCommand),
    /// List the actions on nodes that `plan` and `apply` take
    Actions,
    /// Print completions for a shell
    Completions(manual::CompletionsCommand),
    /// Show a page of the manual
    Man(manual::ManCommand),
}

/// The flags that can be set in the environment: if something is, how much of it and how it is shown.
///
/// A variable outlives the command that it was set for, and a pipeline may take it from a pull request. So
/// a flag that allows what is refused without it, takes part of a plan's safety away or is an act of its
/// own is none of these: it has to be given with the command.
pub const SETTABLE: [&str; 63] = [
    "affected-by",
    "all-sites",
    "as-of",
    "backends-from",
    "base",
    "canary",
    "clean-steps",
    "clear-labels-timeout",
    "color",
    "detailed-exitcode",
    "diff",
    "differing",
    "drain-node-grace-period",
    "drain-node-timeout",
    "etcd-ready-timeout",
    "example",
    "exclude",
    "format",
    "full",
    "group",
    "keep",
    "label",
    "lease",
    "lease-duration",
    "listen",
    "maintenance",
    "max-bytes",
    "max-failures",
    "max-tasks",
    "no-pager",
    "nodes-per-part",
    "number",
    "observed",
    "offline",
    "out",
    "overlap",
    "parallel-groups",
    "parallelism",
    "plan",
    "pool",
    "pushes-per-minute",
    "queue",
    "rack",
    "rehearse",
    "remote",
    "remove-etcd-timeout",
    "rendered",
    "retired",
    "rev",
    "runs",
    "save-observed",
    "schedule",
    "seed",
    "site",
    "steps",
    "stop-after",
    "stop-grace",
    "story",
    "tag",
    "target",
    "ticket",
    "verbose",
    "workers",
];

/// The clap command, with an environment variable `TRUEUP_<FLAG>` for each flag of [`SETTABLE`].
#[must_use]
pub fn command() -> clap::Command {
    help::arrange(with_environment(CommandLine::command()))
}

/// The variable for a flag.
fn variable(flag: &str) -> String {
    format!("TRUEUP_{}", flag.to_uppercase().replace('-', "_"))
}

/// Whether a variable sets a flag: `1`, `yes` and an empty text mean what they say.
fn switch(text: &str) -> Result<bool, &'static str> {
    match &*text.to_lowercase() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Ok(true),
        "" | "0" | "n" | "no" | "f" | "false" | "off" => Ok(false),
        _ => Err("this is none of `1`, `yes`, `true`, `on`, `0`, `no`, `false` and `off`"),
    }
}

fn with_environment(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| match argument.get_long() {
            Some(long) if SETTABLE.contains(&long) => {
                let variable = variable(long);
                let argument = match argument.get_action() {
                    clap::ArgAction::SetTrue => argument.value_parser(switch),
                    _ => argument,
                };
                argument
                    .env(clap::builder::OsStr::from(variable))
                    .hide_env(true)
            }
            _ => argument,
        })
        .mut_subcommands(with_environment)
}

/// The exit code of a command that was not begun. If a script asked for Airship's status object, it
/// gets one.
fn refuse(arguments: &[OsString], failure: &Failure) -> u8 {
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    let has_status = words.iter().any(|word| matches!(*word, "apply" | "etcd"));
    let is_json = words.contains(&"--format=json")
        || words.windows(2).any(|pair| pair == ["--format", "json"])
        || std::env::var_os("TRUEUP_FORMAT").is_some_and(|format| format == "json");
    if has_status && is_json {
        let line = apply::failed(None, failure).to_line();
        // A failure here cannot be reported any more.
        let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
    }
    exit::code(failure)
}

/// The flag that is meant by a word such as `-out=x`, which would be read as `-o` with the value `ut=x`.
fn long_flag_with_one_dash<'a>(command: &'a clap::Command, word: &str) -> Option<&'a str> {
    let name = word.strip_prefix('-')?.split('=').next()?;
    if name.len() < 2 || name.starts_with('-') {
        return None;
    }
    let mut own = command.get_arguments().filter_map(clap::Arg::get_long);
    own.find(|long| *long == name).or_else(|| {
        let mut below = command.get_subcommands();
        below.find_map(|command| long_flag_with_one_dash(command, word))
    })
}

/// Runs the program with the arguments and the environment of the process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = complete::answer(&arguments).unwrap_or_else(|| run(arguments));
    ExitCode::from(code)
}

/// Takes the tip out that a flag which is not known be passed behind `--`: no command has a value like that.
fn without_trailing_tip(error: &mut clap::Error) {
    use clap::error::{ContextKind, ContextValue};
    if let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) {
        let tips = tips.into_iter();
        let tips: Vec<_> = tips
            .filter(|tip| !tip.to_string().contains(" as a value, use "))
            .collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

/// Prints help, or what is wrong with the arguments. They may be the name of a branch.
fn print_usage(error: &clap::Error) {
    let plain = error.render().to_string();
    let shown: String = plain
        .lines()
        .map(|line| format!("{}\n", Visible(line)))
        .collect();
    // A failure here cannot be reported any more.
    let _ = match error.use_stderr() && shown.trim_end() != plain.trim_end() {
        true => std::io::stderr().write_all(shown.as_bytes()),
        false => error.print(),
    };
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = match arguments.iter().any(|word| word == "-h") {
        true => help::first_screen(command()),
        false => command(),
    };
    let mut words = arguments.iter().skip(1).take_while(|word| *word != "--");
    let one_dash = words.find_map(|word| {
        let word = word.to_str()?;
        Some((word, long_flag_with_one_dash(&command, word)?))
    });
    if let Some((word, long)) = one_dash {
        let message = format!(
            "`{}` begins with one dash, and flags of several letters with two",
            Visible(word)
        );
        let failure =
            Failure::new(FailureKind::Usage, message).hint(format!("did you mean `--{long}`?"));
        Printer::new(ColorChoice::Auto).fail(&failure);
        return refuse(&arguments, &failure);
    }
    let parsed = command
        .try_get_matches_from(&arguments)
        .and_then(|matches| {
            let parsed = CommandLine::from_arg_matches(&matches)?;
            Ok((parsed, name(&matches)))
        });
    let (parsed, name) = match parsed {
        Ok(parsed) => parsed,
        Err(mut error) => {
            without_trailing_tip(&mut error);
            if let Some(failure) = foreign::meant(&arguments, &error) {
                Printer::new(ColorChoice::Auto).fail(&failure);
                return refuse(&arguments, &failure);
            }
            foreign::without_guess(&mut error);
            print_usage(&error);
            if !error.use_stderr() {
                return 0;
            }
            if let Some(variable) = foreign::variable_of(&arguments, &error) {
                let printer = Printer::new(ColorChoice::Auto);
                printer.tell(&format!("The value is that of the variable `{variable}`."));
            }
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let first = text.lines().next().unwrap_or_default();
            return refuse(&arguments, &Failure::new(FailureKind::Usage, first));
        }
    };
    let mut context = match Context::new(&parsed.global) {
        Ok(context) => context,
        Err(failed) => {
            let (printer, failure) = *failed;
            refuse(&arguments, &failure);
            return printer.fail(&failure);
        }
    };
    context.give_flags(given_flags(&arguments));
    if let Some(failure) = context::clock_failure(SystemTime::now()) {
        refuse(&arguments, &failure);
        return context.printer.fail(&failure);
    }
    verbose::begin(
        parsed.global.verbose,
        parsed.command.stays(),
        context.printer,
    );
    for warning in foreign::misspelt(std::env::vars_os().map(|(name, _)| name)) {
        context.printer.tell(&warning);
    }
    if parsed.command.is_paged() && !parsed.global.no_pager {
        pager::want();
    }
    let telemetry = match sandbox::exports_traces(&context) {
        true => Telemetry::begin(name, context.printer, parsed.command.stays()),
        false => None,
    };
    let entered = sandbox::enter(&context, &parsed.command, &arguments);
    let result = entered.and_then(|begun| {
        let result = parsed.command.run(&mut context);
        if let Some(begun) = begun {
            begun.end(&context);
        }
        result
    });
    let (code, message) = match &result {
        Ok(code) => (*code, None),
        Err(failure) => (context.printer.fail(failure), Some(&*failure.message)),
    };
    pager::end();
    if let Some(telemetry) = telemetry {
        telemetry.end(code, message);
    }
    code
}

/// The long names of the flags of a command line.
fn given_flags(arguments: &[OsString]) -> Vec<String> {
    let words = arguments.iter().skip(1).take_while(|word| *word != "--");
    let flags = words.filter_map(|word| word.to_str()?.strip_prefix("--"));
    let names = flags.map(|flag| flag.split('=').next().unwrap_or(flag).to_owned());
    names.collect()
}

/// The name of a command, with those above it.
fn name(matches: &clap::ArgMatches) -> String {
    let mut name = "trueup".to_owned();
    let mut next = matches.subcommand();
    while let Some((word, below)) = next {
        name.push(' ');
        name.push_str(word);
        next = below.subcommand();
    }
    name
}

impl Command {
    /// Whether its process does not end by itself.
    fn stays(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            Self::Apply(command) => command.stays(),
            _ => false,
        }
    }

    /// Whether it may change the records, the runs or the machines of a site, and ends by itself.
    fn changes_site(&self) -> bool {
        match self {
            Self::Apply(_)
            | Self::Run(_)
            | Self::Rollout(_)
            | Self::Accept(_)
            | Self::Reserve(_)
            | Self::Release(_)
            | Self::Abort(_)
            | Self::Unlock(_)
            | Self::Migrate(_)
            | Self::Approve(_) => true,
            // It has its own answer for each of its commands.
            Self::Try(_)
            // These change no more than files of the checkout, or what is elsewhere.
            | Self::Init(_)
            | Self::Adopt(_)
            | Self::Trust(_)
            | Self::Demo(_)
            | Self::Comment(_)
            // It stays, and what is done in it is of many requests.
            | Self::Serve(_)
            | Self::Validate(_)
            | Self::Fmt(_)
            | Self::Render(_)
            | Self::Diff(_)
            | Self::Plan(_)
            | Self::Bundle(_)
            | Self::Replay(_)
            | Self::Log(_)
            | Self::Show(_)
            | Self::Explain(_)
            | Self::Status(_)
            | Self::Nodes(_)
            | Self::Sites(_)
            | Self::Etcd(_)
            | Self::Hardware(_)
            | Self::Console(_)
            | Self::Images(_)
            | Self::Doctor(_)
            | Self::Export(_)
            | Self::Policy(_)
            | Self::Schemas(_)
            | Self::Actions
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }

    /// Whether it prints what may be longer than a screen, and asks nothing.
    fn is_paged(&self) -> bool {
        matches!(
            self,
            Self::Actions
                | Self::Diff(_)
                | Self::Explain(_)
                | Self::Log(_)
                | Self::Nodes(_)
                | Self::Plan(_)
                | Self::Render(_)
                | Self::Show(_)
                | Self::Status(_)
        )
    }

    fn run(self, context: &mut Context) -> Result<u8, Failure> {
        match self {
            Self::Validate(arguments) => validate::run(context, &arguments),
            Self::Fmt(command) => fmt::run(context, &command),
            Self::Render(arguments) => render::run(context, &arguments),
            Self::Diff(command) => diff::run(context, &command),
            Self::Plan(command) => match command.sites.scope() {
                Some(scope) => plan_sites::run(context, &command, &scope),
                None => plan::run(context, &command),
            },
            Self::Apply(command) => apply::run(context, &command),
            Self::Run(command) => run::run(context, &command),
            Self::Rollout(command) => rollout::run(context, &command),
            Self::Approve(command) => approve::run(context, &command),
            Self::Log(command) => log::log(context, &command),
            Self::Show(command) => log::show(context, &command),
            Self::Bundle(command) => bundle::bundle(context, &command),
            Self::Replay(command) => bundle::replay(context, &command),
            Self::Try(command) => sandbox::run(context, &command),
            Self::Explain(command) => explain::run(context, &command),
            Self::Init(command) => init::run(context, &command),
            Self::Adopt(command) => adopt::run(context, &command),
            Self::Status(command) => status::run(context, &command),
            Self::Nodes(command) => nodes::run(context, &command),
            Self::Etcd(command) => etcd::run(context, &command),
            Self::Hardware(command) => hardware::run(context, &command),
            Self::Console(command) => console::run(context, &command),
            Self::Images(command) => images::run(context, &command),
            Self::Accept(command) => accept::run(context, &command),
            Self::Reserve(command) => reserve::reserve(context, &command),
            Self::Release(command) => reserve::release(context, &command),
            Self::Abort(command) => interrupted::run_abort(context, &command),
            Self::Unlock(command) => interrupted::run_unlock(context, &command),
            Self::Migrate(command) => migrate::run(context, &command),
            Self::Trust(command) => trust::run(context, &command),
            Self::Serve(command) => serve::run(context, &command),
            Self::Demo(command) => demo::run(context, &command),
            Self::Doctor(command) => doctor::run(context, &command),
            Self::Export(command) => export::run(context, &command),
            Self::Sites(command) => list_sites::run(context, &command),
            Self::Policy(command) => policy::run(context, &command),
            Self::Comment(command) => comment::run(context, &command),
            Self::Schemas(command) => schemas::run(context, &command),
            Self::Actions => manual::actions(context),
            Self::Completions(arguments) => manual::completions(context, &arguments),
            Self::Man(arguments) => manual::man(context, &arguments),
        }
    }
}
