//! The operations of a sandbox: each command that changes it is preceded by a copy of its state, which `trueup try undo`
//! restores. Of one that ended and has changed nothing the copy is dropped.
//!
//! The state is what commands change of a site: trueup's refs and tags, the files of the simulated site and of its runs,
//! the faults and the clock. Documents and commits are git's, and stay.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{MACHINES, copy, is_same};
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::repository::{Links, ObjectId, Repository, read_file};
use crate::site::Sandbox;

/// The folder of the copies, in that of the sandbox.
const FOLDER: &str = "operations";
/// Copies that are kept when a command has ended; the oldest goes first, and not before an undo has restored it.
const KEPT: usize = 100;
/// The largest description of an operation, with its refs.
const LARGEST: u64 = 64 << 20;
/// The folder of a site's files, in git's common directory.
const FILES: &str = "trueup";
/// A folder of it that is no state.
const CACHE: &str = ".cache";

/// A command that was given in a sandbox, and the refs before it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Operation {
    /// When, by the real clock.
    pub(super) at: String,
    /// The command.
    pub(super) command: String,
    refs: BTreeMap<String, String>,
}

/// Removes what is in a folder.
fn empty_folder(folder: &Path, kept: &[&str]) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if kept.iter().any(|each| *each == name) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn failed(action: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::error(format!("cannot {action}: {error}"))
}

/// Trueup's own refs and the tags of runs.
fn refs(repository: &Repository) -> Result<BTreeMap<String, ObjectId>, Failure> {
    let mut all = repository.refs(&repository.ref_prefix()?)?;
    let tags = repository.refs("refs/tags")?.into_iter();
    all.extend(tags.filter(|(name, _)| name.starts_with("refs/tags/site-action-")));
    Ok(all)
}

/// The numbers of the operations, oldest first, with their folders.
fn numbered(sandbox: &Sandbox) -> Result<BTreeMap<u64, PathBuf>, Failure> {
    let folder = sandbox.folder().join(FOLDER);
    if !folder.is_dir() {
        return Ok(BTreeMap::new());
    }
    let reading = failed("list the operations of the sandbox");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(&reading)? {
        let path = entry.map_err(&reading)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(number) = name.and_then(|name| name.parse().ok()) {
            all.insert(number, path);
        }
    }
    Ok(all)
}

