//! `trueup render`: the documents after layering and substitution.

use clap::{Args, ValueEnum};

use crate::document::{JsonLayout, write_json, write_yaml};
use crate::site::{Depth, Detail, Loader};

use super::Failure;
use super::context::Context;
use super::planning::{RemoteArguments, find_revision};
use super::revision::{RevisionArguments, load_sound};

#[derive(Debug, Args)]
pub(super) struct RenderArguments {
    #[command(flatten)]
    revision: RevisionArguments,
    /// Output format
    #[arg(long, value_enum, default_value_t = RenderFormat::Yaml)]
    format: RenderFormat,
    /// Print secrets too
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RenderFormat {
    /// A stream of YAML documents.
    Yaml,
    /// One JSON array.
    Json,
}

pub(super) fn run(context: &mut Context, arguments: &RenderArguments) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let (at, location) = find_revision(
        context,
        &checkout,
        &RemoteArguments::default(),
        &arguments.revision,
    )?;
    let mut loader = Loader::new(&repository);
    let settings = arguments
        .revision
        .read
        .settings(Depth::Rendered, Detail::Documents);
    let site = load_sound(context, &mut loader, &location, at, settings)?;
    let documents = &site.rendering.documents;
    // One document at a time: all of them may be larger than what they were made of.
    let mut text = String::new();
    context.printer.stream(|out| {
        for (index, document) in documents.iter().enumerate() {
            text.clear();
            let (begin, envelope) = (index == 0, document.envelope());
            match arguments.format {
                RenderFormat::Yaml => {
                    text.push_str("---\n");
                    write_yaml(&envelope, arguments.show_secrets, &mut text);
                }
                RenderFormat::Json => {
                    text.push_str(if begin { "[\n" } else { ",\n" });
                    write_json(
                        &envelope,
                        arguments.show_secrets,
                        JsonLayout::Compact,
                        &mut text,
                    );
                }
            }
            out.write_str(&text)?;
        }
        match arguments.format {
            RenderFormat::Yaml => Ok(()),
            RenderFormat::Json if documents.is_empty() => out.write_str("[\n]\n"),
            RenderFormat::Json => out.write_str("\n]\n"),
        }
    })?;
    // The process ends now: taking a site's trees apart node by node would only cost time.
    std::mem::forget(site);
    std::mem::forget(loader);
    Ok(0)
}
