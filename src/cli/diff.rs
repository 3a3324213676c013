//! `trueup diff`: what changed between two revisions, per document and field.

use clap::{Args, ValueEnum};

use crate::diff;
use crate::report;
use crate::site::{Depth, Detail, Loader};

use super::Failure;
use super::context::Context;
use super::revision::{ReadArguments, load_sound};

#[derive(Debug, Args)]
pub(super) struct DiffCommand {
    /// Base revision: worktree, committed, successful-site-action, last-site-action, or any that git understands
    #[arg(long, value_name = "R", default_value = "committed")]
    base: String,
    /// Target revision
    #[arg(long = "diff", value_name = "R", default_value = "worktree")]
    revision: String,
    /// Compare the rendered documents instead of the written ones
    #[arg(long)]
    rendered: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    format: DiffFormat,
    #[command(flatten)]
    read: ReadArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

pub(super) fn run(context: &mut Context, command: &DiffCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let mut loader = Loader::new(&repository);
    let settings = command.read.settings(Depth::Rendered, Detail::Documents);
    let mut load = |word: &str| {
        let at = checkout.resolve(word)?;
        let location = checkout.location_at(at)?;
        load_sound(context, &mut loader, &location, at, settings)
    };
    let (before, after) = (load(&command.base)?, load(&command.revision)?);
    let difference = if command.rendered {
        diff::rendered(&before.rendering.documents, &after.rendering.documents)
    } else {
        diff::documents(&before.documents, &after.documents)
    };
    let (printer, sources) = (&context.printer, loader.sources());
    match command.format {
        DiffFormat::Text => {
            printer.stream(|out| report::diff::text(out, &difference, sources, printer.out))?;
        }
        DiffFormat::Json => printer.stream(|out| report::diff::json(out, &difference, sources))?,
    }
    Ok(0)
}
