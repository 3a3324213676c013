//! The directory of a run: its journal, and which plan this clone began it with.
//!
//! `<git-common-dir>/trueup/<site>/<run>/`. The first entry of the journal is its id, which the records name
//! as that of their newest writer: if they name another, the run was resumed elsewhere and the
//! journal is not the newest. `plan` is the digest of the plan that this clone began the run with.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::design::{Digest, RunId, SiteName};
use crate::journal::Entry;
use crate::journal::{self, Journal};
use crate::record::JournalMark;
use crate::repository::Repository;

/// The name of a damaged journal, once another has taken its place.
const DAMAGED: &str = "journal.damaged";
const PLAN: &str = "plan";
/// Tells that the lock of the run was released here once its process was certainly gone.
const RELEASED: &str = "released";

/// The directory of a run.
#[derive(Clone, Debug)]
pub(super) struct RunFiles {
    pub(super) directory: PathBuf,
}

/// A journal that was read.
#[derive(Debug, Default)]
pub(super) struct FoundJournal {
    /// Its own id.
    pub(super) id: Option<Arc<str>>,
    /// The id that it had before.
    before: Option<Arc<str>>,
    /// Its entries, without the first one.
    pub(super) entries: Vec<Entry>,
    /// Whether another process may have begun steps of which it tells nothing.
    pub(super) incomplete: bool,
    /// Where it was damaged, in words.
    pub(super) damage: Option<String>,
}

impl FoundJournal {
    /// Whether an id is, or was, that of this journal.
    pub(super) fn is_named(&self, id: &Arc<str>) -> bool {
        self.id.as_ref() == Some(id) || self.before.as_ref() == Some(id)
    }

    /// Whether the newest records were written by a process that had this journal.
    pub(super) fn is_of(&self, mark: Option<&JournalMark>) -> bool {
        mark.is_some_and(|mark| self.is_named(&mark.id))
    }

    /// Whether entries are gone that were there when the newest records were written.
    pub(super) fn is_shorter_than(&self, mark: Option<&JournalMark>) -> bool {
        mark.is_some_and(|mark| {
            self.id.as_ref() == Some(&mark.id) && self.entries.len() < mark.entries
        })
    }
}

impl RunFiles {
    pub(super) fn of(repository: &Repository, site: &SiteName, run: &RunId) -> Self {
        Self {
            directory: repository
                .common_dir()
                .join("trueup")
                .join(site.as_str())
                .join(run.as_str()),
        }
    }

    /// The directory of a part of a run.
    pub(super) fn of_part(
        repository: &Repository,
        site: &SiteName,
        run: &RunId,
        part: &str,
    ) -> Self {
        let run = Self::of(repository, site, run);
        Self {
            directory: run.directory.join("parts").join(part),
        }
    }