fn read(folder: &Path) -> Result<Operation, Failure> {
    let path = folder.join("operation.json");
    let unusable = |error: &dyn std::fmt::Display| {
        Failure::error(format!("`{}` cannot be used: {error}", path.display()))
    };
    let bytes = read_file(&path, LARGEST, Links::Refused).map_err(|error| unusable(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| unusable(&error))
}

/// The operations, oldest first.
pub(super) fn list(sandbox: &Sandbox) -> Result<Vec<(u64, Operation)>, Failure> {
    let all = numbered(sandbox)?.into_iter();
    all.map(|(number, folder)| Ok((number, read(&folder)?)))
        .collect()
}

/// Copies the state of a sandbox before a command.
pub(super) fn begin(
    context: &Context,
    sandbox: Sandbox,
    command: String,
) -> Result<Begun, Failure> {
    let repository = context.repository()?;
    let copying = failed("copy the state of the sandbox");
    let all = numbered(&sandbox)?;
    let number = all.keys().next_back().map_or(1, |last| last + 1);
    let operations = sandbox.folder().join(FOLDER);
    std::fs::create_dir_all(&operations).map_err(&copying)?;
    let draft = operations.join("draft");
    empty_folder(&draft, &[]).map_err(&copying)?;
    let files = repository.common_dir().join(FILES);
    if files.is_dir() {
        copy(&files, &draft.join("files"), &[CACHE]).map_err(&copying)?;
    }
    copy(sandbox.folder(), &draft.join("settings"), &[FOLDER]).map_err(&copying)?;
    let refs = refs(&repository)?.into_iter();
    let operation = Operation {
        at: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
        command,
        refs: refs.map(|(name, id)| (name, id.to_string())).collect(),
    };
    let json = serde_json::to_vec(&operation).map_err(|error| Failure::error(error.to_string()))?;
    std::fs::write(draft.join("operation.json"), json).map_err(&copying)?;
    let copy = operations.join(number.to_string());
    std::fs::rename(&draft, &copy).map_err(&copying)?;
    Ok(Begun {
        sandbox,
        copy,
        refs: operation.refs,
    })
}

/// An operation under way. It is kept where the process is killed.
pub(in crate::cli) struct Begun {
    sandbox: Sandbox,
    copy: PathBuf,
    refs: BTreeMap<String, String>,
}

impl Begun {
    /// Drops its copy if nothing was changed, else the oldest ones. What cannot be dropped is left.
    pub(in crate::cli) fn end(self, context: &Context) {
        let ended = match self.has_changed(context) {
            Ok(false) => std::fs::remove_dir_all(&self.copy).map_err(failed("drop a copy")),
            Ok(true) => self.prune(),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = ended {
            log::debug!("the operations of the sandbox: {}", failure.message);
        }
    }

    fn has_changed(&self, context: &Context) -> Result<bool, Failure> {
        let repository = context.repository()?;
        let refs = refs(&repository)?.into_iter();
        let refs = refs.map(|(name, id)| (name, id.to_string()));
        if refs.collect::<BTreeMap<_, _>>() != self.refs {
            return Ok(true);
        }
        let comparing = failed("compare the state of the sandbox");
        let files = repository.common_dir().join(FILES);
        let same = is_same(&files, &self.copy.join("files"), &[CACHE]).map_err(&comparing)?
            && is_same(
                self.sandbox.folder(),
                &self.copy.join("settings"),
                &[FOLDER],
            )
            .map_err(&comparing)?;
        Ok(!same)
    }

    fn prune(&self) -> Result<(), Failure> {
        let all = numbered(&self.sandbox)?;
        for folder in all.values().take(all.len().saturating_sub(KEPT)) {
            std::fs::remove_dir_all(folder).map_err(failed("drop an old copy"))?;
        }
        Ok(())
    }
}

/// Refuses while another process has a simulated site open; what is held keeps others out.
fn alone(files: &Path) -> Result<Vec<File>, Failure> {
    let mut held = Vec::new();
    let sites = std::fs::read_dir(files).into_iter().flatten().flatten();
    for site in sites {
        let lock = site.path().join(MACHINES).with_added_extension("lock");
        let Ok(lock) = File::open(lock) else { continue };
        if let Err(std::fs::TryLockError::WouldBlock) = lock.try_lock() {
            let text = "another process works on the machines of this sandbox";
            return Err(Failure::new(FailureKind::Locked, text).hint("wait for its end"));
        }
        held.push(lock);
    }
    Ok(held)
}

/// Restores the state before an operation; the last one that `current` is not where none is named.
pub(super) fn undo(
    context: &Context,
    sandbox: &Sandbox,
    named: Option<u64>,
) -> Result<(u64, Operation), Failure> {
    let all = numbered(sandbox)?;
    // The last one is this command.
    let current = all.keys().next_back().copied();
    let before = all.keys().rev().find(|number| Some(**number) != current);
    let number = named
        .or(before.copied())
        .filter(|number| Some(*number) != current);
    let Some((number, folder)) = number.and_then(|number| Some((number, all.get(&number)?))) else {
        let text = match named {
            Some(number) => format!("there is no operation {number}"),
            None => "nothing was done in this sandbox yet".to_owned(),
        };
        return Err(Failure::new(FailureKind::NotFound, text).hint("`trueup try log` lists them"));
    };
    let operation = read(folder)?;
    let repository = context.repository()?;
    let wanted = operation.refs.iter().map(|(name, id)| {
        let id = id.parse::<ObjectId>();
        let id =
            id.map_err(|_| Failure::error(format!("operation {number}: no id of `{name}`")))?;
        Ok((name, id))
    });
    let wanted: BTreeMap<&String, ObjectId> = wanted.collect::<Result<_, Failure>>()?;
    let restoring = failed("restore the state of the sandbox");
    let files = repository.common_dir().join(FILES);
    let _held = alone(&files)?;
    empty_folder(&files, &[CACHE]).map_err(&restoring)?;
    if folder.join("files").is_dir() {
        copy(&folder.join("files"), &files, &[]).map_err(&restoring)?;
    }
    empty_folder(sandbox.folder(), &[FOLDER]).map_err(&restoring)?;
    copy(&folder.join("settings"), sandbox.folder(), &[]).map_err(&restoring)?;
    let found = refs(&repository)?;
    for (name, id) in &found {
        if !wanted.contains_key(name) {
            repository.delete_ref(name, *id)?;
        }
    }
    for (name, id) in wanted {
        let now = found.get(name).copied();
        if now != Some(id) {
            repository.update_ref(name, now, id)?;
        }
    }
    Ok((number, operation))
}
