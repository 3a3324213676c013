//! The shared state of a part of a run: one commit, to which a ref points that all workers reach.
//!
//! Its tree holds `part.json`, and below `entries/` and `events/` what was done, in chunks to which each publication
//! adds one: only that one is sent. Everything in it comes from a ref that other accounts can write, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::RunId;
use crate::journal::Entry;
use crate::record::JournalMark;
use crate::repository::{BlobId, CommitId, Holder, NewCommit, Repository, Signature};
use crate::run::error::Error;
use crate::run::event::RunEvent;

/// The version of the format.
const FORMAT: u32 = 1;
const STATUS: &str = "part.json";
const ENTRIES: &str = "entries";
const EVENTS: &str = "events";
/// The most bytes that are read of one file.
const LARGEST: u64 = 64 << 20;

/// How far a part of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartState {
    /// A worker carries it out, or did when it was last heard of.
    Running,
    /// Its worker has stopped in good order, and asks for nothing any more.
    Interrupted,
    /// All of its steps have ended.
    Ended,
    /// The run is being aborted, or was to be: its worker may not have heard of that yet.
    Fenced,
}

impl PartState {
    /// Whether a worker may be at work on it, or was killed while it was: something may have begun of which nothing is published.
    pub(in crate::run) const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Fenced)
    }
}

/// The status of a part, as its last owner has published it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct PartStatus {
    pub(in crate::run) format: u32,
    pub(in crate::run) run: RunId,
    pub(in crate::run) part: Arc<str>,
    /// Its owner, counted: each takes the next number.
    pub(in crate::run) epoch: u64,
    pub(in crate::run) state: PartState,
    /// The process that owns it, or did.
    pub(in crate::run) holder: Holder,
    /// For how many seconds after this publication the owner may send requests.
    pub(in crate::run) bound: u64,
    /// The journal of the owner.
    pub(in crate::run) journal: JournalMark,
    /// When it was published lately, in seconds since 1970, the last time at the end.
    pub(in crate::run) published: Vec<i64>,
}

impl PartStatus {
    /// Reads the status of a part from its commit.
    pub(in crate::run) fn read(
        repository: &Repository,
        (run, part): (&RunId, &str),
        commit: CommitId,
    ) -> Result<Self, Error> {
        let broken = |reason: String| Error::Broken {
            what: format!("the status of part `{part}` of run {run}"),
            reason,
        };
        let bytes = repository
            .file_within(commit, STATUS, LARGEST)
            .map_err(reading)?
            .ok_or_else(|| broken("it has no status".to_owned()))?;
        let status: Self =
            serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if status.format != FORMAT {
            return Err(broken(format!("its format is version {}", status.format)));
        }
        if status.run != *run || &*status.part != part {
            return Err(broken("it is of another part".to_owned()));
        }
        Ok(Self {
            holder: status.holder.printable(),
            ..status
        })
    }

    /// The first status of a part that a process owns.
    pub(in crate::run) fn new(
        (run, part): (&RunId, &Arc<str>),
        epoch: u64,
        holder: Holder,
        journal: Arc<str>,
    ) -> Self {
        Self {
            format: FORMAT,
            run: run.clone(),
            part: part.clone(),
            epoch,
            state: PartState::Running,
            holder,
            bound: 0,
            journal: JournalMark {
                id: journal,
                entries: 0,
            },
            published: Vec::new(),
        }
    }

    /// The commit of this status, with more entries and events than `base` has.
    pub(in crate::run) fn commit(
        &self,
        repository: &Repository,
        base: Option<CommitId>,
        (entries, events): (&[Entry], &[RunEvent]),
        author: Signature,
    ) -> Result<NewCommit, Error> {
        let mut changes = BTreeMap::new();
        let status = serde_json::to_vec_pretty(self).map_err(|error| self.unwritten(&error))?;
        changes.insert(STATUS.to_owned(), Some(status));
        for (folder, lines) in [
            (ENTRIES, self.lines(entries)?),
            (EVENTS, self.lines(events)?),
        ] {
            let Some(lines) = lines else { continue };
            let chunks = match base {
                Some(base) => chunks(repository, base, folder)?.len(),
                None => 0,
            };
            changes.insert(format!("{folder}/{chunks:06}.jsonl"), Some(lines));
        }
        let state = serde_json::to_value(self.state).map_err(|error| self.unwritten(&error))?;
        let state = state.as_str().unwrap_or_default();
        Ok(NewCommit {
            base,
            parents: Vec::new(),
            changes,
            deflated: BTreeMap::new(),
            author,
            message: format!("part {} of {}: {state}", self.part, self.run),
        })
    }

    fn lines<T: Serialize>(&self, values: &[T]) -> Result<Option<Vec<u8>>, Error> {
        if values.is_empty() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        for value in values {
            serde_json::to_writer(&mut bytes, value).map_err(|error| self.unwritten(&error))?;
            bytes.push(b'\n');
        }
        Ok(Some(bytes))
    }

    fn unwritten(&self, error: &serde_json::Error) -> Error {
        Error::Broken {
            what: format!("the status of part `{}` of run {}", self.part, self.run),
            reason: error.to_string(),
        }
    }
}