    /// The names of the parts of the run that this clone has files of.
    pub(super) fn parts(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.directory.join("parts"));
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string());
        names.filter_map(Result::ok).collect()
    }

    /// The journal of a run that begins. One that is there and tells of nothing is that of a run that crashed
    /// before its first records, so that its id was free again; nothing was begun by it.
    pub(super) fn new_journal(&self, id: &Arc<str>) -> Result<Journal, Error> {
        let opened = Entry::Opened {
            journal: id.clone(),
            before: None,
            incomplete: false,
        };
        match Journal::create(&self.directory) {
            Err(exists @ journal::Error::Exists { .. }) => {
                let (_, entries) = Journal::open::<Entry>(&self.directory)?;
                if entries.iter().any(|entry| entry.step().is_some()) {
                    return Err(exists.into());
                }
                Ok(Journal::replace(&self.directory, &[opened])?)
            }
            Err(error) => Err(error.into()),
            Ok(mut journal) => {
                journal.append(&opened)?;
                journal.commit()?;
                Ok(journal)
            }
        }
    }

    /// The journal of a run that is resumed: what is known of it, under a new id.
    pub(super) fn resumed_journal(
        &self,
        id: &Arc<str>,
        before: Option<Arc<str>>,
        incomplete: bool,
        entries: &[Entry],
    ) -> Result<Journal, Error> {
        let opened = Entry::Opened {
            journal: id.clone(),
            before,
            incomplete,
        };
        let all: Vec<&Entry> = [&opened].into_iter().chain(entries).collect();
        Ok(Journal::replace(&self.directory, &all)?)
    }

    /// Reads the journal, if there is one. One that is damaged is kept beside the new one, and what of it
    /// can be read counts.
    pub(super) fn read(&self) -> Result<Option<FoundJournal>, Error> {
        if !Journal::is_in(&self.directory) {
            return Ok(None);
        }
        let (entries, damage) = Journal::salvage::<Entry>(&self.directory)?;
        let mut found = FoundJournal {
            damage,
            ..FoundJournal::default()
        };
        for entry in entries {
            match entry {
                Entry::Opened {
                    journal,
                    before,
                    incomplete,
                } => {
                    found.id = Some(journal);
                    found.before = before;
                    found.incomplete |= incomplete;
                }
                entry => found.entries.push(entry),
            }
        }
        if found.damage.is_some() {
            let path = self.directory.join(DAMAGED);
            fs::copy(Journal::path_in(&self.directory), &path)
                .map_err(|source| Error::File { path, source })?;
        }
        Ok(Some(found))
    }

    /// Writes down, durably, which plan this clone began the run with: records and lock are shared, this file is not.
    pub(super) fn note_plan(&self, digest: &Digest) -> Result<(), Error> {
        let path = self.directory.join(PLAN);
        let draft = self.directory.join(format!("{PLAN}.new"));
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(digest.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(|source| Error::File {
            path: path.clone(),
            source,
        })
    }

    /// The digest of the plan with which this clone began the run, if it did.
    pub(super) fn noted_plan(&self) -> Option<Digest> {
        let text = fs::read_to_string(self.directory.join(PLAN)).ok()?;
        Some(Digest::from(text.as_str()))
    }

    /// Notes whether the lock of the run was released here once its process was certainly gone. A note that is lost makes the
    /// next process wait longer.
    pub(super) fn note_released(&self, is_released: bool) {
        let note = self.directory.join(RELEASED);
        let noted = match is_released {
            true => fs::create_dir_all(&self.directory).and_then(|()| fs::write(&note, b"")),
            false => fs::remove_file(&note),
        };
        if let Err(error) = noted
            && error.kind() != std::io::ErrorKind::NotFound
        {
            log::info!("`{}`: {error}", note.display());
        }
    }

    /// Whether the lock of the run was released here once its process was certainly gone.
    pub(super) fn is_released(&self) -> bool {
        self.directory.join(RELEASED).exists()
    }

    /// Whether there is anything of the run here.
    pub(super) fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// Removes the directory of a run that has ended and whose records and tag are published.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A journal of a run in this clone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptJournal {
    /// The part of a divided run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// Where it is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Reads the journals of a run in this clone, those of its parts after its own, and changes none.
///
/// # Errors
///
/// One cannot be read; a damaged one is none of these errors.
pub fn journals(
    repository: &Repository,
    site: &SiteName,
    run: &RunId,
) -> Result<Vec<KeptJournal>, Error> {
    let own = RunFiles::of(repository, site, run).directory;
    let parts = fs::read_dir(own.join("parts")).into_iter().flatten();
    let mut names: Vec<String> = parts
        .filter_map(|part| part.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    let mut found = Vec::new();
    for part in [None].into_iter().chain(names.into_iter().map(Some)) {
        let directory = match &part {
            Some(part) => own.join("parts").join(part),
            None => own.clone(),
        };
        if Journal::is_in(&directory) {
            let (entries, damage) = Journal::salvage::<Entry>(&directory)?;
            found.push(KeptJournal {
                part,
                entries,
                damage,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &tempfile::TempDir) -> RunFiles {
        RunFiles {
            directory: directory.path().join("run"),
        }
    }

    #[test]
    fn a_run_that_crashed_before_it_had_begun_anything_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(&directory);
        drop(files.new_journal(&"j1".into()).unwrap());
        let mut journal = files.new_journal(&"j2".into()).unwrap();
        let step = "prepare/g/a".parse().unwrap();
        journal.append(&Entry::Intent { step }).unwrap();
        journal.commit().unwrap();
        let error = files.new_journal(&"j3".into()).unwrap_err();
        assert!(error.to_string().contains("journal"), "{error}");
    }

    #[test]
    fn a_journal_is_newest_under_its_own_id_and_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(&directory);
        drop(
            files
                .resumed_journal(&"j2".into(), Some("j1".into()), false, &[])
                .unwrap(),
        );
        let found = files.read().unwrap().unwrap();
        for (id, entries, is_of, is_shorter) in [
            ("j1", 5, true, false),
            ("j2", 0, true, false),
            ("j2", 1, true, true),
            ("j3", 0, false, false),
        ] {
            let mark = Some(&JournalMark {
                id: id.into(),
                entries,
            })
            .cloned();
            assert_eq!(found.is_of(mark.as_ref()), is_of, "{id}");
            assert_eq!(found.is_shorter_than(mark.as_ref()), is_shorter, "{id}");
        }
        assert!(!found.is_of(None));
    }

    #[test]
    fn a_journal_that_is_damaged_anywhere_gives_what_can_be_read_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(&directory);
        let mut journal = files.new_journal(&"j1".into()).unwrap();
        for step in ["prepare/g/a", "prepare/g/b", "prepare/g/c"] {
            let step = step.parse().unwrap();
            journal.append(&Entry::Intent { step }).unwrap();
            journal.commit().unwrap();
        }
        let path = Journal::path_in(&files.directory);
        let whole = fs::read(&path).unwrap();
        for damaged in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[damaged] ^= 0x55;
            fs::write(&path, bytes).unwrap();
            let found = files.read().unwrap().unwrap();
            assert!(found.damage.is_some(), "byte {damaged}");
            assert!(found.entries.len() < 3, "byte {damaged}");
        }
        fs::write(&path, b"").unwrap();
        let found = files.read().unwrap().unwrap();
        assert!(found.id.is_none() && found.entries.is_empty());
    }
}
