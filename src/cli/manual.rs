//! `trueup completions`, `trueup man` and `trueup actions`: shell completions, manual pages, the list of actions.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::env::Shells;

use super::context::Context;
use super::{Failure, FailureKind, action, command, complete, help};

#[derive(Debug, Args)]
pub(super) struct CompletionsCommand {
    /// Shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManCommand {
    /// Write a page for every command into this folder, instead of the main page to stdout
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn completions(
    context: &mut Context,
    arguments: &CompletionsCommand,
) -> Result<u8, Failure> {
    let shells = Shells::builtins();
    let shell = arguments.shell.to_string();
    let shell = shells.completer(&shell).ok_or_else(|| {
        let message = format!("there are no completions for `{shell}`");
        Failure::new(FailureKind::Usage, message)
    })?;
    let mut text = Vec::new();
    shell.write_registration(complete::VARIABLE, "trueup", "trueup", "trueup", &mut text)?;
    context.printer.print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

pub(super) fn man(context: &mut Context, arguments: &ManCommand) -> Result<u8, Failure> {
    let mut command = command().disable_help_subcommand(true);
    command.build();
    match &arguments.out {
        Some(folder) => {
            let folder = context.directory().join(folder);
            std::fs::create_dir_all(&folder)?;
            write_pages(&command, &folder)?;
        }
        None => {
            let page = help::page(&command)?;
            context.printer.print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(0)
}

/// Writes the page of a command and of those below it.
fn write_pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::fs::write(folder.join(format!("{name}.1")), help::page(command)?)?;
    for below in command.get_subcommands() {
        write_pages(below, folder)?;
    }
    Ok(())
}

pub(super) fn actions(context: &mut Context) -> Result<u8, Failure> {
    context.printer.print(&action::list())?;
    Ok(0)
}
