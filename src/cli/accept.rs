//! `trueup accept`: take the machine that is there for the one of the document.

use clap::Args;

use super::apply::{self, ApplyCommand};
use super::context::Context;
use super::planning::RemoteArguments;
use super::{Failure, FailureKind};

/// `trueup accept`.
#[derive(Debug, Clone, Args)]
pub(super) struct AcceptCommand {
    /// The nodes whose machines are checked
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Record the UUID, serial number, provisioner id or MAC addresses that are observed now
    #[arg(long)]
    identity: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// Shows what was recorded and what is observed now, asks, and records it in a run of its own.
pub(super) fn run(context: &mut Context, command: &AcceptCommand) -> Result<u8, Failure> {
    if !command.identity {
        let message = "`accept` needs `--identity`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let nodes = command.nodes.clone();
    let apply = ApplyCommand::accept(nodes, command.yes, command.remote.clone());
    apply::run(context, &apply)
}
