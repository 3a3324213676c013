//! `trueup render`: the documents after layering and substitution.

use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::document::{JsonLayout, Map, Node, Value, write_json, write_yaml};
use crate::render::Rendered;
use crate::site::{Depth, Loader};

use super::Failure;
use super::context::Context;
use super::revision::{Checkout, RevisionArguments, load_sound};

#[derive(Debug, Args)]
pub(super) struct RenderArguments {
    #[command(flatten)]
    revision: RevisionArguments,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
    /// Print secrets too
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A stream of YAML documents.
    Yaml,
    /// One JSON array.
    Json,
}

pub(super) fn run(context: &mut Context, arguments: &RenderArguments) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = Checkout::find(context, &repository)?;
    let (at, location) = arguments.revision.find(&checkout)?;
    let mut loader = Loader::new(&repository);
    let settings = arguments.revision.read.settings(Depth::Rendered);
    let site = load_sound(context, &mut loader, &location, at, settings)?;
    let documents = &site.rendering.documents;
    let mut out = String::with_capacity(1 << 20);
    match arguments.format {
        Format::Yaml => {
            for document in documents {
                out.push_str("---\n");
                write_yaml(&envelope(document), arguments.show_secrets, &mut out);
            }
        }
        Format::Json => {
            out.push('[');
            for (index, document) in documents.iter().enumerate() {
                out.push_str(if index == 0 { "\n" } else { ",\n" });
                write_json(
                    &envelope(document),
                    arguments.show_secrets,
                    JsonLayout::Compact,
                    &mut out,
                );
            }
            out.push_str("\n]\n");
        }
    }
    context.printer.print(&out)?;
    // The process ends now: taking a site's trees apart node by node would only cost time.
    std::mem::forget(site);
    std::mem::forget(loader);
    Ok(0)
}

/// The document as Deckhand gives it out: schema, metadata as it was written, data as rendered.
fn envelope(rendered: &Rendered) -> Node {
    let document = &rendered.document;
    let mut map = Map::new();
    map.set(
        "schema",
        Node::new(
            Value::String(document.id.schema.clone()),
            document.schema_mark,
        ),
    );
    map.set("metadata", document.metadata.clone());
    map.set("data", rendered.data.clone());
    Node::new(Value::Map(Arc::new(map)), document.mark)
}
