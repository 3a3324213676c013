//! The remote that the clones of a stage share: refs that move as a push moves them, and pushes that are
//! refused, get lost or meet nobody.
//!
//! The clones and the remote share one folder of objects, so that a fetch costs nothing and a push is what it
//! is about: all of its refs are compared and moved, or none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use trueup::repository::{ObjectId, RefUpdate, Repository, Transport};

/// What becomes of a push that does not go well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The remote takes nothing.
    Refused,
    /// It takes no records.
    StateRefused,
    /// It takes no tags.
    TagsRefused,
    /// It does not answer, from then on until a push goes well.
    Away,
    /// It takes everything, and its answer is lost.
    AnswerLost,
}

/// Pushes that do not go well, counted from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) from: usize,
    pub(super) count: usize,
    pub(super) how: How,
}

/// The remote.
pub(super) struct Hub {
    pub(super) repository: Repository,
    refusal: Mutex<Option<Refusal>>,
    pushes: AtomicUsize,
    refused: AtomicUsize,
    is_away: AtomicBool,
}

/// Makes an empty repository whose objects are those of all others in the folder.
pub(super) fn place(folder: &Path, name: &str) -> PathBuf {
    let root = folder.join(name);
    std::fs::create_dir_all(folder.join("objects/pack")).unwrap();
    std::fs::create_dir_all(root.join(".git/refs/heads")).unwrap();
    std::os::unix::fs::symlink("../../objects", root.join(".git/objects")).unwrap();
    std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
    std::fs::write(root.join(".git/config"), config).unwrap();
    root
}

impl Hub {
    pub(super) fn open(folder: &Path) -> Self {
        Self {
            repository: Repository::discover(&folder.join("origin")).unwrap(),
            refusal: Mutex::default(),
            pushes: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
        }
    }

    /// Pushes are counted anew, and some of them do not go well.
    pub(super) fn refuse(&self, refusal: Option<Refusal>) {
        self.pushes.store(0, Ordering::SeqCst);
        self.is_away.store(false, Ordering::SeqCst);
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// How many pushes came since then.
    pub(super) fn pushes(&self) -> usize {
        self.pushes.load(Ordering::SeqCst)
    }

    /// How many pushes were refused in all.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// What becomes of the next push, where it does not go well.
    fn fate(&self, updates: &[RefUpdate]) -> Option<How> {
        let push = self.pushes.fetch_add(1, Ordering::SeqCst);
        let refusal = *self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = refusal?;
        let is_due = (refusal.from..refusal.from + refusal.count).contains(&push);
        let has = |part: &str| updates.iter().any(|update| update.name.contains(part));
        let is_met = match refusal.how {
            How::StateRefused => has("/state"),
            How::TagsRefused => has("refs/tags/"),
            How::Refused | How::Away | How::AnswerLost => true,
        };
        (is_due && is_met).then_some(refusal.how)
    }

    fn take(&self, updates: &[RefUpdate]) -> Result<(), String> {
        let refs = Transport::refs(self)?;
        for update in updates {
            if refs.get(&update.name) != update.old.as_ref() {
                return Err(format!("{} has moved", update.name));
            }
        }
        for update in updates {
            let moved = match (update.old, update.new) {
                (old, Some(new)) => self.repository.update_ref(&update.name, old, new),
                (Some(old), None) => self.repository.delete_ref(&update.name, old),
                (None, None) => Ok(()),
            };
            moved.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Transport for Hub {
    fn refs(&self) -> Result<BTreeMap<String, ObjectId>, String> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err("nobody answers".to_owned());
        }
        self.repository
            .refs("refs")
            .map_err(|error| error.to_string())
    }

    fn fetch(&self, _: &Repository, _: ObjectId) -> Result<(), String> {
        Ok(())
    }

    fn push(&self, _: &Repository, updates: &[RefUpdate]) -> Result<(), String> {
        let fate = self.fate(updates);
        self.is_away
            .store(fate == Some(How::Away), Ordering::SeqCst);
        match fate {
            None => self.take(updates),
            Some(How::AnswerLost) => {
                self.take(updates)?;
                self.refused.fetch_add(1, Ordering::SeqCst);
                Err("the connection broke".to_owned())
            }
            Some(how) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                Err(format!("{how:?}, says the hook"))
            }
        }
    }
}
