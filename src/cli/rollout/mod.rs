//! `trueup rollout`: a revision on its way through the sites of a repository.

mod plan;
mod runner;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand, ValueEnum};

use self::runner::Runner;
use super::context::Context;
use super::planning::{PlanArguments, RemoteArguments};
use super::{Failure, FailureKind, exit};
use crate::design::Ticket;
use crate::report::Visible;
use crate::report::rollout::View;
use crate::rollout::{Decision, RolloutState, decide};
use crate::run::Connection;
use crate::workflow::{
    Called, Client, FoundRollout, RolloutCall, check_rollout_name, rollout_names,
};

#[derive(Debug, Subcommand)]
pub(super) enum RolloutCommand {
    /// Show which site is in which phase, and what each would do
    Plan(plan::PlanCommand),
    /// Do what may be done now: begin sites, look for drift after the soak
    Next(NextCommand),
    /// Show how far each site is
    Status(StatusCommand),
    /// Begin no further site until it is resumed
    Pause(ReasonCommand),
    /// Resume a paused or stopped rollout; failed sites are begun once more
    Resume(NameCommand),
    /// End a rollout for good; the sites stay as they are
    Abort(ReasonCommand),
    /// Explain why a rollout or a site waits, and who can end that
    Explain(ExplainCommand),
}

#[derive(Debug, Args)]
pub(super) struct NextCommand {
    /// The rollout, by the name of its document
    #[arg(value_name = "NAME")]
    name: String,
    /// The revision to begin, which is checked out [default: the one under way, else HEAD]
    #[arg(long, value_name = "R")]
    rev: Option<String>,
    /// Begin sites although commits lie between their last site action and the revision
    #[arg(long)]
    allow_intermediate_commits: bool,
    /// The ticket of this work in another system, for the runs of its sites
    #[arg(long, value_name = "ID")]
    ticket: Option<Ticket>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Args)]
pub(super) struct StatusCommand {
    /// The rollout, by the name of its document; without it the only one that is checked out
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RolloutFormat::Text)]
    format: RolloutFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Args)]
