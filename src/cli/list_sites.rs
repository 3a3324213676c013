//! `trueup sites`: the sites of the repository.

use clap::{Args, ValueEnum};

use super::Failure;
use super::context::Context;
use crate::report::sites::{ListedSite, list, list_json};
use crate::site::{At, locate_all};

#[derive(Debug, Args)]
pub(super) struct ListSitesCommand {
    /// Revision: worktree, committed, or any that git understands
    #[arg(long, value_name = "R", default_value = "worktree")]
    rev: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = ListSitesFormat::Text)]
    format: ListSitesFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListSitesFormat {
    /// A table.
    Text,
    /// For scripts.
    Json,
    /// One name a line.
    Names,
}

pub(super) fn run(context: &mut Context, command: &ListSitesCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let at = match &*command.rev {
        "worktree" => At::Worktree,
        "committed" => At::Commit(repository.resolve("HEAD")?),
        revision => At::Commit(repository.resolve(revision)?),
    };
    let sites = locate_all(&repository, at)?
        .into_iter()
        .map(|found| ListedSite {
            name: found.name,
            definition: found.definition,
            problem: found.location.err().map(|error| error.to_string()),
        });
    let sites: Vec<ListedSite> = sites.collect();
    let printer = &context.printer;
    match command.format {
        ListSitesFormat::Text => printer.stream_text(|out| list(out, &sites, printer.out))?,
        ListSitesFormat::Json => printer.stream(|out| list_json(out, &sites))?,
        ListSitesFormat::Names => {
            let names = sites.iter().map(|site| &*site.name);
            printer.stream(|out| crate::report::names(out, names))?;
        }
    }
    Ok(0)
}
