//! The files of a sandbox that several commands use.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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

/// The names in a folder that count, each with its path: neither those that are left out nor files of locks, which hold nothing.
fn named(folder: &Path, left_out: &[&str]) -> std::io::Result<BTreeMap<OsString, PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut all = BTreeMap::new();
    for entry in entries {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        let is_lock = path
            .extension()
            .is_some_and(|extension| extension == "lock");
        if !is_lock && !left_out.iter().any(|each| *each == name) {
            all.insert(name, path);
        }
    }
    Ok(all)
}

/// Whether two folders hold the same: one without files is as good as none.
pub(super) fn is_same(one: &Path, other: &Path, left_out: &[&str]) -> std::io::Result<bool> {
    let (one, other) = (named(one, left_out)?, named(other, left_out)?);
    let names: BTreeSet<&OsString> = one.keys().chain(other.keys()).collect();
    for name in names {
        let same = match (one.get(name), other.get(name)) {
            (Some(one), Some(other)) if one.is_file() && other.is_file() => {
                std::fs::metadata(one)?.len() == std::fs::metadata(other)?.len()
                    && std::fs::read(one)? == std::fs::read(other)?
            }
            (Some(one), Some(other)) => one.is_dir() && other.is_dir() && is_same(one, other, &[])?,
            (Some(one), None) | (None, Some(one)) => one.is_dir() && is_empty(one)?,
            (None, None) => true,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether there is no file in a folder.
fn is_empty(folder: &Path) -> std::io::Result<bool> {
    for path in named(folder, &[])?.values() {
        if !path.is_dir() || !is_empty(path)? {
            return Ok(false);
        }
    }
    Ok(true)
}
