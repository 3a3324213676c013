//! `trueup accept`: take the machine that is there for the one of the document, or leave it as it is where it differs
//! from its design.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;

use super::action::ActionArguments;
use super::apply::{self, ApplyCommand};
use super::context::Context;
use super::planning::{PlanArguments, RemoteArguments};
use super::{Failure, FailureKind};
use crate::design::FieldPattern;
use crate::guard::Machines;
use crate::site::At;
use crate::workflow::{self, Client, Planner, WriteBack, WrittenField};

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
    /// Write the values of the machines into the documents, if these are wrong: all that differ, or those of `--field`
    #[arg(long, conflicts_with_all = ["identity", "as_is", "reason", "unset", "yes"])]
    write: bool,
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
    if command.write {
        return write(context, command);
    }
    if !command.identity && !command.as_is && command.field.is_empty() {
        let message = "`accept` needs `--identity`, `--field PATH`, `--as-is`, or `--write`";
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

/// Writes what machines have into the documents of the worktree, as an edit to review.
fn write(context: &Context, command: &AcceptCommand) -> Result<u8, Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    let patterns = command.field.iter().map(|field| field.parse());
    let patterns: Result<Vec<FieldPattern>, _> = patterns.collect();
    let patterns = patterns.map_err(|error| usage(format!("`--field`: {error}")))?;
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let connection = command.remote.connection(&repository)?;
    let arguments = PlanArguments::of_action(ActionArguments::default(), command.remote.clone());
    let Some(request) = arguments.request(&[])? else {
        return Err(usage("no action is planned for `--write`".to_owned()));
    };
    let planner = Planner {
        client: context,
        checkout: &checkout,
        at: At::Worktree,
        connection: &connection,
        request: &request,
        plan_request: &arguments.plan_request(context),
    };
    let planned = planner.plan()?;
    let words: BTreeSet<Arc<str>> = command
        .nodes
        .iter()
        .map(|word| Arc::from(&**word))
        .collect();
    let machines = Machines::new(
        &planned.guarded,
        &planned.guarded.guards().groups,
        &planned.records,
    );
    let mut nodes = BTreeSet::new();
    for word in &words {
        let meant = machines.meant_by(word);
        nodes.extend(
            meant
                .map_err(|error| usage(error.to_string()))?
                .into_iter()
                .cloned(),
        );
    }
    let result = workflow::write_back(context, &checkout, &planned, &nodes, &patterns)?;
    Client::tell(context, &told(&result));
    match result.written.is_empty() && !result.left.is_empty() {
        true => Err(Failure::reported(FailureKind::Guard)),
        false => Ok(0),
    }
}

/// The fields that were written, and where.
fn told(result: &WriteBack) -> String {
    let mut lines = Vec::new();
    let is_same = |one: &WrittenField, other: &WrittenField| {
        (&one.place, &one.path, &one.before, &one.after)
            == (&other.place, &other.path, &other.before, &other.after)
    };
    for same in result.written.chunk_by(is_same) {
        let Some(field) = same.first() else { continue };
        let none = || "nothing".to_owned();
        let before = field.before.clone().unwrap_or_else(none);
        let after = field.after.clone().unwrap_or_else(none);
        let own = match field.is_own {
            true => ", for this machine alone",
            false => "",
        };
        let (node, path, place) = (&field.node, &field.path, &field.place);
        let more = match same.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        lines.push(format!(
            "{place}: {path} of {node}{more}: {before} → {after}{own}"
        ));
    }
    for (node, path, why) in &result.left {
        lines.push(format!("left: {path} of {node}: {why}"));
    }
    match result.written.is_empty() {
        true if lines.is_empty() => {
            lines.push(
                "These machines differ from their documents in nothing that can be written."
                    .to_owned(),
            );
        }
        true => lines.push("No file was changed.".to_owned()),
        false => lines.push(
            "Review it with `git diff`, commit it, and see with `trueup plan` what is left."
                .to_owned(),
        ),
    }
    lines.join("\n")
}
