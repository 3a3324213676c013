//! `trueup console`: the serial console of a machine, on this terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;

use super::Failure;
use super::context::Context;
use super::revision::ReadArguments;
use crate::backend::Console;
use crate::report::Visible;
use crate::site::{Depth, Detail};
use crate::workflow::OneMachine;

/// How much is read of a console at once, in bytes.
const CHUNK: usize = 4096;

#[derive(Debug, Args)]
pub(super) struct ConsoleCommand {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// Add what it prints to a file that only you may read
    #[arg(long, value_name = "FILE", value_parser = clap::builder::PathBufValueParser::new())]
    log: Option<PathBuf>,
    /// Revision: worktree, committed, successful-site-action, last-site-action, or any that git understands
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    #[command(flatten)]
    read: ReadArguments,
}

pub(super) fn run(context: &Context, command: &ConsoleCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let machine = OneMachine {
        client: context,
        checkout: &checkout,
        at: checkout.resolve(&command.rev)?,
        settings: command.read.settings(Depth::Typed, Detail::Designs),
        node: &command.node,
    };
    let console = machine.console()?;
    let log = command.log.as_deref().map(open).transpose()?;
    context.printer.tell(&format!(
        "Console of `{}` at {console}; `~.` at the beginning of a line ends it.",
        command.node
    ));
    show(&console, log)
}

/// Opens the file that a console is added to.
fn open(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(path);
    opened.map_err(|error| Failure::error(format!("cannot write `{}`: {error}", path.display())))
}

/// Shows a console until its program ends.
fn show(console: &Console, log: Option<File>) -> Result<u8, Failure> {
    let program = console.program();
    let output = match log {
        Some(_) => Stdio::piped(),
        None => Stdio::inherit(),
    };
    let mut running = console.start(output).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::error(format!(
            "the program `{program}` was not found in PATH: install it"
        )),
        _ => Failure::error(format!("`{program}` cannot be started: {error}")),
    })?;
    let written = match (log, running.child.stdout.take()) {
        (Some(log), Some(output)) => copy(output, log),
        _ => Ok(()),
    };
    let ended = running.child.wait();
    written.map_err(|error| Failure::error(format!("the console cannot be recorded: {error}")))?;
    let ended = ended.map_err(|error| Failure::error(format!("`{program}`: {error}")))?;
    match ended.success() {
        true => Ok(0),
        false => Err(Failure::error(format!(
            "`{program}` ended with {}; what it said is above",
            Visible(&ended.to_string())
        ))),
    }
}

/// Copies what a console prints to the terminal and to a file.
fn copy(mut from: impl io::Read, mut log: File) -> io::Result<()> {
    let mut terminal = io::stdout().lock();
    let mut chunk = [0; CHUNK];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let text = chunk.get(..read).unwrap_or_default();
        terminal.write_all(text)?;
        terminal.flush()?;
        log.write_all(text)?;
    }
}
