//! `trueup run`: a plan that is divided among workers, each in a checkout of its own.

mod begin;
mod end;
mod part;
mod parts;
mod shared;
mod status;

use clap::Subcommand;

use super::Failure;
use super::context::Context;
pub(super) use parts::PartsArguments;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RunCommand {
    /// Show the parts that a saved plan is cut into, and their order
    Parts(parts::PartsCommand),
    /// Begin a run whose parts workers carry out
    Begin(begin::BeginCommand),
    /// Carry out one part of a run that has begun
    Part(part::PartCommand),
    /// End a run whose parts have ended: records, tag, report
    End(end::EndCommand),
    /// Show how far the parts of a run are
    Status(status::StatusCommand),
    /// Abort a run: fence its workers first, then list what stays half-done
    Abort(end::AbortCommand),
}

pub(in crate::cli) fn run(context: &mut Context, command: &RunCommand) -> Result<u8, Failure> {
    match command {
        RunCommand::Parts(command) => parts::run(context, command),
        RunCommand::Begin(command) => begin::run(context, command),
        RunCommand::Part(command) => part::run(context, command),
        RunCommand::End(command) => end::run(context, command),
        RunCommand::Status(command) => status::run(context, command),
        RunCommand::Abort(command) => end::run_abort(context, command),
    }
}