/// The published progress of a part.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Progress {
    pub(in crate::run) entries: Vec<Entry>,
    pub(in crate::run) events: Vec<RunEvent>,
    /// The chunks of its entries.
    pub(in crate::run) chunks: Vec<BlobId>,
}

/// Reads the entries of a part, but for the chunks that are known, and its events if they are wanted.
///
/// A chunk may be replaced by one with more entries, where the answer to its publication did not come.
pub(in crate::run) fn progress(
    repository: &Repository,
    commit: CommitId,
    known: &[BlobId],
    with_events: bool,
) -> Result<Progress, Error> {
    let mut progress = Progress::default();
    let found = chunks(repository, commit, ENTRIES)?;
    let is_new = |number: usize, chunk: &BlobId| known.get(number) != Some(chunk);
    let new = (0..).zip(&found);
    let new = new.filter(|(number, (_, chunk))| is_new(*number, chunk));
    progress.chunks = found.values().copied().collect();
    for (_, (name, _)) in new {
        read_lines(
            repository,
            commit,
            &format!("{ENTRIES}/{name}"),
            &mut progress.entries,
        )?;
    }
    if with_events {
        for name in chunks(repository, commit, EVENTS)?.keys() {
            read_lines(
                repository,
                commit,
                &format!("{EVENTS}/{name}"),
                &mut progress.events,
            )?;
        }
    }
    Ok(progress)
}

fn chunks(
    repository: &Repository,
    commit: CommitId,
    folder: &str,
) -> Result<BTreeMap<String, BlobId>, Error> {
    repository.files_in(commit, folder).map_err(reading)
}

/// Adds the values of a file of JSON lines.
fn read_lines<T: serde::de::DeserializeOwned>(
    repository: &Repository,
    commit: CommitId,
    path: &str,
    values: &mut Vec<T>,
) -> Result<(), Error> {
    let bytes = repository.file_within(commit, path, LARGEST);
    let bytes = bytes.map_err(reading)?.unwrap_or_default();
    for line in bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let value = serde_json::from_slice(line).map_err(|error| Error::Broken {
            what: format!("the progress of a run, {path} of commit {}", commit.short()),
            reason: error.to_string(),
        })?;
        values.push(value);
    }
    Ok(())
}

fn reading(source: crate::repository::Error) -> Error {
    Error::Repository {
        attempt: "read the progress of a part of the run",
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(step: &str) -> Entry {
        Entry::Intent {
            step: step.parse().unwrap(),
        }
    }

    fn author() -> Signature {
        Signature {
            name: "Ada".to_owned(),
            email: "ada@example.org".to_owned(),
            seconds: 1,
        }
    }

    fn status() -> PartStatus {
        let holder = Holder::this_process("ada", "R1", "2026-01-01T00:00:00Z");
        PartStatus::new(
            (&RunId::from("R1"), &"g.deploy-1".into()),
            1,
            holder,
            "j".into(),
        )
    }

    #[test]
    fn each_publication_adds_a_chunk_and_one_that_was_replaced_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        let written = |base, entries: &[Entry]| {
            let commit = status().commit(&repository, base, (entries, &[]), author());
            repository.write_commit(&commit.unwrap()).unwrap()
        };
        let [a, b, c] = ["prepare/g/a", "prepare/g/b", "prepare/g/c"].map(intent);
        let first = written(None, std::slice::from_ref(&a));
        let unanswered = written(Some(first), std::slice::from_ref(&b));
        let answered = written(Some(first), &[b.clone(), c.clone()]);
        let read = |commit, known: &[BlobId]| progress(&repository, commit, known, false).unwrap();
        let known = read(unanswered, &[]);
        assert_eq!(known.entries, [a.clone(), b.clone()]);
        assert_eq!(
            read(answered, &known.chunks).entries,
            [b.clone(), c.clone()]
        );
        assert_eq!(read(answered, &[]).entries, [a, b, c.clone()]);
        let silent = written(Some(answered), &[]);
        assert!(read(silent, &read(answered, &[]).chunks).entries.is_empty());
    }

    #[test]
    fn a_status_of_another_part_or_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(folder.path()).unwrap();
        let written = |status: &PartStatus| {
            let commit = status
                .commit(&repository, None, (&[], &[]), author())
                .unwrap();
            repository.write_commit(&commit).unwrap()
        };
        let read =
            |commit, part: &str| PartStatus::read(&repository, (&RunId::from("R1"), part), commit);
        let own = written(&status());
        assert_eq!(read(own, "g.deploy-1").unwrap(), status());
        assert!(read(own, "g.deploy-2").is_err());
        let newer = PartStatus {
            format: FORMAT + 1,
            ..status()
        };
        assert!(read(written(&newer), "g.deploy-1").is_err());
        let hostile = PartStatus {
            holder: Holder {
                host: "a\u{1b}[2J".to_owned(),
                ..status().holder
            },
            ..status()
        };
        assert_eq!(
            read(written(&hostile), "g.deploy-1").unwrap().holder.host,
            "a[2J"
        );
    }
}
