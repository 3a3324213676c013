//! The directory of a run: its journal, and beside it what ties the journal to records and tag.
//!
//! `<git-common-dir>/trueup/<site>/<run>/`. `checkpoint` names the newest commit of the state that the
//! owner of this journal wrote, and the one before it: where the state has moved on, somebody resumed the run elsewhere and the
//! journal is not the newest. `elsewhere` says that it once was not, and begins with what was gone on with since: what it
//! does not tell of may have been begun all the same. `tag.json` is the intent of the tag, with all that its bytes are made of. `plan`
//! is the digest of the plan that this clone began the run with.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::apply::Entry;
use crate::design::{Digest, RunId, SiteName};
use crate::journal::{self, Journal};
use crate::record::Draft;
use crate::repository::{CommitId, NewTag, Repository, Signature};

const CHECKPOINT: &str = "checkpoint";
const ELSEWHERE: &str = "elsewhere";
const TAG: &str = "tag.json";
const PLAN: &str = "plan";

/// The directory of a run.
#[derive(Clone, Debug)]
pub(super) struct RunFiles {
    pub(super) directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct TagIntent {
    name: String,
    target: CommitId,
    tagger: (String, String, i64),
    message: String,
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

    /// The journal of a run that begins. One that is there and empty is that of a run that died before its
    /// first records, so that its id was free again; nothing was begun by it.
    pub(super) fn new_journal(&self) -> Result<Journal, Error> {
        match Journal::create(&self.directory) {
            Err(exists @ journal::Error::Exists { .. }) => {
                match Journal::open::<Entry>(&self.directory)? {
                    (journal, entries) if entries.is_empty() => Ok(journal),
                    _ => Err(exists.into()),
                }
            }
            other => Ok(other?),
        }
    }

    /// Whether the newest commit of the state is one that the owner of this journal wrote, and nobody
    /// has gone on since.
    pub(super) fn is_newest(&self, tip: Option<CommitId>) -> bool {
        let Ok(text) = fs::read_to_string(self.directory.join(CHECKPOINT)) else {
            return false;
        };
        // The second is that of before: the state may not have been reached.
        let mut written = text.lines().take(2).map(|line| line.parse().ok());
        tip.is_some() && written.any(|own| own == tip)
    }

    /// Whether somebody went on with the run elsewhere, before what this journal tells.
    pub(super) fn went_on_elsewhere(&self) -> bool {
        self.directory.join(ELSEWHERE).exists()
    }

    /// Writes down, durably, that somebody went on with the run elsewhere.
    pub(super) fn note_elsewhere(&self) -> Result<(), Error> {
        self.replace(ELSEWHERE, b"")
    }

    /// Notes a commit of the state that is about to be the newest. Lost in a crash, it only makes a
    /// resume more careful.
    pub(super) fn note_checkpoint(&self, draft: &Draft) -> Result<(), Error> {
        let mut text = format!("{}\n", draft.tip);
        if let Some(base) = draft.base {
            text.push_str(&base.to_string());
            text.push('\n');
        }
        self.replace(CHECKPOINT, text.as_bytes())
    }

    /// Writes down, durably, which plan this clone began the run with: records and lock are shared, this file is not.
    pub(super) fn note_plan(&self, digest: &Digest) -> Result<(), Error> {
        self.replace(PLAN, digest.as_bytes())
    }

    /// The digest of the plan with which this clone began the run, if it did.
    pub(super) fn noted_plan(&self) -> Option<Digest> {
        let text = fs::read_to_string(self.directory.join(PLAN)).ok()?;
        Some(Digest::from(text.as_str()))
    }

    /// Writes down, durably, the tag that is going to be made.
    pub(super) fn intend_tag(&self, tag: &NewTag) -> Result<(), Error> {
        let intent = TagIntent {
            name: tag.name.clone(),
            target: tag.target,
            tagger: (
                tag.tagger.name.clone(),
                tag.tagger.email.clone(),
                tag.tagger.seconds,
            ),
            message: tag.message.clone(),
        };
        let bytes = serde_json::to_vec(&intent).map_err(|error| self.broken(&error))?;
        self.replace(TAG, &bytes)
    }

    /// The tag that was going to be made.
    pub(super) fn intended_tag(&self) -> Result<Option<NewTag>, Error> {
        let path = self.directory.join(TAG);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::File { path, source }),
        };
        let intent: TagIntent =
            serde_json::from_slice(&bytes).map_err(|error| self.broken(&error))?;
        let (name, email, seconds) = intent.tagger;
        Ok(Some(NewTag {
            name: intent.name,
            target: intent.target,
            tagger: Signature {
                name,
                email,
                seconds,
            },
            message: intent.message,
        }))
    }

    /// Removes the directory of a run that has ended and whose records and tag are published.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.directory);
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.directory.join(name);
        let draft = self.directory.join(format!("{name}.new"));
        let write = || {
            fs::create_dir_all(&self.directory)?;
            let mut file = File::create(&draft)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            sync(&self.directory)
        };
        write().map_err(|source| Error::File {
            path: path.clone(),
            source,
        })
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Broken {
            what: format!("`{}`", self.directory.join(TAG).display()),
            reason: error.to_string(),
        }
    }
}

fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_died_before_it_had_begun_anything_is_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let files = RunFiles {
            directory: directory.path().join("run"),
        };
        drop(files.new_journal().unwrap());
        let mut journal = files.new_journal().unwrap();
        let step = "prepare/g/a".into();
        journal.append(&Entry::Intent { step }).unwrap();
        journal.commit().unwrap();
        let error = files.new_journal().unwrap_err();
        assert!(error.to_string().contains("journal"), "{error}");
    }
}
