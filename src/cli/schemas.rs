//! `trueup schemas`: writes the JSON Schemas of documents and plans, for editors and other programs.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::context::Context;
use crate::design::schema;
use crate::report;
use crate::repository::{Links, Repository, read_file, replace_file};

/// A larger file is none of these schemas.
const LARGEST: u64 = 1 << 22;

#[derive(Debug, Args)]
pub(super) struct SchemasCommand {
    /// Folder, such as the `.schemas` that `trueup init` writes; it is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(context: &mut Context, command: &SchemasCommand) -> Result<u8, Failure> {
    let folder = context.directory().join(&command.folder);
    // Outside of any repository there are no links that a change of a design could bring.
    let repository = context.repository().ok();
    let mut written = 0;
    let mut unchanged = 0;
    let unwritten = |path: &Path, error: std::io::Error| {
        Failure::error(format!("`{}` cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| unwritten(&folder, error))?;
    for (name, text) in schema::files() {
        let path = folder.join(&name);
        if read_file(&path, LARGEST, Links::Refused).is_ok_and(|bytes| bytes == text.as_bytes()) {
            unchanged += 1;
            continue;
        }
        write(repository.as_ref(), &path, text).map_err(|error| unwritten(&path, error))?;
        written += 1;
    }
    let shown = command.folder.display();
    context.printer.tell(&format!(
        "Wrote {} to `{shown}`, {unchanged} are as they were. A file uses them with the first line\n  \
         # yaml-language-server: $schema={shown}/document.json",
        report::counted(written, "schema", "schemas")
    ));
    Ok(0)
}

fn write(repository: Option<&Repository>, path: &Path, text: &str) -> std::io::Result<()> {
    let write = |out: &mut dyn Write| out.write_all(text.as_bytes());
    match repository {
        Some(repository) => repository.replace_file(path, write),
        None => replace_file(path, write),
    }
}
