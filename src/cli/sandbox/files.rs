//! The files of a sandbox that several commands use.

use std::path::Path;

use crate::cli::Failure;

/// The file of the machines of a sandbox, in the folder of its site.
pub(super) const MACHINES: &str = "simulated-site.json";

/// Copies a file, or a folder with all that is in it.
pub(super) fn copied(from: &Path, to: &Path) -> Result<(), Failure> {
    copy(from, to, &[]).map_err(|error| {
        let (from, to) = (from.display(), to.display());
        Failure::error(format!("cannot copy `{from}` to `{to}`: {error}"))
    })
}

pub(super) fn copy(from: &Path, to: &Path, left_out: &[&str]) -> std::io::Result<()> {
    if !from.is_dir() {
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        return std::fs::copy(from, to).map(drop);
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if !left_out.iter().any(|each| *each == name) {
            copy(&entry.path(), &to.join(name), &[])?;
        }
    }
    Ok(())
}