pub(super) struct NameCommand {
    /// The rollout, by the name of its document
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Args)]
pub(super) struct ReasonCommand {
    /// The rollout, by the name of its document
    #[arg(value_name = "NAME")]
    name: String,
    /// Why, for those who ask later
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    reason: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Args)]
pub(super) struct ExplainCommand {
    /// The rollout, by the name of its document
    #[arg(value_name = "NAME")]
    name: String,
    /// A site of it
    #[arg(value_name = "SITE")]
    of_site: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RolloutFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn run(context: &mut Context, command: &RolloutCommand) -> Result<u8, Failure> {
    if let Some(site) = &context.site {
        let message = format!("a rollout is about several sites, and `--site {site}` about one");
        return Err(Failure::new(FailureKind::Usage, message).hint("leave `--site` out"));
    }
    match command {
        RolloutCommand::Plan(command) => plan::run(context, command),
        RolloutCommand::Next(command) => next(context, command),
        RolloutCommand::Status(command) => status(context, command),
        RolloutCommand::Pause(command) => {
            with_call(context, &command.name, &command.remote, |call| {
                call.pause(&command.reason)?;
                context.printer.tell(
                    "Paused: a run that is at work ends as it would, and no further site is begun.",
                );
                Ok(0)
            })
        }
        RolloutCommand::Resume(command) => {
            with_call(context, &command.name, &command.remote, |call| {
                call.resume()?;
                context.printer.tell(&format!(
                    "Resumed: `trueup rollout next {}` continues it.",
                    command.name
                ));
                Ok(0)
            })
        }
        RolloutCommand::Abort(command) => {
            with_call(context, &command.name, &command.remote, |call| {
                let aborted = call.abort(&command.reason)?.aborted;
                let before = aborted.filter(|decree| *decree.reason != *command.reason);
                context.printer.tell(&match before {
                    Some(before) => format!(
                        "It was aborted already, by {} at {}: {}",
                        Visible(&before.by),
                        before.at,
                        Visible(&before.reason)
                    ),
                    None => "Aborted: a run that is at work ends as it would, and no further site is begun. The sites stay as they are.".to_owned(),
                });
                Ok(0)
            })
        }
        RolloutCommand::Explain(command) => explain(context, command),
    }
}

/// Does something with a rollout.
fn with_call<T>(
    context: &Context,
    name: &str,
    remote: &RemoteArguments,
    act: impl FnOnce(&RolloutCall<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runner = Runner::new(context, remote);
    with_runner(context, name, (remote, &runner), act)
}

fn with_runner<T>(
    context: &Context,
    name: &str,
    (remote, runner): (&RemoteArguments, &Runner<'_>),
    act: impl FnOnce(&RolloutCall<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_rollout_name(name)?;
    let repository = context.repository()?;
    let connection = remote.lasting_connection(&repository)?;
    act(&RolloutCall {
        client: context,
        repository: &repository,
        connection: &connection,
        runner,
        name,
    })
}

/// The state of a rollout that was begun, and its document.
fn begun(call: &RolloutCall<'_>) -> Result<(FoundRollout, RolloutState), Failure> {
    let state = call
        .state_ref()
        .read()?
        .state
        .ok_or_else(|| call.not_begun())?;
    Ok((call.of_state(&state)?, state))
}

fn decision(context: &Context, found: &FoundRollout, state: &RolloutState) -> Decision {
    let now = Client::clock(context).seconds();
    decide(&found.phases, state, &BTreeSet::new(), now)
}

fn next(context: &Context, command: &NextCommand) -> Result<u8, Failure> {
    let remote = &command.remote;
    let (over_commits, ticket) = (command.allow_intermediate_commits, command.ticket.clone());
    let arguments = PlanArguments::of_rollout(remote.clone(), over_commits, ticket);
    let runner = Runner::with(context, remote, arguments);
    with_runner(context, &command.name, (remote, &runner), |call| {
        if let Connection::Offline = call.connection {
            let text = "`--offline` does not ask the remote, and the state of a rollout is there";
            return Err(Failure::new(FailureKind::Usage, text).hint("leave it out"));
        }
        if let Connection::Shared { publish: false, .. } = call.connection {
            let text = "`--no-push` keeps the records of a site in this clone, and the other callers of a rollout rely on them";
            return Err(Failure::new(FailureKind::Usage, text).hint("leave it out"));
        }
        let Called {
            found,
            state,
            decision,
            failures,
        } = call.next(command.rev.as_deref())?;
        let view = View {
            name: &found.name,
            phases: &found.phases,
            state: Some(&state),
            decision: Some(&decision),
        };
        context.printer.print(&format!("{}\n", view.sentence()))?;
        if let Decision::Done = decision
            && call.repository.head()? != Some(found.commit)
        {
            let name = Visible(&found.name);
            context.printer.tell(&format!(
                "Another commit is checked out: `trueup rollout next {name} --rev HEAD` begins its rollout."
            ));
        }
        let mut codes: BTreeSet<u8> = failures.iter().map(exit::code).collect();
        match decision {
            Decision::Stopped(_) => {
                codes.insert(exit::code(&Failure::reported(FailureKind::Failed)));
            }
            // Whether sites have drifted could not be found out.
            Decision::Prove(_) if codes.is_empty() => {
                codes.insert(exit::code(&Failure::reported(FailureKind::Error)));
            }
            Decision::Aborted(_)
            | Decision::Paused(_)
            | Decision::Prove(_)
            | Decision::Begin(_)
            | Decision::Soak(_)
            | Decision::Wait(_)
            | Decision::Done => {}
        }
        Ok(exit::combined(&codes, false))
    })
}

/// Shows a rollout that was begun.
fn with_begun(
    context: &Context,
    name: &str,
    remote: &RemoteArguments,
    show: impl FnOnce(&FoundRollout, &View<'_>) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    with_call(context, name, remote, |call| {
        let (found, state) = begun(call)?;
        let decision = decision(context, &found, &state);
        let view = View {
            name: &found.name,
            phases: &found.phases,
            state: Some(&state),
            decision: Some(&decision),
        };
        show(&found, &view)
    })
}

/// The name of the only rollout of the commit that is checked out.
fn the_only(context: &Context) -> Result<String, Failure> {
    let mut names = rollout_names(&context.repository()?)?;
    match (names.pop(), names.is_empty()) {
        (Some(name), true) => Ok(name),
        (Some(last), false) => {
            let message = format!("there are several rollouts: {}, {last}", names.join(", "));
            Err(Failure::new(FailureKind::Usage, message).hint("name one of them"))
        }
        (None, _) => {
            let message = "the commit that is checked out has no rollout";
            Err(Failure::new(FailureKind::NotFound, message)
                .hint("a rollout is a document in a file `rollouts/NAME.yaml`, committed"))
        }
    }
}

fn status(context: &Context, command: &StatusCommand) -> Result<u8, Failure> {
    let name = match &command.name {
        Some(name) => name.clone(),
        None => the_only(context)?,
    };
    with_begun(context, &name, &command.remote, |found, view| {
        let printer = &context.printer;
        match command.format {
            RolloutFormat::Text => printer.stream_text(|out| view.status(out, printer.out))?,
            RolloutFormat::Json => {
                let revision = found.commit.to_string();
                printer.stream(|out| view.json(out, &revision, &BTreeMap::new()))?;
            }
        }
        Ok(0)
    })
}

fn explain(context: &Context, command: &ExplainCommand) -> Result<u8, Failure> {
    with_begun(context, &command.name, &command.remote, |found, view| {
        let printer = &context.printer;
        let Some(site) = &command.of_site else {
            printer.stream_text(|out| view.explain_all(out))?;
            return Ok(0);
        };
        if found.phases.of(site).is_none() {
            let message = format!("rollout `{}` has no site `{site}`", found.name);
            let names = found.phases.sites().map(|name| &**name);
            let near = crate::diagnostic::nearest(site, names);
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            return Err(Failure::new(FailureKind::NotFound, message).hint_if(hint));
        }
        printer.stream_text(|out| view.explain(out, site))?;
        Ok(0)
    })
}
