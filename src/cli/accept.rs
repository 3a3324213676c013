//! `trueup accept`: take the machine that is there for the one of the document, or leave it as it is where it differs
//! from its design.

use clap::Args;

use super::action::ActionArguments;
use super::apply::{self, ApplyCommand};
use super::context::Context;
use super::planning::{PlanArguments, RemoteArguments};
use super::{Failure, FailureKind};

/// `trueup accept`.
#[derive(Debug, Clone, Args)]
pub(super) struct AcceptCommand {
    /// The nodes whose machines are checked
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Record the UUID, serial number, provisioner id or MAC addresses that are observed now
    #[arg(long, conflicts_with_all = ["field", "reason", "unset", "as_is"])]
    identity: bool,
    /// Take a machine that a run had begun to change for what its design says: its operator has looked
    #[arg(long, requires = "reason", conflicts_with_all = ["field", "unset"])]
    as_is: bool,
    /// Accept a difference instead of a redeploy: a field as plans name it, `*` for any name
    #[arg(long, value_name = "PATH")]
    field: Vec<String>,
    /// Why, as plans show it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Undo the acceptance
    #[arg(long)]
    unset: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// Shows what would be recorded, asks, and records it in a run of its own.
pub(super) fn run(context: &mut Context, command: &AcceptCommand) -> Result<u8, Failure> {
    if !command.identity && !command.as_is && command.field.is_empty() {
        let message = "`accept` needs `--identity`, `--field PATH`, or `--as-is`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let command = command.clone();
    let mut fields = ActionArguments::of_fields(command.field, command.reason, command.unset);
    fields.as_is = command.as_is;
    let arguments = PlanArguments::of_action(fields, command.remote);
    let accept = std::iter::once("accept".to_owned());
    let words = accept.chain(command.nodes).collect();
    let apply = ApplyCommand::of(words, command.yes, arguments);
    apply::run(context, &apply)
}
