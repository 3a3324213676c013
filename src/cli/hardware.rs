//! `trueup hardware`: documents of what machines have under their operating systems.

use clap::{Args, Subcommand};

use super::Failure;
use super::context::Context;
use super::revision::ReadArguments;
use crate::adopt::hardware_document;
use crate::report::Visible;
use crate::site::{Depth, Detail};
use crate::workflow::OneMachine;

#[derive(Debug, Subcommand)]
pub(super) enum HardwareCommand {
    /// Print the Hardware document of what a machine shows: firmware, BIOS, parts; reads only
    Learn(LearnCommand),
}

#[derive(Debug, Args)]
pub(super) struct LearnCommand {
    /// The node whose machine is as others are to be
    #[arg(value_name = "NODE")]
    node: String,
    /// Name of the document [default: the hardware profile of the node, else the node]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Revision: worktree, committed, successful-site-action, last-site-action, or any that git understands
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    #[command(flatten)]
    read: ReadArguments,
}

pub(super) fn run(context: &Context, command: &HardwareCommand) -> Result<u8, Failure> {
    let HardwareCommand::Learn(command) = command;
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let at = checkout.resolve(&command.rev)?;
    let settings = command.read.settings(Depth::Typed, Detail::Designs);
    let machine = OneMachine {
        client: context,
        checkout: &checkout,
        at,
        settings,
        node: &command.node,
    };
    let (node, learned) = machine.learn()?;
    let text = hardware_document(&node, command.name.as_deref(), &learned.seen);
    context.printer.print(&text)?;
    for why in &learned.unread {
        context.printer.tell(&format!("warning: {}", Visible(why)));
    }
    Ok(0)
}
