//! `trueup run`: one plan, carried out by many workers.

mod parts;

use clap::{Args, Subcommand};

use super::Failure;
use super::context::Context;
pub(super) use parts::PartsArguments;

#[derive(Debug, Args)]
pub(super) struct RunCommand {
    #[command(subcommand)]
    command: RunSubcommand,
}

#[derive(Debug, Subcommand)]
enum RunSubcommand {
    /// Show the parts that a saved plan is cut into, and their order
    Parts(parts::PartsCommand),
}

pub(super) fn run(context: &mut Context, command: &RunCommand) -> Result<u8, Failure> {
    match &command.command {
        RunSubcommand::Parts(command) => parts::run(context, command),
    }
}
