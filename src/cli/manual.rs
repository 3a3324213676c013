//! `trueup completions` and `trueup man`: shell completions and manual pages.

use std::path::PathBuf;

use clap::Args;

use super::context::Context;
use super::{Failure, command};

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
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "trueup", &mut text);
    context.printer.print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

pub(super) fn man(context: &mut Context, arguments: &ManCommand) -> Result<u8, Failure> {
    match &arguments.out {
        Some(folder) => {
            let folder = context.directory().join(folder);
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(command(), &folder)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command()).render(&mut page)?;
            context.printer.print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(0)
}
