//! `trueup completions`, `trueup man` and `trueup actions`: shell completions, manual pages, the list of actions.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use clap::Args;
use clap_complete::env::Shells;

use super::context::Context;
#[cfg(unix)]
use super::signals;
use super::{Failure, FailureKind, action, command, complete, help};
use crate::diagnostic::nearest;
use crate::repository::replace_file;

#[derive(Debug, Args)]
pub(super) struct CompletionsCommand {
    /// Shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManCommand {
    /// The command whose page is shown, such as `apply` or `run part` [default: the main page]
    #[arg(value_name = "PAGE")]
    page: Vec<String>,
    /// Write a page for every command into this folder, instead of showing one
    #[arg(long, value_name = "DIR", conflicts_with = "page")]
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
        None => show(context, page_of(&command, &arguments.page)?)?,
    }
    Ok(0)
}

/// The command that has a page: `run part`, `run-part` or `trueup-run-part`.
fn page_of<'c>(command: &'c clap::Command, words: &[String]) -> Result<&'c clap::Command, Failure> {
    let joined = words.join("-");
    let own = joined.strip_prefix("trueup").unwrap_or(&joined);
    let wanted = own.trim_start_matches('-');
    let mut known = Vec::new();
    let mut waiting = vec![(String::new(), command)];
    while let Some((name, command)) = waiting.pop() {
        if name == wanted {
            return Ok(command);
        }
        for below in command.get_subcommands() {
            let own = below.get_name();
            let name = match name.is_empty() {
                true => own.to_owned(),
                false => format!("{name}-{own}"),
            };
            waiting.push((name, below));
        }
        known.push(name);
    }
    let failure = Failure::new(FailureKind::Usage, format!("no page is called `{wanted}`"));
    Err(match nearest(wanted, known.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `trueup man {near}`?")),
        None => failure.hint("`trueup -h` lists the commands"),
    })
}

/// Opens a page in `man` on a terminal; prints its source otherwise, and its text if there is no such program.
fn show(context: &Context, command: &clap::Command) -> Result<(), Failure> {
    let page = help::page(command)?;
    if !std::io::stdout().is_terminal() {
        return context.printer.print(&String::from_utf8_lossy(&page));
    }
    let mut file = tempfile::Builder::new().suffix(".1").tempfile()?;
    file.write_all(&page)?;
    // They are meant for the program that has the terminal.
    #[cfg(unix)]
    let _interrupts = signals::leave_interrupts();
    // A name with a slash is that of a file.
    let shown = Process::new("man").arg(file.path()).status();
    match shown.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => {
            let text = command.clone().render_long_help().to_string();
            context.printer.print(&text)
        }
    }
}

/// Writes the page of a command and of those below it.
fn write_pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let page = help::page(command)?;
    replace_file(&folder.join(format!("{name}.1")), |out| {
        out.write_all(&page)
    })?;
    for below in command.get_subcommands() {
        write_pages(below, folder)?;
    }
    Ok(())
}

pub(super) fn actions(context: &mut Context) -> Result<u8, Failure> {
    context.printer.print(&action::list())?;
    Ok(0)
}
